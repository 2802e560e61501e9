"""Backup and restore: one file with a consistent copy of the database and the journal."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from contextlib import nullcontext
from pathlib import Path

from harken.errors import StoreError, UsageError
from harken.files import make_private
from harken.journal.journal import DATABASE_NAME, JOURNAL_NAME
from harken.journal.staging import new_file, remove_staged, staging
from harken.storage.ports import Store

# The journal first: a restore that dies half-way leaves what the rest can be made of again.
_SETTINGS = ("harken.toml", "harken.yaml", "harken.yml")
_PARTS = (JOURNAL_NAME, DATABASE_NAME, *_SETTINGS)


def backup(store: Store, home: Path, target: Path, journalled: bool = True) -> int:
    """Write a backup while others use the store, and give its size in bytes; they wait only while files are copied.

    A store that is not `journalled` has nothing but its database, and nobody waits.

    Raises:
        UsageError: the target exists.
        StoreError: the store cannot be read, or the target cannot be written.
    """
    with new_file(target, home) as part:
        copy = part.parent
        # Under the write lock nobody appends to the journal or forgets, so both parts are of one moment.
        may_change = journalled and all(os.access(place, os.W_OK) for place in (home, home / DATABASE_NAME))
        with store.writing() if may_change else nullcontext():
            store.backup(copy / DATABASE_NAME)
            for name in _PARTS:
                if (home / name).is_dir():
                    shutil.copytree(home / name, copy / name)
                elif name != DATABASE_NAME and (home / name).is_file():
                    shutil.copy2(home / name, copy / name)
        with tarfile.open(part, "w:gz", compresslevel=3) as archive:
            for name in _PARTS:
                if (copy / name).exists():
                    archive.add(copy / name, arcname=name)
    return target.stat().st_size


def restore(source: Path, home: Path) -> Path | None:
    """Put a backup where no store is; settings that are there stay in place of the backup's, and are returned.

    Raises:
        UsageError: the home has a store already, or the file is no backup.
        StoreError: the home cannot be written.
    """
    _check_empty(home, source)
    try:
        make_private(home)
        remove_staged(home)
        with staging(home, home) as copy:
            with tarfile.open(source, "r:gz") as archive:
                archive.extractall(copy, filter="data")
            found = [name for name in _PARTS if (copy / name).exists()]
            if DATABASE_NAME not in found:
                raise UsageError(f"{source} is not a backup of Harken.")
            for place in copy.rglob("*"):
                place.chmod(0o700 if place.is_dir() else 0o600)
            # Unpacking takes a while, and a hook may have started a daemon meanwhile, which makes a store.
            _check_empty(home, source)
            # Of a store that was deleted; SQLite would write that log into this one.
            (home / f"{DATABASE_NAME}-wal").unlink(missing_ok=True)
            own = next((home / name for name in _SETTINGS if (home / name).exists()), None)
            for name in found:
                if own is None or name not in _SETTINGS:
                    (copy / name).replace(home / name)
            return own
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UsageError(f"{source} is not a backup of Harken, or it is damaged.") from error
    except OSError as error:
        raise StoreError(f"{source} cannot be restored to {home}: {error.strerror}.") from error


def _check_empty(home: Path, source: Path) -> None:
    if (home / DATABASE_NAME).exists() or (home / JOURNAL_NAME).exists():
        raise UsageError(f"{home} has a store already. Restore into another home: harken --home PATH restore {source}")
