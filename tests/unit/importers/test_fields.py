"""Times and tool calls are read from whatever agents write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.importers.reading import call_text, moment

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-15T12:00:00Z",
        "2026-01-15T12:00:00.000+00:00",
        "2026-01-15T14:00:00+02:00",
        "2026-01-15 12:00:00",
        "2026-01-15T12:00:00.000000+",
        NOON.timestamp(),
        int(NOON.timestamp()),
        NOON.timestamp() * 1_000,
        NOON.timestamp() * 1_000_000,
        str(int(NOON.timestamp())),
    ],
)
def test_a_time_is_read_in_every_form_that_agents_write(value: Any) -> None:
    assert moment(value) == NOON


@pytest.mark.parametrize(
    "value", [None, True, "", "soon", 0, -5, float("nan"), float("inf"), 10**400, [], {}, "9" * 400]
)
def test_what_is_no_time_is_none(value: Any) -> None:
    assert moment(value) is None


def test_a_leap_second_is_the_second_before_it() -> None:
    assert moment("2016-12-31T23:59:60Z") == moment("2016-12-31T23:59:59Z") is not None
    assert moment("2016-12-31T23:60:00Z") is None


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text())
def test_any_value_gives_an_aware_time_or_none(value: Any) -> None:
    read = moment(value)
    assert read is None or read.tzinfo is not None


@pytest.mark.parametrize(
    ("name", "handed", "text"),
    [
        ("Bash", {"command": "ls ä"}, 'Bash {"command": "ls ä"}'),
        ("shell", "ls -l", "shell ls -l"),
        ("Stop", {}, "Stop"),
        (None, {"a": 1}, '{"a": 1}'),
    ],
)
def test_a_call_reads_as_the_tool_and_what_it_was_given(name: str | None, handed: Any, text: str) -> None:
    assert call_text(name, handed) == text
