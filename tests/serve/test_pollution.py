"""A long talk with injection on leaves nothing in memory but what was said, and hears nothing twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coding_agent import PATIENCE_SECONDS, CodingAgent, answering, ask, end, eventually
from command_line import CommandLine
from harken.serve.daemon.paths import DaemonPaths

EXCHANGES = 100
INJECTED = ("harken-recall", "system-reminder", "From earlier conversations", "What this project's memory has", "hook>")
TOPICS = ("Zanzibar", "Lisbon", "Kyoto", "Oslo", "Quito", "Windhoek", "Tbilisi", "Hobart", "Galway", "Nairobi")
OWNERS = ("Priya", "Tomas", "Ingrid", "Wanjiru")


class Session(CodingAgent):
    """Claude Code as its transcripts of version 2.1.330 show it, with all that it writes beside what is said."""

    def __init__(self, cli: CommandLine, folder: Path, session_id: str, place: DaemonPaths) -> None:
        super().__init__(cli, folder, session_id)
        self.place = place
        self.told: list[str] = []
        self.said: list[tuple[str, str]] = []
        self.brief_again = ""

    def report(self, event: str, **fields: Any) -> str:
        """What the daemon has the hook of an event print, as text for the model."""
        payload = {"session_id": self.session_id, "transcript_path": str(self.transcript), "cwd": str(self.cwd)}
        route = f"/v1/hook/{event}?agent=claude-code"
        body = {**payload, "hook_event_name": event, **fields}
        answer = ask(self.place, route, body, self.cli.environment(), PATIENCE_SECONDS)
        assert answer.status == 200
        text: str = answer.body["hookSpecificOutput"]["additionalContext"] if answer.body else ""
        if text:
            self.told.append(text)
            self.attach(event, text)
        return text

    def attach(self, event: str, text: str) -> None:
        """Write down what a hook injected, three times over, as Claude Code does."""
        reminder = f"<system-reminder>\n{event} hook additional context: {text}\n</system-reminder>"
        printed = json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})
        facts = {"hookName": event, "toolUseID": "hook-1", "hookEvent": event}
        rendered = {"rendered": [{"content": reminder}], "renderedRole": "system"}
        self.line("attachment", attachment={"type": "hook_success", "content": "", "stdout": printed, **facts})
        self.line("attachment", attachment={"type": "hook_additional_context", "content": [text], **facts}, **rendered)
        asked = {"role": "user", "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "And now?"}]}
        self.line("api-request-blob", message=asked, hash="5d65")

    def line(self, kind: str, **fields: Any) -> None:
        """Write a line that is nobody's message."""
        self.count += 1
        uuid = f"{self.session_id}-{self.count}"
        head = {"type": kind, "uuid": uuid, "parentUuid": self.parent, "sessionId": self.session_id}
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**head, "timestamp": self.now(), "cwd": str(self.cwd), **fields}) + "\n")
        self.parent = uuid

    def now(self) -> str:
        """A time that goes on with each line."""
        return f"2026-11-20T10:{self.count // 60 % 60:02}:{self.count % 60:02}.000Z"

    def exchange(self, number: int, topic: str) -> None:
        """A prompt, what memory has on it, a tool's result with a reminder in it, and an answer that repeats it all."""
        prompt = f"Who owns the staging cluster {topic}? ({number})"
        reminder = "<system-reminder>\nBe brief, and use your tools.\n</system-reminder>"
        blocks = [{"type": "text", "text": reminder}, {"type": "text", "text": prompt}]
        self.line("user", message={"role": "user", "content": blocks})
        told = self.report("UserPromptSubmit", prompt=prompt)
        call = {"type": "tool_use", "id": f"call-{number}", "name": "Read", "input": {"file": f"{number}.md"}}
        self.line("assistant", message={"role": "assistant", "content": [call]})
        result = {"type": "tool_result", "tool_use_id": f"call-{number}", "content": f"Page {number}.\n\n{reminder}"}
        self.line("user", message={"role": "user", "content": [result]})
        answer = f"Answer {number}: I have looked the {topic} up."
        repeated = told[told.index("<harken-recall") :] if told else ""
        spoken = [{"type": "text", "text": f"{answer}\n\n{repeated}".strip()}]
        self.line("assistant", message={"role": "assistant", "content": spoken})
        self.said += [("user", prompt), ("tool", f"Page {number}."), ("assistant", answer)]
        if number % 10 == 0:
            self.report("Stop")

    def compact(self) -> None:
        """The context is full: Claude Code goes on with a summary, which holds what was recalled."""
        self.report("PreCompact", trigger="auto")
        self.line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
        summary = f"This session is being continued from a previous conversation.\n{self.told[0]}"
        self.line("user", message={"role": "user", "content": summary}, isCompactSummary=True)
        self.brief_again = self.report("SessionStart", source="compact")


@pytest.fixture
def serving(cli: CommandLine, place: DaemonPaths) -> Iterator[Callable[[], int]]:
    """Starts a daemon, and ends it."""
    started = []

    def start() -> int:
        started.append(cli.start("serve", "--quiet"))
        return answering(cli, place)

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE_SECONDS)
    end(place)


def ids_in(text: str) -> list[str]:
    """The ids of what a text quotes."""
    return re.findall(r'<harken-recall-[^>]*\bid="([^"]+)"', text)


def messages(cli: CommandLine, file: Path) -> list[dict[str, Any]]:
    """Every message that is stored."""
    cli("export", file)
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [line for line in lines if line.get("event") == "message"]


def test_a_hundred_exchanges_leave_only_what_was_said_and_hear_nothing_twice(
    cli: CommandLine, serving: Callable[[], int], folder: Path, place: DaemonPaths, tmp_path: Path
) -> None:
    cli("core", "set", "user", "name", "Maya")
    earlier = []
    for number, topic in enumerate(TOPICS):
        agent = CodingAgent(cli, folder, f"earlier-{number}")
        owner = OWNERS[number % len(OWNERS)]
        agent.say("user", f"For the record: our staging cluster is called {topic}, and {owner} owns it.")
        agent.say("assistant", f"Noted: staging is {topic}, owned by {owner}.")
        earlier.append(agent.transcript)
    cli("import", "claude-code", *earlier)
    before = cli.status()["messages"]
    serving()
    session = Session(cli, folder, "long", place)
    session.report("SessionStart", source="startup")
    for number in range(EXCHANGES):
        session.exchange(number, TOPICS[number % len(TOPICS)])
        if number == EXCHANGES // 2:
            session.compact()
    session.report("SessionEnd", reason="other")
    # A call and a marker of the compaction are messages too.
    eventually(lambda: cli.status()["messages"] == before + 4 * EXCHANGES + 1)

    found = messages(cli, tmp_path / "stored.jsonl")
    assert not [text for text in (json.dumps(message) for message in found) if any(word in text for word in INJECTED)]
    uid = next(message["conversation"] for message in found if message.get("text") == session.said[0][1])
    own = [each for each in found if each["conversation"] == uid and each["type"] in ("text", "tool_result")]
    assert [(each["role"], each["text"]) for each in own] == session.said
    # After the compaction the brief is told again, for it is gone from the context; nothing else ever is.
    assert len(ids_in(session.brief_again)) <= 1
    given = [uid for text in session.told if text is not session.brief_again for uid in ids_in(text)]
    assert len(given) == len(set(given))
    assert len(given) >= len(TOPICS)
    # What it had said itself never came back to it as something from elsewhere.
    assert not any(session.said[0][1] in text for text in session.told)
