"""`harken hook EVENT`: the process that a coding agent starts at an event. Standard library only.

It fails open: whatever goes wrong, it says nothing and ends with 0 within its deadline, and the agent goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from harken.serve.daemon import spool
from harken.serve.daemon.client import OTHER_VERSION, DaemonError, ask, start
from harken.serve.daemon.place import DEADLINE, Place, home_of, place_of
from harken.serve.hooks.agents import AGENTS, ANSWERED, CLAUDE_CODE, GROWN, KNOWN, event_name, transcripts

_DEADLINE_SECONDS = 1.5
_LONGEST_PAYLOAD = 32 * 1024 * 1024


def main(arguments: Sequence[str]) -> None:
    """Answer one event and end the process; never raises, never fails."""
    env = os.environ  # noqa: TID251 - harken.config would cost more than the whole answer
    seconds = _deadline(env)
    # Whatever hangs (a pipe that nobody closes, a disk that does not answer), this ends it.
    signal.signal(signal.SIGALRM, _leave)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        said = _answer(arguments, env, seconds * 0.9)
        if said:
            sys.stdout.write(said)
            sys.stdout.flush()
    except BaseException:  # noqa: BLE001, S110 - the agent must never feel that its memory failed
        pass
    # Not through the interpreter's own end: nothing is left to be written, and it takes a tenth of the time.
    os._exit(0)


def _answer(arguments: Sequence[str], env: Mapping[str, str], seconds: float) -> str:
    event, agent = _asked(arguments)
    if event not in KNOWN or agent not in AGENTS:
        return ""
    payload = json.loads(sys.stdin.buffer.read(_LONGEST_PAYLOAD))
    if not isinstance(payload, dict):
        return ""
    place = place_of(home_of(env))
    if event in GROWN:
        _hand_over(place, agent, payload, env, seconds)
        return ""
    return _told(place, event, agent, payload, env, seconds) if event in ANSWERED else ""


def _asked(arguments: Sequence[str]) -> tuple[str, str]:
    """The event and the agent: `EVENT [--agent NAME]`."""
    words = list(arguments)
    agent = CLAUDE_CODE
    if "--agent" in words:
        at = words.index("--agent")
        agent = words[at + 1]
        del words[at : at + 2]
    return event_name(words[0]), agent


def _hand_over(place: Place, agent: str, payload: Mapping[str, Any], env: Mapping[str, str], seconds: float) -> None:
    """Report the transcripts that have grown; that outlives this process and every daemon."""
    for path in transcripts(payload):
        spool.put(place.reports, spool.Transcript(AGENTS[agent].format, os.path.abspath(path)))  # noqa: PTH100
    try:
        answer = ask(place, "/v1/intake", {}, env, seconds)
        if answer.status == OTHER_VERSION:
            start(place, env)
    except DaemonError:
        start(place, env)


def _told(
    place: Place, event: str, agent: str, payload: Mapping[str, Any], env: Mapping[str, str], seconds: float
) -> str:
    """What the daemon says; where there is none, one is started for the next time."""
    kept = {key: payload[key] for key in ("session_id", "cwd", "prompt", "source") if key in payload}
    try:
        answer = ask(place, f"/v1/hook/{event}", {"agent": agent, "payload": kept}, env, seconds)
    except DaemonError:
        start(place, env)
        return ""
    if answer.status == OTHER_VERSION:
        start(place, env)
    text = answer.body.get("context") if answer.status == 200 and isinstance(answer.body, dict) else None
    if not isinstance(text, str) or not text:
        return ""
    name = payload.get("hook_event_name")
    told = {"hookEventName": name if isinstance(name, str) else event, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": told})


def _deadline(env: Mapping[str, str]) -> float:
    try:
        return min(30.0, max(0.05, float(env[DEADLINE])))
    except (KeyError, ValueError):
        return _DEADLINE_SECONDS


def _leave(_number: int, _frame: object) -> None:
    os._exit(0)
