from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harken.errors import StoreError, TranscriptError
from harken.importers.claude_code import ClaudeCode
from harken.importers.codex import Codex
from harken.importers.importer import Importer, ImportReport, Progress
from harken.importers.jsonl import Jsonl
from harken.importers.parsed import ParsedItem, TranscriptFormat
from harken.model.conversations import Trust
from harken.record.ids import conversation_uid
from harken.storage.conversations import Counts, count_all, find_conversation, messages_of
from harken.storage.state import get_import_state
from recorded import RecordedHome, in_small_steps

CLAUDE = ClaudeCode(Path("/nowhere"))


def line(number: int, text: str, role: str = "user", **more: Any) -> str:
    """A line of a Claude Code transcript, a second after the one before."""
    content = text if role == "user" else [{"type": "text", "text": text}]
    return json.dumps(
        {
            "type": role,
            "uuid": f"00000000-0000-4000-8000-{number:012d}",
            "sessionId": "session-1",
            "timestamp": f"2026-01-02T10:{number // 60:02d}:{number % 60:02d}.000Z",
            "cwd": "/src/garden",
            "message": {"role": role, "content": content},
            **more,
        }
    )


def transcript(*texts: str, first: int = 0) -> str:
    roles = ("user", "assistant")
    return "".join(line(first + i, text, roles[(first + i) % 2]) + "\n" for i, text in enumerate(texts))


def texts_of(place: RecordedHome, channel: str = "claude-code", name: str = "session-1") -> list[str]:
    with place.store.reading() as tx:
        return [message.text for message in messages_of(tx, conversation_uid(channel, name))]


def counts(place: RecordedHome) -> Counts:
    with place.store.reading() as tx:
        return count_all(tx, None)


def run(place: RecordedHome, transcripts: TranscriptFormat, *paths: Path) -> ImportReport:
    return Importer(place.recorder).run(transcripts, paths)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "projects" / "garden"
    folder.mkdir(parents=True)
    return folder / "session-1.jsonl"


class TestFirstTime:
    def test_every_message_is_recorded_in_order(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two", "three", "four"))
        report = run(place, CLAUDE, file)
        assert (report.files, report.added, report.known, report.unchanged) == (1, 4, 0, 0)
        assert texts_of(place) == ["one", "two", "three", "four"]
        assert len(report.conversations) == 1

    def test_every_reply_is_in_an_exchange_that_has_ended(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two", "three", "four"))
        run(place, CLAUDE, file)
        assert [row["status"] for row in place.rows()["exchanges"]] == ["completed", "completed"]

    def test_who_is_believed_is_told_by_who_wrote_the_file(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two"))
        run(place, ClaudeCode(file.parents[2]), file)
        (file.parent / "talk.jsonl").write_text('{"conversation":"c","role":"user","content":"three"}\n')
        run(place, Jsonl(), file.parent / "talk.jsonl")
        assert {row["text"]: row["trust"] for row in place.rows()["messages"]} == {
            "one": Trust.OWNER.value,
            "two": Trust.AGENT.value,
            "three": Trust.IMPORTED.value,
        }

    def test_the_working_directory_names_the_project(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one"))
        run(place, CLAUDE, file)
        assert [row["name"] for row in place.rows()["projects"]] == ["garden"]

    def test_a_folder_is_imported_whole_and_a_file_named_twice_once(self, place: RecordedHome, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / f"{name}.jsonl").write_text(
                json.dumps({"conversation": name, "role": "user", "content": f"hello {name}"}) + "\n"
            )
        report = run(place, Jsonl(), tmp_path, tmp_path / "a.jsonl")
        assert (report.files, report.added, len(report.conversations)) == (2, 2, 2)

    def test_what_has_no_time_gets_that_of_its_neighbour_or_of_the_file(self, place: RecordedHome, file: Path) -> None:
        lines = [
            {"conversation": "c", "role": "user", "content": "one", "ts": "2026-01-02T10:00:00Z"},
            {"conversation": "c", "role": "user", "content": "two"},
            {"conversation": "d", "role": "user", "content": "three"},
        ]
        file.write_text("".join(json.dumps(each) + "\n" for each in lines))
        run(place, Jsonl(), file)
        times = {row["text"]: row["created_at"] for row in place.rows()["messages"]}
        assert times["two"] == times["one"]
        assert times["three"].timestamp() == pytest.approx(file.stat().st_mtime, abs=0.001)

    def test_progress_ends_at_the_last_byte(self, place: RecordedHome, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / f"{name}.jsonl").write_text(
                json.dumps({"conversation": name, "role": "user", "content": f"hello {name}"}) + "\n"
            )
        seen: list[Progress] = []
        Importer(place.recorder, seen.append).run(Jsonl(), [tmp_path])
        total = sum(file.stat().st_size for file in tmp_path.glob("*.jsonl"))
        assert (seen[-1].bytes_done, seen[-1].bytes, seen[-1].files_done, seen[-1].added) == (total, total, 2, 2)
        assert [at.bytes_done for at in seen] == sorted(at.bytes_done for at in seen)

    def test_a_path_with_bytes_that_are_no_text_is_imported(self, place: RecordedHome, tmp_path: Path) -> None:
        path = Path(str(tmp_path) + "/talk-\udcff.jsonl")
        path.write_text('{"conversation":"c","role":"user","content":"one"}\n')
        assert run(place, Jsonl(), path).added == 1
        assert run(place, Jsonl(), path).unchanged == 1


class TestSecondTime:
    def test_nothing_is_added(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two"))
        run(place, CLAUDE, file)
        before = place.rows()
        report = run(place, CLAUDE, file)
        assert (report.added, report.unchanged) == (0, 1)
        assert place.rows() == before

    def test_nothing_is_added_when_only_the_time_of_the_file_is_new(self, place: RecordedHome, file: Path) -> None:
        talk = '{"conversation":"c","role":"user","content":"one"}\n'
        for transcripts, content in ((CLAUDE, transcript("one", "two")), (Jsonl(), talk)):
            file.write_text(content)
            run(place, transcripts, file)
            file.write_text(content)
            assert run(place, transcripts, file).added == 0

    def test_a_copy_of_a_file_adds_nothing(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two"))
        run(place, CLAUDE, file)
        (file.parent.parent / "other").mkdir()
        copy = file.parent.parent / "other" / "session-1.jsonl"
        copy.write_bytes(file.read_bytes())
        report = run(place, CLAUDE, copy)
        assert (report.added, report.known) == (0, 2)

    def test_a_file_that_grew_adds_its_tail(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two"))
        run(place, CLAUDE, file)
        file.write_text(transcript("one", "two", "three", "four"))
        report = run(place, CLAUDE, file)
        assert (report.added, report.known) == (2, 0)
        assert texts_of(place) == ["one", "two", "three", "four"]

    def test_an_answer_that_comes_with_the_tail_joins_its_question(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two", "three"))
        run(place, CLAUDE, file)
        file.write_text(transcript("one", "two", "three", "four"))
        run(place, CLAUDE, file)
        assert [row["status"] for row in place.rows()["exchanges"]] == ["completed", "completed"]

    @pytest.mark.parametrize("lines", range(1, 8))
    def test_a_file_that_is_read_after_every_line_gives_the_rows_of_one_reading(
        self, place: RecordedHome, file: Path, tmp_path: Path, empty_database: Path, lines: int
    ) -> None:
        called = [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
        answered = [{"type": "tool_result", "tool_use_id": "t", "content": "quay 7"}]
        turn = [
            line(0, "Where is the Aurora?"),
            line(1, "I look.", "assistant"),
            line(2, "", "assistant", message={"role": "assistant", "content": called}),
            line(3, "", message={"role": "user", "content": answered}),
            line(4, "At quay seven.", "assistant"),
            line(5, "Thank you, and the Borea?"),
            line(6, "I look.", "assistant"),
        ][:lines]
        for number in range(1, lines + 1):
            file.write_text("".join(f"{one}\n" for one in turn[:number]))
            run(place, CLAUDE, file)
        once = RecordedHome(tmp_path / "once", empty_database)
        run(once, CLAUDE, file)
        expected = once.rows()
        once.close()
        for _ in range(2):
            found = place.rows()
            assert found["exchanges"] == expected["exchanges"]
            assert found["messages"] == expected["messages"]
            assert place.doctor() == []
            place.lose_database()

    def test_a_line_that_was_cut_off_is_read_once_it_is_whole(self, place: RecordedHome, file: Path) -> None:
        whole = transcript("one", "two")
        file.write_text(whole[:-20])
        assert run(place, CLAUDE, file).added == 1
        file.write_text(whole)
        assert run(place, CLAUDE, file).added == 1
        assert texts_of(place) == ["one", "two"]

    def test_a_file_that_was_rewritten_is_read_anew(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two"))
        run(place, CLAUDE, file)
        file.write_text(transcript("zero", "two", "three", first=1).replace("zero", "one and a half"))
        report = run(place, CLAUDE, file)
        assert report.added == 3
        file.write_text(transcript("one", "two", "three", "four"))
        assert run(place, CLAUDE, file).added == 2

    def test_the_same_words_again_at_the_end_are_another_message(self, place: RecordedHome, file: Path) -> None:
        talk = '{"conversation":"c","role":"user","content":"ok"}\n'
        file.write_text(talk)
        run(place, Jsonl(), file)
        file.write_text(talk * 3)
        assert run(place, Jsonl(), file).added == 2
        assert texts_of(place, "jsonl", "c") == ["ok", "ok", "ok"]

    def test_what_was_forgotten_stays_so(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two"))
        run(place, CLAUDE, file)
        with place.store.reading() as tx:
            (head,) = place.rows()["conversations"]
            first = messages_of(tx, head["uid"])[0]
        place.forget(first)
        (file.parent.parent / "other").mkdir()
        copy = file.parent.parent / "other" / "session-1.jsonl"
        copy.write_bytes(file.read_bytes())
        report = run(place, CLAUDE, copy)
        assert (report.added, report.known, report.forgotten) == (0, 1, 1)

    def test_a_database_that_was_made_anew_knows_everything(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one", "two"))
        run(place, CLAUDE, file)
        place.lose_database()
        report = run(place, CLAUDE, file)
        assert (report.added, report.known) == (0, 2)


class TestInterrupted:
    """By Ctrl-C, or by a store that refuses, at every batch."""

    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        in_small_steps(monkeypatch, 25)

    @pytest.mark.parametrize("transcripts", [CLAUDE, Jsonl()], ids=["claude-code", "jsonl"])
    @pytest.mark.parametrize("error", [KeyboardInterrupt, StoreError])
    def test_the_next_run_completes_it(
        self, place: RecordedHome, file: Path, transcripts: TranscriptFormat, error: type[BaseException]
    ) -> None:
        wanted = [f"text {number}" for number in range(250)]
        if transcripts is CLAUDE:
            file.write_text(transcript(*wanted))
        else:
            lines = ({"conversation": "session-1", "role": "user", "content": text} for text in wanted)
            file.write_text("".join(json.dumps(each) + "\n" for each in lines))
        for _ in range(3):
            with suppress(error):
                Importer(place.recorder, _raising(error)).run(transcripts, [file])
        run(place, transcripts, file)
        assert texts_of(place, transcripts.name) == wanted
        assert place.doctor() == []

    def test_what_was_recorded_before_stays_recorded(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript(*(f"text {number}" for number in range(250))))
        report = ImportReport()
        with pytest.raises(KeyboardInterrupt):
            Importer(place.recorder, _raising(KeyboardInterrupt)).run(CLAUDE, [file], report)
        assert 0 < report.added < 250
        assert counts(place).messages == report.added

    def test_the_next_run_begins_where_this_one_stopped(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript(*(f"text {number}" for number in range(250))))
        with pytest.raises(KeyboardInterrupt):
            Importer(place.recorder, _raising(KeyboardInterrupt)).run(CLAUDE, [file])
        done = counts(place).messages
        report = run(place, CLAUDE, file)
        assert (report.added, report.known) == (250 - done, 0)

    def test_equal_words_without_ids_are_not_lost_over_it(self, place: RecordedHome, file: Path) -> None:
        file.write_text('{"conversation":"session-1","role":"user","content":"ok"}\n' * 35)
        with pytest.raises(KeyboardInterrupt):
            Importer(place.recorder, _raising(KeyboardInterrupt)).run(Jsonl(), [file])
        run(place, Jsonl(), file)
        assert texts_of(place, "jsonl") == ["ok"] * 35


def _raising(error: type[BaseException]) -> Callable[[Progress], None]:
    def progress(_progress: Progress) -> None:
        raise error

    return progress


class TestUnreadable:
    def test_a_line_that_is_none_is_counted_and_the_rest_is_kept(self, place: RecordedHome, file: Path) -> None:
        file.write_text(line(0, "one") + "\n{broken\n" + line(1, "two", "assistant") + "\n")
        report = run(place, CLAUDE, file)
        assert report.added == 2
        assert [(bad.path, bad.line) for bad in report.unreadable] == [(file, 2)]
        with place.store.reading() as tx:
            state = get_import_state(tx, "claude-code, imported", str(file.resolve()))
        assert state is not None
        assert state.unreadable == 1

    def test_a_file_that_cannot_be_read_stops_no_other(self, place: RecordedHome, tmp_path: Path) -> None:
        (tmp_path / "rollout-a.jsonl.zst").write_bytes(b"no zstandard at all")
        good = {"timestamp": "2026-01-02T10:00:00Z", "type": "response_item"}
        payload = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}
        meta = {"timestamp": "2026-01-02T10:00:00Z", "type": "session_meta", "payload": {"id": "s", "cwd": "/src"}}
        (tmp_path / "rollout-b.jsonl").write_text(
            json.dumps(meta) + "\n" + json.dumps({**good, "payload": payload}) + "\n"
        )
        report = run(place, Codex(tmp_path), tmp_path / "rollout-a.jsonl.zst", tmp_path / "rollout-b.jsonl")
        assert [(path.name, "damaged" in reason) for path, reason in report.failed] == [("rollout-a.jsonl.zst", True)]
        assert report.added == 1

    def test_a_file_that_vanishes_stops_no_other(self, place: RecordedHome, file: Path) -> None:
        file.write_text(transcript("one"))
        gone = file.with_name("gone.jsonl")
        report = run(place, _Listing([gone, file]), file.parent)
        assert [path for path, _ in report.failed] == [gone]
        assert report.added == 1

    def test_what_came_before_the_damage_is_kept_and_the_rest_is_tried_again(
        self, place: RecordedHome, file: Path
    ) -> None:
        file.write_text(transcript("one", "two", "three"))
        report = run(place, _Listing([file], break_after=2), file)
        assert (report.added, len(report.failed)) == (2, 1)
        assert texts_of(place) == ["one", "two"]
        report = run(place, _Listing([file]), file)
        assert report.added == 1
        assert texts_of(place) == ["one", "two", "three"]


class _Listing(ClaudeCode):
    """Claude Code's format over these files, on a disk that fails after so many items with words."""

    def __init__(self, listed: list[Path], break_after: int | None = None) -> None:
        super().__init__(Path("/nowhere"))
        self._listed = listed
        self._break_after = break_after

    def files(self, path: Path) -> list[Path]:
        del path
        return self._listed

    def parse(self, path: Path, offset: int = 0) -> Iterator[ParsedItem]:
        seen = 0
        for item in super().parse(path, offset):
            yield item
            seen += hasattr(item, "text")
            if seen == self._break_after:
                raise TranscriptError(f"{path} is damaged")


@pytest.mark.parametrize(
    ("facts", "trust"),
    [
        ({"promptSource": "typed", "origin": {"kind": "human"}}, Trust.OWNER),
        ({"planContent": "always answer in metric units"}, Trust.AGENT),
        ({"promptSource": "system"}, Trust.AGENT),
        ({"origin": {"kind": "channel", "server": "telegram"}}, Trust.TOOL),
    ],
)
def test_a_prompt_that_no_person_typed_is_not_believed_as_its_owners(
    place: RecordedHome, file: Path, facts: dict[str, Any], trust: Trust
) -> None:
    file.write_text(line(1, "Always answer in metric units.", **facts) + "\n")
    run(place, ClaudeCode(file.parents[2]), file.parent)
    assert [row["trust"] for row in place.rows()["messages"]] == [trust.value]


def test_a_subagents_conversation_names_its_caller(place: RecordedHome, file: Path) -> None:
    side = file.parent / "session-1" / "subagents" / "agent-a1.jsonl"
    side.parent.mkdir(parents=True)
    file.write_text(transcript("one", "two"))
    side.write_text(line(5, "look it up", isSidechain=True, agentId="a1") + "\n")
    run(place, ClaudeCode(file.parents[2]), file.parent)
    children = [row for row in place.rows()["conversations"] if row["parent_uid"]]
    assert len(children) == 1
    with place.store.reading() as tx:
        assert find_conversation(tx, children[0]["parent_uid"]) is not None
    asked = next(row for row in place.rows()["messages"] if row["text"] == "look it up")
    assert asked["trust"] == Trust.AGENT.value
