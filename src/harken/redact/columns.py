"""Finds secrets by the heading of their column: tables of Markdown and databases, comma- and tab-separated lines."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping

from harken.redact.assignments import STEMS, secret_named
from harken.redact.values import NAMED, Secret, Span, Style, is_secret

# The first that a line has separates its cells.
_SEPARATORS = "|│┃\t;,"
_DRAWN = "|│┃"
_LONGEST_LINE = 2_000
# Between a table's heading and its rows; a database's has crossings.
_RULE = re.compile(r"(?=.*?(?:---|───|━━━|===|═══))[\s|│┃+┼├┤╇┡┩╪=:─━╞╡═-]{3,}")
_CROSSINGS = frozenset("+┼╇╪")
_HEADING = re.compile(r"[^\W\d][\w .-]{0,38}(?<!\.)")
_AROUND = " \t\r\"'`*"
_CELLS = {
    separator: re.compile(rf'[ ]*"(?:[^"]|"")*"[ ]*(?={re.escape(separator)}|$)|[^{re.escape(separator)}]*')
    for separator in _SEPARATORS
}

# A name alone in its cell, seen from where its stem stands: most words that hold one are not.
_BEFORE = re.compile(rf"(?:^|[{_SEPARATORS}\n])[ \"'`*]{{0,4}}[\w .-]{{0,24}}\Z")
_BEHIND = re.compile(rf"[\w .-]{{0,39}}[\"'`*]{{0,3}}[ \t]{{0,200}}(?:[{_SEPARATORS}\r\n]|\Z)")
_REACH = 30

Cell = tuple[int, int]


def find_columns(text: str, low: str) -> Iterator[Span]:
    """The secrets below headings that name one.

    Args:
        text: where the spans point into.
        low: the same text in lower case, of the same length.
    """
    if "\n" not in text:
        return
    read = 0
    for start in _lines_with_names(low):
        end = _end_of_line(text, start)
        separator = next((sign for sign in _SEPARATORS if text.find(sign, start, end) >= 0), "")
        if start >= read and separator and _may_be_heading(text, start, end, separator):
            cells = _cells(text, start, end, separator)
            if named := _named(text, cells, is_drawn=separator in _DRAWN):
                read = yield from _below(text, end + 1, separator, len(cells), named)


def _lines_with_names(low: str) -> list[int]:
    """Where the lines begin that hold what may be a secret's name in a cell of its own."""
    starts: set[int] = set()
    for stem, _ in STEMS:
        at = low.find(stem)
        while at >= 0:
            if _BEHIND.match(low, at) and _BEFORE.search(low[max(0, at - _REACH) : at]):
                starts.add(low.rfind("\n", 0, at) + 1)
            at = low.find(stem, at + 1)
    return sorted(starts)


def _may_be_heading(text: str, start: int, end: int, separator: str) -> bool:
    if end - start > _LONGEST_LINE:
        return False
    # Words between bars are also patterns and choices.
    return separator not in _DRAWN or _is_rule(text, end + 1, _end_of_line(text, end + 1))


def _is_rule(text: str, start: int, end: int) -> bool:
    return end - start <= _LONGEST_LINE and _RULE.fullmatch(text, start, end) is not None


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _cells(text: str, start: int, end: int, separator: str) -> list[Cell]:
    """Where a line's cells begin and end, without what frames them."""
    if separator in _DRAWN:
        while start < end and text[start] in f" \t{_DRAWN}":
            start += 1
        while end > start and text[end - 1] in f" \t\r{_DRAWN}":
            end -= 1
    cells = []
    while start <= end and (found := _CELLS[separator].match(text, start, end)):
        cells.append(found.span())
        start = found.end() + 1
    return cells


def _named(text: str, cells: list[Cell], *, is_drawn: bool) -> Mapping[int, Secret]:
    """The columns whose heading names a secret; none where this is no heading."""
    names = [text[left:right].strip(_AROUND) for left, right in cells]
    if not is_drawn and (len(names) == 1 or not all(map(_HEADING.fullmatch, names))):
        return {}
    found = {
        place: secret_named(name.replace(" ", "_")) for place, name in enumerate(names) if _HEADING.fullmatch(name)
    }
    return {place: secret for place, secret in found.items() if secret is not None}


def _below(
    text: str, start: int, separator: str, columns: int, named: Mapping[int, Secret]
) -> Generator[Span, None, int]:
    """The secrets of the rows; returns where the table ends."""
    is_prose = False
    while start < len(text):
        end = _end_of_line(text, start)
        if _is_rule(text, start, end):
            is_prose = is_prose or ("|" in text[start:end] and _CROSSINGS.isdisjoint(text[start:end]))
        elif end - start > _LONGEST_LINE or separator not in text[start:end]:
            break
        elif len(cells := _cells(text, start, end, separator)) == columns:
            yield from _of_row(text, cells, named, is_prose=is_prose)
        start = end + 1
    return start


def _of_row(text: str, cells: list[Cell], named: Mapping[int, Secret], *, is_prose: bool) -> Iterator[Span]:
    for place, secret in named.items():
        left, right = cells[place]
        while left < right and text[left] in _AROUND:
            left += 1
        while right > left and text[right - 1] in _AROUND:
            right -= 1
        # What is written for people names what a column is about as often as it gives it.
        style = Style.PROSE if is_prose or secret is not Secret.PASSWORD else Style.LOOSE
        value = text[left:right]
        if not any(map(str.isspace, value)) and is_secret(secret, style, value, quoted=False):
            yield Span(left, right, NAMED, secret.value)
