"""Changes to configuration files: planned together, shown, then made, all or none; each file's backup comes first."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from glob import escape
from pathlib import Path

from harken.errors import HarkenError
from harken.files import make_private, remove_abandoned
from harken.serve.install.entries import ConfigEntry, Syntax, SyntaxFault, with_entries, without_entries

_LONGEST_BYTES = 64 * 1024 * 1024
_DRAFT = ".harken"


class InstallError(HarkenError):
    """An agent's configuration cannot be changed; nothing was."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What is wanted in one file; `new_mode` is for one that is made."""

    path: Path
    syntax: Syntax
    entries: tuple[ConfigEntry, ...]
    new_mode: int = 0o600


@dataclass(frozen=True, slots=True)
class Backup:
    """A file's content before we came, None where there was none, the hash of what we left, and folders made for it."""

    before: bytes | None
    after: str
    folders: tuple[Path, ...]

    def is_ours(self, content: bytes) -> bool:
        """Whether the file is as it was left, or, where an install was killed, as it was before."""
        return content == self.before or _hash(content) == self.after


@dataclass(frozen=True, slots=True)
class Change:
    """One file's content as it is and as it will be, None where there is none.

    Attributes:
        real_path: its path without symbolic links: what is written is what a link points to.
        folders: made for it, at this or an earlier time, outermost first.
        backup: kept from now on; None where nothing of ours is left, or nothing else is known to have stood there.
    """

    edit: Edit
    real_path: Path
    now: bytes | None
    then: bytes | None
    folders: tuple[Path, ...]
    backup: Backup | None

    @property
    def action(self) -> str:
        """`unchanged`, `created`, `removed` or `changed`."""
        if self.now == self.then:
            return "unchanged"
        return "created" if self.now is None else "removed" if self.then is None else "changed"

    @property
    def diff(self) -> str:
        """What changes, as `diff -u` shows it; empty where nothing does."""
        old, new = (_text(self.edit.path, each).splitlines(keepends=True) for each in (self.now, self.then))
        names = ["/dev/null" if each is None else str(self.edit.path) for each in (self.now, self.then)]
        lines = unified_diff(old, new, names[0], names[1], n=1)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


class Backups:
    """The backups of a home, in its folder `installed`, which is made with the first."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "installed"

    def find(self, real_path: Path) -> Backup | None:
        """Return what is kept of a file.

        Raises:
            InstallError: the record is damaged.
        """
        content = _read(self._record(real_path))
        if content is None:
            return None
        try:
            facts = json.loads(content)
            before = _read(self.copy(real_path)) if facts["existed"] else None
            return Backup(before, str(facts["after"]), tuple(map(Path, facts["folders"])))
        except (ValueError, KeyError, TypeError) as error:
            raise InstallError(f"{self._record(real_path)} is damaged. Remove it, then try again.") from error

    def keep(self, real_path: Path, backup: Backup) -> None:
        """Write a backup, the copy of the file first.

        Raises:
            OSError: the home cannot be written.
        """
        facts = {"path": str(real_path), "existed": backup.before is not None, "after": backup.after}
        make_private(self._folder)
        _replace(self.copy(real_path), backup.before)
        _replace(self._record(real_path), json.dumps({**facts, "folders": list(map(str, backup.folders))}).encode())

    def drop(self, real_path: Path) -> None:
        """Remove the backup of a file in which nothing of ours is left."""
        self._record(real_path).unlink(missing_ok=True)
        self.copy(real_path).unlink(missing_ok=True)

    def copy(self, real_path: Path) -> Path:
        """Return where a file's content from before is kept."""
        return self._record(real_path).with_suffix(".before")

    def _record(self, real_path: Path) -> Path:
        return self._folder / f"{_hash(os.fsencode(real_path))[:16]}.json"


def plan(edits: Sequence[Edit], backups: Backups, *, undo: bool = False) -> list[Change]:
    """Plan that all entries are there, or that nothing of ours is left; nothing is done yet.

    Raises:
        InstallError: a file is damaged, or may not be written.
    """
    changes: list[Change] = []
    change_of = _uninstalled if undo else _installed
    for edit in edits:
        real_path = Path(os.path.realpath(edit.path))
        try:
            changes.append(change_of(edit, real_path, _read(real_path), backups.find(real_path)))
        except SyntaxFault as error:
            message = f"{edit.path} cannot be changed: {error}. Nothing was changed; repair it and try again."
            raise InstallError(message) from error
    for change in changes:
        if change.action != "unchanged":
            _check_writable(change.real_path)
    return changes


def make(changes: Sequence[Change], backups: Backups) -> None:
    """Make the changes; backups are kept before, and dropped after.

    Raises:
        InstallError: a file cannot be written; all are as they were.
    """
    begun: list[Change] = []
    try:
        for change in changes:
            if change.backup is not None:
                backups.keep(change.real_path, change.backup)
        for change in changes:
            if change.now != change.then:
                _write(change, begun)
    except (OSError, InstallError) as error:
        for change in reversed(begun):
            _replace(change.real_path, change.now, change.edit.new_mode)
            _remove_empty(change.folders)
        if isinstance(error, InstallError):
            raise
        raise InstallError(f"{error.filename} cannot be written: {error.strerror}. Nothing was changed.") from error
    for change in changes:
        if change.backup is None:
            _remove_empty(change.folders if change.then is None else ())
            backups.drop(change.real_path)


def _write(change: Change, begun: list[Change]) -> None:
    if _read(change.real_path) != change.now:
        raise InstallError(f"{change.edit.path} was changed by somebody else just now. Try again.")
    begun.append(change)
    for folder in change.folders if change.then is not None else ():
        folder.mkdir(mode=0o700, exist_ok=True)
    _replace(change.real_path, change.then, change.edit.new_mode)


def _installed(edit: Edit, real_path: Path, now: bytes | None, kept: Backup | None) -> Change:
    then = with_entries(edit.syntax, _text(edit.path, now), edit.entries).encode()
    missing = {each for each in real_path.parents if not each.exists()}
    folders = tuple(sorted(missing.union(kept.folders if kept else ())))
    # What is there already may be ours, of a home that is gone: to undo it is not to leave it there.
    backup = None if kept is None and then == now else Backup(now, _hash(then), folders)
    if kept is not None and now is not None:
        # What somebody else changed since is not what we left, and is not to be lost with what we add.
        backup = Backup(kept.before, _hash(then) if kept.is_ours(now) else kept.after, folders)
    return Change(edit, real_path, now, then, folders, backup)


def _uninstalled(edit: Edit, real_path: Path, now: bytes | None, kept: Backup | None) -> Change:
    then = before = kept.before if kept else None
    if now is None:
        then = None
    elif kept is None or not kept.is_ours(now):
        text = without_entries(edit.syntax, _text(edit.path, now), edit.entries, _text(edit.path, before))
        is_needless = kept is not None and before is None and text.strip() in ("", "{}")
        then = None if is_needless else text.encode()
    return Change(edit, real_path, now, then, kept.folders if kept else (), None)


def _text(path: Path, content: bytes | None) -> str:
    try:
        return (content or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InstallError(f"{path} is not UTF-8. Nothing was changed; save it as UTF-8 and try again.") from error


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST_BYTES:
                raise InstallError(f"{path} is no file that holds settings. Nothing was changed.")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path} cannot be read: {error.strerror}. Nothing was changed.") from error


def _check_writable(path: Path) -> None:
    folder = next(each for each in path.parents if each.exists())
    # A file that its owner made read-only could be replaced all the same; he meant that it should not be.
    locked = path.exists() and not path.stat().st_mode & stat.S_IWUSR
    if locked or not os.access(folder, os.W_OK):
        raise InstallError(f"{path} may not be written. Nothing was changed; make it writable (chmod u+w) first.")


def _replace(path: Path, content: bytes | None, new_mode: int = 0o600) -> None:
    """Put a content whole in a file's place, with the file's mode and owner; None removes it. The folder must exist."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    remove_abandoned(path.parent, f".{escape(path.name)}.*{_DRAFT}")
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_DRAFT, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            found = path.stat() if path.exists() else None
            if found:
                with suppress(PermissionError):
                    os.fchown(descriptor, found.st_uid, found.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) if found else new_mode)
            file.flush()
            os.fsync(descriptor)
        Path(draft).replace(path)
    finally:
        Path(draft).unlink(missing_ok=True)


def _remove_empty(folders: tuple[Path, ...]) -> None:
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()
