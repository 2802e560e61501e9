"""Text for a terminal: what was said and saved is shown, and never obeyed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

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


class PlainConsole(Console):
    """Prints as `Console` does; of what it is given, nothing reaches the terminal but what can be read.

    Its own colours are made behind this, from styles. Brackets are never markup: `harken[pdf]` is printed as it stands.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The pieces of what is to be printed."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(printable(piece.text), piece.style)
