"""The journal: every event as one line of JSON, append-only, in a folder per conversation and a file per day.

On the embedded store it is the truth; the database can be rebuilt from it. Whoever writes holds the database's write
lock, so appends, replays and rewrites never meet.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from harken.errors import JournalError, StoreFullError, StoreReadOnlyError
from harken.files import make_private
from harken.journal.lines import JournalLine, changed_line, event_time, line_from_event, read_line, sealed
from harken.model.conversations import Event

_PART = ".part"

# What a home holds.
DATABASE_NAME = "harken.db"
JOURNAL_NAME = "conversations"
# What was typed in chats, for the arrow keys; in no backup, and gone with whatever is forgotten.
TYPED_NAME = "chat-history"


@dataclass(frozen=True, slots=True)
class Appended:
    """One file that an append has grown; paths are relative to the journal's folder, offsets in bytes."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TornLine:
    """Bytes that are no whole event, moved to a file of their own."""

    path: str
    offset: int
    length: int
    kept_in: Path


@dataclass(slots=True)
class Replayed:
    """The result of a replay: messages that the rows lacked, conversations looked through, lines set aside."""

    messages: int
    conversations: int
    torn: list[TornLine]


class Journal:
    """The journal under a home: its folder, where broken bytes are set aside, and whether appends reach the disk."""

    def __init__(self, folder: Path, torn: Path, fsync: bool = False) -> None:
        self._folder, self._torn, self._fsync = folder, torn, fsync
        # Looked into with each message: paths put together as text take a tenth of what `Path` does.
        self._root = str(folder)
        self.home = folder.parent

    def append(
        self, events: Iterable[Event], expected: Callable[[str], int], repair: Callable[[str], None]
    ) -> list[Appended]:
        """Append events to their files, each file in one write.

        Args:
            events: in order.
            expected: how many bytes of a file the rows hold; more in the file is the tail of a dead writer.
            repair: brings such a tail into the rows, or sets it aside, before anything is written after it.
        Raises:
            StoreFullError: no space is left; nothing of the call remains in the journal.
            StoreReadOnlyError: the journal cannot be written; likewise.
        """
        grouped: dict[tuple[str, date], list[bytes]] = {}
        for event in events:
            folder = getattr(event, "conversation_uid", None) or event.uid  # type: ignore[union-attr]
            lines = grouped.setdefault((folder, event_time(event).date()), [])
            lines.append(sealed(line_from_event(event)))
        done: list[Appended] = []
        with _translated(self._folder):
            try:
                for (folder, day), lines in grouped.items():
                    path = f"{folder}/{day}.jsonl"
                    done.append(self._append_file(path, b"".join(lines), expected, repair))
            except BaseException:
                self.undo(done)
                raise
        return done

    def undo(self, appended: Sequence[Appended]) -> None:
        """Take an append back, for a transaction that failed after it; a file rewritten since is left alone."""
        for part in appended:
            file = self._folder / part.path
            if file.exists() and file.stat().st_size >= part.end:
                os.truncate(file, part.start)

    def files(self, folder: str | None = None) -> list[tuple[str, int]]:
        """Journal files with their sizes in bytes, of one conversation or of all, in the order of replay."""
        found: list[tuple[str, int]] = []
        for name in self._folders() if folder is None else (folder,):
            # Whoever forgets may take a file away, or the whole folder, while this looks without the lock.
            with _translated(self._folder), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                with os.scandir(f"{self._root}/{name}") as entries:
                    files = [file for file in entries if file.name.endswith(".jsonl")]
                for file in files:
                    with contextlib.suppress(FileNotFoundError):
                        found.append((f"{name}/{file.name}", file.stat().st_size))
        return sorted(found)

    def _folders(self) -> list[str]:
        return [entry.name for entry in os.scandir(self._root) if entry.is_dir()] if self._folder.is_dir() else []

    def behind(self, applied: Mapping[str, int], folder: str | None = None) -> list[str]:
        """Files, of one folder or of all, whose size is not what the rows have applied of them, in replay's order."""
        return [path for path, size in self.files(folder) if applied.get(path, 0) != size]

    def read(self, path: str, start: int = 0) -> Iterator[JournalLine]:
        """The lines of a file from an offset on; from its beginning where no line begins there."""
        with _translated(self._folder / path), (self._folder / path).open("rb") as file:
            file.seek(max(0, start - 1))
            offset = start if start == 0 or file.read(1) == b"\n" else 0
            file.seek(offset)
            for raw in file:
                offset += len(raw)
                yield read_line(raw, offset)

    def set_aside(self, path: str, start: int, end: int) -> TornLine:
        """Move broken bytes out of a file, so that what follows or is appended stays readable."""
        target = self._folder / path
        kept_in = self._torn / f"{path.replace('/', '_')}.{start}"
        with _translated(target):
            content = target.read_bytes()
            make_private(self._torn)
            _write_private(kept_in, content[start:end])
            if end >= len(content):
                os.truncate(target, start)
            else:
                _replace(target, content[:start] + content[end:])
        return TornLine(path, start, len(content[start:end]), kept_in)

    def rewrite(
        self,
        conversation_uid: str,
        change: Callable[[Event], Event | None],
        keep: Callable[[JournalLine], bool] = lambda _line: True,
    ) -> dict[str, int]:
        """Rewrite a conversation's files atomically, each event replaced by what `change` gives, None dropping it.

        Lines that stay as they are stay so to the byte, and a changed one keeps the keys that a newer Harken has given
        it. Of lines that only such a one can read, those stay that are to `keep`; broken ones go.

        Returns:
            The new size of every file of the conversation; 0 for one that is gone.
        """

        def written(line: JournalLine) -> bytes:
            if line.event is None:
                return b"" if line.is_broken or not keep(line) else line.raw
            changed = change(line.event)
            return line.raw if changed is line.event else b"" if changed is None else changed_line(line, changed)

        sizes: dict[str, int] = {}
        with _translated(self._folder / conversation_uid):
            for path, _ in self.files(conversation_uid):
                file = self._folder / path
                kept = b"".join(map(written, self.read(path)))
                if kept:
                    _replace(file, kept)
                else:
                    file.unlink()
                sizes[path] = file.stat().st_size if kept else 0
            # Whoever died while rewriting or setting aside left the words in these as well.
            for stray in (self._folder / conversation_uid).glob(f"*{_PART}"):
                stray.unlink()
            for torn in self._torn.glob(f"{conversation_uid}_????-??-??.jsonl.*"):
                torn.unlink()
        return sizes

    def torn(self) -> list[Path]:
        """The files of bytes that were set aside so far."""
        return sorted(self._torn.iterdir()) if self._torn.is_dir() else []

    def _append_file(
        self, path: str, content: bytes, expected: Callable[[str], int], repair: Callable[[str], None]
    ) -> Appended:
        target = f"{self._root}/{path}"
        try:
            size = os.stat(target).st_size  # noqa: PTH116 - with each message, of which a path took a hundredth
        except FileNotFoundError:
            make_private((self._folder / path).parent)
            size = 0
        # Before it is opened: a repair may put another file in this one's place.
        if size != expected(path):
            repair(path)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            start = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, content)
                if self._fsync:
                    os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, start)
                raise
            return Appended(path, start, start + len(content))
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _replace(target: Path, content: bytes) -> None:
    """Put new content in place of a file so that a reader sees the old or the new one, never a part."""
    part = target.with_name(target.name + _PART)
    try:
        _write_private(part, content)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _write_private(target: Path, content: bytes) -> None:
    """A file that nobody else may read, on the disk when this returns."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _translated(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = f"{place} cannot grow: no space is left on the device. Free some and try again."
            raise StoreFullError(message) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            fix = f"Check its permissions; of what sudo has made: sudo chown -R $USER '{place}'"
            message = f"{error.filename or place} cannot be used: {error.strerror}. {fix}"
            raise StoreReadOnlyError(message) from error
        raise JournalError(f"{place}: {error.strerror}") from error
