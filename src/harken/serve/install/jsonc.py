"""JSON with comments, changed in its text: what is not ours keeps every byte."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from harken.serve.install.entries import Keys, SyntaxFault

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SPACE = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\r\n]*)?")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_INDENT = re.compile(r"[{\[]\s*?\r?\n([ \t]+)[\"{\[/]")
_DEEPEST = 200


class Node(NamedTuple):
    """A value and where it stands.

    Attributes:
        items: of an object or a list, in order; each with its key, None in a list, and where key or value begins.
    """

    start: int
    end: int
    value: Any
    items: tuple[tuple[str | None, int, Node], ...] = ()


def parse(text: str) -> Node:
    """The text's one object; comments and commas at the end are allowed.

    Raises:
        SyntaxFault: it is no such text.
    """
    node = _value(text, _skip(text, 0), 0)
    if _skip(text, node.end) != len(text):
        raise _fault(text, _skip(text, node.end), "there is more than one value")
    if not isinstance(node.value, dict):
        raise SyntaxFault("it holds no JSON object")
    return node


def data(text: str) -> dict[str, Any]:
    """What the text says; an empty one says nothing.

    Raises:
        SyntaxFault: it is no JSON object.
    """
    value: dict[str, Any] = parse(text).value if text.strip() else {}
    return value


def put(text: str, keys: Keys, value: Any) -> str:
    """The text with this value at these keys; objects on the way are made."""
    node, depth = parse(text), 0
    for depth, key in enumerate(keys):
        _must_be(node, dict, keys[:depth])
        found = _member(node, key)
        if found is None:
            return _append(text, node, _nested(keys[depth + 1 :], value), key)
        node = found
    style = _Style.of(text)
    return text[: node.start] + style.write(value, style.indent_at(text, node.start)) + text[node.end :]


def add(text: str, keys: Keys, value: Any) -> str:
    """The text with this value at the end of the list at these keys; the list is made if there is none."""
    node = find(text, keys)
    if node is None:
        return put(text, keys, [value])
    _must_be(node, list, keys)
    return _append(text, node, value, None)


def drop(text: str, keys: Keys) -> str:
    """The text without what is at these keys."""
    node = find(text, keys[:-1])
    place = next((at for at, (key, _, _) in enumerate(node.items) if key == keys[-1]), None) if node else None
    return text if node is None or place is None else _remove(text, node, place)


def drop_from(text: str, keys: Keys, unwanted: Callable[[Any], bool]) -> str:
    """The text without the unwanted values of the list at these keys."""
    node = find(text, keys)
    while node is not None and isinstance(node.value, list):
        place = next((at for at, value in enumerate(node.value) if unwanted(value)), None)
        if place is None:
            break
        text = _remove(text, node, place)
        node = find(text, keys)
    return text


def find(text: str, keys: Keys) -> Node | None:
    """What is at these keys."""
    node: Node | None = parse(text)
    for key in keys:
        node = _member(node, key) if node is not None else None
    return node


class _Style(NamedTuple):
    indent: str
    newline: str

    @classmethod
    def of(cls, text: str) -> _Style:
        found = _INDENT.search(text)
        return cls(found[1] if found else "  ", "\r\n" if "\r\n" in text else "\n")

    def write(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, ensure_ascii=False, indent=self.indent).split("\n")
        return f"{self.newline}{indent}".join(lines)

    def indent_at(self, text: str, position: int) -> str:
        """What the line of a position begins with."""
        line = text[text.rfind("\n", 0, position) + 1 : position]
        return line[: len(line) - len(line.lstrip(" \t"))]


def _append(text: str, node: Node, value: Any, key: str | None) -> str:
    """The text with one more item in an object or a list."""
    style = _Style.of(text)
    named = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    own = style.indent_at(text, node.start)
    if not node.items:
        inner = own + style.indent
        body = f"{named}{style.write(value, inner)}"
        kept = text[node.start + 1 : node.end - 1].rstrip()
        return f"{text[: node.start + 1]}{kept}{style.newline}{inner}{body}{style.newline}{own}{text[node.end - 1 :]}"
    _, begin, last = node.items[-1]
    if "\n" not in text[last.end : node.end]:
        return f"{text[: last.end]}, {named}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
    comma = _skip(text, last.end)
    has_comma = text[comma] == ","
    # A note behind the last item stays behind it.
    place = _end_of_line(text, comma + 1 if has_comma else last.end)
    indent = style.indent_at(text, begin)
    body = f"{style.newline}{indent}{named}{style.write(value, indent)}"
    if has_comma:
        return f"{text[:place]}{body},{text[place:]}"
    return f"{text[: last.end]},{text[last.end : place]}{body}{text[place:]}"


def _remove(text: str, node: Node, place: int) -> str:
    """The text without an item: the opposite of `_append`."""
    _, begin, item = node.items[place]
    start = begin
    while start > node.start + 1 and text[start - 1] in " \t":
        start -= 1
    if text[start - 1] == "\n":
        start -= 2 if text[start - 2 : start - 1] == "\r" else 1
    comma = _skip(text, item.end)
    if text[comma] == ",":
        rest = text[item.end : comma] + text[comma + 1 :]
        return text[:start] + (rest if place or "\n" in text[start:begin] else rest.lstrip(" \t"))
    rest = text[item.end :]
    if place:
        before = node.items[place - 1][2].end
        comma = _skip(text, before)
        return text[:comma] + text[comma + 1 : start] + rest
    if not text[node.start + 1 : start].strip() and not text[item.end : node.end - 1].strip():
        return text[: node.start + 1] + text[node.end - 1 :]
    return text[:start] + rest


def _end_of_line(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    end = found.end() if found else position
    return end if text[end : end + 1] in ("\r", "\n") else position


def _nested(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _member(node: Node, key: str) -> Node | None:
    # Of a key that is there twice, programs see the last.
    return next((item for name, _, item in reversed(node.items) if name == key), None)


def _must_be(node: Node, kind: type, keys: Keys) -> None:
    if not isinstance(node.value, kind):
        raise SyntaxFault(f"'{'.'.join(keys)}' is not {'an object' if kind is dict else 'a list'} there")


def _skip(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


def _fault(text: str, position: int, what: str) -> SyntaxFault:
    return SyntaxFault(f"line {text.count(chr(10), 0, position) + 1}: {what}")


def _value(text: str, position: int, depth: int) -> Node:
    letter = text[position : position + 1]
    if depth > _DEEPEST:
        raise _fault(text, position, "it is nested too deeply")
    if letter in ("{", "["):
        return _items(text, position, depth, "}" if letter == "{" else "]")
    if letter == '"':
        value, end = _string(text, position)
        return Node(position, end, value)
    found = _PLAIN.match(text, position)
    if found is None:
        raise _fault(text, position, "a value is missing")
    return Node(position, found.end(), json.loads(found[0]))


def _items(text: str, start: int, depth: int, closing: str) -> Node:
    items: list[tuple[str | None, int, Node]] = []
    position = _skip(text, start + 1)
    while text[position : position + 1] != closing:
        begin, key = position, None
        if closing == "}":
            key, position = _key(text, position)
        item = _value(text, position, depth + 1)
        items.append((key, begin, item))
        position = _skip(text, item.end)
        if text[position : position + 1] == ",":
            position = _skip(text, position + 1)
        elif text[position : position + 1] != closing:
            raise _fault(text, position, f"',' or '{closing}' is missing")
    value: Any = [item.value for _, _, item in items]
    if closing == "}":
        value = {key: item.value for key, _, item in items}
    return Node(start, position + 1, value, tuple(items))


def _key(text: str, position: int) -> tuple[str, int]:
    if text[position : position + 1] != '"':
        raise _fault(text, position, "a key in quotes is missing")
    key, end = _string(text, position)
    end = _skip(text, end)
    if text[end : end + 1] != ":":
        raise _fault(text, end, "':' is missing")
    return key, _skip(text, end + 1)


def _string(text: str, position: int) -> tuple[str, int]:
    try:
        value, end = scanstring(text, position + 1, False)
    except ValueError as error:
        raise _fault(text, position, "a text in quotes has no end, or a wrong escape") from error
    return str(value), int(end)


def is_empty(value: Any) -> bool:
    """Whether an object or a list holds nothing."""
    return isinstance(value, (Mapping, list)) and not value
