"""Fetches model files: checked while they arrive, put in place at once or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import structlog

from harken.errors import ModelFileError
from harken.files import make_private, remove_abandoned

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file to fetch.

    Attributes:
        url: where it is; redirects are followed, since hubs keep large files elsewhere.
        name: what it is called in the folder.
        sha256: the hash it must have; None takes what comes.
    """

    url: str
    name: str
    sha256: str | None


def fetch_folder(files: Sequence[RemoteFile], target: Path, timeout_seconds: float) -> None:
    """Fetch files into a new folder that appears only when all of them are whole and right.

    They arrive in a folder beside it whose name ends in `.part`; one left behind by a killed process is removed
    when it is an hour old.

    Args:
        files: what the folder is to hold.
        target: the folder; when another process has made it meanwhile, its own is kept.
        timeout_seconds: how long to wait for a connection and for each piece.
    Raises:
        ModelFileError: a file did not arrive, is not the one expected, or cannot be written.
    """
    part: Path | None = None
    try:
        make_private(target.parent)
        remove_abandoned(target.parent, f"{target.name}.*.part")
        part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.", suffix=".part"))
        with httpx.Client(timeout=timeout_seconds, follow_redirects=True) as client:
            for file in files:
                _fetch(client, file, part / file.name)
        _put_in_place(part, target)
    except OSError as error:
        raise ModelFileError(f"{target} cannot be written: {error.strerror or type(error).__name__}") from error
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    _log.info("model_downloaded", folder=str(target), files=len(files))


def _fetch(client: httpx.Client, file: RemoteFile, destination: Path) -> None:
    digest = hashlib.sha256()
    try:
        with client.stream("GET", file.url) as response, destination.open("wb") as out:
            response.raise_for_status()
            for piece in response.iter_bytes():
                digest.update(piece)
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
    except httpx.HTTPStatusError as error:
        raise ModelFileError(f"{file.url} answers with status {error.response.status_code}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelFileError(f"{file.url} cannot be fetched whole ({type(error).__name__})") from error
    if file.sha256 is not None and digest.hexdigest() != file.sha256:
        raise ModelFileError(
            f"{file.url} is not the pinned file: SHA-256 {digest.hexdigest()}, expected {file.sha256}; nothing was kept"
        )


def _put_in_place(part: Path, target: Path) -> None:
    try:
        part.rename(target)
    except OSError:
        # A folder that is not empty cannot be replaced: another process finished first, with the same hashes.
        if not target.is_dir():
            raise
