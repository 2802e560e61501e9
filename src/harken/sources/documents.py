"""Passages of documents: what search sees of one, and how a context shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harken.indexed import Passage
from harken.model import ContextItem, Hit, NewEntry
from harken.sources.source import relevance_of
from harken.storage.indexed.files import find_parts
from harken.storage.store import Transaction


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
