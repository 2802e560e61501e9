"""A console for what was said and saved: shown, and never obeyed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from harken.text.characters import printable


class PlainConsole(Console):
    """Prints as `Console` does; of what it is given, nothing reaches the terminal but what can be read.

    Its own colours are made behind this, from styles. Brackets are never markup: `harken[pdf]` is printed as it stands.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the pieces of what is to be printed."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(printable(piece.text), piece.style)
