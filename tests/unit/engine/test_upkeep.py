from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import files_holding
from harken.engine import Harken
from harken.errors import EndpointError, NotFoundError, UsageError
from harken.journal.replay import set_database_aside
from harken.model.conversations import MessageType, Role
from harken.record.recorder import Batch, NewConversation, NewMessage
from harken.testing import HashingEmbedder
from recorded import LONG, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def harken(ready_home: Path, clock: Clock, embedder: HashingEmbedder) -> Iterator[Harken]:
    with Harken(ready_home, embedder=embedder, env={}, now=clock) as harken:
        yield harken


def say(harken: Harken, *texts: str, conversation: str = "c", **more: Any) -> list[str]:
    """Record user messages; their ids."""
    return [harken.record_message(conversation, "user", text, **more).uid for text in texts]


class TestStatus:
    def test_an_empty_home_has_nothing(self, harken: Harken) -> None:
        status = harken.maintenance.status()
        assert (status.counts.messages, status.queue, status.redactions, status.space, status.torn) == (
            0,
            0,
            {},
            None,
            0,
        )
        assert status.home == harken.home
        assert set(status.sizes) == {"database", "journal", "cache"}

    def test_it_counts_conversations_in_which_something_is_left(self, harken: Harken) -> None:
        [gone], _ = say(harken, "It rains."), say(harken, "It snows.", conversation="d")
        harken.maintenance.forget(harken.maintenance.plan_forget(messages=(gone,)))
        counts = harken.maintenance.status().counts
        assert (counts.messages, counts.conversations) == (1, 1)

    def test_it_counts_what_waits_and_what_is_done(self, harken: Harken, embedder: HashingEmbedder) -> None:
        say(harken, LONG, f"{LONG} again", "ok", "password=hunter2hunter2")
        assert harken.maintenance.status().queue == 3
        harken.embed()
        status = harken.maintenance.status()
        assert (status.queue, status.counts.embedded, status.counts.embeddable) == (0, 2, 2)
        assert (status.space, status.filling) == (embedder.space.id, None)
        assert sum(status.redactions.values()) == 1
        assert status.sizes["journal"] > 0

    def test_a_file_of_the_cache_that_another_process_replaces_meanwhile_is_no_matter(
        self, harken: Harken, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (harken.home / "cache").mkdir(exist_ok=True)
        (harken.home / "cache" / "vectors.part").write_bytes(b"1234")
        (harken.home / "cache" / "vectors.tvim").write_bytes(b"1234567")
        stat = Path.stat

        def looked_at_once(self: Path, **named: Any) -> Any:
            found = stat(self, **named)
            if self.name == "vectors.part":
                self.unlink()
            return found

        monkeypatch.setattr(Path, "stat", looked_at_once)
        assert harken.maintenance.status().sizes["cache"] in (7, 11)

    def test_it_names_the_model_that_is_to_take_over(self, harken: Harken, tmp_path: Path, clock: Clock) -> None:
        say(harken, LONG)
        harken.embed()
        harken.close()
        new = HashingEmbedder(name="new")
        with Harken(tmp_path / "home", embedder=new, env={}, now=clock) as again:
            say(again, f"{LONG} again")
            again.spaces.filled()
            status = again.maintenance.status()
            assert (status.filling, status.queue, status.counts.embedded) == (new.space.id, 2, 1)
            again.embed()
            assert (again.maintenance.status().space, again.maintenance.status().filling) == (new.space.id, None)

    def test_leases_of_the_dead_and_torn_lines_are_counted(self, harken: Harken, tmp_path: Path) -> None:
        say(harken, "one")
        (file,) = (tmp_path / "home" / "conversations").rglob("*.jsonl")
        harken.close()
        file.write_bytes(file.read_bytes() + b"torn")
        with Harken(tmp_path / "home", env={}, settings={"embedder": "none"}) as again:
            assert again.maintenance.status().torn == 1
            assert len(again.replayed.torn) == 1

    def test_a_store_in_memory_has_no_journal(self, tmp_path: Path) -> None:
        with Harken(tmp_path, settings={"store": "sqlite://", "embedder": "none"}, env={}) as harken:
            say(harken, "one")
            assert harken.maintenance.status().sizes == {"database": 0, "cache": 0}
            assert harken.maintenance.doctor(fix=True) == []
            with pytest.raises(UsageError, match="no journal"):
                list(harken.maintenance.reindex_from_journal())
        assert not (tmp_path / "conversations").exists()


class TestFailures:
    def test_what_was_given_up_is_listed_and_tried_again(
        self, harken: Harken, embedder: HashingEmbedder, clock: Clock
    ) -> None:
        say(harken, LONG)
        embedder.fail(*[EndpointError("down")] * 7)
        for _ in range(7):
            with pytest.raises(EndpointError):
                harken.embed()
            clock.go_on(seconds=60)
        (failure,) = harken.maintenance.failures()
        assert (failure.error_class, failure.attempts) == ("EndpointError", 7)
        assert harken.maintenance.status().counts.failed == 1
        assert harken.maintenance.retry_failed() == 1
        assert harken.embed() == 1
        assert harken.maintenance.failures() == []


class TestNamingWhatToForget:
    def planned(self, harken: Harken, **named: Any) -> list[str]:
        return sorted(tombstone.uid for tombstone in harken.maintenance.plan_forget(**named).tombstones)

    def test_by_query_every_message_with_all_its_words_is_named(self, harken: Harken) -> None:
        said = say(
            harken, "a Zebra and a giraffe", "zebras and giraffes", "the giraffe, the ZEBRA!", "zebra", "giraffe"
        )
        assert self.planned(harken, query="zebra giraffe") == sorted([said[0], said[2]])

    def test_by_query_more_are_named_than_a_search_would_show(self, harken: Harken) -> None:
        for number in range(250):
            harken.record_message("many", "user", f"zebra {number}")
        assert len(self.planned(harken, query="zebra")) == 250

    def test_by_query_what_search_does_not_see_is_named_as_well(self, harken: Harken) -> None:
        deep = harken.record_message(
            "c", Role.TOOL, "x " * 3000 + "zebra", type=MessageType.TOOL_RESULT, tool_name="grep"
        )
        marker = harken.record_message("c", Role.SYSTEM, "zebra", type=MessageType.MARKER)
        common = harken.record_message("c", "user", "what did you do")
        assert self.planned(harken, query="zebra") == sorted([deep.uid, marker.uid])
        assert self.planned(harken, query="What did you do?") == [common.uid]

    def test_a_conversation_goes_with_those_of_its_subagents_and_of_theirs(self, harken: Harken) -> None:
        heads = [NewConversation("codex", "asked"), NewConversation("codex", "helper", parent_external_id="asked")]
        heads += [NewConversation("codex", "its", parent_external_id="helper"), NewConversation("codex", "another")]
        harken.recorder.record([Batch(head, [NewMessage(Role.USER, "find the zebra")]) for head in heads])
        assert self.planned(harken, conversations=["asked"]) == sorted(head.uid for head in heads[:3])
        assert self.planned(harken, conversations=["its"]) == [heads[2].uid]

    @pytest.mark.parametrize("query", ["?!", "🦓", "nothing of the kind"])
    def test_a_query_that_no_message_holds_names_nothing(self, harken: Harken, query: str) -> None:
        say(harken, "a zebra")
        assert self.planned(harken, query=query) == []

    def test_nothing_is_forgotten_yet(self, harken: Harken) -> None:
        (uid,) = say(harken, "a zebra")
        harken.maintenance.plan_forget(messages=[uid])
        assert harken.show(uid).message is not None

    @pytest.mark.parametrize("named", [{}, {"query": ""}, {"query": "zebra", "project": "house"}])
    def test_exactly_one_thing_must_be_named(self, harken: Harken, named: dict[str, str]) -> None:
        with pytest.raises(UsageError, match="Name one of"):
            harken.maintenance.plan_forget(**named)  # type: ignore[arg-type]

    def test_too_short_a_beginning_of_an_id_is_said_to_be_that(self, harken: Harken) -> None:
        say(harken, "a zebra")
        short = str(harken.search("zebra").hits[0].entry.conversation_uid)[:4]
        with pytest.raises(NotFoundError, match=f"To forget by {short} takes 8 characters of the id"):
            self.planned(harken, conversations=[short])

    def test_what_is_not_there_cannot_be_named(self, harken: Harken) -> None:
        for named in ({"messages": ["x"]}, {"conversations": ["x"]}, {"project": "x"}):
            with pytest.raises(NotFoundError):
                harken.maintenance.plan_forget(**named)  # type: ignore[arg-type]


class TestForgetting:
    def test_the_words_leave_rows_vectors_journal_and_a_database_that_was_set_aside(
        self, harken: Harken, tmp_path: Path, clock: Clock
    ) -> None:
        say(harken, f"my quetzalcoatl is {LONG}")
        harken.embed()
        harken.close()
        database = tmp_path / "home" / "harken.db"
        kept = database.read_bytes()
        set_database_aside(database)
        database.write_bytes(kept)
        with Harken(tmp_path / "home", settings={"embedder": "none"}, env={}, now=clock) as again:
            done = again.maintenance.forget(again.maintenance.plan_forget(query="quetzalcoatl"))
            assert (done.messages, done.scrubbed) == (1, True)
            assert again.maintenance.status().counts.embedded == 0
            assert again.maintenance.doctor() == []
        assert files_holding(tmp_path / "home", b"quetzalc") == []

    @pytest.mark.parametrize("kind", ["memory", "core"])
    def test_what_was_saved_leaves_what_was_typed_and_set_aside_as_well(self, harken: Harken, kind: str) -> None:
        words = f"my quetzalcoatl is {LONG}"
        uid = harken.memories.add(words).memory.uid if kind == "memory" else ""
        harken.core.update("user", "pet", words if kind == "core" else "a cat")
        (harken.home / "chat-history").write_text(f'"/memory add {words}"\n', encoding="utf-8")
        (harken.home / "harken.db.damaged-20261122-120000").write_text(words, encoding="utf-8")
        if kind == "memory":
            harken.memories.forget([uid])
        else:
            harken.core.delete("user", "pet")
        harken.close()
        assert files_holding(harken.home, b"quetzalc") == []

    def test_a_project_is_forgotten_whole(self, harken: Harken, tmp_path: Path) -> None:
        say(harken, "one", conversation="a", directory=tmp_path / "house")
        say(harken, "two", conversation="b", directory=tmp_path / "garden")
        assert sorted(name for _, name, _ in harken.maintenance.projects()) == ["garden", "house"]
        done = harken.maintenance.forget(harken.maintenance.plan_forget(project="house"))
        assert (done.conversations, done.messages) == (1, 1)
        assert harken.maintenance.status().counts.messages == 1


class TestCopies:
    def test_a_backup_of_a_store_in_memory_holds_its_records(self, tmp_path: Path) -> None:
        with Harken(tmp_path / "home", settings={"store": "sqlite://", "embedder": "none"}, env={}) as harken:
            say(harken, "one")
            assert harken.maintenance.backup(tmp_path / "backup.tar.gz") > 0
            say(harken, "two")
            assert harken.maintenance.status().counts.messages == 2

    def test_rebuilding_says_how_far_it_is(self, harken: Harken) -> None:
        for name in "ab":
            say(harken, "one", conversation=name)
        assert list(harken.maintenance.reindex_from_journal()) == [(1, 2), (2, 2)]
        assert harken.maintenance.doctor() == []
