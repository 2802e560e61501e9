"""Text for a terminal: what was said and saved is shown, and never obeyed."""

from __future__ import annotations

import re

_BIDI = "\u202a-\u202e\u2066-\u2069"
# What moves a cursor, changes a title, fills a clipboard or turns letters round is nothing that a text has to say.
_OBEYED = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}]")
# JSON escapes only those below the blank by itself.
_UNESCAPED = re.compile(rf"[\x7f-\x9f{_BIDI}]")


def printable(text: str) -> str:
    """The text without characters that a terminal would obey; line ends and tabs stay."""
    return _OBEYED.sub("", text)


def printable_json(document: str) -> str:
    """The same JSON with such characters escaped, so that it says what it said."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
