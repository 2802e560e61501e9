"""Entries put into the text of a configuration file, and taken out of it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError

from harken.serve.install import jsonc
from harken.serve.install.jsonc import Keys, SyntaxFault

_OUR_HOOK = re.compile(r"(?:\bharken['\"]?|-m harken)\s+hook\s")


class Syntax(NamedTuple):
    """How one kind of file is read and changed: its data, a value put at keys, what is there dropped, an empty text."""

    data: Callable[[str], dict[str, Any]]
    put: Callable[[str, Keys, Any], str]
    drop: Callable[[str, Keys], str]
    empty: str


class ConfigEntry(NamedTuple):
    """One thing that is ours.

    Attributes:
        keys: where it stands.
        value: what it is.
        listed: whether it is one item of the list at these keys, a hook; else it is an MCP server.
    """

    keys: Keys
    value: Mapping[str, Any]
    listed: bool = False

    def added_to(self, there: Any) -> Any:
        """What is to stand at the keys, once, where there was this, or None."""
        value = dict(self.value)
        if not self.listed:
            return value
        if not isinstance(there, list | None):
            raise SyntaxFault(f"'{'.'.join(self.keys)}' is not a list there")
        kept = [item for item in there or () if item == value or not runs_our_hook(item)]
        return kept if value in kept else [*kept, value]

    def taken_from(self, there: Any, before: Any) -> Any:
        """What is to stand at the keys without us; None for nothing.

        Args:
            there: what stands there.
            before: what stood there before we came, if that is known.
        """
        if self.listed:
            kept = [item for item in there if not runs_our_hook(item)] if isinstance(there, list) else there
            return before if kept == [] else kept
        return before if before is not None or runs_our_server(there) else there


def runs_our_hook(item: Any) -> bool:
    """Whether an item of a list of hooks starts `harken hook`, whichever harken that is."""
    handlers = item.get("hooks") if isinstance(item, dict) else None
    commands = [handler.get("command") for handler in handlers or () if isinstance(handler, dict)]
    return any(isinstance(command, str) and _OUR_HOOK.search(command) for command in commands)


def runs_our_server(value: Any) -> bool:
    """Whether an MCP server of our name is `harken mcp`, and not something else that is called so."""
    words = (value.get("args") or value.get("command")) if isinstance(value, dict) else None
    return isinstance(words, list) and words[-1:] == ["mcp"]


def with_entries(syntax: Syntax, text: str, entries: Sequence[ConfigEntry]) -> str:
    """The text with all entries, and nothing else changed; itself where they are there.

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
    """The text without the entries, and without what was made to hold them.

    Args:
        syntax: of both texts.
        text: as it is now.
        entries: what was put into it.
        original: as it was before; a server of our name that stood there, stands there again.
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
    """What is at these keys; None where nothing is."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _toml_data(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SyntaxFault(str(error)) from error


def _toml_put(text: str, keys: Keys, value: Any) -> str:
    try:
        document = tomlkit.parse(text)
        outer: Any = document
        for key in keys[:-1]:
            outer = outer.setdefault(key, tomlkit.table(is_super_table=True))
        outer[keys[-1]] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError, AttributeError) as error:
        raise SyntaxFault(f"'{'.'.join(keys)}' cannot be put there") from error


def _toml_drop(text: str, keys: Keys) -> str:
    document = tomlkit.parse(text)
    del _at(document, keys[:-1])[keys[-1]]
    left = tomlkit.dumps(document)
    # The line that set our table off from the one before it.
    return left[:-1] if left.endswith("\n\n") and not text.endswith("\n\n") else left


JSON = Syntax(jsonc.data, jsonc.put, jsonc.drop, "{}\n")
TOML = Syntax(_toml_data, _toml_put, _toml_drop, "")
