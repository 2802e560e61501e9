"""Commits: what search sees of one, and how a context shows it."""

from __future__ import annotations

from collections.abc import Sequence

from harken import tokens
from harken.indexed import Addition, Commit
from harken.model import ContextItem, Hit, NewEntry
from harken.sources.code import is_test_code, spelled
from harken.sources.source import relevance_of
from harken.storage.indexed.commits import find_commits
from harken.storage.store import Transaction

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
