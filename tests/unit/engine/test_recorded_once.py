"""A message that its caller has named is kept once, however often it is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import Harken
from harken.errors import NotFoundError


def test_a_named_message_is_kept_once_and_two_alike_without_a_name_twice(ready_home: Path) -> None:
    with Harken(ready_home, settings={"embedder": "none"}, env={}) as harken:
        first = harken.record_message("log", "user", "Moor at quay seven.", once="a")
        assert harken.record_message("log", "user", "Moor at quay seven.", once="a") == first
        harken.record_message("log", "user", "Moor at quay seven.", once="b")
        harken.record_message("log", "user", "Moor at quay seven.")
        texts = [message.text for message in harken.show(first.conversation_uid).messages]
        assert texts == ["Moor at quay seven."] * 3


def test_a_named_message_that_was_forgotten_does_not_come_back(ready_home: Path) -> None:
    with Harken(ready_home, settings={"embedder": "none"}, env={}) as harken:
        harken.record_message("log", "user", "Kept.")
        said = harken.record_message("log", "user", "Moor at quay seven.", once="a")
        harken.maintenance.forget(harken.maintenance.plan_forget(messages=(said.uid,)))
        with pytest.raises(NotFoundError, match="forgotten"):
            harken.record_message("log", "user", "Moor at quay seven.", once="a")
        assert [message.text for message in harken.show(said.conversation_uid).messages] == ["Kept."]
