"""The records that indexing makes of what lies on a disk: units of code, commits, passages of documents."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

LANGUAGES = ("python", "javascript", "typescript", "rust", "go", "java", "c", "cpp", "sql")


@dataclass(frozen=True, slots=True)
class CodeUnit:
    """A named piece of source code, in one of `LANGUAGES`; its path is relative to the project.

    Attributes:
        unit_type: `function`, `class`, `method`, `module`, `constant`; in SQL also `table` and `view`.
        qualified_name: with the names of all that it stands in, as its language joins them.
        number: counts from 0 the units of one file that have the same qualified name.
        signature: all before the body, on as many lines as it was written on.
        docstring: without its quotes or comment marks; empty where there is none.
        start_line: the first, counted from 1, comments and decorators before it left out.
        end_line: the last.
        body: the beginning of what follows the signature, without the docstring.
        about: what is said first of the class or the module that it stands in.
    """

    path: str
    unit_type: str
    name: str
    qualified_name: str
    language: str
    signature: str
    docstring: str
    start_line: int
    end_line: int
    body: str = ""
    number: int = 0
    about: str = ""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file's lines added and removed by a commit, 0 for what is not text; `old_path` where it was renamed."""

    path: str
    insertions: int = 0
    deletions: int = 0
    old_path: str | None = None


@dataclass(frozen=True, slots=True)
class Addition:
    """Definitions that a commit added to a file of code, each with the first line said of it; `about` of a new file."""

    path: str
    about: str
    definitions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a git repository; files in git's own order.

    Attributes:
        additions: to code, for search alone; not kept beside it.
        committed_at: when it came to stand where it stands, which a rebase changes.
    """

    sha: str
    author: str
    email: str
    authored_at: datetime
    committed_at: datetime
    message: str
    files: tuple[FileChange, ...] = ()
    additions: tuple[Addition, ...] = ()

    @property
    def insertions(self) -> int:
        """Lines added, over all files."""
        return sum(change.insertions for change in self.files)

    @property
    def deletions(self) -> int:
        """Lines removed, over all files."""
        return sum(change.deletions for change in self.files)


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document, short enough to be embedded whole.

    Attributes:
        number: its place in the document, from 0.
        headings: those that it stands under, outermost first.
        start_line: the first, counted from 1; in a PDF the page.
        end_line: the last; in a PDF the page.
    """

    number: int
    headings: tuple[str, ...]
    text: str
    start_line: int
    end_line: int
