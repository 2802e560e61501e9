"""`harken hook EVENT [--agent NAME] [--home PATH]`: the process that a coding agent starts at an event.

It fails open: whatever goes wrong, it says nothing and ends with 0 within its deadline, and the agent goes on. It pays
for each import, so it hands what it got to the daemon unread, and prints what comes back unread. Where there is none,
it starts one, which answers what the agent waits for, if it gets there within the deadline.
"""

from __future__ import annotations

# A thread of `threading` or an alarm of `signal` would do as well; importing either takes longer than all this does.
import _thread
import os
import sys
import time

from harken.files import foreign
from harken.serve.daemon.paths import DEADLINE, DaemonPaths, home_of
from harken.serve.daemon.wire import OK, DaemonError, exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_PAYLOAD = 32 * 1024 * 1024
# The rest is for writing down what a daemon that does not answer would have read.
_SHARE_OF_DAEMON = 0.7


def main(arguments: Sequence[str]) -> None:
    """Answer one event and end the process; never raises, never fails."""
    env = os.environ  # noqa: TID251 - harken.config.settings would cost more than the whole answer
    seconds = _deadline(env)
    # Whatever hangs (a pipe that nobody closes, a disk that does not answer), this ends it.
    _thread.start_new_thread(_leave_after, (seconds,))
    try:
        if answer := _answer(arguments, env, seconds):
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()
    except BaseException:  # noqa: BLE001, S110 - the agent must never feel that its memory failed
        pass
    # Not through the interpreter's own end: nothing is left to be written, and it takes a tenth of the time.
    os._exit(0)


def _answer(arguments: Sequence[str], env: Mapping[str, str], seconds: float) -> bytes:
    words = list(arguments)
    agent, home = _plain(_option(words, "--agent") or "claude-code"), _option(words, "--home")
    event = _plain(words[0])
    if home:
        env = {**env, "HARKEN_HOME": home}
    payload = sys.stdin.buffer.read(_LONGEST_PAYLOAD)
    paths = DaemonPaths(home_of(env))
    asked = paths.socket, f"/v1/hook/{event}?agent={agent}", payload, env
    try:
        status, answer = exchange(*asked, seconds * _SHARE_OF_DAEMON)
    except DaemonError:
        status = 0
    # Also one of another version, with other settings or in trouble has not looked at what was reported.
    if status != OK and _alone(paths, event, agent, payload, env):
        # The deadline ends this process, wherever it waits.
        status, answer = exchange(*asked, seconds)
    return answer if status == OK else b""


def _alone(paths: DaemonPaths, event: str, agent: str, payload: bytes, env: Mapping[str, str]) -> bool:
    """Without a daemon: what has grown is written down, and one is started that will read it.

    Returns:
        Whether the one that is being started answers by now, or has failed; at once where the event asks for nothing.
    """
    if foreign(paths.folder):
        # Whose it is would read which transcripts there are.
        return False
    from harken.serve.hooks.events import asks, report

    if not report(paths.reports, event, agent, payload):
        return False
    from harken.serve.daemon.starting import has_started, spawn, start

    try:
        spawn(paths, env)
    except NotImplementedError:
        start(paths, env)
    return asks(event) and has_started(paths)


def _option(words: list[str], name: str) -> str:
    """The value of an option, which is taken out of the words."""
    if name not in words:
        return ""
    at = words.index(name)
    value = words[at + 1]
    del words[at : at + 2]
    return value


def _plain(text: str) -> str:
    """Return what of a text is fit for a URL."""
    return "".join(letter for letter in text if letter.isascii() and (letter.isalnum() or letter in "-_"))


def _deadline(env: Mapping[str, str]) -> float:
    """Seconds that are left: the agent has waited since this process was started."""
    try:
        seconds = min(30.0, max(0.05, float(env[DEADLINE])))
    except (KeyError, ValueError):
        seconds = 1.5
    return max(0.05, seconds - time.process_time())


def _leave_after(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(0)
