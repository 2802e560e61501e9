from __future__ import annotations

import json
import pickle

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

import harken
from harken.client import ApiError
from harken.context import compose
from harken.errors import (
    ContextAssemblyError,
    ForeignRecordError,
    HarkenError,
    InvalidContextTypeError,
    KeyRefusedError,
    MissingExtraError,
    SpaceReadOnlyError,
    UsageError,
    sentence_of,
)
from harken.log import Log
from harken.model.conversations import ContextItem


@given(st.text(st.characters(), max_size=3000))
def test_a_sentence_can_be_shown_to_anybody(quoted: str) -> None:
    sentence = sentence_of(UsageError(f"There is no '{quoted}'. Look: harken status"))
    assert sentence.isprintable()
    assert len(sentence) <= 1000
    assert json.loads(json.dumps(sentence, ensure_ascii=False).encode()) == sentence
    assert sentence.startswith("There is no ")


@pytest.mark.parametrize("quoted", ["x" * 200_000, "x " * 100_000])
def test_what_is_too_long_loses_its_middle_and_keeps_the_fix(quoted: str) -> None:
    sentence = sentence_of(f"There is no '{quoted}'. Look: harken status")
    assert sentence.startswith("There is no 'x")
    assert sentence.endswith("Look: harken status")
    assert "…" in sentence
    assert len(sentence) <= 1000


def test_what_can_be_read_stays_as_it_is() -> None:
    assert sentence_of("There is no project 'größer\\n'.\n  Look:\tharken status") == (
        "There is no project 'größer\\n'. Look: harken status"
    )


def test_what_callers_of_the_assembler_need_is_at_the_top_of_the_package() -> None:
    """Seed 004's error classes and results, beside the names that `__all__` lists."""
    assert (harken.ContextAssemblyError, harken.InvalidContextTypeError) == (
        ContextAssemblyError,
        InvalidContextTypeError,
    )
    assert (harken.FormattedContext, harken.ContextItem) == (compose.FormattedContext, ContextItem)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        harken.Nothing  # noqa: B018


@pytest.mark.parametrize(
    "error",
    [ApiError(403, "urn:harken:problem:forbidden", "You may not."), KeyRefusedError(), MissingExtraError("MCP", "mcp"),
     ForeignRecordError("1", "notes", "bob", ["ann"]), SpaceReadOnlyError("write", "notes"), UsageError("No.")],
)  # fmt: skip
def test_an_error_comes_out_of_another_process_as_it_was(error: HarkenError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_a_program_that_has_harken_as_a_library_gets_the_log_by_logging(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stood in the program's stdout, between its JSON or the lines of its protocol."""
    structlog.reset_defaults()
    Log("harken.jobs").warning("work_failed", work="embed")
    assert [(record.name, record.message) for record in caplog.records] == [("harken.jobs", "work_failed work='embed'")]
    assert capsys.readouterr().out == ""
