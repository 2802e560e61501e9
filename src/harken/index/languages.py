"""The programming languages that are indexed, and where their units stand in a syntax tree.

A query captures each unit under the name of its type, with `@name` and, where it has one, `@body`. A function within a
`@class` or a `@scope` is a method; a `@scope` or `@namespace` is no unit itself, it only lends its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from harken.errors import MissingExtraError
from harken.index import grammar

if TYPE_CHECKING:
    import tree_sitter


@dataclass(frozen=True)
class Language:
    """A language and the grammar that reads it.

    Attributes:
        name: as people search for it.
        module: the package of its grammar.
        entry: the grammar's function in it.
        query: what its units are.
        separator: between the parts of a qualified name.
        has_docstrings: a unit is documented by the first string of its body, not by a comment before it.
    """

    name: str
    module: str
    query: str
    entry: str = "language"
    separator: str = "."
    has_docstrings: bool = False

    @cached_property
    def _loaded(self) -> tuple[tree_sitter.Parser, tree_sitter.Query]:
        try:
            import tree_sitter

            grammar = tree_sitter.Language(getattr(import_module(self.module), self.entry)())
        except ImportError as error:
            raise MissingExtraError(f"Indexing {self.name}", "code") from error
        return tree_sitter.Parser(grammar), tree_sitter.Query(grammar, self.query)

    def matches(self, source: bytes) -> tuple[tree_sitter.Node, list[Mapping[str, list[Any]]]]:
        """The tree's root, and every match of the query.

        Raises:
            MissingExtraError: the grammar is not installed.
        """
        parser, query = self._loaded
        # Only now: without the extra there is none, and what has to be installed was said by then.
        import tree_sitter

        root = parser.parse(source).root_node
        return root, [captures for _, captures in tree_sitter.QueryCursor(query).matches(root)]


_TYPESCRIPT = grammar.JAVASCRIPT.replace(
    "(identifier) @name body: (_) @body) @class", "(_) @name body: (_) @body) @class"
)
_TYPESCRIPT += grammar.TYPESCRIPT

LANGUAGES = {
    language.name: language
    for language in (
        Language("python", "tree_sitter_python", grammar.PYTHON, has_docstrings=True),
        Language("javascript", "tree_sitter_javascript", grammar.JAVASCRIPT + grammar.JAVASCRIPT_FIELDS),
        Language("typescript", "tree_sitter_typescript", _TYPESCRIPT, "language_typescript"),
        Language("tsx", "tree_sitter_typescript", _TYPESCRIPT, "language_tsx"),
        Language("rust", "tree_sitter_rust", grammar.RUST, separator="::"),
        Language("go", "tree_sitter_go", grammar.GO),
        Language("java", "tree_sitter_java", grammar.JAVA),
        Language("c", "tree_sitter_c", grammar.C),
        Language("cpp", "tree_sitter_cpp", grammar.C + grammar.CPP, separator="::"),
        Language("sql", "tree_sitter_sql", grammar.SQL),
    )
}
_SUFFIXES = {
    "python": ".py .pyi .pyw",
    "javascript": ".js .mjs .cjs .jsx",
    "typescript": ".ts .mts .cts",
    "tsx": ".tsx",
    "rust": ".rs",
    "go": ".go",
    "java": ".java",
    "c": ".c .h",
    "cpp": ".cpp .cc .cxx .hpp .hh .hxx",
    "sql": ".sql",
}
_BY_SUFFIX = {suffix: LANGUAGES[name] for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
SUFFIXES = tuple(_BY_SUFFIX)


def language_of(path: str) -> Language | None:
    """The language of a file, told by its name; None where it is no code that can be read."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())
