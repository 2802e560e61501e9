"""Counts tokens without a tokenizer, and cuts texts to a number of them.

The estimate imitates how o200k splits a text: a word of up to ten letters, up to three digits, up to three marks, a
line break with its indent are one token each; other scripts cost by the run and by the letter. It counts in C, on one
byte a character that says its class: a regular expression for the same takes three times as long.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable

_LOWER, _UPPER, _DIGIT, _MARK, _BLANK, _BREAK, _QUOTE = b"a", b"A", b"0", b".", b" ", b"n", b"q"
_ACCENTED = b"l"
# Tokens per run and per character beyond ASCII: alphabets with capitals, other alphabets, ideographs and kana, Hangul,
# symbols, emoji. Fitted on one half of the corpora.
_PRICES = {b"g": (0.85, 0.15), b"b": (0.6, 0.3), b"i": (0.2, 0.75), b"k": (0.2, 0.65), b"s": (0.6, 0.25)}
_PRICES[b"e"] = (0.5, 1.3)
_ACCENT_PRICE = 0.7
# A text this many times longer than its budget is cut before anything is counted.
_CHARS_PER_TOKEN = 32
_MAX_STEPS = 12
_MAX_MARKS = 64
_JOINER = "\u200d"

_RULES = tuple(mark * 8 for mark in (b"-", b"=", b"*", b"#", b"~", b"."))


# The first byte of a character in UTF-8, from which on it is of the class; accented Latin is `l`.
_LEADS = (
    *((0xC2, b"s"), (0xC3, b"l"), (0xCE, b"g"), (0xD7, b"b"), (0xE1, b"l"), (0xE2, b"s"), (0xE3, b"i")),
    *((0xEA, b"k"), (0xEE, b"b"), (0xEF, b"i"), (0xF0, b"e")),
)


def _class_of(byte: int) -> bytes:
    """Return the class of the character that begins with this byte of UTF-8."""
    if byte >= 0x80:
        return next((name for lead, name in reversed(_LEADS) if byte >= lead), b"s")
    char = chr(byte)
    if char.isalpha():
        return _LOWER if char.islower() else _UPPER
    if char.isdigit():
        return _DIGIT
    if char == "\n":
        return _BREAK
    if char <= " " or char == "_":
        return _BLANK
    return _QUOTE if char == "'" else _MARK


_CLASSES = b"".join(_class_of(byte) for byte in range(256))
# What a drawn line is made of.
_RULE = _MARK * 8
_CONTINUATION = bytes(range(0x80, 0xC0))


# For each class a table that keeps it and blanks the rest.
_ONLY = {
    name: bytes(byte if byte == name[0] else _BLANK[0] for byte in range(256)) for name in (_LOWER, _BREAK, *_PRICES)
}


def estimate(text: str) -> int:
    """Estimate how many o200k tokens a text has; 0 for the empty one, at least 1 for any other.

    Within 7 % on English, Python, Russian and Chinese prose. Source: benchmarks/results/tokens-2026-11-22.json.
    """
    if not text:
        return 0
    raw = text.encode("utf-8", "surrogatepass")
    classes = raw.translate(_CLASSES, _CONTINUATION)
    if _RULE in classes and any(rule in raw for rule in _RULES):
        classes = _without_rules(raw).translate(_CLASSES, _CONTINUATION)
    total = 0.0
    if not text.isascii():
        total = _ACCENT_PRICE * classes.count(_ACCENTED)
        for name, (per_run, per_char) in _PRICES.items():
            if count := classes.count(name):
                total += per_run * _runs(classes, name) + per_char * count
        classes = classes.replace(_ACCENTED, _LOWER)
    # Most texts lack most of it, and to look for it takes less than to count.
    lines = _runs(classes.translate(None, _BLANK), _BREAK) if _BREAK in classes else 0
    gaps = classes.count(b"a  ") + classes.count(b".  ") if b"  " in classes else 0
    # A capital belongs to the word it begins, an apostrophe to the letters after it.
    words = classes.replace(b"Aa", b" a")
    if _QUOTE in words:
        words = words.replace(b"qa", b" a")
    lower = _runs(words, _LOWER) + words.count(_LOWER * 11)
    upper = _groups(words, _UPPER)
    marks = _groups(words.replace(_QUOTE, _MARK) if _QUOTE in words else words, _MARK)
    return max(1, math.ceil(total + (lower + upper + _groups(words, _DIGIT) + marks + lines + gaps)))


def reaches(text: str, least: int) -> bool:
    """Whether a text has so many tokens."""
    # A word is half a token or more, which settles it for most messages without counting.
    return len(text.split(maxsplit=2 * least)) > 2 * least or estimate(text) >= least


def _runs(classes: bytes, name: bytes) -> int:
    """Count the runs of a class."""
    kept = classes.translate(_ONLY[name])
    return kept.count(_BLANK + name) + kept.startswith(name)


def _groups(classes: bytes, name: bytes) -> int:
    """Count the groups of up to three that the runs of a class make."""
    if name * 2 not in classes:
        return classes.count(name)
    grouped = classes.replace(name * 3, b"3").replace(name * 2, b"3")
    return grouped.count(b"3") + grouped.count(name)


def _without_rules(raw: bytes) -> bytes:
    """Return the text with each drawn line (`--------`) as one mark, as tokenizers have it."""
    for rule in _RULES:
        raw = raw.replace(rule, rule[:1] * 2) if rule in raw else raw
        while rule[:1] * 4 in raw:
            raw = raw.replace(rule[:1] * 4, rule[:1] * 2)
    return raw


def clip(text: str, max_tokens: int, marker: str = "…") -> str:
    """Return the text, or its head and the marker where it is longer than so many tokens by `estimate`.

    Never ends within a grapheme. A budget too small for the marker gives the empty text.
    """
    if fits(text, max_tokens):
        return text
    return _joined(text, max_tokens, marker, head_share=1.0)


def clip_middle(text: str, max_tokens: int, marker: str = " … ") -> str:
    """Return the text, or its two ends around the marker where it is longer than so many tokens by `estimate`."""
    if fits(text, max_tokens):
        return text
    return _joined(text, max_tokens, marker, head_share=0.5)


def fits(text: str, max_tokens: int) -> bool:
    """Whether the text has at most so many tokens by `estimate`; of a very long one only the head is read."""
    # No character of ASCII is more than one token, and none at all more than two.
    if len(text) * (1 if text.isascii() else 2) <= max_tokens:
        return True
    window = max(0, max_tokens) * _CHARS_PER_TOKEN
    if len(text) > window and estimate(text[:window]) > max_tokens:
        return False
    return estimate(text) <= max_tokens


def _joined(text: str, max_tokens: int, marker: str, head_share: float) -> str:
    room = max_tokens - estimate(marker)
    while room >= 0:
        head = _head(text, math.ceil(room * head_share))
        tail = _tail(text[len(head) :], room - estimate(head)) if head_share < 1 else ""
        joined = head + marker + tail
        if estimate(joined) <= max_tokens:
            return joined
        # Pieces may join badly at the marker: leave it a little more room.
        room -= 1 + room // 50
    return ""


def _head(text: str, max_tokens: int) -> str:
    window = text[: max_tokens * _CHARS_PER_TOKEN]
    return window[: _grapheme_start(window, _longest(lambda size: window[:size], len(window), max_tokens))]


def _tail(text: str, max_tokens: int) -> str:
    window = text[len(text) - min(len(text), max_tokens * _CHARS_PER_TOKEN) :]
    size = _longest(lambda size: window[len(window) - size :], len(window), max_tokens)
    start = len(window) - size
    if start and _grapheme_start(window, start) != start:
        start = next((at for at in range(start, len(window)) if _grapheme_start(window, at) == at), len(window))
    return window[start:]


def _longest(part: Callable[[int], str], size: int, max_tokens: int) -> int:
    """Return about the greatest number of characters whose part has at most so many tokens."""
    low, low_tokens, high, high_tokens = 0, 0, size, estimate(part(size))
    if high_tokens <= max_tokens:
        return size
    for _ in range(_MAX_STEPS):
        if high - low <= 1 or low_tokens >= max_tokens:
            break
        share = (max_tokens + 0.5 - low_tokens) / max(1, high_tokens - low_tokens)
        middle = min(high - 1, max(low + 1, low + int((high - low) * share)))
        tokens = estimate(part(middle))
        if tokens <= max_tokens:
            low, low_tokens = middle, tokens
        else:
            high, high_tokens = middle, tokens
    return low


def _grapheme_start(text: str, at: int) -> int:
    """Return the nearest place at or before `at` where no grapheme is cut."""
    for _ in range(_MAX_MARKS):
        if not 0 < at < len(text) or not _is_inside(text, at):
            break
        at -= 1
    return at


def _is_inside(text: str, at: int) -> bool:
    """Whether a cut parts what belongs together: marks, joined emoji, flags, surrogates, a two-character line break."""
    before, after = text[at - 1], text[at]
    if after < "\u0300":
        return before == _JOINER or (before == "\r" and after == "\n")
    joined = (
        _JOINER in (before, after) or "\U0001f3fb" <= after <= "\U0001f3ff" or unicodedata.category(after)[0] == "M"
    )
    return joined or "\udc00" <= after <= "\udfff" or (_is_flag(after) and _flags_before(text, at) % 2 == 1)


def _flags_before(text: str, at: int) -> int:
    count = 0
    while at - count > 0 and _is_flag(text[at - count - 1]):
        count += 1
    return count


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
