"""Commits: read from a repository's history, searched, shown, and counted by file and by person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from harken.errors import NotFoundError, UsageError
from harken.model.arguments import DEFAULT_LIMIT, MAX_LIMIT, MOST_COMMITS
from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.views import CommitsView
from harken.model.workspace import Addition, Commit
from harken.record.project import identify_project
from harken.sources.found import SourceHit, SourceSearch
from harken.sources.source import relevance_of
from harken.sources.workspace.code import is_test_code, spelled
from harken.sources.workspace.files import find_place, shown_name
from harken.sources.workspace.git import Repository
from harken.sources.workspace.languages import SUFFIXES
from harken.sources.workspace.tree import Progress
from harken.storage.ports import Store, Transaction
from harken.storage.scopes import known_project, project_of
from harken.storage.workspace.commits import (
    SOURCE,
    Authorship,
    Churn,
    History,
    add_commits,
    authors,
    churn,
    drop_commits,
    file_history,
    find_commits,
    history_of,
    known_shas,
    put_history,
)
from harken.text import tokens

_MESSAGE_TOKENS = 300
_MAX_FILES_CHARS = 500
_MOST_ADDITIONS, _ADDITION_TOKENS = 40, 300


class CommitSource:
    """The history of a repository."""

    name = "commit"

    def entries(self, record: Commit) -> Sequence[NewEntry]:
        """What it says and changed, and what it brought into each file of code; found by any of the author's names.

        A commit of a hundred lines is about its message; one of a thousand also about each thing that it made.
        """
        files = " ".join(change.path for change in record.files)[:_MAX_FILES_CHARS]
        parts = (tokens.clip(record.message, _MESSAGE_TOKENS), files, record.author)
        facets = author_facets(record.author, record.email)
        made = [each for each in record.additions if not is_test_code(each.path)]
        made = sorted(made, key=lambda each: -len(each.definitions))[:_MOST_ADDITIONS]
        subject = record.message.partition("\n")[0]
        return [
            NewEntry("", "\n".join(part for part in parts if part), facets),
            *(NewEntry(f"+{number}", _told(subject, each), facets) for number, each in enumerate(made)),
        ]

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The commits in the order of the hits; those that are gone are left out."""
        found = find_commits(tx, [hit.entry.ref_uid for hit in hits])
        return [commit_item(found[hit.entry.ref_uid], relevance_of(hit)) for hit in hits if hit.entry.ref_uid in found]


def _told(subject: str, addition: Addition) -> str:
    """What a file was given, as a question may ask for it."""
    names = "\n".join(f"{spelled(name)}: {said}" if said else spelled(name) for name, said in addition.definitions)
    head = "\n".join(part for part in (subject, addition.path, addition.about) if part)
    return tokens.clip(f"{head}\n{names}", _ADDITION_TOKENS, marker="")


def author_facets(author: str, email: str) -> tuple[str, ...]:
    """What a search for an author may name: the whole name, each word of it, the address."""
    names = (author, email, *author.split())
    return tuple(dict.fromkeys(author_facet(name) for name in names if name.strip()))


def author_facet(name: str) -> str:
    """The facet of a name, whatever its case."""
    return f"author:{' '.join(name.lower().split())}"


def commit_item(commit: Commit, relevance: float) -> ContextItem:
    """A commit as a context shows it."""
    moment = commit.authored_at.isoformat()
    files = [change.path for change in commit.files]
    lines = [f"**Commit** `{commit.sha[:7]}` by {commit.author} on {moment}", commit.message]
    if files:
        lines.append(f"*Files: {', '.join(files)}*")
    metadata = {
        "sha": commit.sha,
        "author": commit.author,
        "timestamp": moment,
        "files_changed": files,
        "insertions": commit.insertions,
        "deletions": commit.deletions,
    }
    return ContextItem("commit", "\n".join(line for line in lines if line), relevance, metadata)


_FILE = re.compile(r"\+\+\+ \"?b/(.*?)\"?\t?$")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")
_BEFORE = (
    r"(?:export|default|declare|public|private|protected|internal|static|final|abstract|async|unsafe|extern|inline|"
    r"pub(?:\([^)]*\))?)\s+"
)
_KINDS = "def|class|function|func|fn|interface|struct|enum|trait|union|record|type|table|view|procedure"
_DEFINITION = re.compile(
    rf"\s*(?:{_BEFORE})*(?:create\s+(?:or\s+replace\s+)?)?(?:{_KINDS})\b\*?\s*(?:\([^)]*\)\s*)?([A-Za-z_]\w*)",
    re.IGNORECASE,
)
_STRING = re.compile(r"\s*[rR]?(?:\"\"\"|''')(.*)")
_COMMENT = re.compile(r"\s*(?://+!?|/\*+|\*+/?|--+)(.*)")
_MARKS = "\"'*/ \t\r"
_LONGEST_LINE = 400
# Parameters may stand on lines of their own between a definition and what is said of it.
_LINES_TO_DOCSTRING = 12


def parse_patch(patch: str) -> Iterator[Addition]:
    """What a patch adds to each file: names of definitions, each with the first line that is said of it."""
    path, lines, begins = "", list[str](), False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            yield from _addition(path, lines, begins)
            path, lines, begins = "", [], False
        elif not path and (named := _FILE.match(line)):
            path = named[1]
        elif path and (hunk := _HUNK.match(line)):
            begins = begins or hunk[1] == "1"
            lines.append("")
        elif path and line.startswith("+"):
            lines.append(line[1 : _LONGEST_LINE + 1])
    yield from _addition(path, lines, begins)


def _addition(path: str, lines: list[str], begins: bool) -> Iterator[Addition]:
    """The file's addition, if it defines anything."""
    definitions = tuple(
        (found[1], _said(lines, at)) for at, line in enumerate(lines) if (found := _DEFINITION.match(line))
    )
    if definitions:
        first = next((line for line in lines if line.strip()), "") if begins else ""
        yield Addition(path, _words(_STRING.match(first)) or _words(_COMMENT.match(first)), definitions)


def _said(lines: list[str], at: int) -> str:
    """The first line of a definition's docstring, or of the comment right before it; empty where there is none."""
    for line in lines[at + 1 : at + _LINES_TO_DOCSTRING]:
        if not line.strip() or _DEFINITION.match(line):
            break
        if said := _words(_STRING.match(line)):
            return said
    said = ""
    while at > 0 and (comment := _COMMENT.match(lines[at - 1])):
        said, at = _words(comment) or said, at - 1
    return said


def _words(found: re.Match[str] | None) -> str:
    return found[1].strip(_MARKS) if found else ""


WINDOW_DAYS = 5 * 365
_BATCH = 200


@dataclass(slots=True)
class CommitReport:
    """What reading a history did; filled as it goes on.

    Attributes:
        project: its key.
        added: commits that were new.
        known: commits of the history that were there already.
        removed: commits that are on no branch any more, after a rebase or an amendment.
        cut: commits of a shallow clone that are left out, since what they changed cannot be told without their parents.
    """

    project: str = ""
    added: int = 0
    known: int = 0
    removed: int = 0
    cut: int = 0

    def view(self) -> CommitsView:
        """The report as JSON."""
        return {
            "project": self.project,
            "added": self.added,
            "known": self.known,
            "removed": self.removed,
            "cut": self.cut,
        }


@dataclass(frozen=True, slots=True)
class CommitIndex:
    """The history of repositories; reached as `Harken.commits`.

    Args:
        store: where commits are kept.
        found: searches them.
        redact: takes secrets out of a text.
        wake: called when there is something new to embed.
        now: the clock.
    """

    store: Store
    found: SourceSearch
    redact: Callable[[str], str]
    wake: Callable[[], None]
    now: Callable[[], datetime]
    _source: CommitSource = field(default_factory=CommitSource)

    def index(
        self,
        path: str | Path = ".",
        *,
        since: datetime | None = None,
        limit: int = MOST_COMMITS,
        progress: Progress = lambda _done, _all: None,
        report: CommitReport | None = None,
    ) -> CommitReport:
        """Bring the index of a repository's history to where HEAD stands.

        What is new since the last time is added; commits that a rebase left on no branch are removed, but in a shallow
        clone, which does not know all branches. Each batch is one transaction: what is done stays done.

        Args:
            path: anywhere in the repository.
            since: earlier commits are left out; None is five years ago.
            limit: only so many of the newest.
            progress: called with (commits done, in all) after each batch.
            report: filled as the work goes on.
        Raises:
            UsageError: there is no repository, or the limit is not possible.
            GitError: git refuses.
        """
        if limit < 1:
            raise UsageError(f"limit must be at least 1, not {limit}.")
        repository = _repository(path)
        report = report if report is not None else CommitReport()
        boundary = repository.boundary()
        wanted = History(_head(repository, boundary), since or self.now() - timedelta(days=WINDOW_DAYS), limit)
        with self.store.writing() as tx:
            project_id, report.project = project_of(tx, identify_project(repository.root))
            done, known = history_of(tx, project_id), known_shas(tx, project_id)
        if not wanted.head or (done and _covers(done, wanted)):
            report.known = len(known)
            return report
        found = repository.shas(wanted.since, wanted.most_commits)
        shas = [sha for sha in found if sha not in boundary]
        report.cut = len(found) - len(shas)
        missing = [sha for sha in shas if sha not in known]
        report.known = len(shas) - len(missing)
        for batch in _batches(missing):
            patches = repository.patches(batch, SUFFIXES)
            read = [self._readied(each, patches.get(each.sha, "")) for each in repository.commits(batch)]
            with self.store.writing(of=(f"{SOURCE}:{project_id}",)) as tx:
                report.added += add_commits(tx, project_id, report.project, read)
            self.wake()
            progress(report.added, len(missing))
        gone = known - repository.all_shas() if known and not boundary else set()
        self._settle(project_id, gone, wanted, report)
        return report

    def search(
        self,
        query: str,
        *,
        author: str | None = None,
        since: datetime | None = None,
        project: str | None = None,
        limit: int = DEFAULT_LIMIT,
        mode: str = "hybrid",
    ) -> SourceHit:
        """Find the commits that a question is about.

        Args:
            query: anything.
            author: only by this one: the whole name, a word of it, or the address, in any case.
            since: only what was written since then.
            project: only this one's, by its key, short name or folder.
            limit: 1 to 50.
            mode: `hybrid`, `keyword` or `semantic`.
        Raises:
            UsageError: the limit or the mode is not possible.
            NotFoundError: there is no such project.
        """
        facets = () if author is None else (author_facet(author),)
        return self.found.find(query, facets=facets, since=since, project=project, limit=limit, mode=mode)

    def history(self, path: str | Path, limit: int = MAX_LIMIT) -> list[Commit]:
        """The commits that changed a file, newest first, also under the names that it had before.

        Args:
            path: of the file, which may be gone.
            limit: at least 1.
        Raises:
            UsageError: it lies in no repository, or the limit is not possible.
            NotFoundError: the repository's commits are not indexed.
        """
        if limit < 1:
            raise UsageError(f"limit must be at least 1, not {limit}.")
        repository, name = _locate(path)
        with self.store.reading() as tx:
            project_id = self._project(known_project(tx, identify_project(repository.root)), repository)
            return file_history(tx, project_id, name, limit)

    def churn(self, path: str | Path = ".", days: int = 90, limit: int = DEFAULT_LIMIT) -> list[Churn]:
        """The files of a repository that changed most often.

        Args:
            path: anywhere in the repository.
            days: how far back, at least 1.
            limit: at least 1.
        Raises:
            UsageError: there is no repository, or a number is not possible.
            NotFoundError: the repository's commits are not indexed.
        """
        if limit < 1 or days < 1:
            raise UsageError("days and limit must be at least 1.")
        repository = _repository(path)
        with self.store.reading() as tx:
            project_id = self._project(known_project(tx, identify_project(repository.root)), repository)
            return churn(tx, project_id, self.now() - timedelta(days=days), limit)

    def authors(self, path: str | Path = ".") -> list[Authorship]:
        """Who changed a file, or what lies in a folder, most commits first.

        Raises:
            UsageError: it lies in no repository.
            NotFoundError: the repository's commits are not indexed.
        """
        repository, name = _locate(path)
        with self.store.reading() as tx:
            project_id = self._project(known_project(tx, identify_project(repository.root)), repository)
            return authors(tx, project_id, name)

    def _readied(self, commit: Commit, patch: str) -> tuple[Commit, Sequence[NewEntry]]:
        additions = tuple(map(self._redacted, parse_patch(patch)))
        clean = replace(commit, message=self.redact(commit.message), additions=additions)
        return clean, self._source.entries(clean)

    def _redacted(self, addition: Addition) -> Addition:
        definitions = tuple((self.redact(name), self.redact(said)) for name, said in addition.definitions)
        return replace(addition, about=self.redact(addition.about), definitions=definitions)

    def _settle(self, project_id: int, gone: set[str], wanted: History, report: CommitReport) -> None:
        """Remove what is on no branch any more, and remember how far the history was read."""
        with self.store.writing(of=(f"{SOURCE}:{project_id}",)) as tx:
            report.removed = drop_commits(tx, project_id, gone)
            put_history(tx, project_id, wanted)

    def _project(self, project_id: int | None, repository: Repository) -> int:
        if project_id is None:
            raise NotFoundError(f"The commits of {repository.root} are not indexed. Try: harken index commits")
        return project_id


def _covers(done: History, wanted: History) -> bool:
    """Whether all that is wanted was read already; the window moves on with time."""
    same = done.head == wanted.head and done.most_commits >= wanted.most_commits
    return same and done.since <= wanted.since


def _head(repository: Repository, boundary: set[str]) -> str:
    """The commit that is checked out, and where a shallow clone is cut: when more is fetched, there is more to read."""
    return " ".join(filter(None, (repository.head(), *sorted(boundary))))


def _repository(path: str | Path) -> Repository:
    repository = find_place(path).repository
    if repository is None:
        raise UsageError(f"{path} is in no git repository, or git is not installed.")
    return repository


def _locate(path: str | Path) -> tuple[Repository, str]:
    """The repository of a path, and the path in it; the file itself may be gone."""
    target = Path(path).expanduser().absolute()
    there = next(place for place in (target, *target.parents) if place.exists())
    repository = _repository(there)
    name = (there.resolve() / target.relative_to(there)).relative_to(repository.root.resolve()).as_posix()
    return repository, "" if name == "." else shown_name(name)


def _batches(shas: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(shas)
    while batch := list(islice(rest, _BATCH)):
        yield batch
