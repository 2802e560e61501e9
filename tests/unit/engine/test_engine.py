from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harken.engine import Harken
from harken.errors import ConfigError, NotFoundError, StoreError, UsageError
from harken.importers.importer import ImportReport
from harken.model.conversations import ExchangeStatus, MessageType, Role, SearchScope, Trust
from harken.storage.past import newest_exchanges
from harken.testing import HashingEmbedder, OverlapReranker
from recorded import LONG, Clock

WAIT_SECONDS = 120.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(ready_home: Path) -> Path:
    return ready_home


@pytest.fixture
def harken(home: Path, clock: Clock) -> Iterator[Harken]:
    with Harken(home, embedder=HashingEmbedder(), reranker=OverlapReranker(), env={}, now=clock) as harken:
        yield harken


class TestRecording:
    def test_a_message_is_found_by_its_words_at_once(self, harken: Harken) -> None:
        message = harken.record_message("talk", "user", "where are the zebras?", author="Ada")
        (hit,) = harken.search("zebras").hits
        assert (hit.entry.ref_uid, hit.entry.author, hit.entry.text) == (message.uid, "Ada", "where are the zebras?")

    def test_the_name_of_a_model_in_place_of_one_is_refused(self, home: Path) -> None:
        """Everything was recorded and searched by words, and the worker failed in silence for ever."""
        with pytest.raises(UsageError, match="To name one: settings="):
            Harken(home, embedder="none", env={})  # type: ignore[arg-type]

    def test_vectors_of_any_length_are_compared_by_their_angle(self, home: Path) -> None:
        class Long(HashingEmbedder):
            def embed_passages(self, texts: Sequence[str]) -> Any:
                return [[5.0 * each for each in row] for row in super().embed_passages(texts).tolist()]

        with Harken(home, embedder=Long(), env={}) as harken:
            harken.record_message(
                "talk", "user", "The ferry leaves at nine in the morning from the quay behind the old harbour."
            )
            harken.embed()
            found = harken.search("When does the ferry leave from the quay?")
            assert found.hits
            assert all(0.2 < (hit.similarity or 0.0) <= 1.0001 for hit in found.hits)

    def test_a_model_of_ones_own_may_raise_anything(self, home: Path) -> None:
        class Broken(HashingEmbedder):
            def embed_query(self, text: str) -> Any:
                raise KeyError(text)

        with Harken(home, embedder=Broken(), env={}) as harken:
            harken.record_message(
                "talk", "user", "The ferry leaves at nine in the morning from the quay at the harbour."
            )
            harken.embed()
            found = harken.search("When does the ferry leave?")
            assert found.hits
            assert found.notes == ("Searched by words alone: its model raised KeyError",)

    def test_an_empty_name_of_a_message_is_none(self, harken: Harken) -> None:
        """What was said again, as "yes" is, was taken for the message that is there."""
        said = [harken.record_message("talk", "user", "Yes.", once="").uid for _ in range(2)]
        assert len(set(said)) == 2

    @pytest.mark.parametrize("content", [None, [{"type": "text", "text": "a zebra"}], b"a zebra"])
    def test_what_is_no_text_is_refused_by_its_kind(self, harken: Harken, content: object) -> None:
        with pytest.raises(UsageError, match=f"is a str, not {type(content).__name__}; of parts, give their text"):
            harken.record_message("talk", "assistant", content)  # type: ignore[arg-type]

    def test_a_call_and_its_result_are_known_by_their_roles_and_the_id_that_links_them(self, harken: Harken) -> None:
        """Without a type they were words, and a chat's prompt had neither."""
        harken.record_message("talk", "user", "How many zebras?")
        called = harken.record_message("talk", "assistant", '{"of": "zebras"}', call_id="1", tool_name="count")
        result = harken.record_message("talk", "tool", "seven", call_id="1", tool_name="count")
        assert (called.type, result.type) == (MessageType.TOOL_CALL, MessageType.TOOL_RESULT)
        told = [message.as_dict() for message in harken.build_context("talk", []).messages]
        assert [message.get("call_id") for message in told] == [None, "1", "1"]
        assert harken.record_message("talk", "assistant", "Seven.").type is MessageType.TEXT

    @pytest.mark.parametrize("name", [42, UUID(int=7)])
    def test_a_name_that_is_no_text_is_refused_with_what_to_give(self, harken: Harken, name: Any) -> None:
        for asked in (
            lambda: harken.record_message(name, "user", "a zebra"),
            lambda: harken.record_message("talk", "user", "a zebra", author=name),
            lambda: harken.record_message("talk", "user", "a zebra", once=name),
            lambda: harken.build_context(name, ["a zebra?"]),
            lambda: harken.auto_rag(name, "a zebra?"),
            lambda: harken.end_exchange(name),
            lambda: harken.new_segment(name),
        ):
            with pytest.raises(UsageError, match=rf"is a str, not {type(name).__name__}: give str"):
                asked()

    @pytest.mark.parametrize("listed", [True, False])
    def test_a_vendors_message_is_not_pending(self, harken: Harken, listed: bool) -> None:
        said: Any = {"role": "user", "content": "a zebra?"}
        with pytest.raises(UsageError, match="words, a str or a recorded Message, not dict"):
            harken.build_context("talk", [said] if listed else said)

    def test_a_core_memory_of_nothing_is_refused(self, harken: Harken) -> None:
        with pytest.raises(UsageError, match="needs a key and a value"):
            harken.core.update("user", "name", None)  # type: ignore[arg-type]

    @pytest.mark.parametrize("value", [datetime(2026, 1, 5), {"set"}, Path("here"), [b"bytes"]])
    def test_metadata_that_json_has_no_form_for_are_refused_by_their_kind(self, harken: Harken, value: Any) -> None:
        with pytest.raises(UsageError, match=r"JSON has no form for a \w+: give it as text"):
            harken.record_message("talk", "user", "a zebra", metadata={"mood": value})

    def test_a_lone_text_is_one_value_where_a_list_is_asked_for(self, harken: Harken, tmp_path: Path) -> None:
        context = harken.build_context("talk", "where are the zebras?")
        assert [message.content for message in context.messages] == ["where are the zebras?"]
        saved = harken.memories.add("Zebras graze at dawn.", tags="herd").memory
        assert saved.tags == ("herd",)
        assert harken.memories.edit(saved.uid, tags="striped").tags == ("striped",)
        assert [found.uid for found in harken.memories.list(tags="striped")] == [saved.uid]
        harken.record_message("talk", "user", "a zebra")
        assert harken.labels.tag("talk", "zoo").tags == ("zoo",)
        assert harken.labels.tag("talk", remove="zoo").tags == ()
        file = tmp_path / "talk.jsonl"
        file.write_text('{"conversation": "c", "role": "user", "content": "Giraffes too."}\n')
        assert harken.import_transcripts("jsonl", str(file)).added == 1
        message = harken.record_message("other", "user", "a giraffe")
        for named in ({"messages": message.uid}, {"conversations": "talk"}, {"saved": ("memory", saved.uid)}):
            assert harken.maintenance.plan_forget(**named).tombstones
        assert list(harken.memories.forget(saved.uid)) == [saved.uid]

    def test_a_search_from_a_conversation_is_scoped_by_its_project_whether_its_id_or_its_own_name_is_given(
        self, harken: Harken, tmp_path: Path
    ) -> None:
        harken.run_time.set("rag.scope", "project")
        for name in ("zoo", "farm"):
            message = harken.record_message(name, "user", f"the zebras of the {name}", directory=tmp_path / name)
        for conversation in ("farm", message.conversation_uid, message.conversation_uid[:8]):
            hits = harken.search("zebras", conversation=conversation).hits
            assert [hit.entry.text for hit in hits] == ["the zebras of the farm"], conversation

    def test_a_name_that_conversations_of_two_channels_have_is_said_to_be_that_of_several(self, harken: Harken) -> None:
        for channel in ("library", "slack"):
            harken.record_message("run-41", "user", f"said by {channel}", channel=channel)
        with pytest.raises(NotFoundError, match="Several conversations begin with run-41"):
            harken.maintenance.plan_forget(conversations=["run-41"])

    @pytest.mark.parametrize("moment", ["2026-05-08", date(2026, 5, 8)])
    def test_a_moment_that_is_none_is_refused_with_what_to_give(self, harken: Harken, moment: Any) -> None:
        harken.record_message("chat", "user", "The crane is at the quay.")
        saved = harken.memories.add("The crane stays until May.").memory.uid
        for ask in (
            lambda: harken.memories.review(saved, moment),
            lambda: harken.search("crane", scope=SearchScope(since=moment)),
            lambda: harken.search("crane", scope=SearchScope(until=moment)),
            lambda: harken.experiences.list(since=moment),
            lambda: harken.archive.days(moment),
            lambda: harken.commits.search("crane", since=moment),
        ):
            with pytest.raises(UsageError, match=r"A moment is a datetime, as datetime\(2026, 5, 8\), not"):
                ask()

    @pytest.mark.parametrize("threshold", [2, -1.5, float("nan")])
    def test_a_threshold_that_no_cosine_reaches_is_refused(self, harken: Harken, threshold: float) -> None:
        with pytest.raises(UsageError, match="threshold must be from -1 to 1"):
            harken.search("crane", threshold=threshold)

    def test_it_survives_the_process(self, harken: Harken, home: Path) -> None:
        message = harken.record_message("talk", "user", "a zebra", metadata={"mood": ["good"]})
        harken.close()
        with Harken(home, settings={"embedder": "none"}, env={}) as again:
            assert again.show(message.uid).message == message

    @pytest.mark.parametrize(
        ("role", "trust"),
        [("user", Trust.OWNER), ("assistant", Trust.AGENT), ("tool", Trust.TOOL), ("system", Trust.AGENT)],
    )
    def test_a_message_is_believed_as_its_role_is_unless_said_otherwise(
        self, harken: Harken, role: str, trust: Trust
    ) -> None:
        assert harken.record_message("talk", role, "hello").trust is trust
        assert harken.record_message("talk", role, "hello", trust=Trust.UNTRUSTED).trust is Trust.UNTRUSTED

    def test_a_tool_call_and_its_result_are_linked(self, harken: Harken) -> None:
        harken.record_message("talk", "user", "find it")
        call = harken.record_message("talk", "assistant", "grep x", type="tool_call", call_id="7", tool_name="grep")
        result = harken.record_message("talk", Role.TOOL, "x.txt", type=MessageType.TOOL_RESULT, call_id="7")
        assert (call.call_id, call.tool_name, result.call_id) == ("7", "grep", "7")
        assert call.exchange_uid == result.exchange_uid

    def test_the_same_name_in_another_channel_is_another_conversation(self, harken: Harken) -> None:
        one = harken.record_message("talk", "user", "hello", channel="chat")
        other = harken.record_message("talk", "user", "hello", channel="task")
        assert one.conversation_uid != other.conversation_uid

    def test_a_directory_names_the_project(self, harken: Harken, tmp_path: Path) -> None:
        (tmp_path / "garden").mkdir()
        harken.record_message("talk", "user", "a zebra", directory=tmp_path / "garden")
        assert len(harken.search("zebra", scope=SearchScope(project="garden")).hits) == 1

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"role": "king"}, "'king' is no Role. Give one of: user, assistant, tool, system"),
            ({"type": "song"}, "'song' is no MessageType. Give one of: text, tool_call, "),
            ({"trust": "friend"}, "'friend' is no Trust. Give one of: owner, agent, "),
        ],
    )
    def test_a_role_type_or_trust_that_is_none_is_refused(
        self, harken: Harken, wrong: dict[str, str], said: str
    ) -> None:
        with pytest.raises(UsageError, match=said):
            harken.record_message(**{"conversation": "talk", "role": "user", "text": "hello", **wrong})  # type: ignore[arg-type]

    def test_a_memory_of_a_trust_that_is_none_is_refused(self, harken: Harken) -> None:
        with pytest.raises(UsageError, match="'friend' is no Trust"):
            harken.memories.add("The boat is moored at quay seven.", trust="friend")  # type: ignore[arg-type]

    def test_a_forgotten_conversation_takes_no_more(self, harken: Harken) -> None:
        message = harken.record_message("talk", "user", "a zebra")
        harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[message.conversation_uid]))
        with pytest.raises(NotFoundError, match="talk was forgotten"):
            harken.record_message("talk", "user", "another zebra")


class TestExchangesAndSegments:
    def test_an_exchange_is_ended_by_name(self, harken: Harken) -> None:
        first = harken.record_message("talk", "user", "one")
        harken.end_exchange("talk", ExchangeStatus.FAILED, error="out of paper")
        second = harken.record_message("talk", "user", "two")
        assert first.exchange_uid != second.exchange_uid
        assert [m.text for m in harken.show(first.exchange_uid).messages] == ["one"]

    def test_how_it_ended_may_be_said_in_a_word_that_there_is(self, harken: Harken) -> None:
        said = harken.record_message("talk", "user", "one")
        with pytest.raises(UsageError, match=r"'broken' is no ExchangeStatus\. Give one of: in_progress, completed"):
            harken.end_exchange("talk", "broken")
        harken.end_exchange("talk", "failed")
        with harken.store.reading() as tx:
            assert [exchange.status for exchange in newest_exchanges(tx, said.conversation_uid)] == [
                ExchangeStatus.FAILED
            ]

    def test_a_segment_is_begun_by_name(self, harken: Harken) -> None:
        first = harken.record_message("talk", "user", "a zebra")
        segment = harken.new_segment("talk")
        second = harken.record_message("talk", "user", "another zebra")
        assert (segment.number, second.segment_uid) == (2, segment.uid)
        assert first.segment_uid != segment.uid
        found = harken.search("zebra", scope=SearchScope(segment=segment.uid)).hits
        assert [hit.entry.ref_uid for hit in found] == [second.uid]

    def test_a_conversation_that_is_not_there_is_named(self, harken: Harken) -> None:
        for change in (harken.end_exchange, harken.new_segment):
            with pytest.raises(NotFoundError, match=r"no conversation nothing in channel library\. .* harken list"):
                change("nothing")


class TestEmbeddingAndSearching:
    def test_everything_that_waits_is_embedded_and_told(self, harken: Harken) -> None:
        for number in range(5):
            harken.record_message("talk", "user", f"{number} {LONG}")
        told: list[tuple[int, int]] = []
        assert harken.embed(lambda done, total: told.append((done, total))) == 5
        assert told[-1] == (5, 5)
        assert harken.embed() == 0
        assert all(hit.similarity is not None for hit in harken.search("words that are many").hits)

    def test_without_a_model_nothing_is_embedded_and_words_are_searched(self, home: Path) -> None:
        with Harken(home, settings={"embedder": "none"}, env={}) as harken:
            harken.record_message("talk", "user", f"a zebra {LONG}")
            assert harken.embed() == 0
            assert harken.start_worker() is None
            result = harken.search("zebra")
            assert (len(result.hits), result.notes) == (1, ())

    def test_the_worker_embeds_what_is_recorded_from_now_on(self, harken: Harken) -> None:
        embedded = threading.Event()
        worker = harken.start_worker()
        assert worker is not None
        assert harken.start_worker() is worker
        embedder = harken.spaces.embedder()
        assert isinstance(embedder, HashingEmbedder)
        whole = embedder.embed_passages

        def watched(texts: list[str]) -> object:
            vectors = whole(texts)
            embedded.set()
            return vectors

        embedder.embed_passages = watched  # type: ignore[method-assign, assignment]
        harken.record_message("talk", "user", LONG)
        assert embedded.wait(WAIT_SECONDS)
        harken.close()

    def test_a_second_look_is_taken_when_asked_for(self, harken: Harken) -> None:
        harken.record_message("a", "user", "zebra one")
        harken.record_message("b", "user", "zebra two")
        reasons = [reason for hit in harken.search("zebra", rerank=True).hits for reason in hit.reasons]
        assert {reason.name for reason in reasons if not reason.is_added} == {"rerank"}

    def test_a_conversation_is_called_by_its_title_or_its_first_words(self, harken: Harken) -> None:
        message = harken.record_message("talk", "user", "where are the zebras?")
        assert harken.maintenance.titles([message.conversation_uid, "nothing"]) == {
            message.conversation_uid: "where are the zebras?"
        }

    def test_a_message_is_shown_among_its_neighbours(self, harken: Harken) -> None:
        said = [harken.record_message("talk", "user", f"text {number}") for number in range(5)]
        shown = harken.show(said[2].uid, reach=1)
        assert [message.text for message in shown.messages] == ["text 1", "text 2", "text 3"]
        with pytest.raises(NotFoundError):
            harken.show("nothing at all")


class TestImporting:
    @pytest.fixture
    def talk(self, tmp_path: Path) -> Path:
        file = tmp_path / "talk.jsonl"
        lines = [{"conversation": "c", "role": role, "content": f"{role} says zebra"} for role in ("user", "assistant")]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return file

    def test_a_transcript_is_imported_and_found(self, harken: Harken, talk: Path) -> None:
        report = ImportReport()
        assert harken.import_transcripts("jsonl", [talk], report=report) is report
        assert report.added == 2
        assert len(harken.search("zebra").hits) == 2

    def test_every_format_goes_by_a_name(self, harken: Harken) -> None:
        assert set(harken.transcript_formats()) == {"claude-code", "codex", "chatgpt", "claude-ai", "jsonl"}

    def test_what_cannot_be_imported_is_named(self, harken: Harken, talk: Path) -> None:
        with pytest.raises(UsageError, match=r"no format 'papyrus'.*jsonl"):
            harken.import_transcripts("papyrus", [talk])
        with pytest.raises(UsageError, match="does not exist"):
            harken.import_transcripts("jsonl", [talk.with_name("nothing")])


class TestOpening:
    @pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "a b", "Grüße"])
    def test_a_home_may_have_any_name(self, tmp_path: Path, name: str) -> None:
        with Harken(tmp_path / name, settings={"embedder": "none"}, env={}) as harken:
            harken.record_message("talk", "user", "hello")
        assert sorted(file.name for file in (tmp_path / name).iterdir()) == ["conversations", "harken.db"]

    def test_a_lost_database_is_made_anew_and_told(self, harken: Harken, home: Path) -> None:
        for name in "ab":
            harken.record_message(name, "user", "a zebra")
        harken.close()
        (home / "harken.db").unlink()
        told: list[tuple[int, int]] = []
        with Harken(
            home, settings={"embedder": "none"}, env={}, on_replay=lambda done, total: told.append((done, total))
        ) as again:
            assert again.replayed.messages == 2
            assert len(again.search("zebra").hits) == 2
        assert told == [(1, 2), (2, 2)]

    @pytest.mark.parametrize(
        "settings",
        [{"redaction": {"patterns": {"x": "("}}}, {"search.limit": 0}, {"store": "mysql://x"}, {"store": "nonsense"}],
    )
    def test_settings_that_cannot_be_meant_leave_nothing_open(self, home: Path, settings: dict[str, object]) -> None:
        with pytest.raises(ConfigError):
            Harken(home, settings=settings, env={})
        gc.collect()

    def test_a_failure_on_the_way_leaves_nothing_open(self, harken: Harken, home: Path) -> None:
        harken.record_message("talk", "user", "a zebra")
        harken.close()
        (home / "harken.db").unlink()

        def interrupted(_done: int, _total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Harken(home, settings={"embedder": "none"}, env={}, on_replay=interrupted)
        gc.collect()
        with Harken(home, settings={"embedder": "none"}, env={}) as again:
            assert len(again.search("zebra").hits) == 1

    def test_a_damaged_database_is_named(self, harken: Harken, home: Path) -> None:
        harken.close()
        (home / "harken.db").write_bytes(b"no database" * 1000)
        with pytest.raises(StoreError, match="reindex --from-journal"):
            Harken(home, settings={"embedder": "none"}, env={})

    def test_two_on_one_home_see_what_the_other_records(self, harken: Harken, home: Path) -> None:
        with Harken(home, settings={"embedder": "none"}, env={}) as other:
            harken.record_message("talk", "user", "a zebra")
            other.record_message("talk", "assistant", "another zebra")
            assert len(harken.search("zebra").hits) == len(other.search("zebra").hits) == 2

    def test_closing_leaves_the_database_in_one_file(self, harken: Harken, home: Path) -> None:
        harken.record_message("talk", "user", "hello")
        harken.start_worker()
        harken.close()
        assert sorted(file.name for file in home.iterdir()) == ["conversations", "harken.db"]
