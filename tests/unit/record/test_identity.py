from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from harken.record.ids import conversation_uid, derived_uid, new_uid, task_name

NOW = datetime(2023, 5, 8, 12, 0, tzinfo=UTC)
MOMENTS = st.datetimes(timezones=st.just(UTC))


@given(MOMENTS)
def test_a_new_id_is_a_uuid_of_version_7_that_no_other_equals(moment: datetime) -> None:
    one, other = new_uid(moment), new_uid(moment)
    assert one != other
    assert UUID(one).version == 7
    assert UUID(one).variant == "specified in RFC 4122"


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 1, 1), timezones=st.just(UTC)))
def test_new_ids_sort_by_their_millisecond(moment: datetime) -> None:
    assert new_uid(moment) < new_uid(moment + timedelta(milliseconds=2))


@given(st.lists(st.text(), min_size=1, max_size=4), st.none() | MOMENTS)
def test_a_derived_id_is_always_the_same_uuid_of_version_8(parts: list[str], moment: datetime | None) -> None:
    uid = derived_uid(*parts, moment=moment)
    assert uid == derived_uid(*parts, moment=moment)
    assert UUID(uid).version == 8


def test_a_derived_id_depends_on_every_part_and_on_the_moment() -> None:
    uids = {
        derived_uid("message", "a", "b"),
        derived_uid("message", "b", "a"),
        derived_uid("message", "ab"),
        derived_uid("segment", "a", "b"),
        derived_uid("message", "a", "b", moment=NOW),
        derived_uid("message", "a", "b", moment=NOW + timedelta(seconds=1)),
    }
    assert len(uids) == 6


def test_derived_ids_with_a_moment_sort_by_it() -> None:
    assert derived_uid("z", moment=NOW) < derived_uid("a", moment=NOW + timedelta(seconds=1))


def test_a_tasks_conversation_is_called_after_the_task_and_any_other_is_not() -> None:
    assert conversation_uid("task", "daily") == "scheduler_daily"
    assert UUID(conversation_uid("chat", "daily")).version == 8


@given(st.text())
def test_whatever_a_task_is_called_its_id_names_one_folder_inside_the_journal(name: str) -> None:
    uid = conversation_uid("task", name)
    assert not {"/", "\\", "\x00"} & set(uid)
    assert not uid.startswith(".")
    kept = task_name(name)
    if kept is not None:
        assert task_name(kept) == kept
        assert conversation_uid("task", kept) == f"scheduler_{kept}"
