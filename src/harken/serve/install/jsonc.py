"""JSON with comments, changed in its text: what is not ours stays as it is written."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

Keys = tuple[str, ...]

_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(rf"{_STRING}|\A\ufeff|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_INDENT = re.compile(r"\n([ \t]+)\"")
_SPACE = re.compile(r"\s*")
_decode = json.JSONDecoder(strict=False).raw_decode


class SyntaxFault(Exception):
    """A file cannot be read as what it should be; the text says what is wrong, and where."""


class _Member(NamedTuple):
    """Where in a text a member of an object begins, and where its value starts and ends."""

    key: str
    begin: int
    start: int
    end: int


def data(text: str) -> dict[str, Any]:
    """What the text says; an empty one says nothing. Comments and commas at the end are allowed.

    Raises:
        SyntaxFault: it is no JSON object.
    """
    plain = _plain(_bare(text)) if text.strip() else "{}"
    try:
        value, end = _decode(plain, _skip(plain, 0))
    except json.JSONDecodeError as error:
        raise SyntaxFault(f"line {text.count(chr(10), 0, error.pos) + 1}: {error.msg}") from error
    except RecursionError as error:
        raise SyntaxFault("it is nested too deeply") from error
    if not isinstance(value, dict) or _skip(plain, end) != len(plain):
        raise SyntaxFault("it holds no JSON object, or more than one value")
    return value


def put(text: str, keys: Keys, value: Any) -> str:
    """The text with this value at these keys, on top of what is beside it; objects on the way are made."""
    plain = _plain(_bare(text))
    start = _skip(plain, 0)
    for depth, key in enumerate(keys):
        found = next((member for member in reversed(_members(plain, start)) if member.key == key), None)
        if found is None:
            for outer in reversed(keys[depth + 1 :]):
                value = {outer: value}
            return _insert(text, start, key, value)
        start, end = found.start, found.end
    return text[:start] + _written(text, value, _indent_at(text, start)) + text[end:]


def drop(text: str, keys: Keys) -> str:
    """The text without what is at these keys; comments beside it stay."""
    bare = _bare(text)
    plain = _plain(bare)
    start = _skip(plain, 0)
    for key in keys:
        outer, members = start, _members(plain, start)
        places = [place for place, member in enumerate(members) if member.key == key]
        if not places:
            return text
        place = places[-1]
        start = members[place].start
    _, begin, _, end = members[place]
    comma = _skip(bare, end)
    if bare[comma] == ",":
        return text[:begin] + text[end:comma] + text[comma + 1 :].lstrip()
    if place:
        before = _skip(bare, members[place - 1].end)
        return text[:before] + text[before + 1 : begin] + text[end:].lstrip()
    head, tail = text[:begin].rstrip(), text[end:].lstrip()
    return head + tail if len(head) == outer + 1 and tail[0] == "}" else text[:begin] + tail


def _insert(text: str, start: int, key: str, value: Any) -> str:
    """The text with one more member on top of the object that begins there."""
    own, rest = _indent_at(text, start), text[start + 1 :]
    inner = own + _indent(text)
    member = f"\n{inner}{json.dumps(key, ensure_ascii=False)}: "
    behind = "," if _members(_plain(_bare(text)), start) else ""
    if rest.lstrip(" \t")[:1] not in ("\r", "\n"):
        rest = f"{_newline(text)}{inner if behind else own}{rest.lstrip()}"
    return text[: start + 1] + member.replace("\n", _newline(text)) + _written(text, value, inner) + behind + rest


def _members(plain: str, start: int) -> list[_Member]:
    """What is in the object that begins there; nothing if it is none."""
    members: list[_Member] = []
    position = _skip(plain, start + 1)
    while plain[start] == "{" and plain[position] != "}":
        begin = position
        key, position = _decode(plain, begin)
        position = _skip(plain, _skip(plain, position) + 1)
        end = _decode(plain, position)[1]
        members.append(_Member(key, begin, position, end))
        position = _skip(plain, end)
        position = _skip(plain, position + 1) if plain[position] == "," else position
    return members


def _bare(text: str) -> str:
    """The text with spaces in the place of comments: every other character is where it was."""
    return _COMMENT.sub(lambda found: found[1] or " " * len(found[0]), text)


def _plain(bare: str) -> str:
    """The text without commas at the end of objects and lists: JSON."""
    return _LAST_COMMA.sub(lambda found: found[1] or " ", bare)


def _skip(plain: str, position: int) -> int:
    found = _SPACE.match(plain, position)
    return found.end() if found else position


def _written(text: str, value: Any, indent: str) -> str:
    """A value as the text would have it, on a line with this indentation."""
    lines = json.dumps(value, ensure_ascii=False, indent=_indent(text)).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _indent_at(text: str, position: int) -> str:
    """What the line of a position begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]
