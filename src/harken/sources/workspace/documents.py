"""Documents: Markdown, plain text and PDF, indexed from a folder, searched and shown."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from harken.model.arguments import DEFAULT_LIMIT
from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.workspace import Passage
from harken.sources.source import SourceHit, relevance_of
from harken.sources.workspace.files import FileContent, SkippedError, read
from harken.sources.workspace.passages import split_markdown, split_pages, split_text
from harken.sources.workspace.tree import NEEDS, FileIndex, found_parts
from harken.storage.ports import Transaction
from harken.storage.workspace.files import FilePart, derived_uid

_MARKDOWN, _TEXT, _PDF = frozenset({".md", ".markdown", ".mdx"}), frozenset({".txt", ".rst", ".adoc"}), ".pdf"
_MAX_PDF_BYTES = 50_000_000
# By the folder alone: people write specs, and a page on how to test, for people.
_TEST_DATA = re.compile(r"(?:^|[/_.])(?:tests?|__tests__)(?:[_.][^/]*)?/", re.IGNORECASE)
NEEDS_EXTRA = f"{NEEDS}harken[pdf]"
# At these Python ends a line, and nothing else that counts lines.
_NO_LINE_ENDS = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]")
# What a damaged file makes the reader stumble over, beside its own errors.
_STUMBLES = (ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, RecursionError, ArithmeticError)


class DocumentSource:
    """Markdown, plain text and PDF."""

    name = "document"

    def entries(self, record: tuple[str, Passage]) -> Sequence[NewEntry]:
        """One entry of a passage: the headings that it stands under, and its text.

        Texts of tests are found by their words alone, as their code is: most are data.
        """
        path, passage = record
        above = " > ".join(heading for heading in passage.headings if heading)
        text = f"{above}\n{passage.text}" if above else passage.text
        suffix = path.rpartition(".")[2].lower()
        return [NewEntry("", text, (f"format:{suffix}",), is_embedded=not _TEST_DATA.search(path))]

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The passages in the order of the hits; those that are gone are left out."""
        return [_item(hit, row) for hit, row in found_parts(tx, self.name, hits)]


def _item(hit: Hit, row: Any) -> ContextItem:
    above = f" ({' > '.join(row.headings)})" if row.headings else ""
    content = f"**Document** `{row.path}:{row.start_line}`{above}\n{row.text}"
    metadata = {
        "file_path": row.path,
        "start_line": row.start_line,
        "end_line": row.end_line,
        "headings": list(row.headings),
    }
    return ContextItem("document", content, relevance_of(hit), metadata)


@dataclass(frozen=True, slots=True)
class DocumentIndex(FileIndex):
    """Passages of documents; reached as `Harken.documents`."""

    source = DocumentSource()
    version = 4

    def search(
        self, query: str, *, project: str | None = None, limit: int = DEFAULT_LIMIT, mode: str = "hybrid"
    ) -> SourceHit:
        """Find 1 to 50 passages that a question is about.

        Raises:
            UsageError: the limit or the mode is not possible.
            NotFoundError: there is no such project.
        """
        return self._searching().find(query, project=project, limit=limit, mode=mode)

    def _wants(self, path: str) -> bool:
        name = PurePosixPath(path)
        return name.suffix.lower() in _MARKDOWN | _TEXT | {_PDF} or name.name.upper() == "README"

    def _read(self, path: Path) -> FileContent:
        if path.suffix.lower() != _PDF:
            # Prose has paragraphs of one long line, so that a long line proves nothing.
            return read(path, is_prose=True)
        return read(path, _MAX_PDF_BYTES, is_text=False)

    def _parts(self, project: str, path: str, data: bytes) -> list[FilePart]:
        seen: Counter[str] = Counter()
        parts = []
        for passage in _passages(path, data, self._redact):
            # By what it says, not by its place: what is inserted before it leaves it as it was.
            digest = sha256("\0".join((*passage.headings, passage.text)).encode()).hexdigest()
            uid = derived_uid("document", project, path, digest, str(seen[digest]))
            seen[digest] += 1
            row = {**asdict(passage), "headings": list(passage.headings)}
            parts.append(FilePart(uid, row, self.source.entries((path, passage))[0]))
        return parts


def _passages(path: str, data: bytes, redact: Callable[[str], str]) -> list[Passage]:
    """The passages of a document; secrets go before it is divided, for a private key is longer than a passage."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == _PDF:
        passages = split_pages(map(redact, read_pages(data)))
        if not passages:
            raise SkippedError("without text")
        return passages
    text = _NO_LINE_ENDS.sub(" ", data.decode("utf-8", errors="replace").removeprefix("\ufeff"))
    text = _in_place(text, redact(text))
    return split_text(text) if suffix in _TEXT else split_markdown(text)


def _in_place(before: str, after: str) -> str:
    """What is left of a text, each line where it stood before: blank ones stand for those that are gone."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) == len(new):
        return after
    lines: list[str] = []
    for _, begin, end, first, last in SequenceMatcher(None, old, new).get_opcodes():
        lines += [*new[first:last], *[""] * (end - begin - last + first)]
    return "\n".join(lines)


def read_pages(data: bytes) -> list[str]:
    """The text of each page of a PDF file; empty for one that holds only pictures.

    Raises:
        SkippedError: the file is encrypted or broken, or no PDF reader is installed.
    """
    try:
        from pypdf import PasswordType, PdfReader
        from pypdf.errors import DependencyError, FileNotDecryptedError, PyPdfError
    except ImportError as error:
        raise SkippedError(NEEDS_EXTRA) from error
    # It tells of every oddity that it reads around, with words of the document.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise SkippedError("encrypted")
        return [page.extract_text() for page in reader.pages]
    except (DependencyError, FileNotDecryptedError) as error:
        raise SkippedError("encrypted") from error
    except (PyPdfError, *_STUMBLES) as error:
        raise SkippedError("broken") from error
