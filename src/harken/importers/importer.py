"""Importing transcripts: incremental, idempotent, interruptible at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harken.errors import ImportStoppedError, TranscriptError
from harken.importers.merge import Merged, exports_among, merge_export
from harken.importers.parsed import TranscriptFormat, Unreadable
from harken.importers.transcript import OWN_FORMATS, ConversationPart, Portion, Prefix, ReadingTask, read_portions
from harken.importers.workers import Read, readers
from harken.log import Log
from harken.model.conversations import Trust
from harken.record.forget import ForgetPlan, Forgotten
from harken.record.recorder import Batch, Recorder
from harken.storage.ports import StoredSpace
from harken.storage.state import ImportState, get_import_state, put_import_state
from harken.text.characters import valid_utf8

# Others wait for the write lock about as long, twice as long for one in twenty (merges in the full text), and then get
# it: whoever waits looks every millisecond. With 22 ms an import took 5 % less of the processor than with 14.
_HOLD_SECONDS, _PAUSE_SECONDS = 0.012, 0.002
_LEAST_ROOM, _FIRST_ROOM, _MOST_ROOM = 8_000.0, 30_000.0, 2_000_000.0
_CAPPED = ", imported"
# So many new messages change what an engine knows of its tables.
_MANY = 200

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
    pace: _Pace = field(default_factory=lambda: _Pace())

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
        before = 0
        plans = {file: self._planned(transcripts, file, report) for file in files if file not in exports}
        tasks = [plan.task for plan in plans.values() if isinstance(plan, _FileImport) and plan.task is not None]
        # What is being said now is little, and whoever reports it may be a daemon that answers others beside it.
        with readers([] if self.is_live else tasks, self.recorder.preparer) as read:
            for number, file in enumerate(files):
                report.files += 1

                def show(offset: int, file: Path = file, number: int = number, before: int = before) -> None:
                    self.progress(Progress(file, number, len(files), before + offset, sum(sizes), report.added))

                try:
                    # No longer than it takes: a plan holds what its file has brought.
                    self._import(file, plans.pop(file, None), read, report, show)
                except (TranscriptError, OSError) as error:
                    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                    report.failed.append((file, reason))
                    _log.warning("transcript_failed", format=transcripts.name, error_class=type(error).__name__)
                before += sizes[number]
                self.progress(Progress(file, number + 1, len(files), before, sum(sizes), report.added))
        if report.added >= _MANY:
            self.recorder.store.rows_imported()
        return report

    def _planned(self, transcripts: TranscriptFormat, file: Path, report: ImportReport) -> _FileImport | OSError:
        try:
            return _FileImport(self, transcripts, file, report)
        except OSError as error:
            # It is told when its turn comes.
            return error

    def _import(
        self,
        file: Path,
        plan: _FileImport | OSError | None,
        read: Read | None,
        report: ImportReport,
        show: Callable[[int], None],
    ) -> None:
        if isinstance(plan, OSError):
            raise plan
        if plan is None:
            recorder = self.recorder
            erase = self.forget or recorder.forget_planned
            for merged, offset in merge_export(recorder, file, erase, self.as_mine, self.space):
                report.add(merged)
                show(offset)
        elif plan.task is None:
            report.unchanged += 1
        else:
            plan.run(read(plan.task) if read else read_portions(plan.task, self.recorder.preparer, plan.prefix), show)


@dataclass(slots=True)
class _Pace:
    """How much goes into one transaction, so that whoever wants to write beside an import hardly waits.

    Attributes:
        room: as `ConversationPart.weight` counts; it follows the time that the last transactions took.
        free_since: when the write lock was let go; None before the first time.
    """

    room: float = field(default_factory=lambda: min(_FIRST_ROOM, _MOST_ROOM))
    free_since: float | None = None

    def wait(self) -> None:
        """Let whoever waits have the write lock first, who looks for it every millisecond."""
        if self.free_since is not None:
            time.sleep(max(0.0, self.free_since + _PAUSE_SECONDS - time.monotonic()))

    def took(self, seconds: float, cpu_seconds: float, weight: int) -> None:
        """Take note of a transaction."""
        self.free_since = time.monotonic()
        # A busy machine takes several times as long, and smaller transactions would only give it more to do.
        seconds = max(cpu_seconds, seconds / 5)
        if seconds > _HOLD_SECONDS or weight >= self.room / 2:
            self.room *= min(1.25, max(0.5, _HOLD_SECONDS / max(seconds, 1e-6)))
        self.room = min(max(self.room, _LEAST_ROOM), _MOST_ROOM)


class _FileImport:
    """One file: where to begin, what it holds, how far it came.

    Attributes:
        task: what is to be read of it; None where it is as it was.
    """

    def __init__(self, importer: Importer, transcripts: TranscriptFormat, file: Path, report: ImportReport) -> None:
        self._recorder = importer.recorder
        self._pace = importer.pace
        self._is_import = not importer.is_live
        self._appends = transcripts.appends
        capped = transcripts.name in OWN_FORMATS and not (importer.as_mine or _is_own(transcripts, file))
        # Read as a stranger's, a file is to be read anew when its owner says that it is theirs.
        self._state_name = transcripts.name + _CAPPED if capped else transcripts.name
        self._file, self._report = file, report
        status = file.stat()
        self._size, self._modified = status.st_size, status.st_mtime_ns
        self._path = valid_utf8(str(file.resolve()))
        self.prefix = Prefix(file)
        self._unreadable = 0
        self._parts: dict[str, ConversationPart] = {}
        self._weight = 0
        # The last portion that is here, or written, as a whole, and whose offset is not; the lines not read up to it.
        self._mark: tuple[Portion, int] | None = None
        begin, fallback = self._where_to_begin(), datetime.fromtimestamp(status.st_mtime, UTC)
        self.task = (
            None if begin is None else ReadingTask(transcripts, file, self._size, begin, fallback, is_capped=capped)
        )

    def run(self, portions: Iterator[Portion], show: Callable[[int], None]) -> None:
        """Write what is read of it; where reading fails, what came before is sound."""
        is_whole = False
        try:
            for portion in portions:
                self._take(portion)
                is_whole = portion.is_last
                if is_whole or self._weight >= self._pace.room:
                    self._flush(is_end=is_whole)
                    show(portion.offset)
        except (TranscriptError, ImportStoppedError, OSError):
            if self._parts and not is_whole:
                self._flush()
            raise

    def _where_to_begin(self) -> int | None:
        with self._recorder.store.reading() as tx:
            state = get_import_state(tx, self._state_name, self._path)
        if state is None:
            return 0
        if state.size == self._size and state.modified == self._modified:
            return None
        if not self._appends:
            return None if state.fingerprint == self.prefix.fingerprint(self._size) else 0
        if self._size >= state.offset and state.fingerprint == self.prefix.fingerprint(state.offset):
            self._unreadable = state.unreadable
            return state.offset
        self.prefix = Prefix(self._file)
        return 0

    def _take(self, portion: Portion) -> None:
        for part in portion.parts:
            # A part that only ends its conversation takes time as well.
            if self._weight >= self._pace.room:
                self._flush()
            present = self._parts.setdefault(part.head.external_id, part)
            if present is not part:
                present.head, present.is_last = part.head, part.is_last
                present.messages += part.messages
            self._weight += part.weight
        self._report.unreadable += portion.unreadable
        self._unreadable += len(portion.unreadable)
        if portion.fingerprint:
            self._mark = portion, self._unreadable

    def _flush(self, is_end: bool = False) -> None:
        """Write what is here in one transaction."""
        state: ImportState | None = None
        if self._mark is not None:
            mark, unreadable = self._mark
            state = ImportState(
                format=self._state_name,
                path=self._path,
                size=self._size if is_end else 0,
                modified=self._modified if is_end else 0,
                offset=mark.offset if self._appends else 0,
                fingerprint=mark.fingerprint,
                unreadable=unreadable,
                imported_at=self._recorder.now(),
            )
        capped = self._state_name.endswith(_CAPPED)
        batches = [
            Batch(part.head, part.messages, part.is_last, part.after, not capped, self._is_import)
            for part in self._parts.values()
        ]
        if self._recorder.journal is not None:
            self._pace.wait()
        began = time.thread_time()
        recorded = self._recorder.record(batches, within=lambda tx: put_import_state(tx, state) if state else None)
        self._pace.took(recorded.held_seconds, time.thread_time() - began, self._weight)
        self._report.added += len(recorded.messages)
        self._report.known += recorded.known
        self._report.forgotten += recorded.forgotten
        if capped:
            self._report.capped += sum(1 for message in recorded.messages if message.trust is Trust.IMPORTED)
        self._report.conversations.update(message.conversation_uid for message in recorded.messages)
        self._parts, self._weight, self._mark = {}, 0, None


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
