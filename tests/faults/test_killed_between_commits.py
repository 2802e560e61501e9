"""A server that dies between the commit of what was asked for and that of its claim: the repeat makes nothing twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import TIMEOUT_SECONDS, start_program
from harken.model.marks import in_words
from harken.storage.records.marks import ratings_of
from team_server import Served, serving_team

STORY = {"goal": "Find the leak", "hypothesis": "The valve", "action": "Close it", "prediction": "No drip"}


@pytest.fixture
def served(ready_home: Path, shared_database: str, tenant: str) -> Iterator[Served]:
    with serving_team(ready_home, shared_database, tenant) as served:
        yield served


def _killed(served: Served, home: Path, store: str, verb: str, given: dict[str, Any]) -> dict[str, Any]:
    """Ask for a verb in a process that dies in between, and again of a server that lives; that one's answer."""
    program = Path(__file__).with_name("asking_verb_process.py")
    told = home, store, served.team.name, served.keys["ann"], verb, json.dumps(given)
    with start_program(program, *told) as process:
        assert process.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
    again = served.verb("ann", verb, given, idempotency_key="mine")
    assert again.status_code == 200, again.text
    assert "idempotent-replayed" not in again.headers, "the claim died with the process"
    repeated = served.verb("ann", verb, given, idempotency_key="mine")
    assert repeated.json() == again.json()
    found: dict[str, Any] = again.json()
    return found


@pytest.mark.parametrize(
    ("verb", "given", "listed"),
    [
        ("record", {"conversation": "log", "role": "user", "text": "Moor at quay seven."}, "conversations"),
        ("remember", {"content": "Quay seven is ours."}, "memories"),
        ("experience_start", {"domain": "debugging", "strategy": "read-the-error", **STORY}, "experiences"),
        ("space_create", {"name": "harbour"}, "spaces"),
        ("principal_create", {"name": "harriet"}, "principals"),
    ],
)
def test_a_record_is_made_once(
    served: Served, ready_home: Path, shared_database: str, verb: str, given: dict[str, Any], listed: str
) -> None:
    before = len(served.verb("ann", listed).json()[listed])
    found = _killed(served, ready_home, shared_database, verb, given)
    after = served.verb("ann", listed).json()[listed]
    assert len(after) == before + 1
    assert found["id"] in {*(each["id"] for each in after), *_messages(served, after)}


def _messages(served: Served, listed: list[dict[str, Any]]) -> list[str]:
    shown = [served.verb("ann", "read_conversation", {"id": each["id"]}) for each in listed]
    return [message["id"] for one in shown if one.status_code == 200 for message in one.json()["messages"]]


def test_a_copy_is_shared_once(served: Served, ready_home: Path, shared_database: str) -> None:
    memory = served.verb("ann", "remember", {"content": "Quay seven is ours."}).json()["id"]
    copy = _killed(served, ready_home, shared_database, "share", {"id": memory, "to": "written"})["id"]
    copies = served.verb("bob", "memories", harken_space="written").json()["memories"]
    assert [each["id"] for each in copies] == [copy]


def test_a_verdict_counts_once(served: Served, ready_home: Path, shared_database: str) -> None:
    memory = served.verb("ann", "remember", {"content": "Quay seven is ours."}).json()["id"]
    _killed(served, ready_home, shared_database, "rate", {"id": memory, "verdict": "useful"})
    with served.team.memory(served.team.speaker(served.keys["ann"])).store.reading() as tx:
        assert in_words(ratings_of(tx, [memory])[memory]) == "rated useful once"
