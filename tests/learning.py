"""Experiences that tests go through, and sessions of agents that run tests and builds."""

from __future__ import annotations

import json
from typing import Any

from harken.engine import Harken
from harken.model.experiences import Experience, Lesson, RootCause

STORY: dict[str, Any] = {
    "domain": "debugging",
    "strategy": "systematic-elimination",
    "goal": "Find out why the importer loses rows",
    "hypothesis": "The reader skips lines that end in a carriage return",
    "action": "Fed it the same file with each kind of line ending",
    "prediction": "Only the file with carriage returns loses rows",
}
FALSIFIED: dict[str, Any] = {
    "status": "falsified",
    "result": "All three files lost 12 rows",
    "surprise": "Line endings had nothing to do with it",
    "root_cause": RootCause("wrong-assumption", "The rows were duplicates and dropped on purpose"),
    "lesson": Lesson("Counting what was dropped, and why, before reading code"),
}

THEMES = {
    "caching": ("stale cache entry key version purge edge", "price page", "fragment"),
    "locking": ("deadlock rows lock order transaction update", "ledger import", "batch"),
    "zones": ("zone offset midnight calendar day clock", "invoice date", "report"),
}


def go_through(harken: Harken, **given: Any) -> Experience:
    """Begin an experience and end it."""
    story = {**STORY, **{name: value for name, value in given.items() if name in STORY}}
    ending = {name: value for name, value in given.items() if name not in STORY} or FALSIFIED
    begun = harken.experiences.start(**story)
    return harken.experiences.resolve(uid=begun.uid, **ending)


def learn_themes(harken: Harken, count: int, first: int = 0) -> None:
    """So many experiences of each theme, with words of their own."""
    for number in range(first, first + count):
        for words, place, thing in THEMES.values():
            go_through(
                harken,
                goal=f"Repair the {place} {words}",
                hypothesis=f"The {words} of {thing} {number} differs",
                action=f"Compared {words} run{number}",
                prediction=f"The {thing} {words} agree",
                status="confirmed",
                result=f"The {words} agreed",
            )
    harken.embed()


def run_shell(
    harken: Harken, command: str, printed: str, *, code: int | None = None, talk: str = "work", **more: Any
) -> str:
    """An agent runs a command; the id of the message that says what it printed."""
    call_id = f"call-{command}-{harken.recorder.now().isoformat()}"
    shell = {"call_id": call_id, "tool_name": "Bash", **more}
    harken.record_message(talk, "assistant", f"Bash {json.dumps({'command': command})}", type="tool_call", **shell)
    metadata = {} if code is None else {"exit_code": code}
    return harken.record_message(talk, "tool", printed, type="tool_result", metadata=metadata, **shell).uid
