"""Characters that no database can keep, that a terminal would obey, or that only a model would see."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from harken.errors import UsageError

_BIDI = "\u202a-\u202e\u2066-\u2069"
# What moves a cursor, changes a title, fills a clipboard or turns letters round is nothing that a text has to say.
_CONTROLS = "\x7f-\x9f" + _BIDI
# Tags: letters that nobody sees, and every model reads.
_TAGS = "\U000e0000-\U000e007f"
_OBEYED = re.compile(rf"[\x00-\x08\x0b-\x1f{_CONTROLS}{_TAGS}]")
# JSON escapes only those below the blank by itself.
_LETTER = re.compile(r"\\{1,8}u(00[c-f][0-9a-f]|0[1-5][0-9a-f]{2}|[3-9a-c][0-9a-f]{3})", re.IGNORECASE)
_UNESCAPED = re.compile(rf"[{_CONTROLS}{_TAGS}]")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# What Unicode calls default ignorable as well: joiners, fillers, variation selectors, in which whole sentences fit.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def valid_utf8(text: str) -> str:
    """Return the text with the replacement character in place of NUL and of halves of surrogate pairs."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text as 64 hexadecimal digits; halves of surrogate pairs count as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def legible(text: str) -> str:
    """Return the text as its readers see it, for a model: no controls, nothing that turns or hides letters.

    Line ends and tabs stay. Joiners go as well, so an emoji that is made of several falls into them.
    """
    if text.isascii() and text.replace("\n", " ").replace("\t", " ").isprintable():
        return text
    return _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))


def sound_value(value: Any, clean: Callable[[str], str] = valid_utf8) -> Any:
    """Return JSON-like data with every text cleaned, keys included; NaN and Infinity, which JSON has not, are None.

    Raises:
        UsageError: it holds what JSON has no form for, a date or a set.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {sound_value(key, clean): sound_value(item, clean) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sound_value(item, clean) for item in value]
    if value is not None and not isinstance(value, int | float):
        raise UsageError(f"JSON has no form for a {type(value).__name__}: give it as text, or as a list.")
    return None if isinstance(value, float) and not isfinite(value) else value


def printable(text: str) -> str:
    """Return the text without characters that a terminal would obey; line ends and tabs stay."""
    return _OBEYED.sub("", text)


def printable_json(document: str) -> str:
    """Return the same JSON with such characters escaped, so that it says what it said."""
    return _UNESCAPED.sub(lambda found: json.dumps(found[0])[1:-1], document)


def with_letters(text: str) -> str:
    """The text with the letters of other alphabets for which it has the escapes of JSON."""
    return _LETTER.sub(lambda found: chr(int(found[1], 16)), text)
