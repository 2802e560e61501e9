from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harken.context.layers import ContextMessage
from harken.engine import Harken
from harken.errors import ConfigError, NotFoundError, UsageError
from harken.model.conversations import ExchangeStatus, MessageType, Role, Trust
from harken.record.recorder import NewMessage
from recorded import Clock

Context = Sequence[ContextMessage]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["journal", "rows"])
def harken(request: pytest.FixtureRequest, ready_home: Path, clock: Clock) -> Iterator[Harken]:
    """A store with a journal, and one whose rows are all there is."""
    settings: dict[str, Any] = {"embedder": "none", "context.subagent_history": 2}
    if request.param == "rows":
        settings["store"] = "sqlite://"
    with Harken(ready_home, settings=settings, env={}, now=clock) as harken:
        yield harken


def saying(text: str) -> Callable[[Context], str]:
    return lambda _context: text


def seen_by(harken: Harken, name: str, message: str, **more: Any) -> list[tuple[str, str]]:
    """The context that an answering function gets."""
    seen: list[ContextMessage] = []

    def answer(context: Context) -> str:
        seen.extend(context)
        return "seen"

    harken.run_task(name, message, answer, **more)
    return [(message.role.value, message.content) for message in seen]


def failing(error: BaseException) -> Callable[[Context], str]:
    def answer(_context: Context) -> str:
        raise error

    return answer


class TestRecording:
    def test_a_run_is_its_request_its_answer_and_its_end(self, harken: Harken) -> None:
        done = harken.run_task("daily", "Sum up the day.", saying("All went well."))
        assert (done.task, done.delivered, done.run.status) == ("daily", None, ExchangeStatus.COMPLETED)
        assert done.run.answer == "All went well."
        assert [(m.role, m.text, m.trust) for m in done.run.messages] == [
            (Role.USER, "Sum up the day.", Trust.OWNER),
            (Role.ASSISTANT, "All went well.", Trust.AGENT),
        ]
        assert harken.tasks.history("daily") == [done.run]
        assert harken.show("scheduler_daily").conversation.channel == "task"
        assert harken.maintenance.doctor() == []

    def test_the_journal_has_it_in_the_folder_of_the_task(self, tmp_path: Path, clock: Clock) -> None:
        with Harken(tmp_path / "home", settings={"embedder": "none"}, env={}, now=clock) as harken:
            harken.run_task("daily", "one", saying("two"))
            clock.go_on(days=1)
            harken.run_task("daily", "three", saying("four"))
        folder = tmp_path / "home" / "conversations" / "scheduler_daily"
        assert [file.name for file in sorted(folder.iterdir())] == ["2023-05-08.jsonl", "2023-05-09.jsonl"]
        (tmp_path / "home" / "harken.db").unlink()
        with Harken(tmp_path / "home", settings={"embedder": "none"}, env={}, now=clock) as again:
            assert [run.answer for run in again.tasks.history("daily")] == ["two", "four"]
            assert again.maintenance.doctor() == []

    def test_tools_and_their_results_belong_to_the_run(self, harken: Harken) -> None:
        call = NewMessage(Role.ASSISTANT, '{"q": 1}', MessageType.TOOL_CALL, call_id="1", tool_name="grep")
        result = NewMessage(Role.TOOL, "found", MessageType.TOOL_RESULT, call_id="1", tool_name="grep")
        harken.run_task("daily", "Look.", lambda _context: [call, result, NewMessage(Role.ASSISTANT, "There.")])
        (run,) = harken.tasks.history("daily")
        assert [m.type.value for m in run.messages] == ["text", "tool_call", "tool_result", "text"]
        assert [m.trust for m in run.messages] == [Trust.OWNER, Trust.AGENT, Trust.TOOL, Trust.AGENT]
        assert run.is_complete

    def test_secrets_are_taken_out_of_request_answer_and_error(self, harken: Harken) -> None:
        secret = "password=" + "hunter2hunter2"
        harken.run_task("daily", f"Use {secret}", saying(f"Used {secret}"))
        with pytest.raises(RuntimeError):
            harken.run_task("daily", "again", failing(RuntimeError(secret)))
        for run in harken.tasks.history("daily"):
            assert "hunter2" not in repr(run)

    @pytest.mark.parametrize("error", [RuntimeError("the endpoint is down"), KeyboardInterrupt()])
    def test_a_failure_is_recorded_and_raised_on(self, harken: Harken, error: BaseException) -> None:
        with pytest.raises(type(error)):
            harken.run_task("daily", "one", failing(error))
        (run,) = harken.tasks.history("daily")
        assert run.status is ExchangeStatus.FAILED
        assert run.error == ": ".join(filter(None, [type(error).__name__, str(error)]))
        assert [message.text for message in run.messages] == ["one"]

    @pytest.mark.parametrize(
        "answers", [[], [NewMessage(Role.ASSISTANT, "{}", MessageType.TOOL_CALL, call_id="1", tool_name="grep")]]
    )
    def test_an_answer_without_last_words_is_a_failed_run(self, harken: Harken, answers: list[NewMessage]) -> None:
        run = harken.run_task("daily", "one", lambda _context: answers).run
        assert (run.status, run.error) == (ExchangeStatus.FAILED, "The answer does not end with the assistant's words.")

    @pytest.mark.parametrize("answers", [[NewMessage(Role.USER, "me")], ["text"], [None], None, {"text": "me"}])
    def test_what_is_no_answer_is_refused(self, harken: Harken, answers: Any) -> None:
        with pytest.raises(UsageError, match="An answer is a text, or messages"):
            harken.run_task("daily", "one", lambda _context: answers)
        assert [run.status for run in harken.tasks.history("daily")] == [ExchangeStatus.FAILED]

    def test_without_a_model_it_says_how_to_bring_an_answer_and_records_nothing(self, harken: Harken) -> None:
        with pytest.raises(ConfigError, match="--answer TEXT"):
            harken.run_task("daily", "one")
        assert harken.tasks.list() == []
        assert harken.maintenance.status().counts.conversations == 0

    def test_two_runs_of_a_task_may_overlap(self, harken: Harken) -> None:
        def outer(_context: Context) -> str:
            harken.run_task("daily", "inner", saying("inner answer"))
            return "outer answer"

        harken.run_task("daily", "outer", outer)
        runs = harken.tasks.history("daily")
        assert [[message.text for message in run.messages] for run in runs] == [
            ["outer", "outer answer"],
            ["inner", "inner answer"],
        ]
        assert {run.status for run in runs} == {ExchangeStatus.COMPLETED}


class TestNames:
    def test_capitals_do_not_make_another_task(self, harken: Harken) -> None:
        harken.run_task("Daily-Summary", "one", saying("two"))
        assert [task.name for task in harken.tasks.list()] == ["daily-summary"]
        assert len(harken.tasks.history("DAILY-summary")) == 1

    def test_other_alphabets_are_names_too(self, harken: Harken) -> None:
        harken.run_task("сводка", "one", saying("two"))
        assert len(harken.tasks.history("Сводка")) == 1

    @pytest.mark.parametrize("name", ["", " ", "../up", "a/b", ".hidden", "a b", "x" * 65])
    def test_what_no_folder_can_be_called_is_refused(self, harken: Harken, name: str) -> None:
        with pytest.raises(UsageError, match="is no name for a task"):
            harken.run_task(name, "one", saying("two"))
        assert harken.maintenance.status().counts.messages == 0

    def test_a_request_must_say_something(self, harken: Harken) -> None:
        with pytest.raises(UsageError, match="needs a message"):
            harken.run_task("daily", " \n", saying("two"))

    def test_a_forgotten_task_stays_forgotten(self, harken: Harken) -> None:
        harken.run_task("daily", "one", saying("two"))
        harken.maintenance.forget(harken.maintenance.plan_forget(conversations=["scheduler_daily"]))
        with pytest.raises(NotFoundError, match="The task daily was forgotten"):
            harken.run_task("daily", "one", saying("two"))
        assert harken.tasks.list() == []
        assert harken.maintenance.doctor() == []


class TestContext:
    def test_it_is_prompt_core_memory_the_last_complete_runs_and_the_request(
        self, harken: Harken, clock: Clock
    ) -> None:
        for number in range(4):
            clock.go_on(days=1)
            harken.run_task("daily", f"ask {number}", saying(f"answer {number}"))
        with pytest.raises(RuntimeError):
            harken.run_task("daily", "broken", failing(RuntimeError("no")))
        harken.run_task("other", "elsewhere", saying("said"))
        harken.run_time.set("context.subagent_history", 2)
        harken.core.update("user", "name", "Ada")
        prompt, core, *talk = harken.tasks.context("daily", "ask now", system="Be brief.")
        assert prompt == ContextMessage(Role.SYSTEM, "Be brief.")
        assert core.role is Role.SYSTEM
        assert "name: Ada" in core.content
        assert talk == [
            *(
                ContextMessage(message.role, message.text, uid=message.uid)
                for run in harken.tasks.history("daily", only_complete=True)
                for message in run.messages
            ),
            ContextMessage(Role.USER, "ask now"),
        ]
        assert [message.content for message in talk] == ["ask 2", "answer 2", "ask 3", "answer 3", "ask now"]

    def test_the_first_run_sees_its_request_alone(self, harken: Harken) -> None:
        assert seen_by(harken, "daily", "one") == [("user", "one")]

    def test_its_own_request_stands_in_it_once(self, harken: Harken) -> None:
        seen_by(harken, "daily", "one")
        assert seen_by(harken, "daily", "two", system="S") == [
            ("system", "S"),
            ("user", "one"),
            ("assistant", "seen"),
            ("user", "two"),
        ]

    def test_nothing_of_any_conversation_comes_in(self, harken: Harken) -> None:
        harken.record_message("chat", "user", "the deploy of the greenhouse service is on friday")
        harken.record_message("chat", "assistant", "the deploy of the greenhouse service is noted")
        assert seen_by(harken, "daily", "when is the deploy of the greenhouse service") == [
            ("user", "when is the deploy of the greenhouse service")
        ]

    def test_what_was_forgotten_of_a_run_is_not_in_it(self, harken: Harken) -> None:
        call = NewMessage(Role.ASSISTANT, "secret call", MessageType.TOOL_CALL, call_id="1", tool_name="grep")
        run = harken.run_task("daily", "one", lambda _context: [call, NewMessage(Role.ASSISTANT, "two")]).run
        harken.maintenance.forget(harken.maintenance.plan_forget(messages=[run.messages[1].uid]))
        assert seen_by(harken, "daily", "three") == [("user", "one"), ("assistant", "two"), ("user", "three")]

    def test_a_run_whose_answer_was_forgotten_is_passed_over(self, harken: Harken) -> None:
        run = harken.run_task("daily", "one", saying("two")).run
        harken.maintenance.forget(harken.maintenance.plan_forget(messages=[run.messages[1].uid]))
        assert seen_by(harken, "daily", "three") == [("user", "three")]


class TestDelivering:
    def test_a_silent_answer_is_in_no_other_conversation(self, harken: Harken) -> None:
        chat = harken.record_message("chat", "user", "hello").conversation_uid
        harken.run_task("daily", "one", saying("two"))
        assert [message.text for message in harken.show(chat).messages] == ["hello"]

    def test_a_delivered_one_is_said_there_by_the_task(self, harken: Harken) -> None:
        chat = harken.record_message("chat", "user", "hello").conversation_uid
        harken.record_message("chat", "assistant", "hi")
        harken.end_exchange("chat")
        done = harken.run_task("daily", "one", saying("two"), chat[:13])
        *_, last = harken.show(chat).messages
        assert last == done.delivered
        assert (last.role, last.text, last.author, last.trust) == (Role.ASSISTANT, "two", "daily", Trust.AGENT)
        assert last.metadata == {"task": "daily", "run": done.run.uid}
        assert [message.text for message in harken.show(last.exchange_uid).messages] == ["two"]

    def test_what_was_asked_there_meanwhile_is_still_answered_in_its_place(self, harken: Harken) -> None:
        asked = harken.record_message("chat", "user", "hello")
        harken.run_task("daily", "one", saying("two"), asked.conversation_uid)
        answer = harken.record_message("chat", "assistant", "hi")
        assert answer.exchange_uid == asked.exchange_uid

    def test_a_failed_run_delivers_nothing(self, harken: Harken) -> None:
        chat = harken.record_message("chat", "user", "hello").conversation_uid
        assert harken.run_task("daily", "one", lambda _context: [], chat).delivered is None
        assert len(harken.show(chat).messages) == 1

    @pytest.mark.parametrize("named", ["nowhere", ""])
    def test_where_there_is_no_such_conversation_nothing_is_asked_or_recorded(self, harken: Harken, named: str) -> None:
        with pytest.raises(NotFoundError, match="There is no conversation"):
            harken.run_task("daily", "one", failing(AssertionError("asked")), named)
        assert harken.tasks.list() == []


class TestLooking:
    def test_the_list_counts_runs_and_tells_how_the_last_one_ended(self, harken: Harken, clock: Clock) -> None:
        harken.run_task("daily", "one", saying("two"))
        clock.go_on(hours=1)
        with pytest.raises(RuntimeError):
            harken.run_task("daily", "three", failing(RuntimeError()))
        harken.run_task("backup", "one", saying("two"))
        harken.record_message("chat", "user", "hello")
        backup, daily = harken.tasks.list()
        assert (backup.name, backup.runs, backup.completed) == ("backup", 1, 1)
        assert (daily.name, daily.uid, daily.runs, daily.completed) == ("daily", "scheduler_daily", 2, 1)
        assert (daily.last_at, daily.last_status) == (clock(), ExchangeStatus.FAILED)

    def test_the_history_is_as_long_as_it_is_asked_for(self, harken: Harken) -> None:
        for number in range(4):
            harken.run_task("daily", f"ask {number}", saying(f"answer {number}"))
        assert [run.answer for run in harken.tasks.history("daily")] == ["answer 2", "answer 3"]
        assert [run.answer for run in harken.tasks.history("daily", 3)] == ["answer 1", "answer 2", "answer 3"]
        assert len(harken.tasks.history("daily", 100)) == 4
        with pytest.raises(UsageError, match="runs must be > 0"):
            harken.tasks.history("daily", 0)

    def test_of_a_task_that_never_ran_there_is_none(self, harken: Harken) -> None:
        with pytest.raises(NotFoundError, match="There is no task weekly"):
            harken.tasks.history("weekly")


def test_the_seeds_name_of_the_setting_is_read_and_its_limit_holds(tmp_path: Path) -> None:
    (tmp_path / "harken.yaml").write_text("context:\n  subagentHistory: 7\n")
    with Harken(tmp_path, settings={"embedder": "none"}, env={}) as harken:
        assert harken.settings.context.subagent_history == 7
    with pytest.raises(ConfigError, match=r"context\.subagent_history: subagent_history must be > 0"):
        Harken(tmp_path, settings={"context.subagent_history": 0}, env={})
