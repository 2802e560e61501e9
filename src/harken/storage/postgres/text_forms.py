"""The words of a text as the full-text index has them: the same tokens as on the embedded engine."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

# Chinese, Japanese and Korean are written without spaces; a parser would take a whole sentence for one word.
_UNSPACED = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")
_BETWEEN = re.compile(r"[\W_]+")
_ASCII_BETWEEN = re.compile(r"[^0-9A-Za-z]+")
# A tsvector holds a megabyte: of longer texts, each word once.
_LONG_CHARS = 150_000
_MOST_WORDS = 60_000
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def plain_words(text: str) -> str:
    """The text's words with single spaces between them: no marks, no accents on Latin letters, CJK apart."""
    if text.isascii():
        words = _ASCII_BETWEEN.sub(" ", text).strip()
    else:
        spaced = _UNSPACED.sub(r" \g<0> ", text)
        bare = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", spaced)))
        words = _BETWEEN.sub(" ", bare).strip()
    if len(words) > _LONG_CHARS:
        return " ".join(list(dict.fromkeys(words.lower().split()))[:_MOST_WORDS])
    return words


def day_in_words(moment: datetime) -> str:
    """The day as people write it, `8 May 2023`."""
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"
