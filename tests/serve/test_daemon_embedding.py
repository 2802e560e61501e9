"""What another process imports is embedded by the daemon that lives, without being asked."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coding_agent import PATIENCE_SECONDS, CodingAgent, answering, end, eventually
from command_line import CommandLine
from harken.serve.daemon.lock import holder
from harken.serve.daemon.paths import DaemonPaths
from harken.testing import EmbeddingServer, Reply
from harken.testing.local_server import Request

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")


class HeldServer(EmbeddingServer):
    """Answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def answer(self, request: Request) -> Reply:
        self.may_answer.wait(PATIENCE_SECONDS)
        return super().answer(request)


@pytest.fixture
def server() -> Iterator[HeldServer]:
    with HeldServer() as running:
        yield running
        running.may_answer.set()


@pytest.fixture
def remote(cli: CommandLine, server: EmbeddingServer) -> CommandLine:
    """The command line with an embedding endpoint."""
    settings = {
        "HARKEN_EMBEDDER": "openai-compatible",
        "HARKEN_EMBEDDING__URL": server.url,
        "HARKEN_EMBEDDING__MODEL": "words",
        "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "3",
        "HARKEN_WORKER__BATCH_SIZE": "1",
    }
    return replace(cli, settings=settings)


def talk(folder: Path, count: int) -> Path:
    lines = [
        {"conversation": "tap", "role": "user", "content": f"Note {number}: the seal of the kitchen tap is worn out."}
        for number in range(count)
    ]
    (folder / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder / "talk.jsonl"


def test_an_import_beside_a_daemon_says_who_embeds_and_it_is_done(
    remote: CommandLine, place: DaemonPaths, tmp_path: Path
) -> None:
    process = remote.start("serve", "--quiet")
    try:
        answering(remote, place)
        outcome = remote("import", "jsonl", talk(tmp_path, 12), "--no-embed")
        assert "12 texts wait to be embedded; the daemon of this home does that in the background." in outcome.err
        eventually(lambda: remote.status()["embedded"] >= 12 and not remote.status()["queue"])
        assert remote("search", "kitchen tap").err == ""
    finally:
        end(place)
        process.kill()
        process.wait()


def test_a_daemon_that_nobody_asks_leaves_only_when_everything_is_embedded(
    remote: CommandLine, server: EmbeddingServer, place: DaemonPaths, tmp_path: Path
) -> None:
    remote("import", "jsonl", talk(tmp_path, 12), "--no-embed")
    server.script(*[Reply(delay_seconds=0.4)] * 14)
    hasty = replace(remote, settings={**remote.settings, "HARKEN_SERVE__IDLE_SECONDS": "1"})
    process = hasty.start("serve", "--quiet")
    try:
        eventually(lambda: holder(place) is not None)
        eventually(lambda: holder(place) is None)
        assert remote.status()["queue"] == 0
    finally:
        end(place)
        process.kill()
        process.wait()


def test_until_the_model_is_there_a_prompt_is_answered_by_its_words(
    remote: CommandLine, server: HeldServer, place: DaemonPaths, folder: Path
) -> None:
    earlier = CodingAgent(remote, folder, "earlier")
    earlier.say("user", "For the record: our staging cluster is called Zanzibar, and Priya owns it.")
    remote("import", "claude-code", earlier.transcript)
    assert remote.status()["embedded"] == 1
    server.may_answer.clear()
    asked = "Who owns the staging cluster Zanzibar?"
    try:
        # Neither before the model is asked for nor while it is waited for.
        for session in ("first", "second"):
            before = len(server.requests)
            assert "Priya" in CodingAgent(remote, folder, session).context(asked)
            eventually(lambda before=before, first=session == "first": not first or len(server.requests) > before)
        assert asked not in str([request.body for request in server.requests])
        server.may_answer.set()
        sessions = iter(range(1000))

        def is_asked_by_meaning() -> bool:
            assert "Priya" in CodingAgent(remote, folder, f"later {next(sessions)}").context(asked)
            return asked in str([request.body for request in server.requests])

        eventually(is_asked_by_meaning)
    finally:
        end(place)
