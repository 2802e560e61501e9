"""Markdown that stays what it is: no item ends another, makes a heading of its own, or is longer than it may be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harken import tokens
from harken.model import ContextItem

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$")
# What would begin a heading, a rule, a block of code, or HTML, which goes on to wherever it ends; in lists as well.
_STRUCTURE = re.compile(
    r"^((?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(#{1,6}(?:\s|$)|=+\s*$|-+\s*$|`{3}|~{3}|(?:_\s*){3,}$|<[A-Za-z!?/])"
)
_LOCATED = ("code", "document")
_NAMED = ("experience", "conversation")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its items."""

    heading: str
    items: tuple[ContextItem, ...]


def document(title: str, sections: Sequence[Section], notes: Sequence[str], last_line: str) -> str:
    """The whole context: sections without items are left out, notes stand before the last line."""
    parts = [f"# {title}"]
    parts += [
        f"## {each.heading}\n" + "\n\n".join(item.content for item in each.items) for each in sections if each.items
    ]
    ending = [f"*{line}*" for line in (*notes, last_line)]
    return "\n\n".join([*parts, "---\n" + "\n\n".join(ending)])


def contained(item: ContextItem) -> ContextItem:
    """The item without what would reach beyond it: headings, rules and HTML of its text, and a fence left open."""
    lines = item.content.split("\n")
    inside = _fenced(lines)
    shown = [line if at in inside else _plain(line) for at, line in enumerate(lines)]
    return replace(item, content="\n".join(shown).strip("\n"))


def shortened(item: ContextItem, most_tokens: int) -> ContextItem:
    """The item, or its beginning and a note of where all of it is, together no longer than so many tokens.

    Source: SPEC-002-18, "Per-Item Cap and Truncation".
    """
    if tokens.fits(item.content, most_tokens):
        return item
    note = f"\n\n*({_note(item)})*"
    room = most_tokens - tokens.estimate(f"...{note}")
    while True:
        body = tokens.clip(item.content, max(1, room), marker="").rstrip()
        cut = _closed(f"{body}...") + note
        if tokens.fits(cut, most_tokens) or room <= 1:
            return replace(item, content=cut)
        room -= 1 + room // 50


def _note(item: ContextItem) -> str:
    facts = item.metadata
    if item.source in _LOCATED and "file_path" in facts:
        return f"truncated, see full at {facts['file_path']}:{facts['start_line']}"
    if item.source in _NAMED and "id" in facts:
        return f"truncated, full {item.source} ID: {facts['id']}"
    return "truncated"


def _closed(text: str) -> str:
    """The text with what its end has cut open closed again."""
    opened = _open_fence(text.split("\n"))
    if opened:
        return f"{text}\n{opened}"
    last = text.rpartition("\n")[2].removeprefix("- ")
    closing = "`" if last.count("`") % 2 else ""
    bold = last.count("**") % 2
    italic = (last.replace("**", "").count("*")) % 2
    return text + closing + "*" * italic + "**" * bold


def _fenced(lines: Sequence[str]) -> set[int]:
    """The places of lines in blocks of code that are closed, with their marks; an indented one may be a list's."""
    inside: set[int] = set()
    begin, mark = 0, ""
    for at, line in enumerate(lines):
        found = _FENCE.match(line)
        if found is None:
            continue
        if mark and _closes(found, mark):
            inside.update(range(begin, at + 1))
            mark = ""
        elif not mark and not line.startswith(" ") and "`" not in found[2]:
            begin, mark = at, found[1]
    return inside


def _open_fence(lines: Sequence[str]) -> str:
    """The mark of a fence that nothing closes; empty where none is open."""
    mark = ""
    for line in lines:
        found = _FENCE.match(line)
        if found is not None and not mark:
            mark = found[1]
        elif found is not None and _closes(found, mark):
            mark = ""
    return mark


def _closes(found: re.Match[str], mark: str) -> bool:
    return found[1][0] == mark[0] and len(found[1]) >= len(mark) and not found[2].strip()


def _plain(line: str) -> str:
    """A line outside of blocks of code that begins nothing."""
    return _STRUCTURE.sub(r"\1\\\2", line)
