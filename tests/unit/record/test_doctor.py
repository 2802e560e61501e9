from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from command_line import files_holding
from harken.errors import StoreError
from harken.model.conversations import ExchangeStatus, Role
from harken.record.doctor import Finding
from harken.record.labels import Labels
from harken.record.recorder import NewMessage
from harken.storage.conversations import count_all, find_conversation
from harken.storage.enrichment.jobs import claim_unembedded, complete
from harken.storage.state import recount
from harken.storage.tables import conversations, entries, exchanges, messages, tombstones, vectors
from harken.storage.vectors import EMBED, ensure_space, put_vectors
from harken.testing import hashed_vectors
from recorded import LONG, RecordedHome


def lived_in(place: RecordedHome) -> None:
    place.talk("c", f"one {LONG}", "two", "three")
    place.recorder.end_exchange(place.uid("c"), ExchangeStatus.FAILED, "interrupted")
    place.forget(place.say("c", "zebra"))
    place.talk("d", "four", "five")
    with place.store.writing() as tx:
        space = ensure_space(tx, "words", 64, 0.2, {})
        claimed = claim_unembedded(tx, space, "me", 100, place.clock(), 60)
        put_vectors(tx, space, [item.entry_id for item in claimed], hashed_vectors([i.text for i in claimed], 64))
        complete(tx, EMBED, [item.entry_id for item in claimed])


def lose_a_journal_file(place: RecordedHome) -> None:
    place.journal_files("c")[0].unlink()


def lose_journal_lines(place: RecordedHome) -> None:
    file = place.journal_files("c")[0]
    file.write_bytes(b"".join(line for line in place.lines("c") if b"two" not in line and b"exchange_end" not in line))


def lose_rows(place: RecordedHome) -> None:
    with place.store.writing() as tx:
        lost = tx.connection.scalars(messages.select().with_only_columns(messages.c.uid)).all()[1:3]
        ids = tx.connection.scalars(entries.select().with_only_columns(entries.c.id).where(entries.c.ref_uid.in_(lost)))
        found = ids.all()
        tx.text.remove(tx.connection, found)
        tx.connection.execute(delete(messages).where(messages.c.uid.in_(lost)))
        tx.connection.execute(delete(entries).where(entries.c.id.in_(found)))
        tx.text.rebuild(tx.connection)


def keep_what_was_forgotten_in_the_journal(place: RecordedHome) -> None:
    message = place.say("d", "zebra")
    kept = place.lines("d")
    place.forget(message)
    place.journal_files("d")[0].write_bytes(b"".join(kept))
    with place.store.writing() as tx:
        tx.connection.exec_driver_sql(
            f"UPDATE journal_files SET applied = {len(b''.join(kept))} WHERE path LIKE '{place.uid('d')}%'"
        )


def keep_what_was_forgotten_in_the_rows(place: RecordedHome) -> None:
    message = place.say("d", "zebra")
    place.snapshot()
    place.forget(message)
    place.die_back(replaying=False)
    with place.store.writing() as tx:
        for path, size in place.journal.files():
            tx.connection.exec_driver_sql(f"UPDATE journal_files SET applied = {size} WHERE path = '{path}'")


def lose_tombstones(place: RecordedHome) -> None:
    with place.store.writing() as tx:
        tx.connection.execute(delete(tombstones))


def leave_a_tail(place: RecordedHome) -> None:
    place.snapshot()
    place.say("d", "six")
    place.die_back(replaying=False)


def change_a_text_behind_the_index(place: RecordedHome) -> None:
    with place.store.writing() as tx:
        tx.connection.execute(update(entries).where(entries.c.text == "five").values(text="fifth"))


def leave_vectors_behind(place: RecordedHome) -> None:
    with place.store.writing() as tx:
        tx.connection.execute(update(vectors).values(entry_id=vectors.c.entry_id + 1000))
        tx.connection.execute(update(entries).values(space_id=None))


def lose_vectors(place: RecordedHome) -> None:
    with place.store.writing() as tx:
        tx.connection.execute(delete(vectors))


def damage_the_cache(place: RecordedHome) -> None:
    cache = place.home / "cache"
    cache.mkdir(exist_ok=True)
    (cache / "vectors-abc-1-0-1.tvim").write_bytes(b"garbage")


def leave_leases(place: RecordedHome) -> None:
    place.say("d", LONG)
    with place.store.writing() as tx:
        claim_unembedded(tx, ensure_space(tx, "words", 64, 0.2, {}), "dead", 1, place.clock(), 60)
    place.clock.go_on(hours=1)


@dataclass(frozen=True)
class Damage:
    """Something that may go wrong, what finds it, and whether the records are the same again after its repair."""

    do: Callable[[RecordedHome], None]
    check: str
    words: str
    same: bool = True


DAMAGES = [
    Damage(lose_a_journal_file, "journal", "lacks 3 messages"),
    Damage(lose_journal_lines, "journal", "lacks 1 messages and 2 other"),
    Damage(lose_rows, "journal", "rows lack 2 messages"),
    Damage(keep_what_was_forgotten_in_the_journal, "journal", "still has 1 forgotten", same=False),
    Damage(keep_what_was_forgotten_in_the_rows, "journal", "do not know that 1 records", same=False),
    Damage(lose_tombstones, "journal", "do not know that 1 records"),
    Damage(leave_a_tail, "journal", "1 journal files differ", same=False),
    Damage(change_a_text_behind_the_index, "full_text", "full-text index differs", same=False),
    Damage(leave_vectors_behind, "vectors", "3 vectors belong to no entry", same=False),
    Damage(lose_vectors, "vectors", "3 entries are marked as embedded", same=False),
    Damage(damage_the_cache, "vector_cache", "is damaged"),
    Damage(leave_leases, "leases", "1 pieces of work", same=False),
]


def test_a_sound_home_has_nothing_to_find(place: RecordedHome) -> None:
    lived_in(place)
    assert place.doctor() == []
    assert place.doctor(fix=True) == []


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.do.__name__)
class TestDamages:
    def test_it_is_found_and_left_alone(self, place: RecordedHome, damage: Damage) -> None:
        lived_in(place)
        damage.do(place)
        found = place.doctor()
        assert _said(found, damage)
        assert not any(finding.fixed for finding in found)
        assert place.doctor() == found

    def test_it_is_repaired_for_good(self, place: RecordedHome, damage: Damage) -> None:
        lived_in(place)
        before = place.rows()
        damage.do(place)
        fixed = place.doctor(fix=True)
        assert _said(fixed, damage)
        assert all(finding.fixed for finding in fixed)
        assert place.doctor() == []
        if damage.same:
            after = place.rows()
            assert {name: after[name] for name in _RECORDS} == {name: before[name] for name in _RECORDS}
        repaired = place.rows()
        # The journal is whole again as well: it gives back the same rows.
        place.lose_database()
        after = place.rows()
        assert {name: after[name] for name in _RECORDS} == {name: repaired[name] for name in _RECORDS}
        assert files_holding(place.home, b"zebra") == []


_RECORDS = ("conversations", "segments", "exchanges", "messages", "tombstones")


def _said(found: list[Finding], damage: Damage) -> bool:
    return any(finding.check == damage.check and damage.words in finding.problem for finding in found)


def test_a_damaged_database_is_reported_and_nothing_else_is_tried(place: RecordedHome) -> None:
    place.talk("c", *(f"text {number} {LONG}" for number in range(200)))
    place.close()
    damage_pages(place.home / "harken.db")
    place.open(replaying=False)
    found = place.doctor(fix=True)
    assert {finding.check for finding in found} == {"database"}
    assert not any(finding.fixed for finding in found)


def damage_pages(database: Path) -> None:
    """Overwrite a stretch behind the pages that hold the schema, which a store cannot be opened without."""
    content = bytearray(database.read_bytes())
    place = len(content) * 3 // 4 // 4096 * 4096
    content[place : place + 8 * 4096] = b"\xa5" * (8 * 4096)
    database.write_bytes(bytes(content))


def test_counts_that_are_not_those_of_the_rows_are_shown_found_and_mended(place: RecordedHome) -> None:
    lived_in(place)

    def messages_told() -> int:
        with place.store.reading() as tx:
            return count_all(tx, None).messages

    told = messages_told()
    with place.store.writing() as tx:
        recount(tx)
        # What is kept is what is shown: nobody looks at the rows themselves.
        tx.connection.exec_driver_sql("UPDATE row_counts SET number = number + 7 WHERE name = 'messages'")
        tx.connection.exec_driver_sql("DROP TRIGGER count_messages_gone")
    assert messages_told() == told + 7
    assert [finding.check for finding in place.doctor()] == ["counts"]
    assert [finding.fixed for finding in place.doctor(fix=True)] == [True]
    assert place.doctor() == []
    assert messages_told() == told
    place.forget(place.say("d", "zebra"))
    assert messages_told() == told
    assert place.doctor() == []


def test_a_title_that_came_later_is_given_back_to_a_lost_journal(place: RecordedHome) -> None:
    place.talk("c", "one", "two")
    place.record("c", title="A title", finish=True)
    lose_a_journal_file(place)
    place.doctor(fix=True)
    place.lose_database()
    with place.store.reading() as tx:
        head = find_conversation(tx, place.uid("c"))
    assert head is not None
    assert (head.title, head.channel) == ("A title", "test")


@pytest.mark.parametrize("given", ["What it is called", ""])
def test_a_title_that_is_damaged_under_a_label_is_found_and_mended(place: RecordedHome, given: str) -> None:
    place.record("c", NewMessage(Role.USER, "one"), title="A title", finish=True)
    labels = Labels(place.recorder)
    labels.tag("c", ["kept"])
    labels.entitle("c", given)
    assert place.doctor() == []
    with place.store.writing() as tx:
        tx.update(conversations, conversations.c.uid == place.uid("c"), title="A tXtle")
    assert [finding.check for finding in place.doctor()] == ["journal"]
    place.doctor(fix=True)
    assert place.doctor() == []
    assert (labels.show("c").title, labels.show("c").tags) == (given or "A title", ("kept",))
    labels.entitle("c", "")
    assert labels.show("c").title == "A title"


def test_without_a_journal_only_the_database_is_looked_at(place: RecordedHome) -> None:
    place.recorder.journal = None
    place.journal, kept = None, place.journal  # type: ignore[assignment]
    place.say("c", "one", Role.USER)
    assert place.doctor(fix=True) == []
    place.journal = kept


def test_a_status_of_an_exchange_that_the_rows_lost_comes_back(place: RecordedHome) -> None:
    lived_in(place)
    before = place.rows()
    with place.store.writing() as tx:
        tx.connection.execute(delete(exchanges))
    place.reindex()
    assert place.rows()["exchanges"] == before["exchanges"]


def test_a_process_that_is_just_forgetting_is_no_disagreement(
    place: RecordedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived_in(place)
    doomed = place.say("d", "zebra")
    other = RecordedHome.__new__(RecordedHome)
    other.home, other.clock = place.home, place.clock
    other.open()

    def later(*_: object) -> None:
        raise StoreError("between its two steps")

    monkeypatch.setattr(other.journal, "rewrite", later)
    with pytest.raises(StoreError):
        other.forget(doomed)
    other.close()
    assert place.doctor() == []
    assert files_holding(place.home, b"zebra") == []
