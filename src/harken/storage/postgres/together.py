"""Several questions asked as one, by a function that a cluster runs whole on the machine that has the tenant's rows.

Each statement of its own is planned on two machines, which takes them a millisecond even for a single row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from harken.storage.tables import metadata

Row = tuple[Any, ...]

_ASK = "SELECT harken_asked(%(of_tenant)s, %(tables)s, %(question)s, %(given)s)"
_PLACE = re.compile(r"%\((\w+)\)s")
_WORD = re.compile(r"\w+")
_MOST_KEPT = 256


def asked_together(parts: Sequence[tuple[str, Any, int]]) -> tuple[str, Mapping[str, Any]]:
    """What asks several questions of one tenant: each a text as the driver takes it, values, number of columns.

    Values are texts, numbers, truths and lists of these; no column is of bytes.
    """
    texts = tuple((text, columns) for text, _, columns in parts)
    question, places, tables = _question(texts)
    given = [_written(parts[part][1][name]) for part, name in places]
    tenant = parts[0][1]["of_tenant"]
    return _ASK, {"of_tenant": tenant, "tables": tables, "question": question, "given": given}


def answers_of(answer: Sequence[Row]) -> list[list[Row]]:
    """The rows of each."""
    return [[tuple(row) for row in json.loads(rows)] for rows in answer[0][0]]


@lru_cache(_MOST_KEPT)
def _question(parts: Sequence[tuple[str, int]]) -> tuple[str, Sequence[tuple[int, str]], list[str]]:
    """One question for all, whose values stand in an array; where each is from; the tables that are read."""
    places: list[tuple[int, str]] = []
    asked = []
    for part, (text, columns) in enumerate(parts):

        def place(found: re.Match[str], part: int = part) -> str:
            if found[1] == "of_tenant":
                return "$1"
            if (part, found[1]) not in places:
                places.append((part, found[1]))
            return f"($2)[{places.index((part, found[1])) + 1}]"

        names = ", ".join(f"c{number}" for number in range(columns))
        inside = _PLACE.sub(place, text).replace("%%", "%")
        rows = f"SELECT json_build_array({names}) AS told FROM ({inside}) q ({names})"
        asked.append(f"(SELECT coalesce(json_agg(told), '[]')::text FROM ({rows}) rows)")
    words = set(_WORD.findall(" ".join(text for text, _ in parts)))
    return f"SELECT ARRAY[{', '.join(asked)}]", places, sorted(words & metadata.tables.keys())


def _written(value: Any) -> str | None:
    """A value as a text that the server casts to what it is."""
    if isinstance(value, list | tuple):
        return f"{{{','.join(map(_quoted, value))}}}"
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _quoted(value: Any) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
