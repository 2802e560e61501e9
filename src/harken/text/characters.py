"""Characters that no database can keep, and those that a terminal would obey: replaced before a text is written.

And letters that JSON escapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BIDI = "\u202a-\u202e\u2066-\u2069"
# What moves a cursor, changes a title, fills a clipboard or turns letters round is nothing that a text has to say.
_OBEYED = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}]")
# JSON escapes only those below the blank by itself.
_UNESCAPED = re.compile(rf"[\x7f-\x9f{_BIDI}]")
_LETTER = re.compile(r"\\{1,8}u(00[c-f][0-9a-f]|0[1-5][0-9a-f]{2}|[3-9a-c][0-9a-f]{3})", re.IGNORECASE)


def valid_utf8(text: str) -> str:
    """Return the text with the replacement character in place of NUL and of halves of surrogate pairs."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sound_value(value: Any) -> Any:
    """Do the same for every text in JSON-like data, keys included; what is no text, dict, list or tuple passes."""
    if isinstance(value, str):
        return valid_utf8(value)
    if isinstance(value, Mapping):
        return {sound_value(key): sound_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sound_value(item) for item in value]
    return value


def printable(text: str) -> str:
    """Return the text without characters that a terminal would obey; line ends and tabs stay."""
    return _OBEYED.sub("", text)


def printable_json(document: str) -> str:
    """Return the same JSON with such characters escaped, so that it says what it said."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def with_letters(text: str) -> str:
    """The text with the letters of other alphabets for which it has the escapes of JSON."""
    return _LETTER.sub(lambda found: chr(int(found[1], 16)), text)
