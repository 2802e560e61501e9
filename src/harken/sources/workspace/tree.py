"""From the files of a folder to parts that search sees; the three indexes of what lies on a disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import structlog

from harken.model.views import FilesView
from harken.record.project import identify_project
from harken.sources.workspace.files import FileContent, FileStamp, find_place, list_files, shown_name, stamp
from harken.storage.ports import Store, Transaction
from harken.storage.workspace.files import (
    Changes,
    FilePart,
    FileState,
    drop_files,
    file_states,
    project_of,
    put_file_states,
    replace_parts,
)

Progress = Callable[[int, int], None]
NEEDS = "needs "
"""How the reason for passing over a file begins where something must be installed; it is tried again each time."""
_MAX_FILES, _MAX_PARTS = 50, 500
_log = structlog.get_logger(__name__)


class SkippedError(Exception):
    """A file that has no parts.

    Attributes:
        reason: one word.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FileKind(Protocol):
    """One kind of files, and what becomes of them."""

    @property
    def source(self) -> str:
        """As entries have it."""
        ...

    @property
    def version(self) -> int:
        """Goes up when the same file gives other parts than before: then it is read again."""
        ...

    def wants(self, path: str) -> bool:
        """Whether a file is of this kind, by its name."""
        ...

    def read(self, path: Path) -> FileContent:
        """The file's bytes, or why they are not looked at."""
        ...

    def parts(self, project: str, path: str, data: bytes) -> list[FilePart]:
        """What a file is taken into.

        Raises:
            SkippedError: it cannot be.
        """
        ...


@dataclass(slots=True)
class IndexReport:
    """What indexing did; filled as it goes on.

    Attributes:
        project: the key of the project that the files are of.
        files: of this kind, in all.
        indexed: read, and taken into parts.
        unchanged: as they were the last time.
        gone: that were there the last time.
        skipped: how many for each reason.
        changes: of parts.
    """

    project: str = ""
    files: int = 0
    indexed: int = 0
    unchanged: int = 0
    gone: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    changes: Changes = field(default_factory=Changes)

    def view(self) -> FilesView:
        """The report as JSON."""
        return {
            "project": self.project,
            "files": self.files,
            "indexed": self.indexed,
            "unchanged": self.unchanged,
            "gone": self.gone,
            "skipped": dict(self.skipped),
            "added": self.changes.added,
            "changed": self.changes.changed,
            "removed": self.changes.removed,
        }


@dataclass(slots=True)
class _Batch:
    states: list[FileState] = field(default_factory=list)
    parts: dict[str, Sequence[FilePart]] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return len(self.states) >= _MAX_FILES or sum(map(len, self.parts.values())) >= _MAX_PARTS


@dataclass(frozen=True, slots=True)
class TreeIndexer:
    """Indexes folders; several processes may do so at once.

    Args:
        store: where parts are kept.
        wake: called when there is something new to embed.
        now: the clock.
    """

    store: Store
    wake: Callable[[], None]
    now: Callable[[], datetime]

    def run(self, kind: FileKind, path: str | Path, progress: Progress, report: IndexReport) -> IndexReport:
        """Bring the index of a folder or file to how it stands on the disk.

        Each batch of files is one transaction: what is done stays done.

        Raises:
            UsageError: the path does not exist.
        """
        place = find_place(path)
        listed = {shown_name(name): place.root / name for name in list_files(place) if kind.wants(name)}
        with self.store.writing() as tx:
            project_id, report.project = project_of(tx, identify_project(place.root))
        with self.store.reading() as tx:
            known = file_states(tx, kind.source, project_id)
        stamps = {name: found for name, file in listed.items() if (found := stamp(file)) is not None}
        report.files = len(stamps)
        due = [name for name, found in stamps.items() if not _is_same(known.get(name), found, kind.version)]
        report.unchanged = len(stamps) - len(due)
        for name in stamps.keys() - set(due):
            report.skipped.update(filter(None, [known[name].skipped]))
        batches = self._batches(kind, listed, report, {name: stamps[name] for name in due}, known)
        done = 0
        for batch in batches:
            self._store(kind, project_id, report, batch)
            done += len(batch.states)
            progress(done, len(due))
        gone = [name for name in known if place.contains(name) and name not in stamps]
        self._drop(kind, project_id, report, gone)
        _log.info("indexed", source=kind.source, files=report.files, read=report.indexed, gone=report.gone)
        return report

    def _batches(
        self,
        kind: FileKind,
        listed: dict[str, Path],
        report: IndexReport,
        due: dict[str, FileStamp],
        known: dict[str, FileState],
    ) -> Iterator[_Batch]:
        batch = _Batch()
        for name, found in due.items():
            content = kind.read(listed[name])
            digest = f"{kind.version}:{content.digest}" if content.digest else ""
            skipped = content.skipped
            if digest and _digest(known, name) == digest:
                # Only its time has changed: a fresh checkout, or another worktree of the same project.
                skipped = known[name].skipped
                report.unchanged += 1
            else:
                try:
                    batch.parts[name] = [] if skipped else kind.parts(report.project, name, content.data)
                except SkippedError as error:
                    skipped, batch.parts[name] = error.reason, []
            report.skipped.update(filter(None, [skipped]))
            batch.states.append(FileState(name, found.size, found.modified, digest, skipped))
            if batch.is_full:
                yield batch
                batch = _Batch()
        if batch.states:
            yield batch

    def _store(self, kind: FileKind, project_id: int, report: IndexReport, batch: _Batch) -> None:
        with self._writing(kind, project_id) as tx:
            # Another process may have done the same since this one looked.
            now = file_states(tx, kind.source, project_id, [state.path for state in batch.states])
            done = {state.path for state in batch.states if state.digest and _digest(now, state.path) == state.digest}
            parts = {path: made for path, made in batch.parts.items() if path not in done}
            changes = replace_parts(tx, kind.source, project_id, parts, self.now())
            put_file_states(tx, kind.source, project_id, batch.states)
        report.changes.add(changes)
        report.indexed += sum(1 for made in batch.parts.values() if made)
        if changes.added or changes.changed:
            self.wake()

    def _drop(self, kind: FileKind, project_id: int, report: IndexReport, gone: Sequence[str]) -> None:
        if not gone:
            return
        with self._writing(kind, project_id) as tx:
            report.changes.add(drop_files(tx, kind.source, project_id, gone))
        report.gone = len(gone)

    def _writing(self, kind: FileKind, project_id: int) -> AbstractContextManager[Transaction]:
        return self.store.writing(of=(f"{kind.source}:{project_id}",))


def _is_same(known: FileState | None, found: FileStamp, version: int) -> bool:
    if (
        known is None
        or known.skipped.startswith(NEEDS)
        or (known.digest and not known.digest.startswith(f"{version}:"))
    ):
        return False
    return (known.size, known.modified) == (found.size, found.modified)


def _digest(states: dict[str, FileState], path: str) -> str:
    """What was read of a file; empty where it never was."""
    return states[path].digest if path in states and not states[path].skipped.startswith(NEEDS) else ""
