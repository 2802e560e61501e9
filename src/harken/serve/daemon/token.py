"""The token that clients over TCP show: kept in a file that this user alone can read, and nowhere else."""

from __future__ import annotations

import os
import secrets
import stat

from harken.errors import HarkenError
from harken.serve.daemon.lock import own_folder
from harken.serve.daemon.place import Place

_SHORTEST = 32


def own_token(place: Place) -> str:
    """The token of a home, made where there is none; only for who holds the lock.

    Raises:
        HarkenError: somebody else could have read or written it.
    """
    own_folder(place)
    try:
        descriptor = os.open(place.token, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return _make(place.token)
    except OSError as error:
        raise HarkenError(f"The token cannot be read: {place.token}: {error.strerror}. Remove it.") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise HarkenError(f"{place.token} is not this user's alone. Remove it; a new one will be made.")
        token = os.read(descriptor, 4096).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if len(token) < _SHORTEST:
        raise HarkenError(f"{place.token} holds less than {_SHORTEST} characters. Remove it; a new one will be made.")
    return token


def _make(path: str) -> str:
    token = secrets.token_urlsafe(_SHORTEST)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{token}\n".encode("ascii"))
    finally:
        os.close(descriptor)
    return token
