"""Code: units indexed from a folder, searched by what they are for or by code like it, and shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harken.errors import UsageError
from harken.model.arguments import DEFAULT_LIMIT
from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.workspace import LANGUAGES, CodeUnit
from harken.sources.source import SourceHit, relevance_of
from harken.sources.workspace.files import is_of_tests
from harken.sources.workspace.languages import GRAMMARS, language_of
from harken.sources.workspace.tree import FileIndex, found_parts
from harken.sources.workspace.units import parse_units
from harken.storage.ports import Transaction
from harken.storage.workspace.files import FilePart, derived_uid
from harken.text import tokens
from harken.text.words import spelled

# More of a body's words would drown those that say what a unit is for.
_ENTRY_TOKENS = 250
# Further on, tests hold the very words that somebody asks with, as their data.
_TEST_TOKENS = 112
# A long list of parameters is not to keep the model from what is said of the unit; the rest of it follows behind that.
_SIGNATURE_TOKENS = 28
# Who asks where something is done means the code that does it, before its tests and the numbers that it uses.
TEST_WEIGHT, CONSTANT_WEIGHT = 0.8, 0.9
_FENCE = re.compile(r"`{3,}")
# Around several units: what is private in one alone is taken out of it. Code may speak of the tag without closing it.
_PRIVATE = re.compile(rb"<private>(?:(?!<private>).)*?</private>", re.DOTALL | re.IGNORECASE)
_COLUMNS = ("unit_type", "name", "qualified_name", "language", "signature", "docstring", "start_line", "end_line")
_TEXTS = ("signature", "docstring", "body", "about")
MAX_SNIPPET_CHARS = 5000


class CodeSource:
    """Functions, classes, methods, modules and constants."""

    name = "code"

    def entries(self, record: CodeUnit) -> Sequence[NewEntry]:
        """One entry: what the unit is called, in words, its signature, what is said of it and around it, its body.

        What tells most comes first, since of a long entry only the beginning is embedded. Constants are found by their
        words alone, since a name and a number say little else; so are tests, whose names say all, and of which there
        are as many as of everything else together.
        """
        is_constant = record.unit_type == "constant"
        is_test = is_of_tests(record.path) or record.name.startswith("test_")
        summary, _, details = record.docstring.partition("\n\n")
        begins = tokens.clip(record.signature, _SIGNATURE_TOKENS, marker="")
        goes_on = record.signature[len(begins) :]
        # Where nothing is said of a unit itself, what its class is for would be said as of each of its methods.
        about = record.about if summary else ""
        parts = (spelled(record.qualified_name), begins, summary, about, goes_on, details, record.body)
        most = _TEST_TOKENS if is_test else _ENTRY_TOKENS
        text = tokens.clip("\n".join(part for part in parts if part), most, marker="")
        weight = TEST_WEIGHT if is_test else CONSTANT_WEIGHT if is_constant else 1.0
        facets = (f"language:{record.language}", f"unit:{record.unit_type}")
        return [NewEntry("", text, facets, weight, is_embedded=not (is_constant or is_test))]

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The units as they stand in the index, in the order of the hits; those that are gone are left out."""
        return [_item(hit, row) for hit, row in found_parts(tx, self.name, hits)]


def _item(hit: Hit, row: Any) -> ContextItem:
    inside = f"{row.signature}\n{row.docstring}" if row.docstring else row.signature
    fence = "`" * (max((len(found) for found in _FENCE.findall(inside)), default=2) + 1)
    title = f"**{row.unit_type}** `{row.name}` in `{row.path}:{row.start_line}`"
    named = {name: getattr(row, name) for name in ("start_line", "end_line", "language", "qualified_name")}
    metadata = {"file_path": row.path, **named}
    return ContextItem("code", f"{title}\n{fence}{row.language}\n{inside}\n{fence}", relevance_of(hit), metadata)


def language_facets(language: str | None) -> tuple[str, ...]:
    """The facets of a language's entries; none where any will do.

    Raises:
        UsageError: it is none that code is read in.
    """
    if language is None:
        return ()
    if language.lower() not in LANGUAGES:
        raise UsageError(f"There is no language '{language}'. Languages: {', '.join(LANGUAGES)}")
    return (f"language:{language.lower()}",)


@dataclass(frozen=True, slots=True)
class CodeIndex(FileIndex):
    """Units of code; reached as `Harken.code`."""

    source = CodeSource()
    version = 4

    def search(
        self,
        query: str,
        *,
        language: str | None = None,
        project: str | None = None,
        limit: int = DEFAULT_LIMIT,
        mode: str = "hybrid",
    ) -> SourceHit:
        """Find 1 to 50 units of code by what they are for, or what they are called.

        Raises:
            UsageError: the limit, the language or the mode is not possible.
            NotFoundError: there is no such project.
        """
        facets = language_facets(language)
        return self._searching().find(query, facets=facets, project=project, limit=limit, mode=mode)

    def similar(
        self, snippet: str, *, language: str | None = None, project: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> SourceHit:
        """Find 1 to 50 units of code like a snippet, which need not be whole, of its language where one is named.

        Raises:
            UsageError: the snippet is empty or too long, or the language or the limit is not possible.
            NotFoundError: there is no such project.
        """
        if not snippet.strip() or len(snippet) > MAX_SNIPPET_CHARS:
            raise UsageError(f"A snippet has from 1 to {MAX_SNIPPET_CHARS:,} characters, not {len(snippet):,}.")
        facets = language_facets(language)
        # In the words in which its like is indexed, where its language is known.
        units = parse_units(snippet.encode(), "snippet", GRAMMARS[language.lower()])[1:] if language else []
        query = self.source.entries(units[0])[0].text if units else snippet
        return self._searching().find(query, facets=facets, project=project, limit=limit)

    def _wants(self, path: str) -> bool:
        return language_of(path) is not None

    def _parts(self, project: str, path: str, data: bytes) -> list[FilePart]:
        language = language_of(path)
        parts = []
        data = _PRIVATE.sub(lambda found: b"\n" * found[0].count(b"\n"), data)
        for unit in parse_units(data, path, language) if language else ():
            redacted: dict[str, Any] = {name: self._redact(getattr(unit, name)) for name in _TEXTS}
            clean = replace(unit, **redacted)
            uid = derived_uid("code", project, path, unit.qualified_name, str(unit.number))
            row = {name: getattr(clean, name) for name in _COLUMNS}
            parts.append(FilePart(uid, row, self.source.entries(clean)[0]))
        return parts
