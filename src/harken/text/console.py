"""A console for what was said and saved: shown, and never obeyed; light Markdown and lines that break between words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from harken.text.characters import printable


class PlainConsole(Console):
    """Prints as `Console` does; of what it is given, nothing reaches the terminal but what can be read.

    Its own colours are made behind this, from styles. `harken[pdf]` is never markup, nor `:id:` a picture.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the pieces of what is to be printed."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(printable(piece.text), piece.style)


# Where a line goes on: behind a list's mark or number, or where the value of a name stands.
_INDENT = re.compile(r" *(?:[-*•] |\d{1,3}[.)] |[a-z][\w-]* {3,})?")
# A command that is to be typed is one word, so that it can be copied.
_WORD = re.compile(r"(?:(?<=: )harken .*|\S+)\s*")
_FENCE = re.compile(r" *(?:```|~~~)")
_CODE = re.compile(r"(^ *(?P<fence>```|~~~).*?(?:^ *(?P=fence) *$|\Z))", re.DOTALL | re.MULTILINE)
# Its marks go, since they say no more than the style does.
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]*[^*\s])\*\*")
_LIT = ((re.compile(r"`[^`\n]+`"), "cyan"), (re.compile(r"^ *#{1,6} .*$", re.MULTILINE), "bold"))


def light_markdown(text: str) -> Text:
    """Return a text with emphasis in bold, names of code and headings lit up; blocks of code stay as they are."""
    whole, end = Text(), 0
    for block in _CODE.finditer(text):
        whole.append_text(_lit(text[end : block.start()])).append(block[0])
        end = block.end()
    return whole.append_text(_lit(text[end:]))


def _lit(text: str) -> Text:
    shown, end = Text(), 0
    for found in _BOLD.finditer(text):
        shown.append(text[end : found.start()]).append(found[1], "bold")
        end = found.end()
    shown.append(text[end:])
    for pattern, style in _LIT:
        shown.highlight_regex(pattern, style)
    return shown


def wrapped(console: Console, text: Text) -> Iterator[Text]:
    """Yield the lines of a text, broken between words where the console ends, indented as they began; code as it is."""
    is_code = False
    for line in text.split("\n", allow_blank=True):
        is_fence = _FENCE.match(line.plain) is not None
        is_code ^= is_fence
        found = _INDENT.match(line.plain)
        indent = found.end() if found else 0
        if is_code or is_fence or line.cell_len <= console.width or indent * 2 > console.width:
            yield line
            continue
        head, tail = line[:indent], line[indent:]
        for part in tail.divide(_breaks(tail.plain, console.width - indent)):
            part.rstrip()
            yield head + part
            head = Text(" " * indent)


def _breaks(line: str, width: int) -> list[int]:
    """Where lines begin that are no wider; a word that is wider stays whole, to be copied, and breaks where it may."""
    breaks, column = [], 0
    for word in _WORD.finditer(line):
        if column and column + cell_len(word[0].rstrip()) > width:
            breaks.append(word.start())
            column = 0
        column += cell_len(word[0])
    return breaks
