"""An answer as it comes: rendered at a terminal, plain everywhere else."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text

from harken.chat.rounds import TextPiece, ToolEnded, ToolStarted, TurnEvent
from harken.text.characters import printable
from harken.text.shown import one_line

_FENCE = re.compile(r"^\s*(```|~~~)", re.MULTILINE)
_TOOL_CHARS = 100
_REFRESH_PER_SECOND = 10


class PlainAnswer:
    """Text to stdout as it comes, and nothing else there; a line for each tool on stderr."""

    def __init__(self, err: Console) -> None:
        self._err = err
        self._is_open = False
        self._arguments: Mapping[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._end_line()

    def listen(self, event: TurnEvent) -> None:
        """Show what happened."""
        if isinstance(event, TextPiece):
            sys.stdout.write(printable(event.text))
            sys.stdout.flush()
            self._is_open = not event.text.endswith("\n") if event.text else self._is_open
        elif isinstance(event, ToolStarted):
            self._end_line()
            self._arguments = event.arguments
        else:
            self._err.print(Text(tool_line(event, self._arguments)))

    def _end_line(self) -> None:
        if self._is_open:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._is_open = False


class TerminalAnswer:
    """Markdown, block by block as each is complete; the one that grows is shown as it is written."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._block = ""
        self._arguments: Mapping[str, Any] = {}
        self._live = Live(
            Text("…", "dim"),
            console=out,
            transient=True,
            refresh_per_second=_REFRESH_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.update(Text(""))
        self._live.stop()
        self._print(self._block)

    def listen(self, event: TurnEvent) -> None:
        """Show what happened."""
        if isinstance(event, TextPiece):
            self._block += printable(event.text)
            # What will not change any more goes up to the last blank line outside of a fenced block.
            place = self._block.rfind("\n\n")
            while place >= 0 and len(_FENCE.findall(self._block[:place])) % 2:
                place = self._block.rfind("\n\n", 0, place)
            if place >= 0:
                self._print(self._block[:place])
                self._block = self._block[place + 2 :]
            # The rest as far as it fits above the prompt: a live part that is higher than the screen stays.
            height = max(1, self._out.height - 4)
            tail = "\n".join(self._block.splitlines()[-height:])
            self._live.update(Text(tail[-height * self._out.width // 2 :]))
            return
        self._print(self._block)
        self._block = ""
        if isinstance(event, ToolStarted):
            self._arguments = event.arguments
            self._live.update(Text(f"{_called(event.name, event.arguments)} …", "dim"))
        else:
            self._live.update(Text("…", "dim"))
            self._out.print(Text(tool_line(event, self._arguments), "dim"))

    def _print(self, block: str) -> None:
        if block.strip():
            self._out.print(Markdown(block, hyperlinks=False), soft_wrap=False)


def tool_line(event: ToolEnded, arguments: Mapping[str, Any]) -> str:
    """A call and how it ended, in one line."""
    how = f"failed: {_short(event.text)}" if event.failed else f"{len(event.text):,} characters"
    return f"· {_called(event.name, arguments)} → {how}"


def _called(name: str, arguments: Mapping[str, Any]) -> str:
    given = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return f"{printable(name)}({_short(given)})"


def _short(text: str) -> str:
    return one_line(printable(" ".join(text.split())), _TOOL_CHARS)
