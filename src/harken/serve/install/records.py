"""What was changed, kept in the home until it is undone: each file as it was before, to the byte."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from harken.serve.install.files import InstallError, make_folders, read, replace

_FOLDER = "installed"


@dataclass(frozen=True, slots=True)
class Record:
    """One changed file.

    Attributes:
        path: with no symbolic link in it.
        before: its content before we came; None where it did not exist.
        after: hash of what was left there.
        folders: made for it, outermost first.
    """

    path: Path
    before: bytes | None
    after: str
    folders: tuple[Path, ...] = ()


class Records:
    """The records of a home.

    Args:
        home: where everything is kept; made when the first record is kept.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / _FOLDER

    def find(self, path: Path) -> Record | None:
        """What is known of a file.

        Raises:
            InstallError: the record is damaged.
        """
        content = read(self._place(path))
        if content is None:
            return None
        try:
            facts = json.loads(content)
            before = read(self.backup(path)) if facts["existed"] else None
            return Record(path, before, str(facts["after"]), tuple(map(Path, facts["folders"])))
        except (ValueError, KeyError, TypeError) as error:
            raise InstallError(f"{self._place(path)} is damaged. Remove it, then try again.") from error

    def keep(self, record: Record) -> None:
        """Write a record down, the backup first.

        Raises:
            OSError: the home cannot be written.
        """
        facts = {
            "path": str(record.path),
            "existed": record.before is not None,
            "after": record.after,
            "folders": list(map(str, record.folders)),
        }
        place = self._place(record.path)
        make_folders(place)
        if record.before is not None:
            replace(self.backup(record.path), record.before, 0o600)
        replace(place, json.dumps(facts, indent=2).encode(), 0o600)

    def drop(self, path: Path) -> None:
        """Nothing of ours is in the file any more."""
        self._place(path).unlink(missing_ok=True)
        self.backup(path).unlink(missing_ok=True)

    def backup(self, path: Path) -> Path:
        """Where a file's content from before is kept."""
        return self._place(path).with_suffix(".before")

    def _place(self, path: Path) -> Path:
        name = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self._folder / f"{name}.json"


def mark(content: bytes) -> str:
    """What tells two contents apart."""
    return hashlib.sha256(content).hexdigest()
