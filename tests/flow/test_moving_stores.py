"""Everything moves from an embedded file to a store without a journal and back, and nothing is lost or changed."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.model.conversations import ExchangeStatus, MessageType, Role, SavedRecord, Trust
from harken.model.lookups import RuleState
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.testing import HashingEmbedder
from harken.testing.store_conformance.asking import differing_traits

IN_MEMORY = "sqlite://"


def opened(home: Path, **settings: str) -> Harken:
    return Harken(home, settings=settings, embedder=HashingEmbedder(), env={})


def lived_in(harken: Harken, folder: Path) -> None:
    """A little of everything that can be recorded."""
    harken.record_message("plan", "user", "When do we deploy the greenhouse service?", author="Ada", directory=folder)
    harken.record_message("plan", "assistant", 'calendar {"week": 19}', type="tool_call", call_id="1", tool_name="cal")
    harken.record_message("plan", "tool", "Friday is free", type=MessageType.TOOL_RESULT, call_id="1", tool_name="cal")
    harken.record_message(
        "plan", "assistant", "On Friday, after the freeze has ended.", metadata={"model": "m", "n": 1}
    )
    harken.end_exchange("plan")
    harken.new_segment("plan")
    harken.record_message("plan", "user", "Мы решили перенести выпуск на понедельник 🌱")
    harken.end_exchange("plan", ExchangeStatus.FAILED, error="no answer")
    harken.record_message(
        "secrets", "user", "the token is ghp_" + "Zq7Wm2Xv9Rt4Lp8Kd3Nf6Hs1Bj5Gc0YaTuEo", channel="chat"
    )
    harken.core.update("user", "name", "Ada")
    harken.core.update("agent", "tone", "brief")
    harken.run_task("daily", "Sum up the day.", lambda _context: "All went well.")
    gone = harken.record_message("plan", "user", "a quetzalcoatl that nobody shall remember")
    harken.record_message("gone", "user", "another quetzalcoatl", channel="chat")
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[gone.uid]))
    named = harken.record_message("gone", "user", "and a third", channel="chat").conversation_uid
    harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[named]))


def export_of(harken: Harken) -> bytes:
    stream = io.BytesIO()
    harken.maintenance.export(stream)
    return stream.getvalue()


def carried(source: Harken, target: Harken, file: Path) -> int:
    source.maintenance.export(file)
    return target.import_transcripts("jsonl", [file], as_mine=True).added


def test_a_core_memory_that_was_deleted_since_stays_so(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        first.core.update("user", "employer", "Acme")
        carried(first, second, tmp_path / "older.jsonl")
        second.core.delete("user", "employer")
        carried(first, second, tmp_path / "old.jsonl")
        assert second.core.list() == []
        first.core.update("user", "employer", "Globex")
        carried(first, second, tmp_path / "newer.jsonl")
        assert [fact.value for fact in second.core.list()] == ["Globex"]
        list(second.maintenance.reindex_from_journal())
        assert second.core.list() == first.core.list()
        assert second.maintenance.doctor() == []


def test_a_core_memory_that_was_deleted_goes_where_the_export_is_brought(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("first", "second", "third")]
    with opened(homes[0]) as first, opened(homes[1]) as second, opened(homes[2]) as third:
        first.core.update("user", "pet", "okapi")
        carried(first, second, tmp_path / "there.jsonl")
        first.core.delete("user", "pet")
        second.maintenance.export(tmp_path / "late.jsonl")
        for target in (second, third):
            carried(first, target, tmp_path / f"{target.home.name}.jsonl")
        third.import_transcripts("jsonl", [tmp_path / "late.jsonl"], as_mine=True)
        assert [one.core.list() for one in (first, second, third)] == [[], [], []]
        for one in (second, third):
            list(one.maintenance.reindex_from_journal())
            assert one.core.list() == []
            assert one.maintenance.doctor() == []
        told = "".join(file.read_text() for home in homes for file in (home / "conversations").glob("*/*.jsonl"))
        assert "okapi" not in told
        with Harken(tmp_path / "server", settings={"store": IN_MEMORY}, embedder=HashingEmbedder(), env={}) as server:
            server.core.update("user", "tone", "brief")
            carried(third, server, tmp_path / "server.jsonl")
            assert [fact.key for fact in server.core.list()] == ["tone"]


def test_words_that_were_changed_in_the_other_store_leave_this_ones_journal(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        saved = first.memories.add("The vault opens with a quetzal").memory
        first.core.update("user", "pet", "okapi")
        carried(first, second, tmp_path / "there.jsonl")
        second.memories.edit(saved.uid, content="The vault opens with a key")
        second.core.update("user", "pet", "gnu")
        carried(second, first, tmp_path / "back.jsonl")
        told = "".join(file.read_text() for file in (tmp_path / "first" / "conversations").glob("*/*.jsonl"))
        assert (told.count("quetzal"), told.count("okapi")) == (0, 0)
        assert export_of(first) == export_of(second)
        list(first.maintenance.reindex_from_journal())
        assert export_of(first) == export_of(second)
        assert first.maintenance.doctor() == []


def test_an_exchange_that_went_on_after_its_end_ends_likewise_in_the_other_store(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        first.record_message("plan", "user", "When do we deploy?")
        first.end_exchange("plan", ExchangeStatus.FAILED, error="no answer")
        carried(first, second, tmp_path / "there.jsonl")
        older = export_of(first)
        first.record_message("plan", "assistant", "On Friday.")
        first.end_exchange("plan")
        carried(first, second, tmp_path / "again.jsonl")
        assert export_of(second) == export_of(first) != older
        # What is older ends nothing anew.
        assert second.import_transcripts("jsonl", [tmp_path / "there.jsonl"], as_mine=True).added == 0
        list(second.maintenance.reindex_from_journal())
        assert export_of(second) == export_of(first)
        assert second.maintenance.doctor() == []


def test_a_topic_that_another_store_has_found_does_not_bring_back_what_it_is_named_by(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        plan = first.record_message("plan", "user", "Which quaggas graze?").conversation_uid
        carried(first, second, tmp_path / "there.jsonl")
        fields = {"name": "quaggas", "named_by": "words", "words": ["quaggas"], "members": [[plan, 0.5, 0.5]]}
        fields |= {"trust": "agent", "created_at": "2026-01-01T00:00:00.000000Z"}
        with second.recorder.saving("topic") as records:
            records.save(SavedRecord("topic", "topic-1", datetime.now(UTC), fields))
        first.maintenance.forget(first.maintenance.plan_forget(query="quaggas"))
        carried(second, first, tmp_path / "back.jsonl")
        assert first.topics.list() == []
        assert b"quagga" not in export_of(first)
        carried(first, second, tmp_path / "again.jsonl")
        assert b"quagga" not in export_of(second)


def test_a_title_from_before_takes_no_later_ones_place(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        first.recorder.record(
            [Batch(NewConversation("chat", "c", "Pumps"), [NewMessage(Role.USER, "Which pump leaks?")])]
        )
        carried(first, second, tmp_path / "there.jsonl")
        first.recorder.record([Batch(NewConversation("chat", "c", "The leaking pump"), [])])
        later = export_of(first)
        carried(second, first, tmp_path / "back.jsonl")
        assert export_of(first) == later
        carried(first, second, tmp_path / "again.jsonl")
        assert export_of(second) == later


def test_runs_of_a_task_in_two_stores_stand_by_their_times_in_either(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        for store, answers in ((first, "abc"), (second, "de")):
            for answer in answers:
                store.run_task("daily", "Sum up the day.", lambda _context, answer=answer: answer)
        carried(first, second, tmp_path / "there.jsonl")
        carried(second, first, tmp_path / "back.jsonl")
        for store in (first, second):
            assert [run.answer for run in store.tasks.history("daily")] == list("abcde")
            assert [run.answer for run in store.tasks.history("daily", 2)] == ["d", "e"]


def asked_of(harken: Harken, name: str, text: str) -> None:
    """A conversation of a subagent of the conversation `plan`."""
    talk = NewConversation("library", name, parent_external_id="plan")
    harken.recorder.record([Batch(talk, [NewMessage(Role.USER, text)], finish=True)])


def test_what_a_forgotten_conversation_asked_of_subagents_elsewhere_is_forgotten_with_it(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "second") as second:
        plan = first.record_message("plan", "user", "Which quaggas graze?").conversation_uid
        asked_of(first, "one", "Count the quaggas.")
        carried(first, second, tmp_path / "there.jsonl")
        second.maintenance.forget(second.maintenance.plan_forget(conversations=[plan]))
        asked_of(first, "two", "Count the quaggas again.")
        first.maintenance.export(tmp_path / "again.jsonl")
        report = second.import_transcripts("jsonl", [tmp_path / "again.jsonl"], as_mine=True)
        assert (report.added, report.forgotten) == (0, 3)
        second.maintenance.export(tmp_path / "back.jsonl")
        assert first.import_transcripts("jsonl", [tmp_path / "back.jsonl"], as_mine=True).erased == 3
        for store in (first, second):
            assert list(store.search("quaggas").hits) == []
            assert store.maintenance.doctor() == []


@pytest.fixture(params=["memory", "a plain file", "a server"])
def between(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store without a journal, of each engine."""
    if request.param == "a server":
        return str(request.getfixturevalue("server_url").render_as_string(hide_password=False))
    return IN_MEMORY if request.param == "memory" else f"sqlite:///{tmp_path}/plain.db"


def test_from_a_file_to_another_store_and_back_gives_the_same_export(tmp_path: Path, between: str) -> None:
    with (
        opened(tmp_path / "first") as first,
        opened(tmp_path / "other", store=between) as other,
        opened(tmp_path / "back") as back,
    ):
        lived_in(first, tmp_path / "greenhouse")
        content = export_of(first)
        assert b"quetzal" not in content
        assert carried(first, other, tmp_path / "there.jsonl") == 8
        assert export_of(other) == content
        assert carried(other, back, tmp_path / "back.jsonl") == 8
        assert export_of(back) == content
        assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "back.jsonl").read_bytes()
        for store in (other, back):
            assert store.maintenance.doctor() == []
            assert differing_traits(store.store) == []
            assert store.core.list() == first.core.list() != []
            assert store.tasks.history("daily") == first.tasks.history("daily") != []
            assert store.maintenance.projects() == first.maintenance.projects()
            assert store.maintenance.status().counts == first.maintenance.status().counts
            assert store.maintenance.status().redactions == first.maintenance.status().redactions


def test_what_was_decided_about_rules_comes_along(tmp_path: Path, between: str) -> None:
    with (
        opened(tmp_path / "first") as first,
        opened(tmp_path / "other", store=between) as other,
        opened(tmp_path / "stranger") as stranger,
    ):
        first.record_message("plan", "user", "Always answer in metric units.")
        first.record_message("plan", "user", "From now on call me Sam.")
        name, units = first.rules.list()
        first.rules.drop(name.uid)
        first.rules.confirm(units.uid)
        assert carried(first, other, tmp_path / "there.jsonl") == 2
        assert export_of(other) == export_of(first)
        decided = [(rule.uid, rule.state) for rule in other.rules.list(everything=True)]
        assert decided == [(name.uid, RuleState.DROPPED), (units.uid, RuleState.CONFIRMED)]
        # What is decided here afterwards is newer than what the file says.
        other.rules.confirm(name.uid)
        assert carried(first, other, tmp_path / "again.jsonl") == 0
        assert [rule.uid for rule in other.rules.list()] == [name.uid, units.uid]
        # A stranger decides nothing for anybody.
        assert stranger.import_transcripts("jsonl", [tmp_path / "there.jsonl"]).left_core == 2
        assert {rule.state for rule in stranger.rules.list(everything=True)} == {RuleState.FOUND}


def test_what_came_as_a_strangers_first_is_whole_once_it_is_said_to_be_ones_own(tmp_path: Path, between: str) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "other", store=between) as other:
        lived_in(first, tmp_path / "greenhouse")
        first.memories.add("We deploy on Fridays")
        first.maintenance.export(tmp_path / "there.jsonl")
        report = other.import_transcripts("jsonl", [tmp_path / "there.jsonl"])
        left = (report.left_core, report.left_erasures, report.left_changes)
        assert (report.added, report.capped, report.kept, left) == (8, 8, 1, (2, 2, 0))
        assert (other.core.list(), other.tasks.history("daily", only_complete=True)) == ([], [])
        assert differing_traits(other.store) == []
        found = other.search("Fridays deploy")
        assert {hit.entry.trust for hit in found.hits} <= {Trust.IMPORTED, Trust.TOOL}
        report = other.import_transcripts("jsonl", [tmp_path / "there.jsonl"], as_mine=True)
        assert (report.added, report.known, report.left_core) == (0, 8, 0)
        assert export_of(other) == export_of(first)
        assert other.tasks.history("daily", only_complete=True) == first.tasks.history("daily") != []
        assert other.maintenance.doctor() == []
        # A stranger's copy of the same changes nothing any more.
        other.import_transcripts("jsonl", [tmp_path / "there.jsonl"])
        assert export_of(other) == export_of(first)


def test_it_is_found_in_the_other_store_as_in_the_first(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "other", store=IN_MEMORY) as other:
        lived_in(first, tmp_path / "greenhouse")
        carried(first, other, tmp_path / "there.jsonl")
        hits = []
        for store in (first, other):
            store.embed()
            found = store.search("when is the deploy").hits
            hits.append([(hit.entry.ref_uid, round(hit.score, 6)) for hit in found])
        assert hits[0] == hits[1] != []


def test_what_is_forgotten_in_one_store_is_erased_in_the_other(tmp_path: Path, between: str) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "other", store=between) as other:
        lived_in(first, tmp_path / "greenhouse")
        carried(first, other, tmp_path / "there.jsonl")
        plan = first.search("when is the deploy").hits[0].entry.conversation_uid
        assert plan is not None
        other.maintenance.forget(other.maintenance.plan_forget(conversations=[plan]))
        other.maintenance.export(tmp_path / "back.jsonl")
        assert first.import_transcripts("jsonl", [tmp_path / "back.jsonl"], as_mine=True).erased == 5
        assert first.search("when is the deploy").hits == ()
        assert export_of(first) == export_of(other)
        assert first.maintenance.doctor() == []


def test_tasks_run_the_same_in_every_store(tmp_path: Path, between: str) -> None:
    with opened(tmp_path / "other", store=between) as other:
        chat = other.record_message("chat", "user", "hello").conversation_uid
        for number in range(3):
            other.run_task("daily", f"ask {number}", lambda context: f"{len(context)} before", chat)
        assert [run.answer for run in other.tasks.history("daily")] == ["1 before", "3 before", "5 before"]
        assert [message.text for message in other.show(chat).messages] == ["hello", "1 before", "3 before", "5 before"]
        (task,) = other.tasks.list()
        assert (task.runs, task.completed) == (3, 3)


def test_what_is_said_after_the_move_goes_on_where_it_was(tmp_path: Path) -> None:
    with opened(tmp_path / "first") as first, opened(tmp_path / "back") as back:
        lived_in(first, tmp_path / "greenhouse")
        carried(first, back, tmp_path / "there.jsonl")
        goes_on = [store.record_message("plan", "assistant", "Monday then.") for store in (first, back)]
        assert goes_on[0].segment_uid == goes_on[1].segment_uid
        assert goes_on[0].exchange_uid == goes_on[1].exchange_uid
        with pytest.raises(Exception, match="was forgotten"):
            back.record_message("gone", "user", "again", channel="chat")
