"""Importing transcripts: incremental, idempotent, interruptible at any moment."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from harken.errors import TranscriptError
from harken.importers.merge import Merged, exports_among, merge_export
from harken.importers.parsed import (
    Checkpoint,
    ParsedConversation,
    ParsedItem,
    ParsedTitle,
    TranscriptFormat,
    Unreadable,
)
from harken.log import Log
from harken.model.conversations import MessageType, ProjectIdentity, Role, Trust
from harken.record.forget import ForgetPlan, Forgotten, forget
from harken.record.project import identify_project
from harken.record.recorder import Batch, NewConversation, NewMessage, Recorder
from harken.storage.ports import StoredSpace
from harken.storage.state import ImportState, get_import_state, put_import_state
from harken.text.characters import valid_utf8

# Agents on this machine wrote these themselves; any other format has only somebody's word for it.
OWN_FORMATS = ("claude-code", "codex")
# One transaction: others wait for the write lock no longer than a fraction of a second.
_BATCH_MESSAGES = 2000
# So many new messages change what an engine knows of its tables.
_MANY = 200
_HASH_CHUNK = 1 << 20

_log = Log(__name__)


@dataclass(slots=True)
class ImportReport(Merged):
    """The result of an import: files looked at, unchanged by size and time, or failed and why; and lines not read."""

    files: int = 0
    unchanged: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)
    failed: list[tuple[Path, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an import; `bytes_done` is of all files together, files with nothing new included."""

    file: Path
    files_done: int
    files: int
    bytes_done: int
    bytes: int
    added: int


@dataclass(slots=True)
class Importer:
    """Reads transcript files into the store.

    Args:
        progress: called after every batch.
        forget: erases what an export says was forgotten; None does it without a word to anyone.
        as_mine: the files are the owner's own, wherever they lie: exports hold in all that they say, and an agent's
            transcripts are believed. Otherwise these are only where they lie in their agent's own folder.
        space: the space of the model that is set, into which vectors that an export brings are taken; None takes none.
        is_live: transcripts of what is being said, reported by an agent's hooks: a language model that is set may
            summarize them like any talk, while what an import brings costs nothing unasked.
    """

    recorder: Recorder
    progress: Callable[[Progress], None] = lambda _progress: None
    forget: Callable[[ForgetPlan], Forgotten] | None = None
    as_mine: bool = False
    is_live: bool = False
    space: Callable[[], StoredSpace | None] = lambda: None

    def run(
        self, transcripts: TranscriptFormat, paths: Sequence[Path], report: ImportReport | None = None
    ) -> ImportReport:
        """Import every transcript under the paths; a file that cannot be read does not stop the rest.

        The report is filled as the work goes on, so that an interrupted import can still say what it did.

        Raises:
            ExportError: one of them is an export that is not whole.
            StoreError: the store refuses; what was recorded before stays, and the next run completes the rest.
        """
        report = report if report is not None else ImportReport()
        files = list(dict.fromkeys(file for path in paths for file in transcripts.files(path)))
        sizes = [_size(file) for file in files]
        exports = set(exports_among(transcripts, files))
        recorder, before = self.recorder, 0
        erase = self.forget or (lambda doomed: forget(recorder.store, recorder.journal, doomed, recorder.ingest))
        for number, file in enumerate(files):
            report.files += 1

            def show(offset: int, file: Path = file, number: int = number, before: int = before) -> None:
                self.progress(Progress(file, number, len(files), before + offset, sum(sizes), report.added))

            try:
                if file in exports:
                    for merged, offset in merge_export(recorder, file, erase, self.as_mine, self.space):
                        report.add(merged)
                        show(offset)
                else:
                    _FileImport(self, transcripts, file, report, show).run()
            except (TranscriptError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                report.failed.append((file, reason))
                _log.warning("transcript_failed", format=transcripts.name, error_class=type(error).__name__)
            before += sizes[number]
            self.progress(Progress(file, number + 1, len(files), before, sum(sizes), report.added))
        if report.added >= _MANY:
            recorder.store.rows_imported()
        return report


@dataclass(slots=True)
class _Thread:
    head: NewConversation
    messages: list[NewMessage] = field(default_factory=list)
    last: NewMessage | None = None
    seen: Counter[tuple[object, ...]] = field(default_factory=Counter)
    last_at: datetime | None = None
    changed: bool = False


class _FileImport:
    """One file: where to begin, what it holds, how far it came."""

    def __init__(
        self,
        importer: Importer,
        transcripts: TranscriptFormat,
        file: Path,
        report: ImportReport,
        show: Callable[[int], None],
    ) -> None:
        self._recorder = importer.recorder
        self._is_import = not importer.is_live
        self._format = transcripts
        self._is_agents = transcripts.name in OWN_FORMATS
        self._capped = self._is_agents and not (importer.as_mine or _is_own(transcripts, file))
        # Read as a stranger's, a file is to be read anew when its owner says that it is theirs.
        self._state_name = f"{transcripts.name}, imported" if self._capped else transcripts.name
        self._file = file
        self._report = report
        self._show = show
        status = file.stat()
        self._size, self._modified = status.st_size, status.st_mtime_ns
        self._fallback = datetime.fromtimestamp(status.st_mtime, UTC)
        self._path = valid_utf8(str(file.resolve()))
        self._prefix = _Prefix(file)
        self._threads: dict[str, _Thread] = {}
        self._waiting = 0
        self._offset = 0
        self._unreadable = 0

    def run(self) -> None:
        begin = self._where_to_begin()
        if begin is None:
            self._report.unchanged += 1
            return
        self._offset = begin
        try:
            for item in self._format.parse(self._file, begin):
                self._take(item)
                # A file that is always read whole may be left anywhere: what is known then is passed over.
                if self._waiting >= _BATCH_MESSAGES and (isinstance(item, Checkpoint) or not self._format.appends):
                    self._flush(finish=False)
        except (TranscriptError, OSError):
            # What came before the damage is sound.
            if self._waiting:
                self._flush(finish=False)
            raise
        self._flush(finish=True)

    def _where_to_begin(self) -> int | None:
        with self._recorder.store.reading() as tx:
            state = get_import_state(tx, self._state_name, self._path)
        if state is None:
            return 0
        if state.size == self._size and state.modified == self._modified:
            return None
        if not self._format.appends:
            return None if state.fingerprint == self._prefix.fingerprint(self._size) else 0
        if self._size >= state.offset and state.fingerprint == self._prefix.fingerprint(state.offset):
            self._unreadable = state.unreadable
            return state.offset
        self._prefix = _Prefix(self._file)
        return 0

    def _take(self, item: ParsedItem) -> None:
        if isinstance(item, NewMessage):
            self._message(item)
        elif isinstance(item, ParsedConversation):
            self._conversation(item)
        elif isinstance(item, ParsedTitle):
            thread = self._thread(item.conversation)
            thread.head = replace(thread.head, title=item.title)
            thread.changed = True
        elif isinstance(item, Unreadable):
            self._report.unreadable.append(item)
            self._unreadable += 1
        else:
            self._offset = item.offset

    def _thread(self, external_id: str) -> _Thread:
        if external_id not in self._threads:
            self._threads[external_id] = _Thread(NewConversation(self._format.name, external_id))
        return self._threads[external_id]

    def _conversation(self, item: ParsedConversation) -> None:
        thread = self._thread(item.external_id)
        named = item.project
        project = (
            identify_project(item.cwd, item.git_remote) if named is None else ProjectIdentity(f"name:{named}", named)
        )
        thread.head = replace(
            thread.head,
            title=item.title or thread.head.title,
            project=project,
            created_at=item.created_at,
            parent_external_id=item.parent_external_id,
            metadata=item.metadata,
        )

    def _message(self, item: NewMessage) -> None:
        thread = self._thread(item.conversation)
        thread.last_at = item.created_at or thread.last_at or thread.head.created_at or self._fallback
        origin = item.external_id
        if not origin:
            # Without an id of its own, a message is its words, and which of the equal ones it is.
            words = (item.role, item.type, item.author, item.created_at, item.text)
            thread.seen[words] += 1
            origin = f"#{item.author or ''}#{thread.seen[words]}"
        trust = self._trust(item, thread.head)
        placed = replace(item, created_at=thread.last_at, trust=trust, origin=origin, origin_at=item.created_at)
        thread.messages.append(placed)
        thread.changed = True
        self._waiting += 1

    def _trust(self, item: NewMessage, head: NewConversation) -> Trust:
        if item.role is Role.TOOL or item.type is MessageType.TOOL_RESULT:
            return Trust.TOOL
        if self._capped or not self._is_agents:
            return Trust.IMPORTED
        # In a subagent's conversation it is the calling agent that asks.
        asked_by_person = item.role is Role.USER and head.parent_external_id is None
        return Trust.OWNER if asked_by_person else Trust.AGENT

    def _flush(self, finish: bool) -> None:
        appends = self._format.appends
        state: ImportState | None = None
        if finish or appends:
            state = ImportState(
                format=self._state_name,
                path=self._path,
                size=self._size if finish else 0,
                modified=self._modified if finish else 0,
                offset=self._offset if appends else 0,
                fingerprint=self._prefix.fingerprint(self._offset if appends else self._size),
                unreadable=self._unreadable,
                imported_at=self._recorder.now(),
            )
        threads = [thread for thread in self._threads.values() if thread.messages or (finish and thread.changed)]
        batches = [
            Batch(thread.head, thread.messages, finish, thread.last, not self._capped, self._is_import)
            for thread in threads
        ]
        recorded = self._recorder.record(batches, within=lambda tx: put_import_state(tx, state) if state else None)
        self._report.added += len(recorded.messages)
        self._report.known += recorded.known
        self._report.forgotten += recorded.forgotten
        if self._capped:
            self._report.capped += sum(1 for message in recorded.messages if message.trust is Trust.IMPORTED)
        self._report.conversations.update(message.conversation_uid for message in recorded.messages)
        for thread in threads:
            thread.last = thread.messages[-1] if thread.messages else thread.last
            thread.messages = []
        self._waiting = 0
        self._show(self._offset)


class _Prefix:
    """A running hash of a file's first bytes, so that a long file is hashed once however often it is asked for."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._digest = hashlib.blake2b(digest_size=16)
        self._length = 0

    def fingerprint(self, length: int) -> str:
        """The hash of the first `length` bytes; lengths may only grow."""
        with self._file.open("rb") as stream:
            stream.seek(self._length)
            while self._length < length:
                chunk = stream.read(min(_HASH_CHUNK, length - self._length))
                if not chunk:
                    break
                self._digest.update(chunk)
                self._length += len(chunk)
        return self._digest.hexdigest()


def _is_own(transcripts: TranscriptFormat, file: Path) -> bool:
    """True for a transcript that lies, all links followed, where its agent keeps what it writes itself."""
    real = file.resolve()
    return any(real.is_relative_to(place.resolve()) for place in transcripts.discover())


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        # It is named as one that cannot be read when its turn comes.
        return 0
