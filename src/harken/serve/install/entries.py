"""Our entries in the text of a configuration file, JSON with comments or TOML; what is not ours stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError

Keys = tuple[str, ...]

_OUR_HOOK = re.compile(r"(?:\bharken['\"]?|-m harken)\s+hook\s")
_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(rf"{_STRING}|\A\ufeff|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_INDENT = re.compile(r"\n([ \t]+)\"")
_SPACE = re.compile(r"\s*")
_decode = json.JSONDecoder(strict=False).raw_decode


class SyntaxFault(Exception):
    """A file cannot be read as what it should be, or not be changed; the text says what is wrong, and where."""


class Syntax(NamedTuple):
    """Reads the data of one kind of file, puts a value at keys, drops what is there; `empty` is a text without data."""

    data: Callable[[str], dict[str, Any]]
    put: Callable[[str, Keys, Any], str]
    drop: Callable[[str, Keys], str]
    empty: str


class ConfigEntry(NamedTuple):
    """One thing of ours and where it stands: an MCP server, or, listed there with others, a hook."""

    keys: Keys
    value: Mapping[str, Any]
    listed: bool = False

    def added_to(self, there: Any) -> Any:
        """Return what is to stand at the keys, with this once, in place of what stands there."""
        value = dict(self.value)
        if not self.listed:
            return value
        if not isinstance(there, list | None):
            raise SyntaxFault(f"'{'.'.join(self.keys)}' is not a list there")
        items = (item if item == value else without_our_hooks(item) for item in there or ())
        others = [item for item in items if item is not None]
        return others if value in others else [*others, value]

    def taken_from(self, there: Any, before: Any) -> Any:
        """Return what is to stand at the keys without us, None for nothing; `before` stood there when we came."""
        if self.listed and isinstance(there, list):
            others = [left for item in there if (left := without_our_hooks(item)) is not None]
            return others if others or before == [] else None
        if self.listed:
            return there
        return before if before is not None or _runs_our_server(there) else there


def without_our_hooks(item: Any) -> Any:
    """Return an item of a list of hooks without what starts `harken hook`, whichever harken; None of ours alone."""
    handlers = item.get("hooks") if isinstance(item, dict) else None
    if not isinstance(handlers, list):
        return item
    others = [each for each in handlers if not (isinstance(each, dict) and _OUR_HOOK.search(str(each.get("command"))))]
    return item if others == handlers else {**item, "hooks": others} if others else None


def _runs_our_server(value: Any) -> bool:
    """Whether an MCP server of our name is `harken mcp`, and not something else that is called so."""
    words = (value.get("args") or value.get("command")) if isinstance(value, dict) else None
    return isinstance(words, list) and ("mcp" in words[-1:] or words[-3:-1] == ["mcp", "--tools"])


def with_entries(syntax: Syntax, text: str, entries: Sequence[ConfigEntry]) -> str:
    """Return the text with all entries, and nothing else changed; itself where they are there.

    Raises:
        SyntaxFault: the text is damaged, or something else stands where an entry belongs.
    """
    wanted = syntax.data(text)
    text = text if text.strip() else syntax.empty
    for entry in entries:
        outer, last = wanted, entry.keys[-1]
        for key in entry.keys[:-1]:
            outer = outer.setdefault(key, {})
            if not isinstance(outer, dict):
                raise SyntaxFault(f"'{key}' is not an object there")
        value = entry.added_to(outer.get(last))
        if value != outer.get(last):
            text = syntax.put(text, entry.keys, value)
            outer[last] = value
    if syntax.data(text) != wanted:
        raise SyntaxFault("it is written in a way that cannot be changed safely")
    return text


def without_entries(syntax: Syntax, text: str, entries: Sequence[ConfigEntry], original: str) -> str:
    """Return the text without the entries, and without what was made to hold them.

    A server of our name that stood in the original stands there again.

    Raises:
        SyntaxFault: the text is damaged.
    """
    before = syntax.data(original)
    for entry in entries:
        there = _at(syntax.data(text), entry.keys)
        left = entry.taken_from(there, _at(before, entry.keys))
        if there is None or left == there:
            continue
        text = syntax.drop(text, entry.keys) if left is None else syntax.put(text, entry.keys, left)
        for length in range(len(entry.keys) - 1, 0, -1):
            outer = entry.keys[:length]
            if _at(syntax.data(text), outer) == {} and _at(before, outer) is None:
                text = syntax.drop(text, outer)
    return text


def _at(data: Any, keys: Keys) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _json_data(text: str) -> dict[str, Any]:
    plain = _plain(text) if text.strip() else "{}"
    try:
        value, end = _decode(plain, _skip(plain, 0))
    except json.JSONDecodeError as error:
        raise SyntaxFault(f"line {text.count(chr(10), 0, error.pos) + 1}: {error.msg}") from error
    except RecursionError as error:
        raise SyntaxFault("it is nested too deeply") from error
    if not isinstance(value, dict) or _skip(plain, end) != len(plain):
        raise SyntaxFault("it holds no JSON object, or more than one value")
    return value


def _json_put(text: str, keys: Keys, value: Any) -> str:
    """Put the value on top of what is beside it; objects on the way are made."""
    plain = _plain(text)
    start = _skip(plain, 0)
    for depth, key in enumerate(keys):
        members = _members(plain, start)
        if key not in members:
            for inner in reversed(keys[depth + 1 :]):
                value = {inner: value}
            return _json_insert(text, start, key, value, "," if members else "")
        _, start, end = members[key]
    there = _decode(plain, start)[0]
    if isinstance(value, list) and there and value[:-1] == there:
        # What stands in the list keeps its form and its comments.
        last, inner = len(plain[: end - 1].rstrip()), _indent_at(text, _skip(plain, start + 1))
        gap, item = text[last : end - 1], _json_text(text, value[-1], inner)
        comma, beside = "" if "," in _bare(gap) else ",", gap.rstrip()
        return f"{text[:last]}{comma}{beside}{_newline(text)}{inner}{item}{gap[len(beside) :]}{text[end - 1 :]}"
    return text[:start] + _json_text(text, value, _indent_at(text, start)) + text[end:]


def _json_insert(text: str, start: int, key: str, value: Any, comma: str) -> str:
    """Put one more member on top of the object that begins at `start`."""
    own, rest, newline = _indent_at(text, start), text[start + 1 :], _newline(text)
    inner = own + _indent(text)
    if rest.lstrip(" \t")[:1] not in ("\r", "\n"):
        rest = f"{newline}{inner if comma else own}{rest.lstrip()}"
    member = f"{newline}{inner}{json.dumps(key, ensure_ascii=False)}: {_json_text(text, value, inner)}"
    return text[: start + 1] + member + comma + rest


def _json_drop(text: str, keys: Keys) -> str:
    """Drop what is at the keys; comments beside it stay."""
    bare, plain = _bare(text), _plain(text)
    start = _skip(plain, 0)
    for key in keys:
        begin, start, end = _members(plain, start)[key]
    head, tail, comma = bare[:begin].rstrip(), text[end:].lstrip(), _skip(bare, end)
    if bare[comma] == ",":
        return text[:begin] + text[end:comma] + text[comma + 1 :].lstrip()
    if head[-1] == ",":
        return text[: len(head) - 1] + text[len(head) : begin] + tail
    is_all = len(text[:begin].rstrip()) == len(head) and tail[0] == "}"
    return text[: len(head) if is_all else begin] + tail


def _members(plain: str, start: int) -> dict[str, tuple[int, int, int]]:
    """Return where each member of the object at `start` begins, and where its value starts and ends."""
    members: dict[str, tuple[int, int, int]] = {}
    position = _skip(plain, start + 1)
    while plain[start] == "{" and plain[position] != "}":
        begin = position
        key, position = _decode(plain, begin)
        position = _skip(plain, _skip(plain, position) + 1)
        end = _decode(plain, position)[1]
        members[key] = begin, position, end
        position = _skip(plain, end)
        position = _skip(plain, position + 1) if plain[position] == "," else position
    return members


def _bare(text: str) -> str:
    """Return the text with spaces in the place of comments: every other character is where it was."""
    return _COMMENT.sub(lambda found: found[1] or " " * len(found[0]), text)


def _plain(text: str) -> str:
    """Return the text as strict JSON, with spaces for commas at the end of objects and lists as well."""
    return _LAST_COMMA.sub(lambda found: found[1] or " ", _bare(text))


def _skip(plain: str, position: int) -> int:
    found = _SPACE.match(plain, position)
    return found.end() if found else position


def _json_text(text: str, value: Any, indent: str) -> str:
    """Return a value as the text would have it, on a line with this indentation."""
    lines = json.dumps(value, ensure_ascii=False, indent=_indent(text)).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _toml_data(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise SyntaxFault(str(error)) from error


def _toml_put(text: str, keys: Keys, value: Any) -> str:
    try:
        document = tomlkit.parse(text.removeprefix("\ufeff"))
        outer: Any = document
        for key in keys[:-1]:
            outer = outer.setdefault(key, tomlkit.table(is_super_table=True))
        outer[keys[-1]] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError, AttributeError) as error:
        raise SyntaxFault(f"'{'.'.join(keys)}' cannot be put there") from error


def _toml_drop(text: str, keys: Keys) -> str:
    document = tomlkit.parse(text.removeprefix("\ufeff"))
    del _at(document, keys[:-1])[keys[-1]]
    left = tomlkit.dumps(document)
    # The line that set our table off from the one before it.
    return left[:-1] if left.endswith("\n\n") and not text.endswith("\n\n") else left


JSON = Syntax(_json_data, _json_put, _json_drop, "{}\n")
TOML = Syntax(_toml_data, _toml_put, _toml_drop, "")
