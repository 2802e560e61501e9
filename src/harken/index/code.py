"""Code: indexed from a folder, searched by what it is for, or by code like it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from harken.errors import UsageError
from harken.index.files import Content, read
from harken.index.languages import LANGUAGES, language_of
from harken.index.tree import IndexReport, Progress, TreeIndexer
from harken.index.units import parse_units
from harken.indexed import CodeUnit
from harken.sources.code import CodeSource, language_facets
from harken.sources.found import DEFAULT_LIMIT, Found, SourceSearch
from harken.storage.indexed.files import Part, derived_uid

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

    def read(self, path: Path) -> Content:
        """The file's bytes, or why they are not looked at."""
        return read(path)

    def parts(self, project: str, path: str, data: bytes) -> list[Part]:
        """Every unit of the file.

        Raises:
            MissingExtraError: the grammar of its language is not installed.
        """
        language = language_of(path)
        units = [] if language is None else parse_units(data, path, language)
        return [self._part(project, path, unit) for unit in units]

    def _part(self, project: str, path: str, unit: CodeUnit) -> Part:
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
        return Part(uid, row, CodeSource().entries(clean)[0])


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
    ) -> Found:
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
    ) -> Found:
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
        units = parse_units(snippet.encode(), "snippet", LANGUAGES[language.lower()])[1:]
        return self._source.entries(units[0])[0].text if units else snippet
