"""JSONL files read line by line, with byte offsets to go on from and without ever failing on a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from harken.record.transcripts.parsed import Checkpoint, ParsedItem, Unreadable

CHECKPOINT_EVERY = 100
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a JSONL file.

    Attributes:
        number: counts from 1 over the whole file.
        end: the byte offset after the line.
        value: the JSON object; None for a blank or an unreadable line.
        fault: why the line is unreadable, else empty.
        torn: the file's last line is unreadable and has no end yet: its writer may still be at it.
    """

    number: int
    end: int
    value: dict[str, Any] | None
    fault: str = ""
    torn: bool = False


class LineReader(Protocol):
    """What reads one file's lines of one format; it lives for one reading.

    Attributes:
        telling: finds the lines before the starting offset that `learn` must see, beside the first readable one.
        settled: nothing is held back: reading may go on from here.
    """

    telling: re.Pattern[bytes]

    @property
    def settled(self) -> bool:
        """Whether every item of the lines read so far has been yielded."""
        ...

    def learn(self, value: dict[str, Any]) -> None:
        """Take note of a line before the starting offset."""
        ...

    def read(self, value: dict[str, Any], number: int) -> Iterator[ParsedItem]:
        """Yield what a line holds."""
        ...

    def finish(self) -> Iterator[ParsedItem]:
        """Yield what was held back until the end of the file."""
        ...


def follow(path: Path, reader: LineReader, offset: int = 0) -> Iterator[ParsedItem]:
    """Yield a growing file's items from an offset, with checkpoints.

    Args:
        path: the file.
        reader: fresh, for this file.
        offset: 0 or a checkpoint of an earlier reading.
    """
    with path.open("rb") as stream:
        first = _learn(stream, reader, offset) if offset else 1
        reached, marked = offset, offset
        for line in numbered(stream, first, offset):
            yield from items(path, reader, line)
            if reader.settled and not line.torn:
                reached = line.end
            if line.number % CHECKPOINT_EVERY == 0 and reached > marked:
                marked = reached
                yield Checkpoint(marked)
        if reached > marked:
            yield Checkpoint(reached)
        yield from reader.finish()


def items(path: Path, reader: LineReader, line: Line) -> list[ParsedItem]:
    """What one line holds; for an unreadable one, that it is."""
    if line.value is None:
        return [Unreadable(path, line.number, line.fault)] if line.fault else []
    try:
        return list(reader.read(line.value, line.number))
    except RecursionError:
        return [Unreadable(path, line.number, "is nested too deeply")]


def numbered(stream: Iterable[bytes], first: int = 1, offset: int = 0) -> Iterator[Line]:
    """The stream's lines up to one that is torn, the first of which has this number and starts at this offset."""
    for number, raw in enumerate(stream, first):
        offset += len(raw)
        value, fault = decoded(raw)
        is_torn = bool(fault) and not raw.endswith(b"\n")
        yield Line(number, offset, value, fault, is_torn)
        if is_torn:
            # Its writer may go on this very moment; its other half, read now, would be a broken line of its own.
            return


def decoded(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    """The JSON object of a line, or None and why there is none; no reason for a blank line.

    Bytes that are not UTF-8 are replaced; that alone makes no line unreadable.
    """
    text = raw.decode("utf-8", "replace").strip().lstrip("\ufeff")
    if not text:
        return None, ""
    try:
        value = json.loads(text)
        if _SURROGATE.search(raw):
            value = without_lone_surrogates(value)
    except RecursionError:
        return None, "is nested too deeply"
    except ValueError:
        return None, "is not JSON"
    return (value, "") if isinstance(value, dict) else (None, "is not a JSON object")


def without_lone_surrogates(value: Any) -> Any:
    """The value with halves of surrogate pairs replaced; no database takes them, and JavaScript writes them."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [without_lone_surrogates(part) for part in value]
    if isinstance(value, dict):
        return {without_lone_surrogates(key): without_lone_surrogates(part) for key, part in value.items()}
    return value


def _learn(stream: BinaryIO, reader: LineReader, offset: int) -> int:
    """Tell the reader about the lines before the offset; return the number of the line at it."""
    number, position, begun = 1, 0, False
    while position < offset and (raw := stream.readline(offset - position)):
        position += len(raw)
        number += raw.endswith(b"\n")
        value, _ = decoded(raw) if not begun or reader.telling.search(raw) else (None, "")
        if value is not None:
            begun = True
            reader.learn(value)
    return number
