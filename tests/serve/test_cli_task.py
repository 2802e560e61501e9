"""`harken task`: runs recorded from the command line, as a scheduler would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from command_line import CommandLine
from harken.testing import ChatServer
from harken.testing.endpoints import Says, ScriptedCall
from harken.testing.local_server import Request


def test_before_any_run_the_list_says_how_one_is_made(cli: CommandLine) -> None:
    assert cli("task", "list").out == "No task has run. Run one: harken task run NAME MESSAGE\n"
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
    assert "No language model is configured" in cli.fails("task", "run", "daily", "Sum up.", code=1)
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


class TestAnsweredByTheModel:
    @pytest.fixture
    def server(self) -> Iterator[ChatServer]:
        with ChatServer() as running:
            yield running

    @pytest.fixture
    def harken(self, cli: CommandLine, server: ChatServer) -> CommandLine:
        model = {"HARKEN_LLM__MODEL": "openai:gpt-5-mini", "HARKEN_LLM__URL": server.url, "HARKEN_LLM__API_KEY": "k"}
        cli("summarizer", "off")
        return replace(cli, settings={**cli.settings, **model})

    def test_a_run_sees_core_memory_and_earlier_runs_calls_tools_and_is_recorded_with_them(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        harken("core", "set", "user", "name", "Ada")
        harken("task", "run", "daily", "Sum up Monday.", "--answer", "Monday was calm.")
        server.script(Says(calls=(ScriptedCall("search_history", {"query": "Monday"}),)), Says("Tuesday was busy."))
        outcome = harken("task", "run", "daily", "Sum up Tuesday.")
        assert outcome.out == "Tuesday was busy.\n"
        assert outcome.err.startswith('· search_history(query="Monday") → ')
        assert "Recorded run " in outcome.err
        asked = server.prompts()[0]
        assert "- name: Ada" in asked
        assert asked.endswith("user: Sum up Monday.\nassistant: Monday was calm.\nuser: Sum up Tuesday.")
        (run,) = harken("task", "history", "daily", "--runs", "1", "--json").json()
        kinds = [(message["role"], message["type"]) for message in run["messages"]]
        assert kinds == [("user", "text"), ("assistant", "tool_call"), ("tool", "tool_result"), ("assistant", "text")]
        assert "Monday was calm." not in run["messages"][2]["text"], "recalled words were recorded again"
        assert run["status"] == "completed"

    def test_an_answer_for_a_conversation_that_is_forgotten_meanwhile_is_kept_with_the_task(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        harken("chat", stdin="Hello?\n", code=1)
        chat = harken("list", "--json").json()["conversations"][0]["id"]

        def forgets(_request: Request) -> Says:
            harken("forget", "--conversation", chat, "--yes")
            return Says("All is well.")

        with ChatServer(otherwise=forgets) as other:
            there = replace(harken, settings={**harken.settings, "HARKEN_LLM__URL": other.url})
            told = there("task", "run", "daily", "Sum up.", "--deliver", chat)
        assert told.out == "All is well.\n"
        assert f"of daily, not delivered: {chat} was forgotten meanwhile." in told.err
        assert "assistant: All is well." in harken("task", "history", "daily").out
        assert [each["id"] for each in harken("list", "--json").json()["conversations"]] == ["scheduler_daily"]

    def test_it_can_read_core_memory_and_not_change_it(self, harken: CommandLine, server: ChatServer) -> None:
        server.script(
            Says(calls=(ScriptedCall("core_memory_update", {"section": "user", "key": "name", "value": "Eve"}),)),
            Says("I could not."),
        )
        harken("task", "run", "daily", "Rename me.")
        offered = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
        assert "core_memory_get" in offered
        assert not {"core_memory_update", "core_memory_delete"} & set(offered)
        assert harken("core", "list", "--json").json() == []

    def test_the_context_is_shown_with_the_answer_and_before_it_fails_for_want_of_a_model(
        self, harken: CommandLine, cli: CommandLine, server: ChatServer
    ) -> None:
        harken("core", "set", "user", "name", "Ada")
        server.script(Says("Fine."), Says("Fine again."))
        facts = harken("task", "run", "daily", "How are you?", "--show-context", "--json").json()
        roles = [message["role"] for message in facts["context"]]
        assert roles == ["system", "system", "user"]
        sent = [message["content"] for message in server.requests[0].body["messages"]]
        # To an endpoint of one's own goes one system message.
        assert "\n\n".join(message["content"] for message in facts["context"]) == "\n\n".join(sent)
        shown = harken("task", "run", "daily", "And now?", "--show-context").out
        assert shown.endswith("user: How are you?\nassistant: Fine.\nuser: And now?\nFine again.\n")
        outcome = cli("task", "run", "daily", "And now?", "--show-context", code=1)
        assert "assistant: Fine again.\nuser: And now?\n" in outcome.out
        assert "No language model is configured" in outcome.err

    def test_in_a_chat_it_answers_too(self, harken: CommandLine, server: ChatServer) -> None:
        server.script(Says("All is well."))
        outcome = harken("chat", stdin='/task run daily "How is it?"\n/task history daily\n')
        assert outcome.out.startswith("All is well.\n")
        assert "  user: How is it?\n  assistant: All is well.\n" in outcome.out

    def test_a_dash_is_what_comes_through_the_pipe_and_no_question(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        server.script(Says("Rain."), Says("Rain."))
        harken("task", "run", "daily", "-", stdin="Which weather?\n")
        assert harken("chat", "-", stdin="Which weather?\n").out == "Rain.\n"
        assert ["Which weather?" in prompt for prompt in server.prompts()] == [True, True]

    def test_an_answer_that_was_cut_off_says_so(self, harken: CommandLine, server: ChatServer) -> None:
        server.script(Says("The report says", finish="length"), Says("The report says", finish="length"), Says("All."))
        assert "The answer was cut off: at llm.max_tokens" in harken("task", "run", "daily", "Sum up.").err
        cuts = [harken("task", "run", "daily", "Sum up.", "--json").json()["cut"] for _ in range(2)]
        assert cuts == ["length", None]

    def test_its_calls_are_booked_and_stop_at_the_limit_of_the_day(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        server.script(Says("Dear.", input_tokens=400_000, output_tokens=10))
        harken("task", "run", "daily", "One.")
        assert harken.status()["spend_usd"] == pytest.approx(0.10002)
        limited = replace(harken, settings={**harken.settings, "HARKEN_LLM__MAX_USD_PER_DAY": "0.1"})
        assert "SpendLimitError" in limited.fails("task", "run", "daily", "Two.")
        assert len(server.requests) == 1
        (one, two) = harken("task", "history", "daily", "--json").json()
        assert (one["status"], two["status"]) == ("completed", "failed")
        assert "0.1" in two["error"]

    def test_a_model_that_fails_leaves_the_request_and_the_reason(
        self, harken: CommandLine, server: ChatServer
    ) -> None:
        server.script(Says("One two three.", breaks_after=3))
        assert " of daily failed: " in harken("task", "run", "daily", "Count.", code=1).err
        (run,) = harken("task", "history", "daily", "--json").json()
        assert run["status"] == "failed"
        assert [message["text"].split()[0] for message in run["messages"]] == ["Count.", "One"]
