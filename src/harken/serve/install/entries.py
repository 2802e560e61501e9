"""What is put into a configuration file, whatever its syntax."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

Keys = tuple[str, ...]

_OURS = re.compile(r"(?:\bharken['\"]?|-m harken)\s+hook\s")


class SyntaxFault(Exception):
    """A file cannot be read as what it should be; the text says what is wrong, and where."""


class ConfigEntry(NamedTuple):
    """One thing that is ours.

    Attributes:
        keys: where it stands.
        value: what it is.
        listed: whether it is one item of the list at these keys.
    """

    keys: Keys
    value: Mapping[str, Any]
    listed: bool = False


def runs_our_hook(item: Any) -> bool:
    """Whether an item of a list of hooks starts `harken hook`, whichever harken that is."""
    if not isinstance(item, dict):
        return False
    handlers = item.get("hooks")
    commands = [handler.get("command") for handler in handlers if isinstance(handler, dict)] if handlers else []
    return any(isinstance(command, str) and _OURS.search(command) for command in commands)


def runs_our_server(value: Any) -> bool:
    """Whether an MCP server of our name is `harken mcp`, and not something else that is called so."""
    words = (value.get("args") or value.get("command")) if isinstance(value, dict) else None
    return isinstance(words, list) and words[-1:] == ["mcp"]


def at(data: Any, keys: Keys) -> Any:
    """What is at these keys; None where nothing is."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data
