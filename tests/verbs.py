"""A call of every verb, with what makes it answer."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from harken.engine import Harken
from harken.serve.operations.registry import OPERATIONS

Calls = list[tuple[str, dict[str, Any]]]

SECRET_PLACE = "/etc"


def make_project(folder: Path) -> Path:
    """A repository with a commit, code and a document."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "harbour.py").write_text(
        'def moor_ship(name: str) -> str:\n    """Tie a ship to the quay."""\n    return name\n'
    )
    (folder / "notes.md").write_text("# Harbour\n\nThe quay floods in November; ships are moved to the upper basin.\n")
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Moor ships at the quay"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return folder


def fill(harken: Harken, conversation: str = "harbour") -> dict[str, str]:
    """Something to find; the ids that calls need."""
    asked = harken.record_message(conversation, "user", "Which quay is free for the ship Aurora?")
    harken.record_message(conversation, "assistant", "Quay seven is free for the Aurora until Friday.")
    harken.end_exchange(conversation)
    memory = harken.memories.add("Ships are moored at quay seven first.", "workflow")
    return {"message": asked.uid, "conversation": asked.conversation_uid, "memory": memory.memory.uid}


def calls(ids: Mapping[str, str]) -> Calls:
    """One call of each verb, in an order in which all of them succeed where no model embeds."""
    story = {"goal": "Find the leak", "hypothesis": "The valve", "action": "Close it", "prediction": "No drip"}
    return [
        ("search", {"query": "quay Aurora", "limit": 1}),
        ("conversations", {"agent": "library", "limit": 1}),
        ("show", {"id": ids["message"]}),
        ("record", {"conversation": "log", "role": "user", "text": "The Aurora sails on Friday.", "ends": True}),
        ("recall", {"text": "Which quay is free for the Aurora?", "conversation": "log", "channel": "api"}),
        ("context", {"text": "Where is the Aurora?"}),
        ("fetch_conversation_details", {"conversation_id": ids["conversation"]}),
        ("status", {}),
        ("stats", {}),
        ("remember", {"content": "The harbour master is called Ilse.", "tags": ["people"]}),
        ("memories", {"limit": 1}),
        ("rules", {"everything": True}),
        ("rate", {"id": ids["message"], "verdict": "wrong", "question": "Where is the Aurora?"}),
        ("recalls", {"limit": 1}),
        ("tag", {"id": ids["conversation"], "add": ["harbour"]}),
        ("tags", {}),
        ("conversation_title", {"on": ids["conversation"], "title": "The Aurora's quay"}),
        ("conversation_project", {"on": ids["conversation"], "project": ""}),
        ("topics", {}),
        ("digest", {"since": "yesterday"}),
        ("memory_review", {"id": ids["memory"], "by": "2020-01-31"}),
        ("memory_due", {"within": 1}),
        ("memory_confirm", {"id": ids["memory"]}),
        ("experience_start", {"domain": "debugging", "strategy": "read-the-error", **story}),
        ("experience_update", {"hypothesis": "The pump"}),
        ("experience_active", {"session": "another"}),
        ("experience_adopt", {"session": "another"}),
        (
            "experience_resolve",
            {"status": "falsified", "result": "It drips", "surprise": "Not the pump", "cause": "oversight",
             "cause_description": "The seal was never looked at"},
        ),
        ("experiences", {"domain": "debugging"}),
        ("values", {}),
        ("index_code", {}),
        ("index_commits", {"limit": 10}),
        ("index_documents", {}),
        ("assemble_context", {"query": "moor ship quay", "include_items": True}),
        ("premortem", {"domain": "debugging"}),
        ("status", {"projects": True}),
        ("failures", {"limit": 1}),
        ("read_conversation", {"id": ids["message"], "limit": 1}),
        ("days", {"since": "2020-01-01"}),
        ("recalls", {"limit": 1}),
        ("indexed", {}),
        ("forget", {"ids": [ids["memory"]]}),
        ("forget", {"ids": [ids["memory"]], "confirm": True}),
    ]  # fmt: skip


# These need vectors of twenty experiences, or a cluster of them; or a rule that was stated, and its owner.
REFUSED: Calls = [
    ("rule_confirm", {"id": "ffffffffffff"}),
    ("rule_drop", {"id": "ffffffffffff"}),
    ("topic_rename", {"id": "ffffffffffff", "name": "Quays"}),
    ("value_clusters", {}),
    ("value_members", {"cluster_id": "strategy_0"}),
    ("value_add", {"text": "Read the error first.", "cluster_id": "strategy_0"}),
]

WRONG: Calls = [
    ("search", {}),
    ("search", {"query": ""}),
    ("search", {"query": "x" * 3000}),
    ("search", {"query": "quay", "limit": 0}),
    ("search", {"query": "quay", "lmit": 3}),
    ("search", {"query": "quay", "since": "2026-13-45"}),
    ("search", {"query": "quay", "project": "no-such-project"}),
    ("conversations", {"agent": "no-such-agent"}),
    ("show", {"id": "ffffffff"}),
    ("read_conversation", {"id": "ffffffff"}),
    ("recalls", {"before": "yesterday"}),
    ("recalls", {"before": "0001-01-01T00:00:00+23:00"}),
    ("days", {"since": "2026-13-45"}),
    ("failures", {"limit": 0}),
    ("indexed", {"project": "quay"}),
    ("search", {"query": "quay", "threshold": 2}),
    ("show", {"id": 7}),
    ("record", {"conversation": "log", "role": "captain", "text": "Ahoy"}),
    ("record", {"conversation": "log", "role": "user", "text": ""}),
    ("recall", {}),
    ("context", {"conversation": "no-such-conversation"}),
    ("fetch_conversation_details", {}),
    ("fetch_conversation_details", {"conversation_id": "ffffffffffff"}),
    ("fetch_conversation_details", {"conversation_id": "x" * 200_000}),
    ("rate", {"id": "ffffffffffff", "verdict": "useful"}),
    ("rate", {"id": "ffffffffffff", "verdict": "brilliant"}),
    ("tag", {"id": "ffffffffffff", "add": ["x"]}),
    ("tags", {"of": "everything"}),
    ("conversation_title", {"on": "ffffffffffff", "title": "A quay"}),
    ("topics", {"of": "everything"}),
    ("digest", {"since": "2026-13-45"}),
    ("memory_review", {"id": "ffffffffffff", "by": "90"}),
    ("memory_confirm", {"id": "ffffffffffff"}),
    ("memory_due", {"within": -1}),
    ("conversation_project", {"on": "ffffffffffff", "project": SECRET_PLACE}),
    ("remember", {"content": "x" * 20_000}),
    ("remember", {"content": "Fine.", "category": "gossip"}),
    ("remember", {"content": "Fine.", "directory": SECRET_PLACE}),
    ("forget", {"ids": []}),
    ("forget", {"ids": ["ffffffffffff"], "confirm": True}),
    ("forget", {"ids": ["ffffffffffff"], "kind": "message"}),
    ("experience_start", {"domain": "cooking"}),
    ("experience_resolve", {"status": "confirmed"}),
    ("experience_update", {"cause": "oversight"}),
    ("experience_active", {"agent": ""}),
    ("experience_adopt", {"id": "ffffffffffff", "session": "another"}),
    ("experiences", {"domain": "cooking"}),
    ("experiences", {"limit": 101}),
    ("values", {"axis": "taste"}),
    ("status", {"of": "everything"}),
    ("stats", {"by": "taste"}),
    ("memories", {"category": "gossip"}),
    ("rules", {"everything": "perhaps"}),
    ("memories", {"tags": ["t"] * 100}),
    ("assemble_context", {"query": "quay", "types": ["rumours"]}),
    ("premortem", {}),
    ("index_code", {"path": SECRET_PLACE}),
    ("index_code", {"path": "../../../../../../etc"}),
    ("index_documents", {"path": "/etc/passwd"}),
    ("index_commits", {"path": "no\0such"}),
    ("index_code", {"path": "~root"}),
]


# Some items of layers have more facts.
OPEN = {"LayerItemView"}


@cache
def _validator(name: str, is_brief: bool) -> Draft202012Validator:
    schema = TypeAdapter(OPERATIONS[name].answer).json_schema(mode="serialization")
    for each in (schema, *schema.get("$defs", {}).values()):
        if each["title"] not in OPEN:
            each["additionalProperties"] = False
        if is_brief:
            each.pop("required", None)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def check_answer(name: str, answer: Any, is_brief: bool = False) -> None:
    """The answer is what its schema says, and nothing else; brief, where it may leave things out."""
    _validator(name, is_brief).validate(answer)


def check_sentence(message: str) -> None:
    """An error is one line that says something, and names nothing of the inside."""
    assert len(message) > 15, message
    assert "\n" not in message
    assert not any(word in message for word in ("Traceback", "pydantic", "sqlite", "unexpected", "ValidationError")), (
        message
    )
