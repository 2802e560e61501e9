from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harken.errors import ExportError
from harken.importers import merge
from harken.importers.importer import Importer, ImportReport
from harken.importers.jsonl import Jsonl
from harken.journal.export import export
from harken.model.conversations import ExchangeStatus, Role
from harken.record.labels import Labels
from harken.record.recorder import NewMessage
from harken.storage.conversations import find_conversation, messages_of, tombstones_of
from recorded import LONG, RecordedHome


@pytest.fixture
def other(tmp_path: Path, empty_database: Path, place: RecordedHome) -> Iterator[RecordedHome]:
    """A second home, with the clock of the first."""
    (tmp_path / "other").mkdir()
    other = RecordedHome(tmp_path / "other" / "home", empty_database, place.clock)
    yield other
    other.close()


def written(place: RecordedHome) -> bytes:
    stream = io.BytesIO()
    export(place.store, stream, lambda _done, _all: None)
    return stream.getvalue()


def moved(place: RecordedHome, to: RecordedHome, change: Callable[[bytes], bytes] = lambda content: content) -> None:
    """Write an export of one home beside the other."""
    (to.home / "export.jsonl").write_bytes(change(written(place)))


def merged(place: RecordedHome, report: ImportReport | None = None) -> ImportReport:
    return Importer(place.recorder, as_mine=True).run(Jsonl(), [place.home / "export.jsonl"], report)


def carry(place: RecordedHome, to: RecordedHome) -> ImportReport:
    moved(place, to)
    return merged(to)


class TestIntoAnEmptyStore:
    def test_everything_is_as_it_was(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", LONG, "answer", "more", "again")
        place.recorder.new_segment(place.uid("a"))
        place.say("a", "new segment", author="Ada", metadata={"k": [1, {"x": "y"}]})
        place.say("b", "password=hunter2hunter2")
        place.record("b", NewMessage(Role.ASSISTANT, "done"), finish=True, title="Talk")
        place.forget(place.say("b", "not this"))
        report = carry(place, other)
        assert (report.added, report.known, report.forgotten, report.erased) == (7, 0, 0, 0)
        assert report.conversations == {place.uid("a"), place.uid("b")}
        assert other.rows() == place.rows()
        assert written(other) == written(place)
        assert other.woken == 1

    def test_the_journal_has_it_too(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", LONG, "answer")
        place.forget(place.say("a", "not this"))
        place.talk("gone", "one")
        place.forget(conversation="gone")
        carry(place, other)
        assert other.doctor() == []
        rows = other.rows()
        other.lose_database()
        assert other.rows() == rows
        assert written(other) == written(place)

    def test_a_second_time_adds_nothing(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", "one", "two")
        place.recorder.end_exchange(place.uid("a"), ExchangeStatus.COMPLETED)
        place.forget(place.say("a", "three"))
        carry(place, other)
        lines = other.lines("a")
        report = carry(place, other)
        assert (report.added, report.known) == (0, 2)
        assert other.lines("a") == lines

    def test_of_equal_times_the_order_is_kept(self, place: RecordedHome, other: RecordedHome) -> None:
        moment = place.clock()
        place.record("a", *(NewMessage(Role.USER, f"{number}", created_at=moment) for number in range(30)))
        carry(place, other)
        assert other.texts("a") == [f"{number}" for number in range(30)]


class TestIntoAStoreWithAPartOfIt:
    def test_what_was_said_since_is_added(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", "one", "two")
        carry(place, other)
        place.talk("a", "three", "four")
        report = carry(place, other)
        assert (report.added, report.known) == (2, 2)
        assert other.rows() == place.rows()

    def test_what_was_said_here_since_stays(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", "one", "two")
        carry(place, other)
        other.talk("a", "three", "four")
        assert carry(place, other).added == 0
        assert other.texts("a") == ["one", "two", "three", "four"]
        assert carry(other, place).added == 2
        assert written(place) == written(other)

    def test_an_exchange_that_has_ended_elsewhere_ends_here(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", "one", "two")
        carry(place, other)
        place.recorder.end_exchange(place.uid("a"), ExchangeStatus.FAILED, "broke")
        carry(place, other)
        assert other.rows()["exchanges"] == place.rows()["exchanges"]

    def test_one_that_ended_here_stays_as_it_ended(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", "one", "two")
        carry(place, other)
        other.recorder.end_exchange(place.uid("a"), ExchangeStatus.FAILED)
        place.recorder.end_exchange(place.uid("a"), ExchangeStatus.COMPLETED)
        carry(place, other)
        assert [row["status"] for row in other.rows()["exchanges"]] == ["failed"]

    def test_a_title_given_elsewhere_is_taken_and_survives_a_rebuild(
        self, place: RecordedHome, other: RecordedHome
    ) -> None:
        place.talk("a", "one", "two")
        carry(place, other)
        place.record("a", NewMessage(Role.USER, "three"), title="Named")
        carry(place, other)
        other.lose_database()
        with other.store.reading() as tx:
            head = find_conversation(tx, other.uid("a"))
        assert head is not None
        assert head.title == "Named"

    def test_a_title_of_words_that_were_forgotten_here_is_not_brought_back(
        self, place: RecordedHome, other: RecordedHome
    ) -> None:
        place.talk("a", "one", "two")
        secret = place.say("a", "the zanzibar plan is secret")
        carry(place, other)
        other.forget(secret)
        place.record("a", NewMessage(Role.USER, "three"), title="Zanzibar plan")
        Labels(place.recorder).entitle(place.uid("a"), "The Zanzibar Plan")
        carry(place, other)
        for _ in range(2):
            with other.store.reading() as tx:
                head = find_conversation(tx, other.uid("a"))
                assert head is not None
                assert head.title == ""
            other.lose_database()

    def test_a_dead_writers_tail_with_the_same_records_is_no_hindrance(
        self, place: RecordedHome, other: RecordedHome
    ) -> None:
        place.talk("a", "one", "two")
        other.snapshot()
        carry(place, other)
        other.die_back(replaying=False)
        assert other.texts("a") == []
        assert merged(other).failed == []
        assert other.rows() == place.rows()
        assert other.reopen().messages == 0


class TestWhatWasForgotten:
    def test_here_it_stays_forgotten(self, place: RecordedHome, other: RecordedHome) -> None:
        first, _ = place.talk("a", "one", "two")
        place.talk("b", "three")
        carry(place, other)
        other.forget(first)
        other.forget(conversation="b")
        report = carry(place, other)
        assert (report.added, report.known, report.forgotten) == (0, 1, 2)
        assert other.texts("a") == ["two"]
        assert other.texts("b") == []
        assert other.doctor() == []

    def test_elsewhere_it_is_erased_here_with_its_words(self, place: RecordedHome, other: RecordedHome) -> None:
        message = place.say("a", "quetzalcoatl")
        place.talk("b", "xochipilli", "two")
        carry(place, other)
        place.forget(message)
        place.forget(conversation="b")
        moment = place.clock()
        place.clock.go_on(days=1)
        report = carry(place, other)
        assert report.erased == 3
        for words in (b"quetzalc", b"xochipil"):
            assert [file for file in other.home.rglob("*") if file.is_file() and words in file.read_bytes()] == []
        with other.store.reading() as tx:
            (grave,) = tombstones_of(tx, other.uid("a"))
        assert grave.at == moment
        assert other.doctor() == []
        assert written(other) == written(place)
        assert carry(place, other).erased == 0

    def test_elsewhere_and_never_here_it_can_no_longer_come(self, place: RecordedHome, other: RecordedHome) -> None:
        place.record("a", NewMessage(Role.USER, "one", origin="1"), NewMessage(Role.USER, "two", origin="2"))
        with place.store.reading() as tx:
            first, _ = messages_of(tx, place.uid("a"))
        place.forget(first)
        carry(place, other)
        again = other.record("a", NewMessage(Role.USER, "one", origin="1"))
        assert (again.messages, again.forgotten) == ((), 1)
        other.lose_database()
        assert other.record("a", NewMessage(Role.USER, "one", origin="1")).forgotten == 1

    def test_a_tombstone_before_its_message_in_the_file_holds_too(
        self, place: RecordedHome, other: RecordedHome
    ) -> None:
        place.talk("a", "one", "two")
        whole = written(place).splitlines(keepends=True)
        place.forget(*place.talk("a", "three"))
        grave = json.loads(next(line for line in written(place).splitlines() if b"tombstone" in line))
        said = json.loads(next(line for line in whole if b'"text":"one"' in line))
        grave["id"] = said["id"]
        body = [json.dumps(grave).encode() + b"\n", *whole[1:-1]]
        end = json.dumps({"end": "harken-export", "lines": len(body)}).encode() + b"\n"
        (other.home / "export.jsonl").write_bytes(b"".join([whole[0], *body, end]))
        merged(other)
        assert other.texts("a") == ["two"]


class TestDamage:
    def test_what_came_before_a_cut_is_there_and_a_whole_copy_adds_the_rest(
        self, place: RecordedHome, other: RecordedHome
    ) -> None:
        place.talk("a", "one", "two", "three")
        moved(place, other, lambda content: content[: content.index(b"three")])
        report = ImportReport()
        with pytest.raises(ExportError, match="is no whole line"):
            merged(other, report)
        assert report.added == 2
        assert other.texts("a") == ["one", "two"]
        assert other.doctor() == []
        assert carry(place, other).added == 1
        assert written(other) == written(place)

    @pytest.mark.parametrize("kind", ["conversation", "segment", "exchange"])
    def test_a_record_whose_place_is_lost_is_refused_whole(
        self, place: RecordedHome, other: RecordedHome, kind: str
    ) -> None:
        place.talk("a", "one")

        def without(content: bytes) -> bytes:
            lines = [line for line in content.splitlines() if f'"event":"{kind}"'.encode() not in line]
            return b"\n".join(lines) + b"\n"

        moved(place, other, without)
        with pytest.raises(ExportError, match=f"of {kind}s is named, and neither the file nor the store has it"):
            merged(other)
        assert other.count() == 0
        assert other.lines("a") == []

    def test_characters_that_no_database_keeps_are_replaced(self, place: RecordedHome, other: RecordedHome) -> None:
        place.talk("a", "one")
        moved(place, other, lambda content: content.replace(b'"text":"one"', b'"text":"o\\u0000n\\ud800e"'))
        merged(other)
        assert other.texts("a") == ["o\ufffdn\ufffde"]


class TestInBatches:
    def test_stopped_between_two_it_goes_on_where_it_stopped(
        self, place: RecordedHome, other: RecordedHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(merge, "_BATCH_EVENTS", 5)
        place.talk("a", *(f"a{number}" for number in range(9)))
        place.talk("b", *(f"b{number}" for number in range(9)))
        moved(place, other)
        places: list[int] = []

        def stop(progress: object) -> None:
            places.append(progress.bytes_done)  # type: ignore[attr-defined]
            if len(places) == 3:
                raise KeyboardInterrupt

        report = ImportReport()
        with pytest.raises(KeyboardInterrupt):
            Importer(other.recorder, stop, as_mine=True).run(Jsonl(), [other.home / "export.jsonl"], report)
        assert places == sorted(set(places))
        assert other.doctor() == []
        before = other.count()
        assert merged(other).added == 18 - before
        assert written(other) == written(place)

    def test_no_batch_holds_more_than_its_share(
        self, place: RecordedHome, other: RecordedHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(merge, "_BATCH_EVENTS", 5)
        place.talk("a", *(f"a{number}" for number in range(20)))
        moved(place, other)
        lines = other.home / "export.jsonl"
        steps = list(merge.merge_export(other.recorder, lines, lambda doomed: pytest.fail(repr(doomed)), as_mine=True))
        assert max(step.added for step, _ in steps) <= 5
        assert sum(step.added for step, _ in steps) == 20
