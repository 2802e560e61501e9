"""Documents: Markdown, plain text and PDF, indexed from a folder, searched and shown."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath

from harken.errors import MissingExtraError
from harken.model.arguments import DEFAULT_LIMIT
from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.workspace import Passage
from harken.sources.source import SourceHit, SourceSearch, relevance_of
from harken.sources.workspace.files import FileContent, read
from harken.sources.workspace.passages import split_markdown, split_pages, split_text
from harken.sources.workspace.tree import NEEDS, IndexReport, Progress, SkippedError, TreeIndexer
from harken.storage.ports import Transaction
from harken.storage.workspace.files import FilePart, derived_uid, find_parts


@dataclass(frozen=True, slots=True)
class FiledPassage:
    """A passage and the file that it is of."""

    path: str
    passage: Passage


class DocumentSource:
    """Markdown, plain text and PDF."""

    name = "document"

    def entries(self, record: FiledPassage) -> Sequence[NewEntry]:
        """One entry: the headings that the passage stands under, and its text."""
        above = " > ".join(heading for heading in record.passage.headings if heading)
        text = f"{above}\n{record.passage.text}" if above else record.passage.text
        suffix = record.path.rpartition(".")[2].lower()
        return [NewEntry("", text, (f"format:{suffix}",))]

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The passages in the order of the hits; those that are gone are left out."""
        rows = find_parts(tx, self.name, [hit.entry.ref_uid for hit in hits])
        found = [(hit, rows[hit.entry.ref_uid]) for hit in hits if hit.entry.ref_uid in rows]
        return [
            ContextItem(
                self.name,
                "\n".join((_heading(row.path, row.start_line, row.headings), row.text)),
                relevance_of(hit),
                {
                    "file_path": row.path,
                    "start_line": row.start_line,
                    "end_line": row.end_line,
                    "headings": list(row.headings),
                },
            )
            for hit, row in found
        ]


def _heading(path: str, start_line: int, headings: Sequence[str]) -> str:
    above = f" ({' > '.join(headings)})" if headings else ""
    return f"**Document** `{path}:{start_line}`{above}"


# What a damaged file makes the reader stumble over, beside its own errors.
_STUMBLES = (ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, RecursionError, ArithmeticError)


class UnreadablePdfError(Exception):
    """A PDF file that gives no text.

    Attributes:
        reason: `encrypted` or `broken`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_pages(data: bytes) -> list[str]:
    """The text of each page; empty for one that holds only pictures.

    Raises:
        MissingExtraError: no PDF reader is installed.
        UnreadablePdfError: the file is encrypted or broken.
    """
    try:
        from pypdf import PasswordType, PdfReader
        from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError
    except ImportError as error:
        raise MissingExtraError("Reading PDF files", "pdf") from error
    # It tells of every oddity that it reads around, with words of the document.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise UnreadablePdfError("encrypted")
        return [page.extract_text() for page in reader.pages]
    except (DependencyError, FileNotDecryptedError) as error:
        raise UnreadablePdfError("encrypted") from error
    except (PyPdfError, *_STUMBLES) as error:
        raise UnreadablePdfError("broken") from error


_MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
_TEXT = frozenset({".txt", ".rst", ".adoc"})
_PDF = ".pdf"
_MAX_PDF_BYTES = 50_000_000
NEEDS_EXTRA = f"{NEEDS}harken[pdf]"


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    """Files that people write for people.

    Args:
        redact: takes secrets out of a text.
    """

    redact: Callable[[str], str]
    source: str = "document"
    version: int = 2

    def wants(self, path: str) -> bool:
        """Whether it is Markdown, text or PDF, or a README."""
        name = PurePosixPath(path)
        return name.suffix.lower() in _MARKDOWN | _TEXT | {_PDF} or name.name.upper() == "README"

    def read(self, path: Path) -> FileContent:
        """The file's bytes, or why they are not looked at."""
        if path.suffix.lower() != _PDF:
            # Prose has paragraphs of one long line, so that a long line proves nothing.
            return read(path, is_prose=True)
        return read(path, _MAX_PDF_BYTES, is_text=False)

    def parts(self, project: str, path: str, data: bytes) -> list[FilePart]:
        """Every passage of the file.

        Raises:
            SkippedError: a PDF is encrypted or broken, has no text, or cannot be read without an extra.
        """
        seen: Counter[str] = Counter()
        parts = []
        for passage in _passages(path, data):
            text = self.redact(passage.text)
            headings = tuple(self.redact(heading) for heading in passage.headings)
            clean = replace(passage, text=text, headings=headings)
            # By what it says, not by its place: what is inserted before it leaves it as it was.
            digest = sha256("\0".join((*headings, text)).encode()).hexdigest()
            uid = derived_uid(self.source, project, path, digest, str(seen[digest]))
            seen[digest] += 1
            parts.append(FilePart(uid, _row(clean), DocumentSource().entries(FiledPassage(path, clean))[0]))
        return parts


@dataclass(frozen=True, slots=True)
class DocumentIndex:
    """Passages of documents; reached as `Harken.documents`.

    Args:
        indexer: reads folders.
        found: searches what they held.
        redact: takes secrets out of a text.
    """

    indexer: TreeIndexer
    found: SourceSearch
    redact: Callable[[str], str]

    def index(
        self, path: str | Path = ".", progress: Progress = lambda _done, _all: None, report: IndexReport | None = None
    ) -> IndexReport:
        """Bring the index of a folder's documents to how they stand on the disk; only what has changed is read.

        Args:
            path: a folder or a file; of a git repository, what it ignores is left out.
            progress: called with (files done, in all) after each batch.
            report: filled as the work goes on.
        Raises:
            UsageError: the path does not exist.
            GitError: git refuses.
        """
        return self.indexer.run(DocumentFiles(self.redact), path, progress, report or IndexReport())

    def search(
        self, query: str, *, project: str | None = None, limit: int = DEFAULT_LIMIT, mode: str = "hybrid"
    ) -> SourceHit:
        """Find the passages that a question is about.

        Args:
            query: anything.
            project: only this one's, by its key, short name or folder.
            limit: 1 to 50.
            mode: `hybrid`, `keyword` or `semantic`.
        Raises:
            UsageError: the limit or the mode is not possible.
            NotFoundError: there is no such project.
        """
        return self.found.find(query, project=project, limit=limit, mode=mode)


def _passages(path: str, data: bytes) -> list[Passage]:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == _PDF:
        return _pdf_passages(data)
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    return split_text(text) if suffix in _TEXT else split_markdown(text)


def _pdf_passages(data: bytes) -> list[Passage]:
    try:
        found = split_pages(read_pages(data))
    except UnreadablePdfError as error:
        raise SkippedError(error.reason) from error
    except MissingExtraError as error:
        raise SkippedError(NEEDS_EXTRA) from error
    if not found:
        raise SkippedError("without text")
    return found


def _row(passage: Passage) -> dict[str, object]:
    return {
        "number": passage.number,
        "headings": list(passage.headings),
        "text": passage.text,
        "start_line": passage.start_line,
        "end_line": passage.end_line,
    }
