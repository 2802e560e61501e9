"""What the user said to hold from now on steers other conversations, until it is said otherwise or dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, as_variables
from harken.engine import Harken
from harken.errors import NotFoundError, UsageError
from harken.model.conversations import Trust
from harken.serve.hooks.answers import Hooks
from harken.serve.operations.operation import Caller
from harken.serve.operations.registry import OPERATIONS
from harken.testing import ChatServer, HashingEmbedder
from harken.testing.endpoints import Says
from quotations import quotations

UNITS, ERRORS = "Always answer in metric units.", "Always include status codes when I ask about API errors."


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as running:
        yield running


@pytest.fixture
def talking(cli: CommandLine, server: ChatServer, store_settings: dict[str, Any]) -> CommandLine:
    """The command line with a scripted model, which only the chat calls."""
    model = {"HARKEN_LLM__MODEL": "openai:gpt-5-mini", "HARKEN_LLM__URL": server.url, "HARKEN_LLM__API_KEY": "unused"}
    own = replace(cli, settings={**cli.settings, **as_variables(store_settings)})
    own("summarizer", "off")
    return replace(own, settings={**own.settings, **model})


@pytest.fixture
def harken(ready_home: Path, store_settings: dict[str, Any]) -> Iterator[Harken]:
    settings = {"embedding.min_message_tokens": 3, **store_settings}
    with Harken(ready_home, env={}, settings=settings, embedder=HashingEmbedder(1024, threshold=0.3)) as opened:
        yield opened


def rules(harken: Harken, asked: str, conversation: str = "new") -> list[str]:
    """The rules that a context has, in its order."""
    layer = harken.build_context(conversation, [asked]).layer("rules")
    return [item.text for item in layer.items] if layer else []


def prompt_with(hooks: Hooks, session: str, prompt: str) -> str:
    payload = {"session_id": session, "prompt": prompt, "hook_event_name": "UserPromptSubmit"}
    said = hooks.answer("UserPromptSubmit", "claude-code", json.dumps(payload).encode())
    return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""


@pytest.mark.usefixtures("engine_settings")
def test_a_rule_of_one_chat_is_quoted_in_another_until_it_is_dropped(talking: CommandLine, server: ChatServer) -> None:
    server.script(Says("Gladly."), Says("About 8,849 metres."), Says("29,032 feet."))
    talking("chat", UNITS)
    talking("chat", "How high is Mount Everest?")
    prompt = server.prompts()[1]
    assert "What the user has asked to hold from now on, in their own words:" in prompt
    [rule] = [quoted for quoted in quotations(prompt) if quoted.text == UNITS]
    assert 'source="rule"' in prompt
    shown = talking("rules").out
    assert UNITS in shown
    assert talking("rules", "drop", "1").out == f"Dropped {rule.facts['id']}: {UNITS}\n"
    assert talking("rules", "--json").json() == []
    [dropped] = talking("rules", "--everything", "--json").json()
    assert (dropped["state"], dropped["holds"]) == ("dropped", False)
    talking("chat", "How high is Mount Everest?")
    assert "to hold from now on" not in server.prompts()[2]


def test_a_projects_rules_stay_in_it_and_general_ones_come_behind_with_its_name(harken: Harken, tmp_path: Path) -> None:
    for name in ("north", "south"):
        (tmp_path / name / ".git").mkdir(parents=True)
    harken.record_message("north", "user", ERRORS, directory=tmp_path / "north")
    harken.record_message("north", "user", UNITS, directory=tmp_path / "north")
    asked = "Which status codes do our API errors have?"
    hooks = Hooks(harken, str(tmp_path / "reports"))

    def told(directory: str, session: str) -> str:
        payload = {"session_id": session, "prompt": asked, "cwd": str(tmp_path / directory)}
        said = hooks.answer("UserPromptSubmit", "claude-code", json.dumps(payload).encode())
        return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""

    assert 'source="rule"' in told("north", "1")
    ruled = [quoted for quoted in quotations(told("south", "2")) if quoted.facts["source"] == "rule"]
    assert [(quoted.text, quoted.facts["project"]) for quoted in ruled] == [
        (f"The user has asked for this to hold from now on: {UNITS}", "north")
    ]
    harken.run_time.set("rag.scope", "project")
    assert told("south", "3") == ""
    assert UNITS in told("north", "4")


def test_a_rule_of_one_project_leaves_that_of_another_listed(cli: CommandLine, tmp_path: Path) -> None:
    stated = {
        "north": "In this repo we use tabs for indentation.",
        "south": "In this repo we use spaces for indentation.",
    }
    with Harken(cli.home, env={}, settings={"embedder": "none"}) as harken:
        for name, text in stated.items():
            (tmp_path / name / ".git").mkdir(parents=True)
            harken.record_message(name, "user", text, directory=tmp_path / name)
    for line, name in zip(cli("rules").out.splitlines(), ("south", "north"), strict=True):
        assert stated[name] in line
        assert f"  {name}  " in line
    assert [rule["holds"] for rule in cli("rules", "--everything", "--json").json()] == [True, True]


def test_a_rule_of_a_list_is_shown_by_its_number_and_no_verdict_is_taken_for_it(cli: CommandLine) -> None:
    with Harken(cli.home, env={}, settings={"embedder": "none"}) as harken:
        harken.record_message("first", "user", f"Good morning. {UNITS}")
    [rule] = cli("rules", "--json").json()
    assert f"Good morning. {UNITS}" in cli("show", "1").out
    assert f"is a rule, which no verdict changes. Drop it: harken rules drop {rule['id']}" in cli.fails(
        "rag", "wrong", "1", code=2
    )
    assert "names nothing" in cli.fails("show", "talk.1")


def test_a_dropped_rule_stays_dropped_after_the_rows_are_made_anew(cli: CommandLine) -> None:
    with Harken(cli.home, env={}, settings={"embedder": "none"}) as harken:
        for text in (UNITS, "Call me Sam."):
            harken.record_message("first", "user", text)
    cli("rules", "drop", cli("rules", "--json").json()[1]["id"])
    cli("rules", "confirm", cli("rules", "--json").json()[0]["id"])
    cli("reindex", "--from-journal")
    states = [(rule["text"], rule["state"]) for rule in cli("rules", "--everything", "--json").json()]
    assert states == [("Call me Sam.", "confirmed"), (UNITS, "dropped")]
    cli("doctor")
    assert cli("core", "list", "--json").json() == []


def test_the_newest_touching_rules_come_and_those_of_other_topics_do_not(harken: Harken) -> None:
    said = (ERRORS, "Call me Sam.", UNITS, "I prefer pine wood when I build shelves.", "Reply in English.")
    for number, text in enumerate(said):
        harken.record_message(f"talk-{number}", "user", text)
    assert rules(harken, "Which wood should I build shelves of?") == [
        "Reply in English.",
        "I prefer pine wood when I build shelves.",
        UNITS,
    ]
    assert rules(harken, "Which API errors may a client meet?")[-1] == ERRORS
    assert rules(harken, "ok, thanks a lot!") == []
    harken.run_time.set("rag.rules", False)
    assert rules(harken, "Which API errors may a client meet?") == []


def test_a_rule_of_the_chat_itself_stands_once_however_far_back_it_was_said(harken: Harken) -> None:
    harken.record_message("new", "user", UNITS)
    for number in range(40):
        harken.record_message("new", "assistant", f"Step {number} of the tour leads along the river. " * 12)
        context = harken.build_context("new", ["How high is Mount Everest?"], budget_tokens=2500)
        assert sum(message.content.count(UNITS) for message in context.messages) == 1, number


def test_rules_that_leave_and_come_with_the_window_never_take_more_than_the_budget(harken: Harken) -> None:
    longer = "Always answer in German, in whole sentences, and keep every answer that you give me under 200 words."
    harken.record_message("new", "user", longer)
    for number in range(20):
        harken.record_message("new", "assistant", f"Step {number} of the tour leads along the river. " * 8)
    harken.record_message("new", "user", UNITS)
    harken.record_message("new", "assistant", "So I will, from the next answer on, and in each table. " * 30)
    for budget in range(1100, 1500, 5):
        context = harken.build_context("new", ["How high is Mount Everest?"], budget_tokens=budget)
        assert context.tokens <= budget


@pytest.mark.parametrize(
    ("rule", "task", "other"),
    [
        ("Please always run the linter before committing.", "please commit the change", "please pull the change"),
        ("Ask me before you delete anything.", "delete the old log files", "list the old log files"),
        ("Run the whole suite after every merge.", "merge the old branch", "delete the old branch"),
        ("When I ask for a recipe, mention the calories.", "find a recipe for soup", "sort the soups by calories"),
    ],
)
def test_a_rule_comes_when_what_it_waits_for_is_asked(harken: Harken, rule: str, task: str, other: str) -> None:
    harken.record_message("one", "user", rule)
    assert rules(harken, task) == [rule]
    assert rules(harken, other) == []


def test_a_later_rule_stands_in_place_of_an_earlier_one_and_what_was_said_twice_is_dropped_at_once(
    harken: Harken,
) -> None:
    harken.record_message("one", "user", "Call me Sam.")
    harken.record_message("two", "user", "Please call me Alex.")
    assert rules(harken, "Write a letter to my landlord") == ["Please call me Alex."]
    older, newer = sorted(harken.rules.list(everything=True), key=lambda rule: rule.created_at)
    assert older.superseded_by == newer.uid
    harken.rules.drop(newer.uid)
    assert rules(harken, "Write a letter to my landlord") == []
    harken.record_message("three", "user", "Call me Alex again.")
    harken.record_message("four", "user", "Call me Alex.")
    assert rules(harken, "Write a letter to my landlord") == ["Call me Alex."]


def test_a_rule_goes_with_its_message(harken: Harken) -> None:
    message = harken.record_message("one", "user", UNITS)
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[message.uid]))
    assert harken.rules.list(everything=True) == []
    with pytest.raises(NotFoundError, match="There is no rule"):
        harken.rules.drop(message.uid)


@pytest.mark.parametrize(
    ("role", "facts"),
    [
        ("assistant", {}),
        ("tool", {"type": "tool_result", "call_id": "1", "tool_name": "fetch"}),
        ("user", {"type": "tool_result", "call_id": "1", "tool_name": "fetch"}),
        ("user", {"trust": Trust.UNTRUSTED}),
    ],
)
def test_what_others_say_is_no_rule(harken: Harken, role: str, facts: dict[str, Any]) -> None:
    harken.record_message("one", role, UNITS, **facts)
    assert harken.rules.list(everything=True) == []
    assert rules(harken, "How high is Mount Everest?") == []


def test_an_imported_rule_waits_for_its_owner(cli: CommandLine, tmp_path: Path) -> None:
    lines = tmp_path / "talk.jsonl"
    lines.write_text(json.dumps({"conversation": "c", "role": "user", "content": UNITS}) + "\n")
    cli("import", "jsonl", lines)
    [rule] = cli("rules", "--json").json()
    assert (rule["trust"], rule["holds"]) == ("imported", False)
    assert "to be confirmed" in cli("rules").out
    with Harken(cli.home, env={}, settings={"embedder": "none"}) as harken:
        assert rules(harken, "How high is Mount Everest?") == []
    assert cli("rules", "confirm", rule["id"][:-1]).out.startswith("Confirmed ")
    with Harken(cli.home, env={}, settings={"embedder": "none"}) as harken:
        assert rules(harken, "How high is Mount Everest?") == [UNITS]


def test_programs_drop_rules_and_only_the_owner_confirms_them(harken: Harken) -> None:
    harken.record_message("one", "user", UNITS)
    [rule] = OPERATIONS["rules"].call(harken, {}, Caller())["rules"]
    with pytest.raises(UsageError, match="Only the owner can confirm"):
        OPERATIONS["rule_confirm"].call(harken, {"id": rule["id"]}, Caller())
    assert OPERATIONS["rule_drop"].call(harken, {"id": rule["id"]}, Caller())["state"] == "dropped"
    assert OPERATIONS["rules"].call(harken, {}, Caller())["rules"] == []


@pytest.mark.usefixtures("engine_settings")
def test_a_hook_tells_a_rule_once_in_each_other_conversation(harken: Harken, tmp_path: Path) -> None:
    hooks = Hooks(harken, str(tmp_path / "reports"))
    harken.record_message("one", "user", ERRORS, channel="claude-code")
    harken.record_message("one", "user", "Call me Sam.", channel="claude-code")
    harken.embed()
    asked = "Which API errors may a client meet?"
    told = [quoted.text for quoted in quotations(prompt_with(hooks, "two", asked)) if quoted.facts["source"] == "rule"]
    held = "The user has asked for this to hold from now on:"
    assert told == [f"{held} Call me Sam.", f"{held} {ERRORS}"]
    assert held not in prompt_with(hooks, "two", asked)
    assert held not in prompt_with(hooks, "one", asked)
    payload = {"session_id": "three", "hook_event_name": "SessionStart", "source": "startup", "cwd": str(tmp_path)}
    begun = json.loads(hooks.answer("SessionStart", "claude-code", json.dumps(payload).encode()))
    assert "Call me Sam." in begun["hookSpecificOutput"]["additionalContext"]
    assert ERRORS not in begun["hookSpecificOutput"]["additionalContext"]


def test_an_assembled_context_has_them_too(harken: Harken) -> None:
    harken.record_message("one", "user", ERRORS)
    found = harken.assemble_context("Which API errors may a client meet?", ["memories"])
    assert "## Standing rules\n" in found.markdown
    assert ERRORS in found.markdown
    assert found.sources_used == {"rule": 1}
    harken.run_time.set("rag.rules", False)
    assert harken.assemble_context("Which API errors may a client meet?", ["memories"]).markdown == ""


@pytest.mark.usefixtures("engine_settings")
def test_search_finds_the_rule_of_a_task_that_shares_no_word_with_it(
    ready_home: Path, store_settings: dict[str, Any]
) -> None:
    settings = {"embedding.min_message_tokens": 3, **store_settings}
    with Harken(ready_home, env={}, settings=settings, embedder=HashingEmbedder(1024, threshold=0.1)) as harken:
        harken.record_message("one", "user", "Always include status codes for failures.")
        harken.record_message("two", "user", "The weather in Lisbon was lovely that autumn.")
        harken.record_message("three", "user", "Which endpoint may reject our login request?")
        harken.embed()
        found = [hit.entry.text for hit in harken.search("Why might an endpoint reject this request?").hits]
    assert "Always include status codes for failures." in found
    assert "The weather in Lisbon was lovely that autumn." not in found
