"""The daemon that a hook starts is nobody's burden, and the hook pays for nothing that it does not need."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coding_agent import HOOK_SECONDS, PATIENCE_SECONDS, CodingAgent, answering, daemons_of, end, eventually
from command_line import PYTHON, CommandLine
from harken.serve.daemon.lock import held, holder
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.starting import answered, claim, has_started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

# Each takes longer to import than the daemon to find that a prompt asks for nothing.
HEAVY = {
    "asyncio",
    "contextlib",
    "enum",
    "hashlib",
    "json",
    "pathlib",
    "re",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "typing",
}
# Ends where the hook would: what it has imported until then is told instead.
TELLING = """
import os, sys
os._exit = lambda code: (sys.stderr.write(" ".join(sys.modules)), sys.stderr.flush(), os.kill(os.getpid(), 9))
sys.argv = ["harken", "hook", sys.argv[1]]
from harken.serve.cli import main
main()
"""


@pytest.fixture
def started(cli: CommandLine, place: DaemonPaths) -> Iterator[CommandLine]:
    yield cli
    end(place)


def hook(cli: CommandLine, words: list[str], **streams: object) -> subprocess.CompletedProcess[bytes]:
    env = {**cli.environment(), "HARKEN_HOOKS__DEADLINE_SECONDS": str(HOOK_SECONDS)}
    payload = json.dumps({"session_id": "one", "cwd": "/", "prompt": "Where is the harbour plan?"}).encode()
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        words, env=env, input=payload, capture_output=True, timeout=PATIENCE_SECONDS, check=False, **streams
    )


def test_a_daemon_holds_nothing_of_the_agent_that_it_was_started_for(
    started: CommandLine, place: DaemonPaths, folder: Path
) -> None:
    reading, writing = os.pipe()
    done = hook(started, [*PYTHON, "hook", "UserPromptSubmit"], pass_fds=(writing,), cwd=folder)
    os.close(writing)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    pid = answering(started, place)
    # The agent hears that its pipe ended, though the daemon lives.
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert os.getsid(pid) == pid
    if sys.platform == "linux":
        assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
        assert {str(Path(f"/proc/{pid}/fd/{stream}").readlink()) for stream in (0, 1, 2)} == {os.devnull}


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart"])
def test_a_hook_imports_nothing_heavy_with_a_daemon_or_without(
    started: CommandLine, place: DaemonPaths, event: str
) -> None:
    for _ in ("without", "with"):
        done = hook(started, [sys.executable, "-S", "-c", _on_path(TELLING), event])
        imported = set(done.stderr.decode().split())
        assert "harken.serve.hooks.client" in imported
        assert imported & HEAVY == set()
        answering(started, place)


def _on_path(program: str) -> str:
    """Without the packages of this environment, some of which bring modules into every process."""
    source = Path(__file__).parents[2] / "src"
    return f"import sys; sys.path.insert(0, {str(source)!r})\n{program}"


def test_the_first_prompt_of_all_is_answered_by_the_daemon_that_it_starts(
    filled: CommandLine, place: DaemonPaths, folder: Path
) -> None:
    try:
        assert daemons_of(filled.home) == []
        assert "last frost" in CodingAgent(filled, folder, "one").context("When do I plant the tomato seedlings?")
    finally:
        end(place)


# As the daemon answers the hook that has started it, told what it has imported until then.
FIRST_ANSWER = """
import json, sys
from harken.engine import Harken
from harken.serve.daemon.run import Daemon
from harken.serve.http.routes import make_app
from harken.serve.hooks.answers import Hooks
asked = {"session_id": "one", "cwd": "/", "prompt": "When do I plant the tomato seedlings?"}
with Harken(sys.argv[1], env={}) as harken:
    hooks = Hooks(harken, sys.argv[1] + "/run/reports", is_loading=lambda: True)
    said = hooks.answer("UserPromptSubmit", "claude-code", json.dumps(asked).encode())
print(json.dumps([said.decode(), *sys.modules]))
"""


def test_the_first_answer_waits_for_no_model_and_for_nothing_that_it_does_not_need(filled: CommandLine) -> None:
    words = [sys.executable, "-c", FIRST_ANSWER, str(filled.home)]
    told = subprocess.run(words, env=filled.environment(), capture_output=True, check=True).stdout
    said, *imported = json.loads(told)
    assert "last frost" in said
    late = {"onnxruntime", "tokenizers", "pydantic", "mcp", "httpx", "rich", "harken.jobs.workers"}
    assert not late & set(imported)


def is_waited_for(lock: Path) -> bool:
    """Whether a process or a thread waits for a lock."""
    number = f":{lock.stat().st_ino} "
    return any("->" in line and number in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc/locks tells who waits")
def test_who_waits_for_a_daemon_goes_on_when_it_answers_and_when_it_has_failed(place: DaemonPaths) -> None:
    Path(place.folder).mkdir(parents=True, mode=0o700)
    for tell in (answered, os.close):
        claimed = claim(place)
        assert claimed is not None
        seen: list[bool] = []
        waiting = threading.Thread(target=lambda seen=seen: seen.append(has_started(place)))
        waiting.start()
        eventually(lambda: is_waited_for(Path(place.starting)))
        assert seen == []
        tell(claimed)
        waiting.join()
        assert seen == [True]
        assert not has_started(place)


def test_one_that_finds_another_there_has_not_failed(cli: CommandLine, place: DaemonPaths) -> None:
    claimed = claim(place)
    assert claimed is not None
    words = [*PYTHON, "serve", "--quiet", "--claimed", str(claimed)]
    with held(place):
        done = subprocess.run(words, env=cli.environment(), capture_output=True, pass_fds=[claimed], check=False)
    os.close(claimed)
    assert b"is served by process" in done.stderr
    again = claim(place)
    assert again is not None, "the other has left, and none would be started"
    os.close(again)


def test_who_only_looks_at_the_lock_keeps_no_daemon_from_it(place: DaemonPaths) -> None:
    Path(place.folder).mkdir(parents=True, mode=0o700)
    with Path(place.lock).open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        letting_go = threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN))
        letting_go.start()
        with held(place):
            found = holder(place)
            assert found is not None
            assert found.pid == os.getpid()
        letting_go.join()


@pytest.mark.no_home
def test_garbage_starts_no_daemon(cli: CommandLine) -> None:
    env = {**cli.environment(), "HARKEN_HOOKS__DEADLINE_SECONDS": str(HOOK_SECONDS)}
    for stdin in (b"", b"{", b"[]", b"null", b"\xff\xfe"):
        for event in ("UserPromptSubmit", "Stop"):
            done = subprocess.run([*PYTHON, "hook", event], env=env, input=stdin, capture_output=True, check=True)
            assert (done.stdout, done.stderr) == (b"", b"")
    time.sleep(0.2)
    eventually(lambda: daemons_of(cli.home) == [])
    assert not cli.home.exists()
