"""Commits: read from a repository's history, searched, shown, and counted by file and by person."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from harken.errors import NotFoundError, UsageError
from harken.model.arguments import DEFAULT_LIMIT, MAX_LIMIT, MOST_COMMITS, check_limit
from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.views import CommitsView
from harken.model.workspace import Addition, Commit
from harken.record.forget import finish_forgetting, note_scrub
from harken.record.project import identify_project
from harken.sources.source import SourceHit, relevance_of
from harken.sources.workspace.files import FilePlace, find_place, is_of_tests, shown_name
from harken.sources.workspace.git import Repository
from harken.sources.workspace.languages import SUFFIXES
from harken.sources.workspace.tree import Progress, WorkspaceIndex, project_at
from harken.storage.ports import Transaction, batches
from harken.storage.projects import known_project
from harken.storage.tables import from_microseconds, to_microseconds
from harken.storage.workspace import commits as rows
from harken.storage.workspace.commits import Authorship, Churn
from harken.text import tokens
from harken.text.words import spelled

_MESSAGE_TOKENS = 300
_MAX_FILES_CHARS = 500
_MOST_ADDITIONS, _ADDITION_TOKENS = 40, 300


class CommitSource:
    """The history of a repository."""

    name = "commit"

    def entries(self, record: Commit) -> Sequence[NewEntry]:
        """Its message and files, and what it brought into each file of code; found by any of the author's names.

        A commit of a hundred lines is about its message; one of a thousand also about each thing that it made.
        """
        files = " ".join(change.path for change in record.files)[:_MAX_FILES_CHARS]
        parts = (tokens.clip(record.message, _MESSAGE_TOKENS), files, record.author)
        facets = author_facets(record.author, record.email)
        made = [each for each in record.additions if not is_of_tests(each.path)]
        made = sorted(made, key=lambda each: -len(each.definitions))[:_MOST_ADDITIONS]
        subject = record.message.partition("\n")[0]
        return [
            NewEntry("", "\n".join(part for part in parts if part), facets),
            *(NewEntry(f"+{number}", _addition_text(subject, each), facets) for number, each in enumerate(made)),
        ]

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The commits in the order of the hits; those that are gone are left out."""
        found = rows.find_commits(tx, [hit.entry.ref_uid for hit in hits])
        return [commit_item(found[hit.entry.ref_uid], relevance_of(hit)) for hit in hits if hit.entry.ref_uid in found]


def _addition_text(subject: str, addition: Addition) -> str:
    """The definitions that a file was given, as a question may ask for them."""
    names = "\n".join(f"{spelled(name)}: {about}" if about else spelled(name) for name, about in addition.definitions)
    head = "\n".join(part for part in (subject, addition.path, addition.about) if part)
    return tokens.clip(f"{head}\n{names}", _ADDITION_TOKENS, marker="")


def author_facets(author: str, email: str) -> tuple[str, ...]:
    """The facets of an author, who may be searched for by the whole name, each word of it, or the address."""
    names = (author, email, *author.split())
    return tuple(dict.fromkeys(author_facet(name) for name in names if name.strip()))


def author_facet(name: str) -> str:
    """The facet of a name, whatever its case."""
    return f"author:{' '.join(name.lower().split())}"


def commit_item(commit: Commit, relevance: float) -> ContextItem:
    """A commit as a context shows it."""
    moment = commit.authored_at.isoformat()
    files = [change.path for change in commit.files]
    changed = f"*Files: {', '.join(files)}*" if files else ""
    lines = (f"**Commit** `{commit.sha[:7]}` by {commit.author} on {moment}", commit.message, changed)
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
_MARKS, _LONGEST_LINE = "\"'*/ \t\r", 400
# Parameters may stand on lines of their own between a definition and what is said of it.
_LINES_TO_DOCSTRING = 12


def parse_patch(patch: str) -> Iterator[Addition]:
    """The additions of a patch to each file: names of definitions, each with the first line that is said of it."""
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


_WINDOW, _BATCH = timedelta(days=5 * 365), 200


@dataclass(slots=True)
class CommitReport:
    """A report on indexed commits, filled as it goes on; the project is a key.

    Attributes:
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
        return cast(CommitsView, asdict(self))


@dataclass(frozen=True, slots=True)
class CommitIndex(WorkspaceIndex):
    """The history of repositories; reached as `Harken.commits`."""

    source = CommitSource()

    def index(
        self,
        path: str | Path = ".",
        *,
        since: datetime | None = None,
        limit: int = MOST_COMMITS,
        progress: Progress = lambda _done, _all: None,
        report: CommitReport | None = None,
        drop: bool = False,
    ) -> CommitReport:
        """Bring the index of a repository's history to where HEAD stands.

        What is new since the last time is added; commits that a rebase left on no branch are removed, but in a shallow
        clone, which does not know all branches. A folder that is gone leaves the index with all of its commits, as
        one to `drop` does. Each batch is one transaction: what is done stays done. Progress is called with (commits
        done, in all) after each; commits before `since`, else of five years ago, are left out.

        Raises:
            UsageError: there is no repository, and was none that is indexed, or `since` or the limit is not possible.
            NotFoundError: of what is to be dropped nothing was indexed.
            GitError: git refuses.
        """
        check_limit(limit)
        report, store = report if report is not None else CommitReport(), self.recorder.store
        place = find_place(path, may_be_gone=True)
        if drop or not place.root.exists():
            self._drop(place, report, drop)
            return report
        repository = _repository(path)
        boundary = repository.boundary()
        # A shallow clone may be cut elsewhere next time: when more is fetched, there is more to read.
        head = " ".join(filter(None, (repository.head(), *sorted(boundary))))
        since = from_microseconds(to_microseconds(since or self.recorder.now() - _WINDOW))
        wanted = rows.History(head and f"{head} {repository.refs()}", since, limit)
        with store.writing() as tx:
            project_id, report.project = project_at(tx, repository.root)
            done, known = rows.history_of(tx, project_id), rows.known_shas(tx, project_id)
        if not wanted.head or (done and _covers(done, wanted)):
            report.known = len(known)
            return report
        listed = repository.shas(wanted.since, wanted.most_commits)
        shas = [sha for sha in listed if sha not in boundary]
        missing = [sha for sha in shas if sha not in known]
        report.cut, report.known = len(listed) - len(shas), len(shas) - len(missing)
        written = (f"{rows.SOURCE}:{project_id}",)
        for batch in batches(missing, _BATCH):
            patches = repository.patches(batch, SUFFIXES)
            read = [self._ready(each, patches.get(each.sha, "")) for each in repository.commits(batch)]
            with store.writing(of=written) as tx:
                report.added += rows.add_commits(tx, project_id, report.project, read)
            self.recorder.wake()
            progress(report.added, len(missing))
        gone = known - repository.all_shas() if known and not boundary else set()
        with store.writing(of=written) as tx:
            report.removed = rows.drop_commits(tx, project_id, gone)
            rows.put_history(tx, project_id, wanted)
        return report

    def _drop(self, place: FilePlace, report: CommitReport, is_there: bool) -> None:
        if place.prefix:
            raise UsageError(f"Commits are of a whole repository. Name it: {place.root}")
        with self.recorder.store.writing() as tx:
            project_id, report.project = project_at(tx, place.root, is_there)
            report.removed = rows.drop_commits(tx, project_id, rows.known_shas(tx, project_id))
            # Without a head, all of it is read again where the folder comes back.
            rows.put_history(tx, project_id, rows.History("", self.recorder.now(), 0))
            note_scrub(tx)
        finish_forgetting(self.recorder.store)

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
        """Find 1 to 50 commits that a question is about.

        An author is a whole name, a word of it, or the address, in any case.

        Raises:
            UsageError: the limit or the mode is not possible.
            NotFoundError: there is no such project.
        """
        facets = () if author is None else (author_facet(author),)
        return self._searching().find(query, facets=facets, since=since, project=project, limit=limit, mode=mode)

    def history(self, path: str | Path, limit: int = MAX_LIMIT) -> list[Commit]:
        """The commits that changed a file, which may be gone, newest first, also under the names that it had before.

        Raises:
            UsageError: it lies in no repository, or the limit is not possible.
            NotFoundError: the repository's commits are not indexed.
        """
        check_limit(limit)
        repository, name = _locate(path)
        with self.recorder.store.reading() as tx:
            return rows.file_history(tx, _project(tx, repository), name, limit)

    def churn(self, path: str | Path = ".", days: int = 90, limit: int = DEFAULT_LIMIT) -> list[Churn]:
        """The files of a repository that changed most often in the last days.

        Raises:
            UsageError: there is no repository, or a number is not possible.
            NotFoundError: the repository's commits are not indexed.
        """
        if limit < 1 or days < 1:
            raise UsageError("days and limit must be at least 1.")
        repository = _repository(path)
        with self.recorder.store.reading() as tx:
            return rows.churn(tx, _project(tx, repository), self.recorder.now() - timedelta(days=days), limit)

    def authors(self, path: str | Path = ".") -> list[Authorship]:
        """The people who changed a file, or what lies in a folder, most commits first.

        Raises:
            UsageError: it lies in no repository.
            NotFoundError: the repository's commits are not indexed.
        """
        repository, name = _locate(path)
        with self.recorder.store.reading() as tx:
            return rows.authors(tx, _project(tx, repository), name)

    def _ready(self, commit: Commit, patch: str) -> tuple[Commit, Sequence[NewEntry]]:
        redact = self._redact
        additions = tuple(
            Addition(
                each.path, redact(each.about), tuple((redact(name), redact(said)) for name, said in each.definitions)
            )
            for each in parse_patch(patch)
        )
        clean = replace(commit, message=redact(commit.message), additions=additions)
        return clean, self.source.entries(clean)


def _covers(done: rows.History, wanted: rows.History) -> bool:
    """True where all that is wanted was read already; the window moves on with time."""
    same = done.head == wanted.head and done.most_commits >= wanted.most_commits
    return same and done.since <= wanted.since


def _repository(path: str | Path) -> Repository:
    repository = find_place(path).repository
    if repository is None:
        raise UsageError(f"{path} is in no git repository, or git is missing or refuses it. See: git status")
    return repository


def _project(tx: Transaction, repository: Repository) -> int:
    project_id = known_project(tx, identify_project(repository.root))
    if project_id is None:
        raise NotFoundError(f"The commits of {repository.root} are not indexed. Try: harken index commits")
    return project_id


def _locate(path: str | Path) -> tuple[Repository, str]:
    """The repository of a path, and the path in it; the file itself may be gone."""
    target = Path(path).expanduser().absolute()
    there = next(place for place in (target, *target.parents) if place.exists())
    repository = _repository(there)
    name = (there.resolve() / target.relative_to(there)).relative_to(repository.root.resolve()).as_posix()
    return repository, "" if name == "." else shown_name(name)
