"""Exports of web chats: JSON documents, alone, in a folder or in a ZIP file, whose conversations may fork."""

from __future__ import annotations

import codecs
import heapq
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harken.errors import TranscriptError
from harken.importers.parsed import Checkpoint, ParsedConversation, ParsedItem, TranscriptFormat, Unreadable
from harken.importers.reading import files_below, in_order, moment, without_lone_surrogates
from harken.record.prepared import NewMessage


def threaded(parents: Mapping[str, str | None], times: Mapping[str, Any], leaf: str | None) -> dict[str, str | None]:
    """Order the messages of a conversation by time, none before its parent.

    Args:
        parents: every message's parent, in the file's order; a parent that is no message makes its child a root.
        times: as the export writes them; a message without a time takes its parent's.
        leaf: the end of the branch in use; where there is no such message, the latest one that nobody answered.
    Returns:
        Every message once, with the first message of its own branch; with None on the branch in use.
    """
    parents = {key: parent if parent in parents else None for key, parent in parents.items()}
    seconds = {key: at.timestamp() for key, time in times.items() if (at := moment(time))}
    places = {key: place for place, key in enumerate(parents)}
    if leaf not in parents:
        ends = parents.keys() - set(parents.values())
        leaf = max(ends, key=lambda key: (seconds.get(key, 0.0), places[key]), default=None)
    used: set[str] = set()
    while leaf is not None and leaf not in used:
        used.add(leaf)
        leaf = parents[leaf]
    branches: dict[str, str | None] = {}
    for key in _by_time(parents, seconds, places):
        branches[key] = None if key in used else branches.get(parents[key] or "") or key
    return branches


def _by_time(
    parents: Mapping[str, str | None], seconds: Mapping[str, float], places: Mapping[str, int]
) -> Iterable[str]:
    children: dict[str | None, list[str]] = {None: []}
    for key, parent in parents.items():
        children.setdefault(parent, []).append(key)
    ordered: dict[str, None] = {}
    # Parents in a circle are entered at the first of them in the file.
    for starts in (children[None], *([key] for key in parents)):
        waiting = [(seconds.get(key, 0.0), places[key], key) for key in starts if key not in ordered]
        heapq.heapify(waiting)
        while waiting:
            time, _, key = heapq.heappop(waiting)
            ordered[key] = None
            for child in children.get(key, ()):
                if child not in ordered:
                    heapq.heappush(waiting, (seconds.get(child, time), places[child], child))
    return ordered


_DOCUMENT = re.compile(r"conversations(?:-\d+)?\.json")
_CHUNK_BYTES = 1 << 20
# Of one conversation; a ZIP file of 3 MB may hold one of 3 GB.
_LONGEST_CHARS = 64 << 20
_BETWEEN = (" ", "\t", "\r", "\n", ",")


@dataclass
class WebExport(TranscriptFormat):
    """The exports of one web chat.

    Attributes:
        holds: the key by which its conversations are told, and the type of the value there.
        head: reads the facts of a conversation as a whole.
        messages: yields the messages of a conversation by its id, those on abandoned branches too, each after the one
            that it answers; for a part that cannot be read, the reason.
    """

    name: str
    holds: tuple[str, type]
    head: Callable[[Mapping[str, Any]], ParsedConversation]
    messages: Callable[[Mapping[str, Any], str], Iterator[NewMessage | str]]

    def files(self, path: Path) -> list[Path]:
        """The exports under a path, oldest first.

        In a folder these are the ZIP files that hold conversations and the documents named as an export names them;
        where there are none, all JSON files of the folder itself.
        """
        if path.is_file():
            return [path]
        found = [file for file in files_below(path, "*.zip") if _members(file)]
        found += [file for file in files_below(path, "*.json") if _DOCUMENT.fullmatch(file.name)]
        found = found or [file for file in path.glob("*.json") if file.is_file()]
        return in_order(found, lambda file: (file.stat().st_mtime, file.name))

    def parse(self, path: Path, offset: int = 0) -> Iterator[ParsedItem]:
        """Yield the export's conversations in order; it is read whole, whatever the offset.

        Raises:
            TranscriptError: the file is no JSON, or holds something else than this chat's conversations.
        """
        number = recognised = 0
        for number, (value, reached) in enumerate(read_values(path), 1):
            if isinstance(value, _BrokenOffError):
                yield Unreadable(path, number, str(value))
            elif self.recognises(value):
                recognised += 1
                for item in self._read(value):
                    yield Unreadable(path, number, item) if isinstance(item, str) else item
                yield Checkpoint(reached)
            else:
                yield Unreadable(path, number, f"is not a {self.name} conversation")
        if number and not recognised:
            raise TranscriptError(f"{path} holds no {self.name} conversation. Is it an export of another chat?")

    def recognises(self, value: Any) -> bool:
        """True for a JSON object that is a conversation of this chat."""
        key, kind = self.holds
        return isinstance(value, dict) and isinstance(value.get(key), kind)

    def _read(self, value: dict[str, Any]) -> Sequence[ParsedConversation | NewMessage | str]:
        try:
            value = without_lone_surrogates(value)
            head = self.head(value)
            found = [*self.messages(value, head.external_id)]
        except RecursionError:
            return ["is nested too deeply"]
        if not head.external_id:
            return ["has no id"]
        return [head, *found] if any(isinstance(item, NewMessage) for item in found) else found


class _BrokenOffError(Exception):
    """Says why a document cannot be read any further."""


def _members(path: Path) -> list[str]:
    """The documents in a ZIP file that hold conversations; none if it is no ZIP file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sorted(name for name in archive.namelist() if _DOCUMENT.fullmatch(Path(name).name))
    except zipfile.BadZipFile:
        return []


def read_values(path: Path) -> Iterator[tuple[Any, int]]:
    """The conversations of an export, one after the other, whatever they are; an exception where it breaks off.

    With each comes how many of the file's bytes are read, of a packed file in proportion.

    Raises:
        TranscriptError: it is no JSON document, or no ZIP file that can be unpacked.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as stream:
            yield from ((value, stream.tell()) for value in _listed(path, stream))
        return
    names = _members(path)
    if not names:
        raise TranscriptError(f"{path} holds no conversations.json")
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = [archive.getinfo(name).file_size for name in names]
            share = path.stat().st_size / max(1, sum(sizes))
            for number, name in enumerate(names):
                before = sum(sizes[:number])
                with archive.open(name) as member:
                    yield from ((value, round((before + member.tell()) * share)) for value in _listed(path, member))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise TranscriptError(f"{path} is damaged or locked: it cannot be unpacked") from error


def _listed(path: Path, stream: IO[bytes]) -> Iterator[Any]:
    """The values of a JSON list, without ever holding the whole list; the value itself if it is an object."""
    window = _Window(stream)
    opening = window.peek()
    if opening not in ("[", "{"):
        raise TranscriptError(f"{path} is no JSON document with conversations")
    if opening == "[":
        window.step()
    while window.peek() != "]":
        try:
            yield window.value()
        except (ValueError, RecursionError):
            yield _BrokenOffError("is where the document breaks off")
            return
        except _BrokenOffError as error:
            yield error
            return
        if opening == "{":
            return


class _Window:
    """A JSON text of which only the part in work is held."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = codecs.getreader("utf-8-sig")(stream, "replace")
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._position = 0

    def peek(self) -> str:
        """The next character that is neither space nor comma; empty at the end."""
        while True:
            while self._text[self._position : self._position + 1] in _BETWEEN:
                self._position += 1
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._more():
                return ""

    def step(self) -> None:
        """Go behind the next character."""
        self._position += 1

    def value(self) -> Any:
        """Read the value that begins here; a ValueError says that it is no JSON."""
        while True:
            try:
                value, end = self._decode(self._text, self._position)
            except ValueError:
                if not self._more():
                    raise
                continue
            # A number at the very end may go on in the next chunk.
            if end < len(self._text) or not self._more():
                self._position = end
                return value

    def _more(self) -> bool:
        # At least doubling what is held, so that trying again and again stays linear in the value's length.
        held = self._text[self._position :]
        if len(held) >= _LONGEST_CHARS:
            raise _BrokenOffError(f"is longer than {_LONGEST_CHARS:,} characters; nothing behind it was read")
        more = self._stream.read(max(_CHUNK_BYTES, len(held)))
        self._text, self._position = held + more, 0
        return bool(more)
