"""What a file that nobody called their own can do to a store: next to nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.errors import ExportError, NotFoundError
from harken.importers.importer import ImportReport
from harken.model.conversations import Trust

AT, LATER = "2026-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"
SESSION = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def person(tmp_path: Path) -> Path:
    """Where Claude Code keeps what it writes itself."""
    (tmp_path / "claude" / "projects" / "garden").mkdir(parents=True)
    return tmp_path / "claude"


@pytest.fixture
def harken(tmp_path: Path, person: Path) -> Iterator[Harken]:
    env = {"CLAUDE_CONFIG_DIR": str(person), "CODEX_HOME": str(tmp_path / "codex")}
    with Harken(tmp_path / "home", settings={"embedder": "none"}, env=env) as opened:
        yield opened


def export_file(folder: Path, *events: dict[str, Any]) -> Path:
    """A well-formed export of these events."""
    lines = [{"format": "harken-export", "version": 1}, *events, {"end": "harken-export", "lines": len(events)}]
    file = folder / "conversation.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def said_in(uid: str, text: str, trust: str, place: tuple[str, str] = ("s-9", "x-9"), **more: Any) -> dict[str, Any]:
    where = {"conversation": uid, "segment": place[0], "exchange": place[1]}
    words = {"role": "user", "type": "text", "text": text, "trust": trust}
    return {"event": "message", "id": f"m-{text.split(' ', 1)[0]}", **where, **words, "at": AT, **more}


def headed(uid: str, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """A conversation that may be there already, with a segment and an exchange of its own."""
    return [
        {"event": "conversation", "id": uid, "channel": "chat", "external_id": "c", "title": "Stolen", "at": AT},
        {"event": "segment", "id": "s-9", "conversation": uid, "number": 9, "at": AT},
        {"event": "exchange", "id": "x-9", "conversation": uid, "segment": "s-9", "number": 9, "at": AT},
        *events,
    ]


def memory(uid: str, content: str, at: str, trust: str = "owner", **more: Any) -> dict[str, Any]:
    fields = {"content": content, "category": "fact", "importance": 0.5, "tags": ["evil"], "supersedes": []}
    return {
        **{"event": "kept", "source": "memory", "id": uid, "at": at},
        "fields": {**fields, "trust": trust, "created_at": AT, **more},
    }


def trusts(harken: Harken, word: str) -> list[Trust]:
    return [hit.entry.trust for hit in harken.search(word).hits]


class TestExports:
    @pytest.mark.parametrize(
        ("claimed", "kept"),
        [("owner", "imported"), ("agent", "imported"), ("tool", "tool"), ("untrusted", "untrusted")],
    )
    def test_no_message_is_believed_more_than_a_strangers(
        self, harken: Harken, tmp_path: Path, claimed: str, kept: str
    ) -> None:
        file = export_file(tmp_path, *headed("c-1", said_in("c-1", "zebra", claimed)))
        report = harken.import_transcripts("jsonl", [file])
        assert trusts(harken, "zebra") == [Trust(kept)]
        assert report.capped == (claimed != kept)

    @pytest.mark.parametrize("claimed", ["owner", "agent"])
    def test_no_memory_is_either(self, harken: Harken, tmp_path: Path, claimed: str) -> None:
        report = harken.import_transcripts("jsonl", [export_file(tmp_path, memory("memory-1", "zebra", AT, claimed))])
        assert [one.trust for one in harken.memories.list()] == [Trust.IMPORTED] == trusts(harken, "zebra")
        assert (report.kept, report.capped) == (1, 1)

    def test_a_memory_of_the_owner_is_neither_changed_nor_forgotten(self, harken: Harken, tmp_path: Path) -> None:
        mine = harken.memories.add("The vault opens on Mondays").memory
        grave = {"event": "kept", "source": "memory", "id": mine.uid, "at": LATER}
        report = harken.import_transcripts("jsonl", [export_file(tmp_path, memory(mine.uid, "PWN", LATER), grave)])
        assert harken.memories.get(mine.uid) == mine
        assert (report.left_changes, report.left_erasures, report.kept) == (1, 1, 0)

    def test_forgetting_a_strangers_memory_forgets_none_of_the_owners(self, harken: Harken, tmp_path: Path) -> None:
        mine = harken.memories.add("The vault opens on Mondays").memory
        stranger = memory("memory-1", "zebra", AT, supersedes=[mine.uid])
        harken.import_transcripts("jsonl", [export_file(tmp_path, stranger)])
        assert harken.memories.forget(["memory-1"]) == ["memory-1"]
        assert harken.memories.get(mine.uid) == mine

    @pytest.mark.parametrize("importance", [1000.0, -1])
    def test_no_memory_is_more_important_than_any_can_be(
        self, harken: Harken, tmp_path: Path, importance: float
    ) -> None:
        file = export_file(tmp_path, memory("memory-1", "zebra", AT, importance=importance))
        with pytest.raises(ExportError, match="an importance is out of range"):
            harken.import_transcripts("jsonl", [file])

    @pytest.mark.parametrize("name", ["core", "memories", "experiences", "values"])
    def test_no_conversation_has_the_name_of_a_folder_of_memories(
        self, harken: Harken, tmp_path: Path, name: str
    ) -> None:
        harken.core.update("user", "name", "Ada")
        with pytest.raises(ExportError, match="an id is the name of a folder"):
            harken.import_transcripts("jsonl", [export_file(tmp_path, *headed(name))], as_mine=True)
        assert harken.maintenance.doctor() == []

    @pytest.mark.parametrize("at_once", [1, 300])
    def test_nothing_is_added_to_a_conversation_of_the_owner_or_changed_in_it(
        self, harken: Harken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
    ) -> None:
        monkeypatch.setattr("harken.importers.merge._BATCH_EVENTS", at_once)
        mine = harken.record_message("talk", "user", "Where is the vault?", channel="chat")
        end = {"event": "exchange_end", "id": mine.exchange_uid, "conversation": mine.conversation_uid, "at": LATER}
        events = headed(
            mine.conversation_uid,
            said_in(mine.conversation_uid, "zebra", "owner"),
            {**said_in(mine.conversation_uid, "PWN", "imported"), "id": mine.uid},
            {**end, "status": "failed", "error": "PWN"},
            {**end, "id": "x-9", "status": "completed"},
        )
        report = harken.import_transcripts("jsonl", [export_file(tmp_path, *events)])
        assert (report.added, report.known, report.capped, report.left_changes) == (0, 1, 0, 6)
        # What is said next goes on in the owner's segment, whatever number a stranger's has.
        later = harken.record_message("talk", "user", "And its key?", channel="chat")
        assert (later.segment_uid, later.exchange_uid) == (mine.segment_uid, mine.exchange_uid)
        shown = harken.show(mine.conversation_uid)
        assert [m.text for m in shown.messages] == ["Where is the vault?", "And its key?"]
        harken.maintenance.export(tmp_path / "out.jsonl")
        assert "Stolen" not in (tmp_path / "out.jsonl").read_text()
        assert "PWN" not in (tmp_path / "out.jsonl").read_text()
        harken.import_transcripts("jsonl", [tmp_path / "conversation.jsonl"], as_mine=True)
        assert "zebra" in [m.text for m in harken.show(mine.conversation_uid).messages]

    def test_no_record_has_the_id_of_one_of_another_kind_which_would_be_forgotten_with_it(
        self, harken: Harken, tmp_path: Path
    ) -> None:
        said, mine = (
            harken.record_message("talk", "user", "okapi"),
            harken.memories.add("The vault opens on Mondays").memory,
        )
        saved = memory(said.uid, "zebra", AT, superseded_by="nothing")
        marker = {**said_in("c-1", "lion", "owner"), "type": "marker", "id": mine.uid}
        report = harken.import_transcripts("jsonl", [export_file(tmp_path, saved, *headed("c-1", marker))])
        assert (report.kept, report.added, report.left_changes) == (0, 0, 2)
        with pytest.raises(NotFoundError):
            harken.memories.forget([said.uid])

    def test_no_conversation_is_begun_with_the_last_number(self, harken: Harken, tmp_path: Path) -> None:
        uid = harken.recorder.new_uid("conversation", "to come")
        events = [{**event, "number": 2**31 - 1} if "number" in event else event for event in headed(uid)]
        report = harken.import_transcripts("jsonl", [export_file(tmp_path, *events)])
        assert (report.added, report.left_changes) == (0, 2)
        with pytest.raises(ExportError, match="s-9 of segments is named, and neither the file nor the store has it"):
            harken.import_transcripts("jsonl", [export_file(tmp_path, *events, said_in(uid, "zebra", "owner"))])

    def test_no_message_of_another_conversation_stands_in_an_exchange_of_the_owner(
        self, harken: Harken, tmp_path: Path
    ) -> None:
        mine = harken.record_message("talk", "user", "Where is the vault?", channel="chat")
        strange = said_in("c-1", "zebra", "owner", (mine.segment_uid, mine.exchange_uid))
        report = harken.import_transcripts("jsonl", [export_file(tmp_path, headed("c-1")[0], strange)])
        assert (report.added, report.left_changes) == (0, 1)
        assert [m.text for m in harken.show(mine.exchange_uid).messages] == ["Where is the vault?"]
        # Rows that point from one conversation into another would go with it, and leave the journal behind.
        harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[mine.conversation_uid]))
        assert harken.maintenance.doctor() == []

    @pytest.mark.parametrize(
        ("source", "fields"),
        [
            ("memory", {"tags": [["evil"]]}),
            ("memory", {"supersedes": [5]}),
            ("experience", {"history": [5]}),
            ("experience", {"outcome": {"status": "confirmed"}}),
            ("experience", {"root_cause": {"evil": 1}}),
        ],
    )
    def test_a_record_of_which_a_part_is_none_is_named_by_its_line(
        self, harken: Harken, tmp_path: Path, source: str, fields: dict[str, Any]
    ) -> None:
        whole = memory("one", "zebra", AT)
        if source == "experience":
            texts = ["agent", "session", "domain", "strategy", "goal", "hypothesis", "action", "prediction"]
            tried = {"status": "active", "history": [], "notes": [], "iteration_count": 1, "attempted_at": AT}
            ended = {"surprise": "", "outcome": {}, "root_cause": {}, "lesson": {}, "tier": "active"}
            whole = {**whole, "source": source, "fields": {**dict.fromkeys(texts, "x"), **tried, **ended}}
            whole["fields"] |= {"trust": "owner", "created_at": AT}
        export_file(tmp_path, whole)
        assert harken.import_transcripts("jsonl", [tmp_path / "conversation.jsonl"]).kept == 1
        wrong = {**whole, "id": "two", "fields": {**whole["fields"], **fields}}
        with pytest.raises(ExportError, match="line 2 is no whole line"):
            harken.import_transcripts("jsonl", [export_file(tmp_path, wrong)])
        assert (len(harken.memories.list()), len(harken.experiences.list())) in [(1, 0), (0, 1)]

    @pytest.mark.parametrize("member", ["mine", 5])
    def test_no_topic_is_a_strangers(self, harken: Harken, tmp_path: Path, member: Any) -> None:
        mine = harken.record_message("talk", "user", "Where is the vault?", channel="chat").conversation_uid
        members = [[mine, 0.5, 0.5] if member == "mine" else member]
        topic = memory("topic-1", "", AT, name="PWN", named_by="words", words=["vault"], members=members)
        file = export_file(tmp_path, {**topic, "source": "topic"})
        assert harken.import_transcripts("jsonl", [file]).kept == 0
        assert harken.topics.list() == []
        assert harken.maintenance.plan_forget(conversations=[mine]).messages == 1

    def test_only_the_same_words_are_believed_later(self, harken: Harken, tmp_path: Path) -> None:
        harken.import_transcripts("jsonl", [export_file(tmp_path, *headed("c-1", said_in("c-1", "zebra", "owner")))])
        other = {**said_in("c-1", "lion", "owner"), "id": "m-zebra"}
        harken.import_transcripts("jsonl", [export_file(tmp_path, *headed("c-1", other))], as_mine=True)
        assert trusts(harken, "zebra") == [Trust.IMPORTED]

    def test_a_strangers_run_is_no_example_for_a_task(self, harken: Harken, tmp_path: Path) -> None:
        uid, place = "scheduler_daily", ("s-9", "x-9")
        head = {"event": "conversation", "id": uid, "channel": "task", "external_id": "daily", "at": AT}
        answer = said_in(uid, "PWN", "agent", place, role="assistant")
        done = {"event": "exchange_end", "id": "x-9", "conversation": uid, "status": "completed", "at": AT}
        events = [head, *headed(uid, said_in(uid, "ask", "owner", place), answer, done)[1:]]
        harken.import_transcripts("jsonl", [export_file(tmp_path, *events)])
        seen: list[str] = []

        def answering(context: Any) -> str:
            seen.extend(str(message.content) for message in context)
            return "Done."

        harken.run_task("daily", "Sum up.", answering)
        assert not any("PWN" in text for text in seen)
        assert [run.answer for run in harken.tasks.history("daily", only_complete=True)] == ["Done."]

    def test_a_title_is_quoted_as_a_strangers(self, harken: Harken, tmp_path: Path) -> None:
        project = {"key": "name:greenhouse", "name": "greenhouse", "aliases": []}
        events = headed("c-1", said_in("c-1", "Where do zebras sleep at night?", "owner"))
        events[0]["project"] = project
        harken.import_transcripts("jsonl", [export_file(tmp_path, *events)])
        context = harken.build_context("new", ["Where do zebras sleep at night?"])
        [head] = [m.content for m in context.messages if 'Conversation "Stolen"' in str(m.content)]
        [quoted] = [line for line in head.splitlines() if 'source="conversation"' in line]
        assert 'trust="imported"' in quoted


def session(*texts: str) -> str:
    lines = []
    for number, text in enumerate(texts):
        role = ("user", "assistant")[number % 2]
        content = text if role == "user" else [{"type": "text", "text": text}]
        head = {"type": role, "uuid": f"u-{number}", "sessionId": SESSION, "cwd": "/nowhere"}
        stamp = f"2026-11-20T10:00:{number:02}.000Z"
        lines.append({**head, "timestamp": stamp, "message": {"role": role, "content": content}})
    return "".join(json.dumps(line) + "\n" for line in lines)


def imported(harken: Harken, file: Path, **more: Any) -> ImportReport:
    return harken.import_transcripts("claude-code", [file], **more)


class TestTranscripts:
    def test_outside_of_the_agents_folder_it_is_a_strangers(self, harken: Harken, tmp_path: Path) -> None:
        file = tmp_path / f"{SESSION}.jsonl"
        file.write_text(session("zebra one", "zebra two"))
        report = imported(harken, file)
        assert (report.added, report.capped) == (2, 2)
        assert trusts(harken, "zebra") == [Trust.IMPORTED] * 2

    def test_inside_it_is_the_owners_and_the_agents(self, harken: Harken, person: Path) -> None:
        file = person / "projects" / "garden" / f"{SESSION}.jsonl"
        file.write_text(session("zebra one", "zebra two"))
        report = imported(harken, file)
        assert (report.added, report.capped) == (2, 0)
        assert set(trusts(harken, "zebra")) == {Trust.OWNER, Trust.AGENT}

    def test_a_link_makes_nobody_its_owner(self, harken: Harken, person: Path, tmp_path: Path) -> None:
        inside, outside = person / "projects" / "garden", tmp_path / "Downloads"
        outside.mkdir()
        (outside / f"{SESSION}.jsonl").write_text(session("zebra one"))
        (inside / f"{SESSION}.jsonl").symlink_to(outside / f"{SESSION}.jsonl")
        harken.import_transcripts("claude-code", [person / "projects"])
        assert trusts(harken, "zebra") == [Trust.IMPORTED]
        imported(harken, outside / ".." / "claude" / "projects" / "garden" / f"{SESSION}.jsonl")
        assert trusts(harken, "zebra") == [Trust.IMPORTED]

    def test_a_folder_that_is_a_link_itself_is_still_the_agents(self, harken: Harken, person: Path) -> None:
        (person / "projects").rename(person.with_name("elsewhere"))
        (person / "projects").symlink_to(person.with_name("elsewhere"))
        file = person / "projects" / "garden" / f"{SESSION}.jsonl"
        file.write_text(session("zebra one"))
        imported(harken, file)
        assert trusts(harken, "zebra") == [Trust.OWNER]

    @pytest.mark.parametrize("how", ["said to be mine", "found in the agent's folder"])
    def test_once_known_as_the_owners_it_is_believed_and_not_doubled(
        self, harken: Harken, person: Path, tmp_path: Path, how: str
    ) -> None:
        file = tmp_path / f"{SESSION}.jsonl"
        file.write_text(session("zebra one", "zebra two"))
        imported(harken, file)
        if how == "said to be mine":
            report = imported(harken, file, as_mine=True)
        else:
            report = imported(harken, file.rename(person / "projects" / "garden" / file.name))
        assert (report.added, report.known) == (0, 2)
        assert set(trusts(harken, "zebra")) == {Trust.OWNER, Trust.AGENT}
        for _ in harken.maintenance.reindex_from_journal():
            pass
        assert set(trusts(harken, "zebra")) == {Trust.OWNER, Trust.AGENT}
        assert harken.maintenance.doctor() == []

    def test_a_copy_of_the_owners_session_changes_nothing_but_adds_a_strangers_words(
        self, harken: Harken, person: Path, tmp_path: Path
    ) -> None:
        own = person / "projects" / "garden" / f"{SESSION}.jsonl"
        own.write_text(session("zebra one", "zebra two"))
        imported(harken, own)
        copy = tmp_path / f"{SESSION}.jsonl"
        title = {"type": "custom-title", "customTitle": "Stolen", "sessionId": SESSION}
        copy.write_text(session("zebra one", "zebra two", "zebra three") + json.dumps(title) + "\n")
        report = imported(harken, copy)
        assert (report.added, report.known, report.capped) == (1, 2, 1)
        assert sorted(trusts(harken, "zebra")) == [Trust.AGENT, Trust.IMPORTED, Trust.OWNER]
        harken.maintenance.export(tmp_path / "out.jsonl")
        assert "Stolen" not in (tmp_path / "out.jsonl").read_text()
