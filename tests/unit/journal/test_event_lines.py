from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.journal.lines import event_time, line_from_event, read_line
from harken.model.conversations import (
    Conversation,
    Event,
    Exchange,
    ExchangeEnd,
    ExchangeStatus,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    SavedRecord,
    Segment,
    Titled,
    Tombstone,
    Trust,
    Trusted,
)

# Lone surrogates and NUL included: the recorder keeps them out, and a journal must hold whatever it was given.
TEXTS = st.text(st.characters(), max_size=40)
NAMES = TEXTS.filter(bool)
MOMENTS = st.datetimes(
    min_value=datetime(1, 1, 2),
    max_value=datetime(9999, 12, 30),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.dictionaries(TEXTS, JSON, max_size=4)
PROJECTS = st.builds(ProjectIdentity, NAMES, NAMES, st.lists(NAMES, max_size=2).map(tuple))


@st.composite
def conversations(draw: Any) -> Conversation:
    begun = draw(MOMENTS)
    parent, project = draw(st.none() | NAMES), draw(st.none() | PROJECTS)
    names = [draw(NAMES), draw(NAMES), draw(TEXTS), draw(TEXTS)]
    return Conversation(*names, begun, begun, project, parent, draw(METADATA))


EVENTS: st.SearchStrategy[Event] = st.one_of(
    conversations(),
    st.builds(Segment, NAMES, NAMES, st.integers(0, 10**6), MOMENTS),
    st.builds(Exchange, NAMES, NAMES, NAMES, st.integers(0, 10**6), st.just(ExchangeStatus.IN_PROGRESS), MOMENTS),
    st.builds(ExchangeEnd, NAMES, NAMES, st.sampled_from(ExchangeStatus), MOMENTS, st.none() | NAMES),
    st.builds(
        Message,
        *(NAMES, NAMES, NAMES, NAMES, st.sampled_from(Role), st.sampled_from(MessageType), TEXTS, MOMENTS),
        *(st.none() | NAMES, st.sampled_from(Trust), st.none() | NAMES, st.none() | NAMES, TEXTS, METADATA),
    ),
    st.builds(Titled, NAMES, TEXTS, MOMENTS),
    st.builds(Trusted, NAMES, NAMES, st.sampled_from(Trust), MOMENTS),
    st.builds(Tombstone, NAMES, NAMES, st.sampled_from(["message", "conversation"]), MOMENTS),
)
FIELDS = st.fixed_dictionaries(
    {
        "content": TEXTS,
        "category": NAMES,
        "importance": st.floats(0, 1),
        "tags": st.lists(NAMES, max_size=3),
        "supersedes": st.lists(NAMES, max_size=2),
        "trust": st.sampled_from(["owner", "agent"]),
        "created_at": st.just("2023-05-08T12:00:00.000000Z"),
    },
    optional={"superseded_by": NAMES},
)
KEPT = st.builds(SavedRecord, st.just("memory"), NAMES, MOMENTS, st.none() | FIELDS, st.none() | PROJECTS)
EVENTS = st.one_of(EVENTS, KEPT)


def event_from_line(line: bytes) -> Event | None:
    found = read_line(line.rstrip(b"\n") + b"\n", len(line))
    assert found.event is None or not found.is_broken
    return found.event


HEAD = Conversation("c", "test", "name", "", datetime(2023, 5, 8, tzinfo=UTC), datetime(2023, 5, 8, tzinfo=UTC))


@given(EVENTS)
def test_every_event_comes_back_from_its_line(event: Event) -> None:
    line = line_from_event(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert event_from_line(line) == event


@given(EVENTS)
def test_a_line_is_to_the_byte_what_the_json_module_writes(event: Event) -> None:
    line = line_from_event(event).decode("utf-8", "surrogatepass")
    assert json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")) == line.removesuffix("\n")


@given(EVENTS)
def test_the_moment_of_an_event_survives_its_line(event: Event) -> None:
    back = event_from_line(line_from_event(event))
    assert back is not None
    assert event_time(back) == event_time(event)


@given(EVENTS, st.data())
def test_no_part_of_a_line_is_an_event(event: Event, data: st.DataObject) -> None:
    line = line_from_event(event).rstrip(b"\n")
    end = data.draw(st.integers(0, len(line) - 1))
    assert event_from_line(line[:end]) is None


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert event_from_line(line) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"id": 7},
        {"id": None},
        {"channel": ["test"]},
        {"metadata": "text"},
        {"project": {"key": "k"}},
        {"at": "never"},
        {"at": 5},
        {"at": "0001-01-01T00:00:00+23:00"},
        {"event": "anecdote"},
        {"event": ["message"]},
    ],
    ids=repr,
)
def test_a_line_with_a_value_of_the_wrong_kind_is_no_event(changed: dict[str, Any]) -> None:
    fields = {**json.loads(line_from_event(HEAD)), **changed}
    assert event_from_line(json.dumps(fields).encode()) is None


def test_a_line_that_is_nested_without_end_is_no_event() -> None:
    assert event_from_line(b'{"event":"message","text":' + b"[" * 100_000) is None


def test_a_key_of_a_later_version_does_no_harm() -> None:
    fields = {**json.loads(line_from_event(HEAD)), "mood": {"of": ["the", "day"]}}
    assert event_from_line(json.dumps(fields).encode()) == HEAD


def test_a_line_holds_no_key_without_a_value() -> None:
    assert json.loads(line_from_event(HEAD)).keys() == {"event", "id", "channel", "external_id", "at"}


@pytest.mark.parametrize(
    "changed",
    [
        {"category": None},
        {"content": 7},
        {"importance": "high"},
        {"importance": float("nan")},
        {"importance": True},
        {"tags": "animals"},
        {"trust": "nobody"},
        {"created_at": "never"},
    ],
    ids=repr,
)
def test_a_kept_record_that_no_row_could_hold_is_no_event(changed: dict[str, Any]) -> None:
    whole = {"content": "x", "category": "fact", "importance": 0.5, "tags": [], "supersedes": [], "trust": "owner"}
    fields = {**whole, "created_at": "2023-05-08T12:00:00.000000Z", **changed}
    line = {"event": "kept", "source": "memory", "id": "m1", "at": "2023-05-08T12:00:00.000000Z", "fields": fields}
    assert event_from_line(json.dumps(line).encode() + b"\n") is None
    assert event_from_line(
        json.dumps({**line, "fields": {**fields, **{k: whole.get(k, "2023-05-08") for k in changed}}}).encode()
    )
    assert event_from_line(json.dumps({**line, "source": "rumour"}).encode()) is None
