"""Stands in for Python where a command of the tests starts another: the warm process forks that one as well.

A copy of this file is `sys.executable` in what is forked (`warm_start.py`), and imports little. What it cannot pass on
it runs by Python itself. It lives as long as what it stands for, hands on its signals, and ends as that one ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from types import FrameType

# Those that Harken and the benchmarks start; the options of the first are those of a process of an import.
_WAYS = (["-I", "-c"], ["-m", "harken"])
_HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Have it forked, wait for its end, and end so."""
    words = sys.argv[1:]
    if "PYTHONPATH" in os.environ or not (words[:2] in _WAYS or (words and words[0].endswith(".py"))):
        os.execv(sys.executable, [sys.executable, *words])
    told, tells = os.pipe()
    inherited = [number for number in map(int, os.listdir("/proc/self/fd")) if number > 2 and _is_inherited(number)]
    written = os.memfd_create("request")
    request = {
        "arguments": words[2:] if words[:2] == ["-m", "harken"] else words,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "inherited": inherited,
        "leads": os.getsid(0) == os.getpid(),
        "umask": os.umask(0),
    }
    os.pwrite(written, json.dumps(request).encode(), 0)
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(os.path.join(os.path.dirname(sys.argv[0]), "door"))
    socket.send_fds(channel, [b"?"], [written, tells, 0, 1, 2, *inherited])
    pid = int.from_bytes(channel.recv(4), "big")
    if not pid:
        raise SystemExit("The warm process is gone.")

    def hand_on(number: int, _frame: FrameType | None) -> None:
        os.kill(pid, number)

    for number in _HANDED_ON:
        signal.signal(number, hand_on)
    # Whoever reads or holds the other end waits for that of the one that runs, and for none here.
    for number in (written, tells, 0, 1, 2, *inherited):
        os.close(number)
    status = int(os.read(told, 20) or signal.SIGKILL)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _is_inherited(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:
        # That of the listing itself.
        return False


if __name__ == "__main__":
    main()
