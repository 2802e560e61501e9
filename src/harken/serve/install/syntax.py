"""Entries put into the text of a configuration file, and taken out of it."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from harken.serve.install import jsonc
from harken.serve.install.entries import ConfigEntry, Keys, SyntaxFault, at, runs_our_hook, runs_our_server


class Syntax(NamedTuple):
    """How one kind of file is read and changed.

    Attributes:
        data: what a text says.
        put: a text with a value at keys.
        drop: a text without what is at keys.
        empty: the text that says nothing.
    """

    data: Callable[[str], dict[str, Any]]
    put: Callable[[str, Keys, Any], str]
    drop: Callable[[str, Keys], str]
    empty: str


def with_entries(syntax: Syntax, text: str, entries: Sequence[ConfigEntry]) -> str:
    """The text with all entries, each once, and nothing else changed.

    Raises:
        SyntaxFault: the text is damaged, or something else stands where an entry belongs.
    """
    wanted = syntax.data(text)
    text = text if text.strip() else syntax.empty
    for entry in entries:
        text = _with_listed(text, entry) if entry.listed else syntax.put(text, entry.keys, entry.value)
        _set(wanted, entry)
    if syntax.data(text) != wanted:
        raise SyntaxFault("it is written in a way that cannot be changed safely")
    return text


def without_entries(syntax: Syntax, text: str, entries: Sequence[ConfigEntry], original: str) -> str:
    """The text without the entries.

    Args:
        syntax: of both texts.
        text: as it is now.
        entries: what was put into it.
        original: as it was before; what stood at an entry's keys then, stands there again.
    Raises:
        SyntaxFault: the text is damaged.
    """
    before, found = syntax.data(original), syntax.data(text)
    for entry in entries:
        if entry.listed:
            text = jsonc.drop_from(text, entry.keys, runs_our_hook)
            text = _with_own_hooks(text, entry, at(before, entry.keys))
        elif (stood := at(before, entry.keys)) is not None:
            text = syntax.put(text, entry.keys, stood)
        elif runs_our_server(at(found, entry.keys)):
            text = syntax.drop(text, entry.keys)
        text = _without_empty(syntax, text, entry.keys, before)
    return text


def has_entries(syntax: Syntax, text: str, entries: Sequence[ConfigEntry]) -> bool:
    """Whether any of the entries is in the text, also one that another version wrote.

    Raises:
        SyntaxFault: the text is damaged.
    """
    found = syntax.data(text)
    for entry in entries:
        there = at(found, entry.keys)
        if any(map(runs_our_hook, there or ())) if entry.listed else runs_our_server(there):
            return True
    return False


def _with_listed(text: str, entry: ConfigEntry) -> str:
    return jsonc.add(jsonc.drop_from(text, entry.keys, runs_our_hook), entry.keys, entry.value)


def _with_own_hooks(text: str, entry: ConfigEntry, before: Any) -> str:
    """The text with the hooks into Harken that were there before ours."""
    for item in before if isinstance(before, list) else ():
        text = jsonc.add(text, entry.keys, item) if runs_our_hook(item) else text
    return text


def _without_empty(syntax: Syntax, text: str, keys: Keys, before: dict[str, Any]) -> str:
    for length in range(len(keys), 0, -1):
        outer = keys[:length]
        found = syntax.data(text)
        if at(before, outer) is None and jsonc.is_empty(at(found, outer)):
            text = syntax.drop(text, outer)
    return text


def _set(data: dict[str, Any], entry: ConfigEntry) -> None:
    """Put an entry into what a text says."""
    outer = data
    for key in entry.keys[:-1]:
        outer = outer.setdefault(key, {})
        if not isinstance(outer, dict):
            raise SyntaxFault(f"'{key}' is not an object there")
    last = entry.keys[-1]
    value = copy.deepcopy(dict(entry.value))
    if not entry.listed:
        outer[last] = value
    elif isinstance(outer.setdefault(last, []), list):
        outer[last] = [*(item for item in outer[last] if not runs_our_hook(item)), value]
    else:
        raise SyntaxFault(f"'{'.'.join(entry.keys)}' is not a list there")


def _toml_data(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SyntaxFault(str(error)) from error


def _toml_put(text: str, keys: Keys, value: Any) -> str:
    document = _toml(text)
    outer: Any = document
    for key in keys[:-1]:
        if key not in outer:
            outer[key] = tomlkit.table(is_super_table=True)
        outer = outer[key]
    # Tables that stand in one line can only hold others of their kind.
    table = tomlkit.inline_table() if isinstance(outer, InlineTable) else tomlkit.table()
    table.update(value)
    try:
        outer[keys[-1]] = table
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError, AttributeError) as error:
        raise SyntaxFault(f"'{'.'.join(keys)}' cannot be put there") from error


def _toml_drop(text: str, keys: Keys) -> str:
    document = _toml(text)
    outer = at(document, keys[:-1])
    if not isinstance(outer, dict) or keys[-1] not in outer:
        return text
    del outer[keys[-1]]
    left = tomlkit.dumps(document)
    # The line that set our table off from the one before it.
    return left[:-1] if left.endswith("\n\n") and not text.endswith("\n\n") else left


def _toml(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise SyntaxFault(str(error)) from error


JSON = Syntax(jsonc.data, jsonc.put, jsonc.drop, "{}\n")
TOML = Syntax(_toml_data, _toml_put, _toml_drop, "")
