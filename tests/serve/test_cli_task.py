"""`harken task`: runs recorded from the command line, as a scheduler would."""

from __future__ import annotations

import pytest

from command_line import CommandLine


def test_before_any_run_the_list_says_how_one_is_made(cli: CommandLine) -> None:
    assert cli("task", "list").out == "No task has run. Run one: harken task run NAME MESSAGE --answer TEXT\n"
    assert cli("task", "list", "--json").json() == []


def test_a_run_is_recorded_listed_and_shown(cli: CommandLine) -> None:
    recorded = cli("task", "run", "Daily", "Sum up the day.", "--answer", "All went well.")
    assert recorded.out.startswith("Recorded run ")
    assert recorded.out.endswith(" of daily.\n")
    facts = cli("task", "run", "daily", "And today?", "--answer", "-", "--json", stdin="Rain.\n").json()
    assert (facts["task"], facts["status"], facts["error"], facts["delivered"]) == ("daily", "completed", None, None)
    assert [(m["role"], m["type"], m["text"]) for m in facts["messages"]] == [
        ("user", "text", "And today?"),
        ("assistant", "text", "Rain.\n"),
    ]
    (task,) = cli("task", "list", "--json").json()
    assert (task["name"], task["id"], task["runs"], task["completed"], task["last_status"]) == (
        *("daily", "scheduler_daily"),
        *(2, 2, "completed"),
    )
    assert cli("task", "list").out.startswith("daily  2 runs, 2 completed, last completed 20")
    runs = cli("task", "history", "daily", "--json").json()
    assert [run["messages"][0]["text"] for run in runs] == ["Sum up the day.", "And today?"]
    assert runs[1]["id"] == facts["id"]
    (last,) = cli("task", "history", "daily", "--runs", "1", "--complete", "--json").json()
    assert last == runs[1]
    assert "  user: And today?\n  assistant: Rain.\n" in cli("task", "history", "daily").out
    assert len(list(cli.home.glob("conversations/scheduler_daily/*.jsonl"))) == 1


def test_an_answer_is_delivered_to_a_conversation_by_its_id(filled: CommandLine) -> None:
    chat = filled.search("frost")[0]["conversation_id"]
    facts = filled(
        "task", "run", "weather", "Frost?", "--answer", "No frost this week.", "--deliver", chat, "--json"
    ).json()
    assert "No frost this week." in filled("show", facts["delivered"]).out
    [hit] = [hit for hit in filled.search("no frost this week") if hit["id"] == facts["delivered"]]
    assert hit["conversation_id"] == chat
    assert filled("doctor").out.startswith("All agrees")


def test_without_a_model_or_an_answer_nothing_is_recorded_and_it_says_what_to_do(cli: CommandLine) -> None:
    assert "No model is configured" in cli.fails("task", "run", "daily", "Sum up.", code=1)
    assert cli("task", "list", "--json").json() == []
    assert cli("task", "list").out.startswith("No task has run.")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "../up", "x", "--answer", "y"], 2, "is no name for a task"),
        (["run", "daily", "x", "--answer", " "], 2, "The answer is empty. Nothing was recorded."),
        (["run", "daily", " ", "--answer", "y"], 2, "A task needs a message"),
        (["run", "daily", "x", "--answer", "y", "--deliver", "nowhere"], 1, "There is no conversation nowhere."),
        (["history", "daily"], 1, "There is no task daily. List them: harken task list"),
    ],
)
def test_what_cannot_be_meant_is_refused(cli: CommandLine, arguments: list[str], code: int, words: str) -> None:
    assert words in cli.fails("task", *arguments, code=code)
    assert cli.status()["messages"] == 0
