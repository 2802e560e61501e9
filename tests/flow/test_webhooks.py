"""What happens in a memory is told to webhooks: written with it, sent at least once, in order, without words."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from documented import every_block
from harken.engine import Harken
from harken.storage.enrichment.webhooks import RETRY_SECONDS, drop_old
from harken.testing.local_server import LocalServer, Reply, Request

START = datetime(2026, 11, 20, 9, tzinfo=UTC)
WORDS = "the gouda is behind the barn"


class Listener(LocalServer):
    """Takes deliveries, or fails as it is told, a reply for each request."""

    def __init__(self) -> None:
        super().__init__("/hook")
        self.script: list[Reply] = []

    def answer(self, request: Request) -> Reply:
        return self.script.pop(0) if self.script else Reply(204)

    @property
    def ids(self) -> list[str]:
        return [request.headers["webhook-id"] for request in self.requests]

    @property
    def told(self) -> list[tuple[str, dict[str, Any]]]:
        return [(request.body["type"], request.body["data"]) for request in self.requests]


@dataclass
class Clock:
    now: datetime = field(default=START)

    def __call__(self) -> datetime:
        # Ids and lines are in the order of their moments.
        self.now += timedelta(microseconds=1)
        return self.now

    def go(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def harken(ready_home: Path, engine_settings: dict[str, Any], clock: Clock) -> Iterator[Harken]:
    settings = {"embedder": "none", "webhooks": {"allow_hosts": ["127.0.0.1"]}, **engine_settings}
    with Harken(ready_home, settings=settings, env={}, now=clock) as opened:
        yield opened


def url_of(listener: Listener) -> str:
    return f"{listener.url}/hook"


def signed_by(secret: str, request: Request) -> bool:
    """Verify a delivery as a receiver does."""
    body = json.dumps(request.body, ensure_ascii=False, separators=(",", ":"))
    content = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.{body}".encode()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return f"v1,{made}" in request.headers["webhook-signature"].split(" ")


def test_what_is_recorded_remembered_due_and_forgotten_is_told_in_order_and_without_words(
    harken: Harken, listener: Listener, clock: Clock
) -> None:
    _, secret = harken.webhooks.add(url_of(listener))
    said = harken.record_message("kitchen", "user", WORDS)
    memory = harken.memories.add(f"{WORDS}, says the cook", "fact").memory
    harken.memories.review(memory.uid, clock.now + timedelta(days=1))
    clock.go(2 * 86_400)
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[said.uid]))
    assert harken.webhooks.deliver() == len(listener.requests)
    kinds = [kind for kind, _ in listener.told]
    assert kinds == ["recorded", "remembered", "remembered", "forgotten", "review_due"]
    recorded, remembered, changed, forgotten, due = (data for _, data in listener.told)
    space = harken.store.tenant
    assert recorded["messages"][0]["id"] == said.uid
    assert (recorded["conversation"], recorded["space"]) == (said.conversation_uid, space)
    assert (remembered["id"], remembered["kind"], remembered["new"]) == (memory.uid, "memory", True)
    assert (changed["id"], changed["new"]) == (memory.uid, False)
    assert forgotten["items"] == [{"kind": "message", "id": said.uid}]
    assert due["id"] == memory.uid
    assert all(signed_by(secret, request) for request in listener.requests)
    assert not any(word in json.dumps(request.body) for request in listener.requests for word in ("gouda", "cook"))
    assert harken.webhooks.deliver() == 0


def test_a_delivery_has_the_form_that_its_page_shows(harken: Harken, listener: Listener) -> None:
    shown = json.loads(next(block for page, _, block in every_block("json") if page == "docs/webhooks.md"))
    harken.webhooks.add(url_of(listener))
    harken.record_message("kitchen", "user", WORDS)
    harken.webhooks.deliver()
    [told] = [request.body for request in listener.requests]
    assert told.keys() == shown.keys()
    assert told["data"].keys() == shown["data"].keys()
    assert told["data"]["messages"][0].keys() == shown["data"]["messages"][0].keys()


def test_a_webhook_is_told_of_the_events_that_it_asked_for_alone(harken: Harken, listener: Listener) -> None:
    harken.webhooks.add(url_of(listener), ["remembered"])
    harken.record_message("kitchen", "user", WORDS)
    harken.memories.add("One thing worth keeping.", "fact")
    harken.webhooks.deliver()
    assert [kind for kind, _ in listener.told] == ["remembered"]


def test_nothing_is_written_where_nobody_is_to_be_told(harken: Harken) -> None:
    harken.record_message("kitchen", "user", WORDS)
    assert harken.webhooks.deliveries() == []


def test_what_cannot_be_kept_is_not_told_either(harken: Harken, listener: Listener) -> None:
    harken.webhooks.add(url_of(listener))

    def fails(_tx: object) -> None:
        raise KeyboardInterrupt

    from harken.model.conversations import Role
    from harken.record.recorder import Batch, NewConversation, NewMessage

    with pytest.raises(KeyboardInterrupt):
        harken.recorder.record([Batch(NewConversation("library", "kitchen"), [NewMessage(Role.USER, WORDS)])], fails)
    harken.webhooks.deliver()
    assert listener.requests == []


def test_an_endpoint_that_is_down_is_left_alone_for_longer_each_time_and_then_gets_all_in_order(
    harken: Harken, listener: Listener, clock: Clock
) -> None:
    harken.webhooks.add(url_of(listener), ["recorded"])
    said = [harken.record_message("kitchen", "user", f"{WORDS} {number}").uid for number in range(4)]
    listener.ailing = Reply(503)
    for wait in RETRY_SECONDS[:3]:
        harken.webhooks.deliver()
        tried = len(listener.requests)
        clock.go(wait - 1)
        harken.webhooks.deliver()
        # One delivery alone found out, and nobody asks before the time has come.
        assert len(listener.requests) == tried
        clock.go(2)
    assert len(set(listener.ids)) == 1
    listener.ailing = None
    harken.webhooks.deliver()
    assert [data["messages"][0]["id"] for _, data in listener.told[3:]] == said
    # What was tried before carries the id that it had.
    assert listener.ids[3] == listener.ids[0]


def test_a_webhook_is_halted_after_its_attempts_and_goes_on_when_its_owner_says_so(
    harken: Harken, listener: Listener, clock: Clock
) -> None:
    webhook, _ = harken.webhooks.add(url_of(listener), ["recorded"])
    harken.record_message("kitchen", "user", WORDS)
    listener.ailing = Reply(hang_up=True)
    for wait in (*RETRY_SECONDS, 0):
        harken.webhooks.deliver()
        clock.go(wait + 1)
    (halted,) = harken.webhooks.all()
    assert (halted.failed, halted.waiting) == (1, 0)
    assert "6 attempts failed" in (halted.halted or "")
    later = harken.record_message("kitchen", "user", "said while it was halted")
    harken.webhooks.deliver()
    assert len(listener.requests) == 6
    clock.go(8 * 86_400)
    with harken.store.writing() as tx:
        assert drop_old(tx, clock.now) == 0
    listener.ailing = None
    assert harken.webhooks.resume(webhook.uid[:8])[1] == 2
    assert harken.webhooks.deliver() == 2
    assert listener.told[-1][1]["messages"][0]["id"] == later.uid
    clock.go(8 * 86_400)
    with harken.store.writing() as tx:
        assert drop_old(tx, clock.now) == 2


def test_one_delivery_that_is_refused_does_not_hold_up_the_others(
    harken: Harken, listener: Listener, clock: Clock
) -> None:
    harken.webhooks.add(url_of(listener), ["recorded"])
    for number in range(3):
        harken.record_message("kitchen", "user", f"{WORDS} {number}")
    listener.script = [Reply(400)]
    assert harken.webhooks.deliver() == 2
    clock.go(RETRY_SECONDS[0] + 1)
    assert harken.webhooks.deliver() == 1
    assert listener.ids[3] == listener.ids[0]


def test_what_another_worker_has_taken_over_meanwhile_is_sent_once(harken: Harken, clock: Clock) -> None:
    """Several are leased together, and each may take its time."""

    class Slow(Listener):
        def answer(self, request: Request) -> Reply:
            if len(self.requests) == 1:
                # The others' lease ends while this one is being told.
                clock.go(200)
                other.run_once()
            return super().answer(request)

    with Slow() as listener:
        for _ in range(3):
            harken.webhooks.add(url_of(listener), ["recorded"])
        harken.record_message("kitchen", "user", WORDS)
        mine, other = (harken.background.deliver_work() for _ in range(2))
        mine.run_once()
        # Who was being told at that moment hears it of both, under one id.
        assert sorted(Counter(listener.ids).values()) == [1, 1, 2]


def test_an_endpoint_may_say_for_how_long_and_that_it_is_gone(harken: Harken, listener: Listener, clock: Clock) -> None:
    harken.webhooks.add(url_of(listener), ["recorded"])
    harken.record_message("kitchen", "user", WORDS)
    listener.script = [Reply(429, headers=(("Retry-After", "60"),)), Reply(410)]
    harken.webhooks.deliver()
    clock.go(59)
    harken.webhooks.deliver()
    assert len(listener.requests) == 1
    clock.go(2)
    harken.webhooks.deliver()
    (webhook,) = harken.webhooks.all()
    assert webhook.halted == "the endpoint is gone (410)"


def test_a_redirection_is_not_followed(harken: Harken, listener: Listener) -> None:
    harken.webhooks.add(url_of(listener), ["recorded"])
    harken.record_message("kitchen", "user", WORDS)
    listener.script = [Reply(307, headers=(("Location", url_of(listener)),))]
    assert harken.webhooks.deliver() == 0
    assert len(listener.requests) == 1
    assert "redirection" in (harken.webhooks.deliveries()[0].error or "")


def test_an_import_is_told_by_conversation_and_a_rebuild_is_not_told_again(
    harken: Harken, listener: Listener, tmp_path: Path
) -> None:
    lines = [
        {
            "conversation": "kitchen",
            "role": "user",
            "content": f"{WORDS} {number}",
            "ts": f"2024-05-01T10:{number:02}:00Z",
        }
        for number in range(30)
    ]
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    harken.webhooks.add(url_of(listener))
    harken.import_transcripts("jsonl", [file])
    harken.import_transcripts("jsonl", [file])
    harken.webhooks.deliver()
    told = [message["id"] for _, data in listener.told for message in data["messages"]]
    assert (len(told), len(set(told))) == (30, 30)
    asked = len(listener.requests)
    assert asked <= 3
    if harken.store.url.startswith("sqlite"):
        list(harken.maintenance.reindex_from_journal())
        harken.webhooks.deliver()
        assert len(listener.requests) == asked


def test_removed_webhooks_are_told_nothing_and_leave_nothing(harken: Harken, listener: Listener) -> None:
    webhook, _ = harken.webhooks.add(url_of(listener))
    harken.record_message("kitchen", "user", WORDS)
    harken.webhooks.remove(webhook.uid)
    harken.webhooks.deliver()
    assert (listener.requests, harken.webhooks.all(), harken.webhooks.deliveries()) == ([], [], [])


def test_the_worker_tells_by_itself(harken: Harken, listener: Listener) -> None:
    harken.webhooks.add(url_of(listener), ["recorded"])
    harken.background.start(["conversation"])
    said = harken.record_message("kitchen", "user", WORDS)
    for _ in range(1000):
        if listener.requests:
            break
        listener.pause(0.02)
    assert listener.told[0][1]["messages"][0]["id"] == said.uid


_DIES = """
import os, signal, sys
from harken.engine import Harken
import harken.jobs.webhooks as webhooks
sent = webhooks.post
def post(*given):
    answer = sent(*given)
    os.kill(os.getpid(), signal.SIGKILL)
webhooks.post = post
with Harken(sys.argv[1], settings={"embedder": "none", "webhooks": {"allow_hosts": ["127.0.0.1"]}}, env={}) as harken:
    harken.webhooks.deliver()
"""


def test_what_a_killed_worker_had_sent_is_sent_again_under_the_same_id(ready_home: Path, listener: Listener) -> None:
    settings: Mapping[str, Any] = {"embedder": "none", "webhooks": {"allow_hosts": ["127.0.0.1"]}}
    with Harken(ready_home, settings=settings, env={}) as harken:
        harken.webhooks.add(url_of(listener), ["recorded"])
        harken.record_message("kitchen", "user", WORDS)
    died = subprocess.run([sys.executable, "-c", _DIES, str(ready_home)], env={**os.environ, "HARKEN_HOME": ""})
    assert died.returncode == -signal.SIGKILL
    with Harken(ready_home, settings=settings, env={}) as harken:
        assert harken.webhooks.deliver() == 1
        assert harken.webhooks.deliver() == 0
    assert (len(listener.ids), len(set(listener.ids))) == (2, 1)


def test_what_a_killed_recorder_left_in_the_journal_alone_is_told_by_whoever_brings_it_in(
    ready_home: Path, listener: Listener
) -> None:
    settings: Mapping[str, Any] = {"embedder": "none", "webhooks": {"allow_hosts": ["127.0.0.1"]}}
    with Harken(ready_home, settings=settings, env={}) as harken:
        harken.webhooks.add(url_of(listener), ["recorded"])
        harken.record_message("kitchen", "user", WORDS)
        harken.webhooks.deliver()
    ((journal,),) = [list(ready_home.glob("conversations/*/*.jsonl"))]
    last = journal.read_bytes().splitlines(keepends=True)[-1]
    line = {**json.loads(last), "id": "01a21378-674e-76e6-8cbb-d81c0d34c0e1", "position": 2 * 1048576}
    line.pop("crc", None)
    journal.write_bytes(journal.read_bytes() + json.dumps(line).encode() + b"\n")
    with Harken(ready_home, settings=settings, env={}) as harken:
        assert harken.replayed.messages == 1
        assert harken.webhooks.deliver() == 1
    assert listener.told[-1][1]["messages"][0]["id"] == line["id"]


def test_the_commands_show_how_webhooks_stand(cli: CommandLine, listener: Listener) -> None:
    settings = {"HARKEN_WEBHOOKS__ALLOW_HOSTS": "127.0.0.1", "HARKEN_EMBEDDER": "none"}
    added = cli("webhook", "add", url_of(listener), "--event", "remembered", "--json", settings=settings).json()
    assert added["secret"].startswith("whsec_")
    tested = cli("webhook", "test", added["id"], "--json", settings=settings).json()
    assert (tested["status"], listener.told[0][0]) == (204, "test")
    assert signed_by(added["secret"], listener.requests[0])
    cli("memory", "add", "One thing worth keeping.", settings=settings)
    (waiting,) = cli("webhook", "deliveries", "--json", settings=settings).json()
    assert (waiting["event"], waiting["state"]) == ("remembered", "waiting")
    cli("worker", "run", "--until-idle", settings=settings)
    assert listener.told[1][0] == "remembered"
    (listed,) = cli("webhook", "list", "--json", settings=settings).json()
    assert (listed["id"], listed["waiting"], listed["halted"]) == (added["id"], 0, None)
    assert "secret" not in listed
    resumed = cli("webhook", "resume", added["id"], settings=settings).out
    assert "goes on; 0 deliveries wait for a worker's next round, " in " ".join(resumed.split())
    cli("webhook", "remove", added["id"][:8], settings=settings)
    assert "No webhooks" in cli("webhook", "list", settings=settings).out
