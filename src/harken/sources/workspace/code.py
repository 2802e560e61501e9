"""Code: units indexed from a folder, searched by what they are for or by code like it, and shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harken.errors import UsageError
from harken.model.arguments import DEFAULT_LIMIT
from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.workspace import LANGUAGES, CodeUnit
from harken.sources.source import SourceHit, SourceSearch, relevance_of
from harken.sources.workspace.files import FileContent, read
from harken.sources.workspace.languages import GRAMMARS, language_of
from harken.sources.workspace.tree import IndexReport, Progress, TreeIndexer
from harken.sources.workspace.units import parse_units
from harken.storage.ports import Transaction
from harken.storage.workspace.files import FilePart, derived_uid, find_parts
from harken.text import tokens

# More of a body's words would drown those that say what a unit is for.
_ENTRY_TOKENS = 250
# Further on, tests hold the very words that somebody asks with, as their data.
_TEST_TOKENS = 112
# A long list of parameters is not to keep the model from what is said of the unit; the rest of it follows behind that.
_SIGNATURE_TOKENS = 28
# Who asks where something is done means the code that does it, before its tests and the numbers that it uses.
TEST_WEIGHT, CONSTANT_WEIGHT = 0.8, 0.9
_TEST = re.compile(r"(^|[/_.])(tests?|specs?|__tests__)([/_.]|$)", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_FENCE = re.compile(r"`{3,}")


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
        is_test = is_test_code(record.path) or record.name.startswith("test_")
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
        rows = find_parts(tx, self.name, [hit.entry.ref_uid for hit in hits])
        found = [(hit, rows[hit.entry.ref_uid]) for hit in hits if hit.entry.ref_uid in rows]
        return [
            ContextItem(
                self.name,
                _render(row.unit_type, row.name, row.path, row.start_line, row.language, row.signature, row.docstring),
                relevance_of(hit),
                {
                    "file_path": row.path,
                    "start_line": row.start_line,
                    "end_line": row.end_line,
                    "language": row.language,
                    "qualified_name": row.qualified_name,
                },
            )
            for hit, row in found
        ]


def is_test_code(path: str) -> bool:
    """Whether a file holds tests, by where it lies and what it is called."""
    return bool(_TEST.search(path))


def spelled(name: str) -> str:
    """A name of code as words, lower case: `harken.assemble.fitBudget` is `harken assemble fit budget`."""
    return " ".join(word.lower() for word in _WORD.findall(name))


def _render(
    unit_type: str, name: str, path: str, start_line: int, language: str, signature: str, docstring: str
) -> str:
    inside = f"{signature}\n{docstring}" if docstring else signature
    longest = max((len(found) for found in _FENCE.findall(inside)), default=2)
    fence = "`" * (longest + 1)
    return f"**{unit_type}** `{name}` in `{path}:{start_line}`\n{fence}{language}\n{inside}\n{fence}"


def language_facets(language: str | None) -> tuple[str, ...]:
    """What an entry must have to be of a language; nothing where any will do.

    Raises:
        UsageError: it is none that code is read in.
    """
    if language is None:
        return ()
    if language.lower() not in LANGUAGES:
        raise UsageError(f"There is no language '{language}'. Languages: {', '.join(LANGUAGES)}")
    return (f"language:{language.lower()}",)


MAX_SNIPPET_CHARS = 5000


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """Files of source code.

    Args:
        redact: takes secrets out of a text.
    """

    redact: Callable[[str], str]
    source: str = "code"
    version: int = 3

    def wants(self, path: str) -> bool:
        """Whether its language is known."""
        return language_of(path) is not None

    def read(self, path: Path) -> FileContent:
        """The file's bytes, or why they are not looked at."""
        return read(path)

    def parts(self, project: str, path: str, data: bytes) -> list[FilePart]:
        """Every unit of the file.

        Raises:
            MissingExtraError: the grammar of its language is not installed.
        """
        language = language_of(path)
        units = [] if language is None else parse_units(data, path, language)
        return [self._part(project, path, unit) for unit in units]

    def _part(self, project: str, path: str, unit: CodeUnit) -> FilePart:
        clean = replace(
            unit,
            signature=self.redact(unit.signature),
            docstring=self.redact(unit.docstring),
            body=self.redact(unit.body),
            about=self.redact(unit.about),
        )
        row = {
            "unit_type": clean.unit_type,
            "name": clean.name,
            "qualified_name": clean.qualified_name,
            "language": clean.language,
            "signature": clean.signature,
            "docstring": clean.docstring,
            "start_line": clean.start_line,
            "end_line": clean.end_line,
        }
        uid = derived_uid(self.source, project, path, unit.qualified_name, str(unit.number))
        return FilePart(uid, row, CodeSource().entries(clean)[0])


@dataclass(frozen=True, slots=True)
class CodeIndex:
    """Units of code; reached as `Harken.code`.

    Args:
        indexer: reads folders.
        found: searches what they held.
        redact: takes secrets out of a text.
    """

    indexer: TreeIndexer
    found: SourceSearch
    redact: Callable[[str], str]
    _source: CodeSource = field(default_factory=CodeSource)

    def index(
        self, path: str | Path = ".", progress: Progress = lambda _done, _all: None, report: IndexReport | None = None
    ) -> IndexReport:
        """Bring the index of a folder's code to how it stands on the disk; only what has changed is read.

        Args:
            path: a folder or a file; of a git repository, what it ignores is left out.
            progress: called with (files done, in all) after each batch.
            report: filled as the work goes on.
        Raises:
            UsageError: the path does not exist.
            MissingExtraError: a grammar is not installed.
            GitError: git refuses.
        """
        return self.indexer.run(CodeFiles(self.redact), path, progress, report or IndexReport())

    def search(
        self,
        query: str,
        *,
        language: str | None = None,
        project: str | None = None,
        limit: int = DEFAULT_LIMIT,
        mode: str = "hybrid",
    ) -> SourceHit:
        """Find the code that a question is about.

        Args:
            query: what it is for, or what it is called.
            language: only code of this one.
            project: only this one's, by its key, short name or folder.
            limit: 1 to 50.
            mode: `hybrid`, `keyword` or `semantic`.
        Raises:
            UsageError: the limit, the language or the mode is not possible.
            NotFoundError: there is no such project.
        """
        return self.found.find(query, facets=language_facets(language), project=project, limit=limit, mode=mode)

    def similar(
        self, snippet: str, *, language: str | None = None, project: str | None = None, limit: int = DEFAULT_LIMIT
    ) -> SourceHit:
        """Find code like a snippet.

        Args:
            snippet: code, at most 5,000 characters; need not be whole.
            language: that it is written in, and what is found with it.
            project: only this one's.
            limit: 1 to 50.
        Raises:
            UsageError: the snippet is empty or too long, or the language or the limit is not possible.
            NotFoundError: there is no such project.
        """
        if not snippet.strip() or len(snippet) > MAX_SNIPPET_CHARS:
            raise UsageError(f"A snippet has from 1 to {MAX_SNIPPET_CHARS:,} characters, not {len(snippet):,}.")
        facets = language_facets(language)
        query = self._as_indexed(snippet, language)
        return self.found.find(query, facets=facets, project=project, limit=limit)

    def _as_indexed(self, snippet: str, language: str | None) -> str:
        """The snippet in the words in which its like is indexed, where its language is known."""
        if language is None:
            return snippet
        units = parse_units(snippet.encode(), "snippet", GRAMMARS[language.lower()])[1:]
        return self._source.entries(units[0])[0].text if units else snippet
