from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken import errors
from harken.errors import HarkenError, MissingExtraError
from harken.model import conversations as model
from harken.model.conversations import EMPTY, Entry, Trust, spoken
from harken.model.team import AuditEntry
from harken.testing.talk import START

RECORDS = [record for _, record in inspect.getmembers(model, dataclasses.is_dataclass) if isinstance(record, type)]
ERRORS = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, Exception)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_no_record_can_be_changed_or_given_more(record: type) -> None:
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in record.__dict__


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_is_of_one_tree_that_is_drawn(error: type[Exception]) -> None:
    assert issubclass(error, HarkenError)
    assert error.__name__ in (errors.__doc__ or "")


def test_a_missing_extra_is_named_with_what_installs_it() -> None:
    error = MissingExtraError("Searching by meaning", "local")
    assert str(error).startswith("Searching by meaning needs an extra")
    assert "pip install 'harken[local]'" in str(error)
    assert (error.feature, error.extra) == ("Searching by meaning", "local")


@given(st.dictionaries(st.text(), st.integers()))
def test_the_empty_mapping_equals_every_empty_one(other: Mapping[str, int]) -> None:
    assert (other == EMPTY) == (other == EMPTY) == (not other)


def test_the_empty_mapping_holds_nothing() -> None:
    assert (len(EMPTY), list(EMPTY), EMPTY.get("key"), hash(EMPTY)) == (0, [], None, hash(EMPTY))
    with pytest.raises(KeyError):
        EMPTY["key"]


def test_a_line_of_the_audit_makes_its_own_json() -> None:
    made = AuditEntry(START, "crew", "ann-id", None, None, "search", "http", 200, ("a1",)).view()
    assert made == {
        "at": "2023-05-08T12:00:00.000000Z",
        "principal": "ann-id",
        "key": None,
        "space": None,
        "verb": "search",
        "via": "http",
        "status": 200,
        "ids": ["a1"],
    }


@pytest.mark.parametrize(("author", "expected"), [("Ada", "Ada: hello"), (None, "hello"), ("", "hello")])
def test_words_are_spoken_by_whoever_is_known(author: str | None, expected: str) -> None:
    assert spoken(author, "hello") == expected
    entry = Entry(1, "message", "m", None, None, None, "user", author, START, Trust.OWNER, "hello")
    assert entry.spoken == expected
