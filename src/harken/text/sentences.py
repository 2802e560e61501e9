"""Texts in sentences, in scripts with and without spaces between words."""

from __future__ import annotations

import re

from harken.text import tokens
from harken.text.words import UNSPACED, WORD

MAX_TEXT_TOKENS = 4000
MAX_SENTENCE_TOKENS = 60
# A line as long as this was mostly broken by an editor, a shorter one by its writer.
_WRAPPED_CHARS = 50
# What nobody said: code, recalled blocks, reminders of agents.
_UNSAID = re.compile(
    r"```.*?(?:```|\Z)|<(system-reminder|harken-recall|environment_context|ide_[a-z_]+)\b[^>]*>.*?(?:</\1>|\Z)",
    re.DOTALL,
)
_LEAD = re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+•]|\d{1,3}[.)])[ \t]+")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_CLOSING = "\"'”’»)\\]」』）"
_END = re.compile(
    rf"(?P<spaced>[.!?…]+[{_CLOSING}]*)\s+(?=\S)|(?P<unspaced>[。！？；]+[{_CLOSING}]*)\s*(?=\S)",
)
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|mr|mrs|ms|dr|prof|st|vs|cf|no|fig|approx|т\.е|т\.д|т\.п|т\.к|др|г|гг|ул|рис|см|стр"
    r"|[^\W\d_])\.$",
    re.IGNORECASE,
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text in order, each at most 60 tokens; code, markup and lines without a word are left out.

    Of a very long text the middle is left out.
    """
    said = _UNSAID.sub("\n\n", tokens.clip_middle(text, MAX_TEXT_TOKENS, "\n\n"))
    found = [sentence for paragraph in _paragraphs(said) for sentence in _split(paragraph)]
    return [tokens.clip(sentence, MAX_SENTENCE_TOKENS) for sentence in found if WORD.search(sentence)]


def _paragraphs(text: str) -> list[str]:
    """Lines joined where one goes on in the next; items of a list, headings and blank lines begin anew."""
    joined: list[str] = []
    length_before = 0
    for line in text.splitlines():
        unled = _LEAD.sub("", line).strip()
        goes_on = length_before >= _WRAPPED_CHARS or (length_before > 0 and unled[:1].islower())
        if unled and goes_on and unled == line.strip():
            joined[-1] = f"{joined[-1]} {unled}"
        elif unled:
            joined.append(unled)
        length_before = 0 if unled.endswith((":", "|")) else len(unled)
    return [_EMPHASIS.sub(r"\2", paragraph) for paragraph in joined]


def _split(paragraph: str) -> list[str]:
    found, start = [], 0
    for match in _END.finditer(paragraph):
        end = match.end("unspaced") if match["unspaced"] else match.end("spaced")
        if match["spaced"] and not _ends(paragraph, start, end, match.end()):
            continue
        found.append(paragraph[start:end].strip())
        start = match.end()
    return [*found, paragraph[start:].strip()] if paragraph[start:].strip() else found


def _ends(paragraph: str, start: int, end: int, behind: int) -> bool:
    """Whether a mark ends a sentence: not behind an abbreviation or an initial, nor before a small letter."""
    following = paragraph[behind]
    if following.islower() and not re.match(f"[{UNSPACED}]", following):
        return False
    return not _ABBREVIATED.search(paragraph[start:end])
