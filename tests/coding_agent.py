"""A coding agent that starts hooks, and the daemon that answers them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from command_line import CommandLine
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.wire import DaemonError, exchange

# A machine under load needs time; what takes longer than this hangs.
PATIENCE_SECONDS = 120
# The longest that a hook may be given: one that is to say or to report something gets it whatever the load.
HOOK_SECONDS = 30.0
# An interpreter starts in it, and what it writes waits for a disk.
START_SECONDS = 15.0


def start_seconds() -> float:
    """How much longer than its deadline a hook may take: the more, the more processes share a processor."""
    return START_SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class CodingAgent:
    """A coding agent's session: it writes a transcript and starts hooks."""

    def __init__(self, cli: CommandLine, folder: Path, session_id: str) -> None:
        self.cli, self.session_id = cli, session_id
        self.transcript = folder / f"{session_id}.jsonl"
        self.cwd = folder
        self.parent: str | None = None
        self.count = 0

    def hook(self, event: str, seconds: float = HOOK_SECONDS, **fields: Any) -> str:
        """Start the hook of an event as the agent does; its stdout."""
        payload = {"session_id": self.session_id, "transcript_path": str(self.transcript), "cwd": str(self.cwd)}
        done = self.run(event, json.dumps({**payload, "hook_event_name": event, **fields}).encode(), seconds)
        return done.stdout.decode()

    def run(self, event: str, stdin: bytes, seconds: float = HOOK_SECONDS) -> subprocess.CompletedProcess[bytes]:
        """The same with any stdin; it must end with 0 and say nothing on stderr."""
        done = self.cli.run("hook", event, stdin=stdin, settings={"HARKEN_HOOKS__DEADLINE_SECONDS": str(seconds)})
        assert (done.returncode, done.stderr) == (0, b"")
        return done

    def context(self, prompt: str) -> str:
        """What the agent's model gets to read beside a prompt."""
        out = self.hook("UserPromptSubmit", prompt=prompt)
        if not out:
            return ""
        told = json.loads(out)["hookSpecificOutput"]
        assert told.keys() == {"hookEventName", "additionalContext"}
        assert told["hookEventName"] == "UserPromptSubmit"
        text: str = told["additionalContext"]
        return text

    def say(self, role: str, text: str) -> None:
        """Write a line of the transcript."""
        self.count += 1
        uuid = f"{self.session_id}-{self.count}"
        line = {
            "type": role,
            "uuid": uuid,
            "parentUuid": self.parent,
            "sessionId": self.session_id,
            "timestamp": f"2026-11-20T10:00:{self.count:02}.000Z",
            "cwd": str(self.cwd),
            "message": {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]},
        }
        self.parent = uuid
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class Answer(NamedTuple):
    """The daemon's answer: the status of HTTP and the parsed JSON."""

    status: int
    body: Any


def ask(
    place: DaemonPaths, route: str, body: Mapping[str, Any] | None, env: Mapping[str, str], seconds: float
) -> Answer:
    """Ask the daemon once, by POST with a body, else by GET."""
    content = None if body is None else json.dumps(body).encode()
    status, answer = exchange(place.socket, route, content, env, seconds)
    return Answer(status, json.loads(answer) if answer else None)


def answering(cli: CommandLine, place: DaemonPaths) -> int:
    """The process id of the daemon, once it answers."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            pid: int = ask(place, "/v1/ping", None, cli.environment(), 5.0).body["pid"]
        except DaemonError:
            time.sleep(0.05)
        else:
            return pid
    raise AssertionError("no daemon answers")


def end(place: DaemonPaths) -> None:
    """Kill whatever serves a home, also what is only just starting and holds nothing yet."""
    for _ in range(100):
        found = holder(place)
        alive = {*daemons_of(Path(place.home)), *([found.pid] if found else [])}
        if not alive:
            return
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def daemons_of(home: Path) -> list[int]:
    """Processes that were started to serve a home, whether or not they do yet; none where there is no `/proc`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and os.fsencode(str(home)) in words:
            found.append(int(folder.name))
    return found


def eventually(look: Callable[[], Any]) -> Any:
    """What is seen, once it is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(0.1)
    raise AssertionError("it never came true")
