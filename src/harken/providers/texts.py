"""Texts as models can take them."""

from __future__ import annotations

# English words make 4 to 6 characters a token; 16 leaves room for rows of blanks and of dashes.
_CHARACTERS_A_TOKEN = 16


def presentable(text: str, max_tokens: int) -> str:
    """The text without halves of surrogate pairs, and without what lies far behind the model's limit.

    A tokenizer reads a whole text before it cuts: one pasted log of a megabyte would hold up a batch for a second.
    """
    clipped = text[: max_tokens * _CHARACTERS_A_TOKEN]
    return clipped.encode("utf-8", errors="replace").decode("utf-8")


def clip_bytes(text: str, max_tokens: int) -> str:
    """The text cut to about `max_tokens` tokens of a tokenizer that nobody here knows.

    Three bytes of UTF-8 are seldom less than a token, whatever the vocabulary: 4 letters of English make one, 2 of
    Russian, one character of Chinese. An estimate by one vocabulary would be too hopeful for a smaller one.
    """
    raw = text[: max_tokens * 3].encode("utf-8", errors="replace")
    return raw[: max_tokens * 3].decode("utf-8", errors="ignore")
