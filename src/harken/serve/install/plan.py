"""Changes to configuration files: planned together, shown, then made, all or none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from harken.serve.install.entries import ConfigEntry, SyntaxFault
from harken.serve.install.files import (
    InstallError,
    check_writable,
    content_of,
    make_folders,
    read,
    remove_folders,
    replace,
    text_of,
)
from harken.serve.install.records import Record, Records, mark
from harken.serve.install.syntax import Syntax, has_entries, with_entries, without_entries

_AROUND = 1


@dataclass(frozen=True, slots=True)
class Edit:
    """What is wanted in one file.

    Attributes:
        path: as the agent looks for it.
        new_mode: of the file, if it is made.
    """

    path: Path
    syntax: Syntax
    entries: tuple[ConfigEntry, ...]
    new_mode: int = 0o600


@dataclass(frozen=True, slots=True)
class Change:
    """One file, as it is and as it will be.

    Attributes:
        path: as the agent looks for it.
        place: the same without symbolic links: what is written is what a link points to.
        now: its content; None where there is no file.
        then: likewise.
        original: its content without us, which the backup holds.
        folders: made for it, at this or an earlier time.
    """

    path: Path
    place: Path
    now: bytes | None
    then: bytes | None
    original: bytes | None
    folders: tuple[Path, ...]
    new_mode: int

    @property
    def action(self) -> str:
        """`unchanged`, `created`, `removed` or `changed`."""
        if self.now == self.then:
            return "unchanged"
        return "created" if self.now is None else "removed" if self.then is None else "changed"

    @property
    def diff(self) -> str:
        """What changes, as `diff -u` shows it; empty where nothing does."""
        old, new = (text_of(self.path, each or b"").splitlines(keepends=True) for each in (self.now, self.then))
        names = ["/dev/null" if each is None else str(self.path) for each in (self.now, self.then)]
        lines = unified_diff(old, new, names[0], names[1], n=_AROUND)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def plan_install(edits: Sequence[Edit], records: Records) -> list[Change]:
    """What is to be done so that all entries are there; nothing is done yet.

    Raises:
        InstallError: a file is damaged, or may not be written.
    """
    changes = []
    for edit in edits:
        place, now, record = _found(edit, records)
        original = _original(edit, now, record)
        try:
            text = with_entries(edit.syntax, text_of(edit.path, original or b""), edit.entries)
        except SyntaxFault as error:
            raise _broken(edit, error) from error
        folders = record.folders if record else tuple(each for each in reversed(place.parents) if not each.exists())
        then = content_of(text, original)
        changes.append(Change(edit.path, place, now, then, original, folders, edit.new_mode))
    _check(changes)
    return changes


def plan_uninstall(edits: Sequence[Edit], records: Records) -> list[Change]:
    """What is to be done so that nothing of ours is left; nothing is done yet.

    Raises:
        InstallError: a file is damaged, or may not be written.
    """
    changes = []
    for edit in edits:
        place, now, record = _found(edit, records)
        then = _original(edit, now, record)
        if record is None and now is not None and _is_ours(edit, now):
            then = _taken_out(edit, now, b"")
        folders = record.folders if record else ()
        changes.append(Change(edit.path, place, now, then, then, folders, edit.new_mode))
    _check(changes)
    return changes


def install(changes: Sequence[Change], records: Records) -> None:
    """Make the changes; the backups come first.

    Raises:
        InstallError: a file cannot be written; all are as they were.
    """
    try:
        for change in changes:
            records.keep(Record(change.place, change.original, mark(change.then or b""), change.folders))
    except OSError as error:
        raise InstallError(f"No backup can be kept: {error}. Nothing was changed.") from error
    _make(changes)


def uninstall(changes: Sequence[Change], records: Records) -> None:
    """Make the changes, and let the backups go.

    Raises:
        InstallError: a file cannot be written; all are as they were.
    """
    _make(changes)
    for change in changes:
        if change.then is None:
            remove_folders(list(change.folders))
        records.drop(change.place)


def _found(edit: Edit, records: Records) -> tuple[Path, bytes | None, Record | None]:
    place = Path(os.path.realpath(edit.path))
    return place, read(place), records.find(place)


def _original(edit: Edit, now: bytes | None, record: Record | None) -> bytes | None:
    """The file without us: as it was, with what its owner changed since."""
    if now is None or record is None or now == record.before:
        return now
    if mark(now) == record.after:
        return record.before
    left = _taken_out(edit, now, record.before or b"")
    says_nothing = not edit.syntax.data(text_of(edit.path, left)) and text_of(edit.path, left).strip() in ("", "{}")
    return None if record.before is None and says_nothing else left


def _taken_out(edit: Edit, now: bytes, before: bytes) -> bytes:
    try:
        text = without_entries(edit.syntax, text_of(edit.path, now), edit.entries, text_of(edit.path, before))
    except SyntaxFault as error:
        raise _broken(edit, error) from error
    return content_of(text, now)


def _is_ours(edit: Edit, now: bytes) -> bool:
    """Whether a file of which nothing is known has our entries, as after the home was moved."""
    try:
        return has_entries(edit.syntax, text_of(edit.path, now), edit.entries)
    except SyntaxFault as error:
        raise _broken(edit, error) from error


def _check(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.now != change.then:
            check_writable(change.place)


def _make(changes: Sequence[Change]) -> None:
    made: list[tuple[Change, list[Path]]] = []
    try:
        for change in changes:
            if change.now == change.then:
                continue
            if read(change.place) != change.now:
                raise InstallError(f"{change.path} was changed by somebody else just now. Try again.")
            made.append((change, make_folders(change.place)))
            _write(change, change.then)
    except (OSError, InstallError) as error:
        for change, folders in reversed(made):
            _write(change, change.now)
            remove_folders(folders)
        if isinstance(error, InstallError):
            raise
        raise InstallError(f"{error.filename} cannot be written: {error.strerror}. Nothing was changed.") from error


def _write(change: Change, content: bytes | None) -> None:
    if content is None:
        change.place.unlink(missing_ok=True)
    else:
        replace(change.place, content, change.new_mode)


def _broken(edit: Edit, error: SyntaxFault) -> InstallError:
    return InstallError(f"{edit.path} cannot be changed: {error}. Nothing was changed; repair it and try again.")
