"""Starting a daemon, and telling whether one runs. On the way of hooks, which pay for each import."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enumerations of all its names
import errno
import fcntl
import os
import stat
import sys
import time

from harken import __version__
from harken.files import foreign, make_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from harken.serve.daemon.paths import DaemonPaths

# A second of processor time each: what is wrong may be put right meanwhile.
_AGAIN_SECONDS = 10.0
# Of one length: a lock file is written over, and never truncated.
_STARTING, _ANSWERED = b"starting", b"answered"


def open_lock(path: str, make: bool) -> int:
    """Open a lock file, to make or write it or else to read it: never another user's, nor one reached by any link.

    Raises:
        OSError: it cannot be opened, or is no file of this user's.
    """
    how = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
    # A pipe that stands there is not waited for.
    descriptor = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    found = os.fstat(descriptor)
    # What has a second name may be anything.
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "no file of this user's alone", path)


def held_content(paths: DaemonPaths) -> bytes | None:
    """Return what the one that holds a home's lock has written into it; None where nobody holds it.

    Raises:
        OSError: the lock cannot be read.
    """
    try:
        descriptor = open_lock(paths.lock, make=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(descriptor, 4096, 0)
        return None
    finally:
        os.close(descriptor)


def claim(paths: DaemonPaths) -> int | None:
    """Take the right to start a daemon; None where one runs, is being started, or ended just now before it answered.

    It takes a daemon a second to come to the lock of its home, and many on a busy machine. Whatever asks meanwhile
    would start another, and make that second longer for them all. One that cannot live would be started at every event.

    Returns:
        A descriptor, to be inherited by the daemon, who has the right until it has `answered`, or ends.
    Raises:
        OSError: the folder cannot be made, or not be written, or one that the daemon needs is another user's.
    """
    for folder in (paths.folder, os.path.dirname(paths.socket)):
        if why := foreign(folder):
            raise PermissionError(errno.EPERM, why, folder)
    make_private(paths.folder)
    opened = open_lock(paths.starting, make=True)
    try:
        # An agent may start its hook without some of the first three, which the daemon has of its own.
        descriptor = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(opened)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # One of this version that holds the lock only does not answer.
        is_held = f'"version": "{__version__}"'.encode() in (held_content(paths) or b"")
        found = os.fstat(descriptor)
        is_unanswered = os.pread(descriptor, len(_STARTING), 0) == _STARTING
        has_just_failed = is_unanswered and 0 <= time.time() - found.st_mtime < _AGAIN_SECONDS
        if not is_held and not has_just_failed:
            os.pwrite(descriptor, _STARTING, 0)
            return descriptor
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def answered(claimed: int) -> None:
    """Give the right back, by the daemon that has it: what was under way came to its end."""
    os.pwrite(claimed, _ANSWERED, 0)
    os.close(claimed)


def has_started(paths: DaemonPaths) -> bool:
    """Wait for a daemon that is being started, until it answers or has failed; whether there was one to wait for.

    Raises:
        OSError: nothing tells whether one is being started.
    """
    descriptor = open_lock(paths.starting, make=False)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        # The kernel wakes this process: to look again and again would take from the one that is waited for.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return True
    finally:
        os.close(descriptor)


def _words_of(paths: DaemonPaths, claimed: int) -> list[str]:
    return [sys.executable, "-m", "harken", "--home", paths.home, "serve", "--quiet", "--claimed", str(claimed)]


def start(paths: DaemonPaths, env: Mapping[str, str]) -> None:
    """Start a daemon and leave it to itself, unless one runs; returns at once, whether or not it can live.

    Raises:
        OSError: no process can be started.
    """
    # Not on the way of hooks, which pay for each import.
    import subprocess
    import threading

    claimed = claim(paths)
    if claimed is None:
        return
    try:
        process = subprocess.Popen(
            _words_of(paths, claimed),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=dict(env),
            start_new_session=True,
            pass_fds=(claimed,),
        )
    finally:
        os.close(claimed)
    # For those who outlive it: the kernel keeps a dead child until its end was asked for.
    threading.Thread(target=process.wait, name="harken-daemon-end", daemon=True).start()


def spawn(paths: DaemonPaths, env: Mapping[str, str]) -> None:
    """Start a daemon from a process that is about to end, unless one runs; returns at once, whether or not it can live.

    The working directory of this process becomes `/`: a daemon must neither hold nor import from a person's folder.
    `subprocess` would do the same, and take longer to import than Python to start.

    Raises:
        OSError: no process can be started.
        NotImplementedError: this system cannot start one in a session of its own.
    """
    # The agent's pipes: it would wait for whoever holds their other end.
    inherited = [int(name) for name in os.listdir("/dev/fd") if _is_inherited(int(name))]
    claimed = claim(paths)
    if claimed is None:
        return
    try:
        os.chdir("/")
        os.set_inheritable(claimed, True)
        os.posix_spawn(
            sys.executable,
            _words_of(paths, claimed),
            env,
            file_actions=[
                *((os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)),
                *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in inherited),
            ],
            setsid=True,
            # Python ignores them, and what is ignored stays so in whom it starts.
            setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),
        )
    finally:
        os.close(claimed)


def _is_inherited(descriptor: int) -> bool:
    try:
        return descriptor > 2 and os.get_inheritable(descriptor)
    except OSError:
        # It was that of the listing itself.
        return False
