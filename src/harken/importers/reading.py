"""Foreign files read without ever failing on a line or a value: folders, JSONL by byte offsets, single fields."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from harken.importers.parsed import Checkpoint, ParsedItem, Unreadable


def files_below(folder: Path, pattern: str) -> Iterator[Path]:
    """The files in a folder and all folders in it whose names match, in no order."""
    for place, _, names in os.walk(folder):
        yield from (file for name in fnmatch.filter(names, pattern) if (file := Path(place, name)).is_file())


def in_order(files: Iterable[Path], key: Callable[[Path], Any]) -> list[Path]:
    """The files by what a look at each says of its place; None leaves it out."""
    found: list[tuple[Any, Path]] = []
    for file in files:
        with suppress(FileNotFoundError):
            found.append((key(file), file))
    return [file for place, file in sorted(each for each in found if each[0] is not None)]


# The largest epoch number read as seconds; above it come milliseconds, microseconds and nanoseconds.
_SECONDS_AT_MOST = 1e11
_LEAP_SECOND = re.compile(r"(:[0-5][0-9]):60")


def string(value: Any) -> str | None:
    """The value if it is a text with something in it, else None."""
    return value if isinstance(value, str) and value else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The value if it is a JSON list, else an empty one."""
    return value if isinstance(value, list) else []


def known(**facts: Any) -> dict[str, Any]:
    """The facts that are there: those that are neither None nor False."""
    return {name: fact for name, fact in facts.items() if fact is not None and fact is not False}


def spoken(parts: list[str]) -> str:
    """Several texts of one speaker as one: joined by blank lines, the blank ones left out."""
    return "\n\n".join(part for part in parts if part.strip())


def call_text(name: str | None, given: Any) -> str:
    """A tool call as one line that a person can read: the tool's name and what it was given, as JSON."""
    if isinstance(given, str):
        words = given
    else:
        words = "" if given in (None, {}, []) else json.dumps(given, ensure_ascii=False)
    return f"{name or ''} {words}".strip()


def moment(value: Any) -> datetime | None:
    """A point in time from an ISO text or an epoch number, in UTC; None for anything else.

    A text without an offset is taken as UTC, one whose offset is cut off (`…12.5+`) too. Epoch numbers may count
    seconds, milliseconds, microseconds or nanoseconds.
    """
    try:
        if isinstance(value, str):
            text = value.strip()
            if len(text) > 8 and text.replace(".", "", 1).isdecimal():
                return _from_epoch(float(text))
            # A leap second is a time in ISO's eyes, and none in Python's.
            whole = text.rstrip("+-")
            read = datetime.fromisoformat(_LEAP_SECOND.sub(r"\1:59", whole) if ":60" in whole else whole)
            if read.tzinfo is UTC:
                return read
            return (read.replace(tzinfo=UTC) if read.tzinfo is None else read).astimezone(UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _from_epoch(float(value))
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _from_epoch(number: float) -> datetime | None:
    while number > _SECONDS_AT_MOST:
        number /= 1000
        if number == float("inf"):
            return None
    return datetime.fromtimestamp(number, UTC) if number > 0 else None


CHECKPOINT_EVERY = 25
# Of a line as agents write it.
_BEGINNINGS = ('{"parentUuid":', '{"timestamp":', '{"conversation":')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a JSONL file.

    Attributes:
        number: counts from 1 over the whole file.
        end: the byte offset after the line.
        value: None for a blank or an unreadable line.
        torn: the file's last line is unreadable and has no end yet: its writer may still be at it.
    """

    number: int
    end: int
    value: dict[str, Any] | None
    fault: str = ""
    torn: bool = False


class LineReader:
    """Reads one file's lines of one format; it lives for one reading.

    Attributes:
        telling: finds the lines before the starting offset that `learn` must see, beside the first readable one.
        settled: every item of the lines read so far has been yielded: reading may go on from here.
    """

    telling = re.compile(rb"(?!)")

    @property
    def settled(self) -> bool:
        """True where nothing is held back."""
        return True

    def learn(self, value: dict[str, Any]) -> None:
        """Take note of a line before the starting offset."""

    def read(self, value: dict[str, Any], number: int) -> Iterator[ParsedItem]:
        """Yield what a line holds."""
        raise NotImplementedError

    def finish(self) -> Iterator[ParsedItem]:
        """Yield what was held back until the end of the file."""
        return iter(())


def follow(path: Path, reader: LineReader, offset: int = 0) -> Iterator[ParsedItem]:
    """Yield a growing file's items from an offset, 0 or a checkpoint of an earlier reading, with checkpoints."""
    with path.open("rb") as stream:
        first = _learn(stream, reader, offset)
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
    """The items of one line; for an unreadable one, that it is."""
    faults = [Unreadable(path, line.number, line.fault)] if line.fault else []
    try:
        return [*faults, *(reader.read(line.value, line.number) if line.value is not None else ())]
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


def objects(path: Path, needle: bytes = b"", start: int = 0, lines: int | None = None) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file's lines, or of those that hold the needle; what cannot be read is passed over.

    `start` is a byte offset; `lines` is how many lines are looked at.
    """
    with path.open("rb") as stream:
        stream.seek(start)
        for raw in islice(stream, lines):
            value, _ = decoded(raw) if needle in raw else (None, "")
            if value is not None:
                yield value


def decoded(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    """The JSON object of a line, or None, and what cannot be read of it; no reason for a blank line.

    Bytes that are not UTF-8 are replaced; that alone makes no line unreadable. What follows a half that was cut off, or
    the zeros that a crash leaves, in the same line, is read.
    """
    text = raw.decode("utf-8", "replace").strip().strip("\ufeff\0")
    if not text:
        return None, ""
    try:
        value = json.loads(text)
        if b"\\u" in raw and _SURROGATE.search(raw):
            value = without_lone_surrogates(value)
    except RecursionError:
        return None, "is nested too deeply"
    except ValueError:
        at = max(map(text.rfind, _BEGINNINGS)) if raw.endswith(b"\n") else 0
        return decoded(text[at:].encode())[0] if at > 0 else None, "is not JSON"
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
