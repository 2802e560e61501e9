"""Characters that no database can keep, replaced before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def valid_utf8(text: str) -> str:
    """The text with the replacement character in place of NUL and of halves of surrogate pairs."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sound_value(value: Any) -> Any:
    """The same for every text in JSON-like data, keys included; what is no text, dict, list or tuple passes."""
    if isinstance(value, str):
        return valid_utf8(value)
    if isinstance(value, Mapping):
        return {sound_value(key): sound_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sound_value(item) for item in value]
    return value
