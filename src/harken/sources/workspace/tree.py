"""An index of the files of a folder: what has changed since the last time is read, taken into parts and stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from harken.errors import NotFoundError, UsageError
from harken.log import Log
from harken.model.conversations import Hit
from harken.model.views import FilesView, view_of
from harken.record.forget import finish_forgetting, note_scrub
from harken.record.project import identify_project
from harken.record.recorder import Recorder
from harken.sources.source import SearchPort, Source, SourceSearch
from harken.sources.workspace.files import (
    MAX_BYTES,
    FileContent,
    SkippedError,
    find_place,
    list_files,
    read,
    settled,
    shown_name,
    stamp,
)
from harken.storage.ports import Transaction
from harken.storage.projects import known_project, project_identity, project_of
from harken.storage.workspace import files as rows

Progress = Callable[[int, int], None]
NEEDS = "needs "
"""Begins the reason for skipping a file where something must be installed; such a file is tried again each time."""
_MAX_FILES, _MAX_PARTS = 50, 500
_log = Log(__name__)
_ReadFile = tuple[rows.FileState, Sequence[rows.FilePart] | None]


@dataclass(slots=True)
class IndexReport:
    """A report on indexed files, filled as it goes on; the project is a key.

    Attributes:
        files: of this kind, in all; so many were read and taken into parts, unchanged, or gone since the last time.
        skipped: how many for each reason.
        changes: of parts.
    """

    project: str = ""
    files: int = 0
    indexed: int = 0
    unchanged: int = 0
    gone: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    changes: rows.Changes = field(default_factory=rows.Changes)

    def view(self) -> FilesView:
        """The report as JSON."""
        return view_of(FilesView, self, self.changes, skipped=dict(self.skipped))


@dataclass(frozen=True, slots=True)
class WorkspaceIndex:
    """Something that is indexed from a folder."""

    recorder: Recorder
    search_entries: SearchPort
    source: ClassVar[Source]

    def _redact(self, text: str) -> str:
        return self.recorder.redactor.redact(text).text

    def _searching(self) -> SourceSearch:
        return SourceSearch(self.recorder.store, self.source, self.search_entries)


@dataclass(frozen=True, slots=True)
class FileIndex(WorkspaceIndex, ABC):
    """One kind of files, in parts; several processes may index at once.

    Attributes:
        version: goes up when a file gives other parts than before: it is read again, as with other rules of secrets.
    """

    version: ClassVar[int]

    def index(
        self,
        path: str | Path = ".",
        progress: Progress = lambda _done, _all: None,
        report: IndexReport | None = None,
        drop: bool = False,
    ) -> IndexReport:
        """Bring the index of a folder or file to how it stands on the disk; only what has changed is read.

        Each batch of files is one transaction: what is done stays done. A folder that is gone leaves the index.

        Args:
            path: of a git repository, what it ignores is left out.
            progress: called with (bytes of files done, of all that are read) after each batch.
            report: filled as the work goes on.
            drop: take it out of the index, though it is there.
        Raises:
            UsageError: the path does not exist, and was not indexed.
            NotFoundError: of what is to be dropped nothing was indexed.
            MissingExtraError: a grammar of code is not installed.
            GitError: git refuses.
        """
        report = report or IndexReport()
        place, store, source = find_place(path, may_be_gone=True), self.recorder.store, self.source.name
        names = [] if drop else list_files(place)
        listed = {shown_name(name): place.root / name for name in names if self._wants(name)}
        with store.writing() as tx:
            project_id, report.project = project_at(tx, place.root, drop)
        with store.reading() as tx:
            known = rows.file_states(tx, source, project_id)
        stamps = {name: found for name, file in listed.items() if (found := stamp(file)) is not None}
        due = {name: found for name, found in stamps.items() if not self._is_same(known.get(name), found)}
        report.files, report.unchanged = len(stamps), len(stamps) - len(due)
        report.skipped.update(known[name].skipped for name in stamps.keys() - due if known[name].skipped)
        batch: list[_ReadFile] = []
        bytes_done, in_all = 0, sum(map(_weight, due.values()))
        for done, (name, found) in enumerate(due.items(), start=1):
            batch.append(self._look(report.project, listed[name], name, found, known.get(name)))
            bytes_done += _weight(found)
            if (
                done == len(due)
                or len(batch) >= _MAX_FILES
                or sum(len(parts or ()) for _, parts in batch) >= _MAX_PARTS
            ):
                self._store(project_id, report, batch)
                batch = []
                progress(bytes_done, in_all)
        if gone := [name for name in known if place.contains(name) and name not in stamps]:
            with store.writing(of=(f"{source}:{project_id}",)) as tx:
                report.changes.add(rows.drop_files(tx, source, project_id, gone))
                # Not for each file that is deleted: it rewrites the whole database.
                if drop or not place.root.exists():
                    note_scrub(tx)
            report.gone = len(gone)
        finish_forgetting(store)
        _log.info("indexed", source=source, files=report.files, read=report.indexed, gone=report.gone)
        return report

    @abstractmethod
    def _wants(self, path: str) -> bool:
        """True for a file of this kind, by its name."""

    @abstractmethod
    def _parts(self, project: str, path: str, data: bytes) -> list[rows.FilePart]:
        """Take a file into parts; a `SkippedError` says why it has none."""

    def _read(self, path: Path) -> FileContent:
        return read(path)

    def _is_same(self, known: rows.FileState | None, found: tuple[int, int]) -> bool:
        if known is None or known.skipped.startswith(NEEDS):
            return False
        return self._was_read_so(known) and (known.size, known.modified) == found

    def _was_read_so(self, known: rows.FileState) -> bool:
        return not known.digest or known.digest.startswith(f"{self.version}{self.recorder.redactor.rules}:")

    def _look(
        self, project: str, file: Path, name: str, found: tuple[int, int], known: rows.FileState | None
    ) -> _ReadFile:
        """Read a file; None instead of its parts where it has the same bytes as before."""
        content, found = self._read(file), settled(found)
        digest = f"{self.version}{self.recorder.redactor.rules}:{content.digest}" if content.digest else ""
        if known is not None and _has_digest(known, digest):
            # Only its time has changed: a fresh checkout, or another worktree of the same project.
            return rows.FileState(name, *found, digest, known.skipped), None
        try:
            parts = [] if content.skipped else self._parts(project, name, content.data)
        except SkippedError as error:
            return rows.FileState(name, *found, digest, str(error)), []
        return rows.FileState(name, *found, digest, content.skipped), parts

    def _store(self, project_id: int, report: IndexReport, batch: Sequence[_ReadFile]) -> None:
        source, states = self.source.name, [state for state, _ in batch]
        parts = {state.path: made for state, made in batch if made is not None}
        report.skipped.update(state.skipped for state in states if state.skipped)
        report.unchanged += len(states) - len(parts)
        with self.recorder.store.writing(of=(f"{source}:{project_id}",)) as tx:
            # Another process may have done the same since this one looked.
            now = rows.file_states(tx, source, project_id, [state.path for state in states])
            if not all(map(self._was_read_so, now.values())):
                note_scrub(tx)
            done = {each.path for each in states if each.path in now and _has_digest(now[each.path], each.digest)}
            new = {path: made for path, made in parts.items() if path not in done}
            changes = rows.replace_parts(tx, source, project_id, new, self.recorder.now())
            rows.put_file_states(tx, source, project_id, states)
        report.changes.add(changes)
        report.indexed += sum(1 for made in parts.values() if made)
        if changes.added or changes.changed:
            self.recorder.wake()


def project_at(tx: Transaction, root: Path, drop: bool = False) -> tuple[int, str]:
    """The row and the key of a folder's project; a `UsageError` where it is gone, and no project lay there alone."""
    identity = identify_project(root)
    if root.exists():
        if drop and known_project(tx, identity) is None:
            raise NotFoundError(f"Nothing was indexed of {root} by itself; a folder around it may have been.")
        return project_of(tx, identity)
    if (row_id := known_project(tx, identity)) is not None:
        known = project_identity(tx, row_id)
        names = (name.partition("path:") for name in (known.key, *known.aliases))
        if not any(Path(place).exists() for _, _, place in names if place):
            return row_id, known.key
    raise UsageError(f"{root} does not exist.")


def _weight(found: tuple[int, int]) -> int:
    """A file's part of the work: its bytes, of one that is too large to be read few enough."""
    return min(found[0], MAX_BYTES)


def _has_digest(state: rows.FileState, digest: str) -> bool:
    return bool(digest) and state.digest == digest and not state.skipped.startswith(NEEDS)


def found_parts(tx: Transaction, source: str, hits: Sequence[Hit]) -> list[tuple[Hit, Any]]:
    """The hits, each with the row of its part, in their order; those whose part is gone are left out."""
    stored = rows.find_parts(tx, source, [hit.entry.ref_uid for hit in hits])
    return [(hit, stored[hit.entry.ref_uid]) for hit in hits if hit.entry.ref_uid in stored]
