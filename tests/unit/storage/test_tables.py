from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.model.views import format_moment
from harken.storage.ports import batches
from harken.storage.tables import Json, from_microseconds, to_microseconds
from harken.storage.vectors import pack, unpack
from harken.testing.store_conformance.asking import unit_vectors

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-11))])


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=ZONES))
def test_any_moment_survives_as_microseconds(moment: datetime) -> None:
    assert from_microseconds(to_microseconds(moment)) == moment
    assert from_microseconds(to_microseconds(moment)).tzinfo is UTC


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_microseconds_are_ordered_as_moments_are(one: datetime, other: datetime) -> None:
    assert (one < other) == (to_microseconds(one) < to_microseconds(other))


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.lists(st.text())))
def test_an_object_survives_as_json(value: dict[str, object]) -> None:
    column = Json()
    kept = column.process_bind_param(value, None)  # type: ignore[arg-type]
    assert (kept is None) == (not value)
    assert column.process_result_value(kept, None) == value  # type: ignore[arg-type]


@given(st.lists(st.integers(), max_size=50))
def test_batches_are_the_values_in_order(values: list[int]) -> None:
    assert [value for batch in batches(iter(values)) for value in batch] == values


def test_batches_are_small_enough_for_one_statement() -> None:
    sizes = [len(batch) for batch in batches(range(70_001))]
    assert sum(sizes) == 70_001
    assert max(sizes) <= 32_766


def test_vectors_survive_to_a_thousandth() -> None:
    matrix = unit_vectors(5)
    assert abs(unpack([pack(row) for row in matrix], 32) - matrix).max() < 0.001
    assert unpack([], 32).shape == (0, 32)


def test_a_moment_without_a_zone_is_local_time_as_everywhere_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        noon = datetime(2026, 1, 2, 12)
        assert to_microseconds(noon) == to_microseconds(datetime(2026, 1, 2, 3, tzinfo=UTC))
        assert format_moment(noon) == "2026-01-02T03:00:00.000000Z"
    finally:
        monkeypatch.undo()
        time.tzset()
