"""Units of code: what search sees of one, and how a context shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harken import tokens
from harken.errors import UsageError
from harken.indexed import LANGUAGES, CodeUnit
from harken.model import ContextItem, Hit, NewEntry
from harken.sources.source import relevance_of
from harken.storage.indexed.files import find_parts
from harken.storage.store import Transaction

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
