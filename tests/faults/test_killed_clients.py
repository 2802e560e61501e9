"""Clients of a daemon are killed at any moment: what is left is one daemon or none, and a store that is whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from long_talk import texts_in_rows

from coding_agent import HOOK_SECONDS, CodingAgent, answering, daemons_of, end, eventually
from command_line import CommandLine
from harken.engine import Harken
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

CLIENTS = 50
AT_ONCE = 5
# An interpreter that starts beside four others, and then has something to do.
LONGEST_LIFE_SECONDS = 4.0
HANDSHAKE = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "doomed", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {"query": "harbour"}}},
)


@dataclass
class Clients:
    """Starts clients of every kind, and kills each."""

    cli: CommandLine
    agents: list[CodingAgent]
    rng: random.Random
    reported: set[str] = field(default_factory=set)
    hit: int = 0

    def start(self) -> ForgetPlan:
        """A client of some kind."""
        agent = self.rng.choice(self.agents)
        payload = json.dumps(
            {
                "session_id": agent.session_id,
                "transcript_path": str(agent.transcript),
                "cwd": str(agent.cwd),
                "prompt": "Which crane is at the harbour?",
            }
        )
        calls = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in HANDSHAKE)
        kinds: list[tuple[tuple[str, ...], str | None]] = [
            (("hook", "Stop"), payload),
            (("hook", "Stop"), payload),
            (("hook", "UserPromptSubmit"), payload),
            (("mcp",), calls),
            (("mcp",), calls),
            (("serve", "--status"), None),
            (("search", "harbour"), None),
            (("memory", "add", f"Crane {self.rng.random()} is at the harbour."), None),
            (("import", "claude-code", str(agent.transcript), "--no-embed"), None),
        ]
        words, said = self.rng.choice(kinds)
        process = self.cli.start(*words, stdin=subprocess.PIPE)
        if said is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(said)
                process.stdin.flush()
        if words[0] == "hook":
            process.stdin.close()
        life = self.rng.uniform(0, LONGEST_LIFE_SECONDS)
        return ForgetPlan(process, time.monotonic() + life, agent.session_id if words == ("hook", "Stop") else None)

    def kill(self, doomed: ForgetPlan) -> None:
        """Kill it, or see that it has ended by itself."""
        if doomed.process.poll() is None:
            doomed.process.send_signal(signal.SIGKILL)
            self.hit += 1
        elif doomed.session_id:
            self.reported.add(doomed.session_id)
        doomed.process.wait()
        with suppress(BrokenPipeError):
            doomed.process.stdin.close()


@dataclass
class ForgetPlan:
    """A client, and when it is to die.

    Attributes:
        session_id: that it reports, if it ends by itself.
    """

    process: subprocess.Popen[str]
    at: float
    session_id: str | None


@pytest.fixture
def agents(cli: CommandLine, tmp_path: Path) -> list[CodingAgent]:
    """Twelve sessions, each with something that was said."""
    made = []
    for number in range(12):
        agent = CodingAgent(cli, tmp_path, f"session-{number}")
        agent.say("user", f"Where does crane {number} stand at the harbour, please?")
        agent.say("assistant", f"Crane {number} stands on quay {number * 3}.")
        made.append(agent)
    return made


@pytest.fixture
def place(cli: CommandLine) -> Iterator[DaemonPaths]:
    found = DaemonPaths(str(cli.home))
    yield found
    end(found)


def test_fifty_clients_that_are_killed_leave_one_daemon_or_none(
    cli: CommandLine, agents: list[CodingAgent], place: DaemonPaths, rounds: int
) -> None:
    rng = random.Random(20261127)
    # A hook that ends by itself has reported then, and has not only come to its deadline.
    # Cold, as agents start them: some are killed while they import.
    patient = replace(cli, settings={**cli.settings, "HARKEN_HOOKS__DEADLINE_SECONDS": str(HOOK_SECONDS)}, cold=True)
    clients = Clients(patient, agents, rng)
    waves = max(1, rounds // 4)
    for wave in range(waves):
        # In every other wave the daemon is killed as well, somewhere on the way.
        kill_wave(clients, place, daemon_dies_after=rng.randrange(CLIENTS) if wave % 2 else None)
        eventually(lambda: is_settled(cli.home, place))
    print(f"{clients.hit} kills hit a client out of {waves * CLIENTS}")
    assert clients.hit > 0
    # The next client is served by a daemon, and what a hook reported before it ended is there by then.
    agents[0].hook("Stop")
    pid = answering(cli, place)
    assert cli("serve", "--status", "--json").json()["pid"] == pid
    assert daemons_of(cli.home) == [pid]
    eventually(lambda: {f"{session_id}-2" for session_id in clients.reported} <= known(cli.home))
    for agent in agents:
        agent.hook("Stop")
    eventually(lambda: cli.status()["messages"] == 2 * len(agents))
    assert cli("doctor").out.startswith("All agrees")
    eventually(lambda: not any(Path(place.reports).iterdir()))
    cli("serve", "--stop")
    eventually(lambda: processes_of(cli.home) == [])
    assert cli.status()["messages"] == 2 * len(agents)


def kill_wave(clients: Clients, place: DaemonPaths, daemon_dies_after: int | None) -> None:
    """Fifty clients live and die, five at a time."""
    alive: list[ForgetPlan] = []
    for number in range(CLIENTS):
        alive.append(clients.start())
        if number == daemon_dies_after and (found := holder(place)) is not None:
            os.kill(found.pid, signal.SIGKILL)
        if len(alive) == AT_ONCE:
            first = min(alive, key=lambda one: one.at)
            time.sleep(max(0.0, first.at - time.monotonic()))
            alive.remove(first)
            clients.kill(first)
    for one in sorted(alive, key=lambda one: one.at):
        time.sleep(max(0.0, one.at - time.monotonic()))
        clients.kill(one)


def known(home: Path) -> set[str]:
    """The ids of the messages that are in the store, as the agents gave them."""
    with Harken(home, settings={"embedder": "none"}, env={}) as harken:
        return {external_id for external_id, _ in texts_in_rows(harken)}


def is_settled(home: Path, place: DaemonPaths) -> bool:
    """Whether a home has no process but the one that holds its lock."""
    found = holder(place)
    return processes_of(home) == ([found.pid] if found else [])


def processes_of(home: Path) -> list[int]:
    """Every process that was given this home."""
    named = f"HARKEN_HOME={home}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if named in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
