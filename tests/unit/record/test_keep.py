from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from harken.importers.importer import Importer
from harken.importers.jsonl import Jsonl
from harken.journal.export import export
from harken.journal.replay import FORGETTING
from harken.model.conversations import ProjectIdentity, SavedRecord
from harken.record.recorder import Recorder
from harken.storage.events import forget_rows
from harken.storage.ports import RowScope
from harken.storage.records.rows import each_kept, set_local
from harken.storage.state import put_journal_offset
from harken.storage.tables import entries
from harken.storage.vectors import ensure_space, put_vectors, read_vectors
from harken.testing.store_conformance.asking import unit_vectors
from recorded import RecordedHome

HOUSE = ProjectIdentity("git:example.org/o/house", "house", ("path:/src/house",))


@pytest.fixture
def keeper(place: RecordedHome) -> Recorder:
    return place.recorder


@pytest.fixture
def other(tmp_path: Path, empty_database: Path, place: RecordedHome) -> Iterator[RecordedHome]:
    (tmp_path / "other").mkdir()
    other = RecordedHome(tmp_path / "other" / "home", empty_database, place.clock)
    yield other
    other.close()


def memory(place: RecordedHome, content: str, uid: str = "", **more: Any) -> SavedRecord:
    """A memory saved or changed now."""
    moment = "2023-05-08T12:00:00.000000Z"
    fields = {"content": content, "category": "fact", "importance": 0.5, "tags": [], "supersedes": []}
    fields |= {"trust": "owner", "created_at": moment, **more}
    keeper = place.recorder
    draft = SavedRecord("memory", uid or keeper.new_uid(), place.clock(), fields, HOUSE)
    with keeper.saving("memory") as records:
        return records.save(draft)


def contents(place: RecordedHome) -> list[str]:
    with place.store.reading() as tx:
        return [(kept.fields or {})["content"] for kept in each_kept(tx, "memory")]


def found(place: RecordedHome, word: str) -> int:
    with place.store.reading() as tx:
        return len(tx.text.search(tx.connection, [word], RowScope(), 10))


def journal_text(place: RecordedHome) -> str:
    return "".join(file.read_text("utf-8") for file in (place.home / "conversations" / "memories").glob("*.jsonl"))


def written(place: RecordedHome) -> bytes:
    stream = io.BytesIO()
    export(place.store, stream, lambda _done, _all: None)
    return stream.getvalue()


def carry(content: bytes, to: RecordedHome) -> None:
    file = to.home / "export.jsonl"
    file.write_bytes(content)
    Importer(to.recorder, as_mine=True).run(Jsonl(), [file])


def test_secrets_leave_a_record_before_it_is_written(place: RecordedHome) -> None:
    kept = memory(place, "my key is AKIAIOSFODNN7EXAMPLE", tags=["AKIAIOSFODNN7EXAMPLE"])
    assert "AKIAIOSFODNN7EXAMPLE" not in journal_text(place) + str(kept)
    assert "AKIAIOSFODNN7EXAMPLE" not in str(place.rows())


def test_it_comes_back_from_the_journal_alone(place: RecordedHome) -> None:
    first = memory(place, "a zebra")
    memory(place, "a striped zebra", first.uid)
    place.clock.go_on(days=1)
    memory(place, "a lion")
    place.say("talk", "hello")
    before = place.rows()
    place.lose_database()
    assert place.rows() == before
    place.reindex()
    assert place.rows() == before
    assert contents(place) == ["a striped zebra", "a lion"]
    assert place.doctor() == []


def test_the_workers_are_woken_for_a_new_record(place: RecordedHome) -> None:
    memory(place, "a zebra")
    assert place.woken == 1


def test_a_change_holds_though_the_clock_was_set_back(place: RecordedHome) -> None:
    first = memory(place, "a zebra")
    place.clock.go_on(days=-3)
    memory(place, "a lion", first.uid)
    assert contents(place) == ["a lion"]
    place.lose_database()
    assert contents(place) == ["a lion"]


def test_a_process_that_dies_before_its_commit_loses_nothing(place: RecordedHome, keeper: Recorder) -> None:
    memory(place, "a zebra")
    place.snapshot()
    place.clock.go_on(seconds=1)
    memory(place, "a lion")
    keeper.forget("memory", [memory(place, "a tiger").uid])
    place.die_back()
    assert contents(place) == ["a zebra", "a lion"]
    assert place.doctor() == []


def test_a_forgotten_record_leaves_rows_and_journal_and_stays_away(place: RecordedHome, keeper: Recorder) -> None:
    first = memory(place, "a zebra")
    memory(place, "a striped zebra", first.uid)
    memory(place, "a lion")
    older = written(place)
    assert keeper.forget("memory", [first.uid, "nobody"]).scrubbed
    assert "zebra" not in journal_text(place)
    assert first.uid in journal_text(place)
    assert b"zebra" not in (place.home / "harken.db").read_bytes()
    carry(older, place)
    assert "zebra" not in journal_text(place)
    for again in (lambda: None, place.reindex, place.lose_database):
        again()
        assert (contents(place), found(place, "zebra")) == (["a lion"], 0)
    assert place.doctor() == []


def test_a_death_amid_forgetting_is_finished_by_the_next_process(place: RecordedHome) -> None:
    first = memory(place, "a zebra")
    with place.store.writing() as tx:
        forget_rows(tx, [SavedRecord("memory", first.uid, place.clock(), None)])
        for path, _ in place.journal.files("memories"):
            put_journal_offset(tx, path, FORGETTING)
    place.reopen()
    assert "zebra" not in journal_text(place)
    assert first.uid in journal_text(place)
    assert place.doctor() == []


def test_an_export_brings_records_over_and_the_same_ones_give_the_same_bytes(
    place: RecordedHome, other: RecordedHome
) -> None:
    first = memory(place, "a zebra", tags=["animals"])
    gone = memory(place, "a lion")
    place.recorder.forget("memory", [gone.uid])
    place.say("talk", "hello")
    carry(written(place), other)
    assert other.rows() == place.rows()
    assert written(other) == written(place)
    assert other.doctor() == []
    lines = journal_text(other)
    carry(written(place), other)
    assert journal_text(other) == lines
    assert first.uid in lines


def test_of_two_stores_the_later_state_holds_in_both(place: RecordedHome, other: RecordedHome) -> None:
    first = memory(place, "a zebra")
    carry(written(place), other)
    place.clock.go_on(hours=1)
    memory(place, "a lion", first.uid)
    place.clock.go_on(hours=1)
    memory(other, "a tiger", first.uid)
    carry(written(place), other)
    assert contents(other) == ["a tiger"]
    carry(written(other), place)
    assert contents(place) == ["a tiger"]
    assert written(place) == written(other)


def test_what_was_forgotten_elsewhere_is_forgotten_here_with_its_words(
    place: RecordedHome, other: RecordedHome
) -> None:
    first = memory(place, "a zebra")
    carry(written(place), other)
    place.recorder.forget("memory", [first.uid])
    carry(written(place), other)
    assert contents(other) == []
    assert "zebra" not in journal_text(other)
    assert other.doctor() == []


def test_vectors_of_records_survive_a_rebuild(place: RecordedHome) -> None:
    memory(place, "a zebra")
    with place.store.writing() as tx:
        space = ensure_space(tx, "words", 32, 0.5, {})
        put_vectors(tx, space, list(tx.connection.scalars(select(entries.c.id))), unit_vectors(1))
    place.reindex()
    with place.store.reading() as tx:
        ids = list(tx.connection.scalars(select(entries.c.id)))
        assert read_vectors(tx, space, ids)[0].tolist() == ids


def test_what_this_database_alone_knows_survives_a_change(place: RecordedHome) -> None:
    first = memory(place, "a zebra")
    with place.store.writing() as tx:
        set_local(tx, "memory", [first.uid], accessed_at=place.clock())
    memory(place, "a lion", first.uid)
    [row] = place.rows()["memories"]
    assert (row["content"], row["accessed_at"]) == ("a lion", place.clock())


@pytest.mark.parametrize("lost", ["journal", "rows"])
def test_the_doctor_gives_each_side_what_the_other_has(place: RecordedHome, lost: str) -> None:
    first = memory(place, "a zebra")
    memory(place, "a lion")
    if lost == "journal":
        [file] = (place.home / "conversations" / "memories").glob("*.jsonl")
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[1:]))
        place.reopen()
    else:
        with place.store.writing() as tx:
            tx.connection.exec_driver_sql("DELETE FROM memories WHERE uid = ?", (first.uid,))
    assert {finding.check for finding in place.doctor(fix=True)} <= {"journal", "full_text"}
    assert place.doctor() == []
    assert sorted(contents(place)) == ["a lion", "a zebra"]
