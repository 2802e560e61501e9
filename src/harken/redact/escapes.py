"""Texts as they read once escapes and invisible characters are gone: what hides a secret from a rule hides it no more.

JSON, HTML and URLs escape each other's marks, editors and pages leave invisible characters in what is copied from
them, and a token with one in its midst is as good as the token itself.
"""

from __future__ import annotations

import re

_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
# Not the quote and the backslash: taking them out of their escapes would end the text that they stand in.
_BYTE = r"(?!22|5c|7f)[2-7][0-9a-f]"
_ESCAPED = re.compile(
    rf"\\{{1,8}}(?:u00(?P<unicode>{_BYTE})|x(?P<hex>{_BYTE})|(?P<slash>/))"
    rf"|(?:&amp;|&)#(?:x0{{0,4}}(?P<entity>{_BYTE})|0{{0,4}}(?P<number>\d{{2,3}}));|(?P<amp>&amp;)",
    re.IGNORECASE,
)
_IN_URL = re.compile(rf"%(?P<percent>{_BYTE})", re.IGNORECASE)
# Escaped `:`, `<` and `=`: without one of them there is neither a tag, nor credentials, nor a value with its name.
_TELLING_IN_URL = re.compile(r"%3[acd]", re.IGNORECASE)
_PRINTABLE = range(0x20, 0x7F)


def unescape(text: str) -> str:
    """The text without invisible characters, wide forms and escapes of plain characters; itself where it has none."""
    if not text.isascii():
        text = _INVISIBLE.sub("", text).translate(_WIDE)
    if "\\" in text or "&" in text:
        text = _ESCAPED.sub(_plain, text)
    if "%3" in text and _TELLING_IN_URL.search(text):
        text = _IN_URL.sub(_plain, text)
    return text


def _plain(found: re.Match[str]) -> str:
    """The character that an escape stands for."""
    kind, value = found.lastgroup, found[found.lastgroup or 0]
    if kind in ("slash", "amp"):
        return "/" if kind == "slash" else "&"
    code = int(value, 10 if kind == "number" else 16)
    return chr(code) if code in _PRINTABLE else found[0]
