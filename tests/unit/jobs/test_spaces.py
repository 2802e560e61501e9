from __future__ import annotations

import os
from typing import Any

import pytest

from harken.errors import MissingExtraError, ModelFileError
from harken.jobs.embed import EmbedWork
from harken.jobs.job import run_until_idle
from harken.jobs.spaces import Spaces
from harken.providers.embedder import Embedder
from harken.storage.ports import Store
from harken.testing import HashingEmbedder
from recorded import LONG, RecordedHome

MODELS = {name: HashingEmbedder(name=name) for name in ("old", "new")}


class Opening:
    """Opens models by name, and counts how often; some cannot be opened."""

    def __init__(self, *broken: str) -> None:
        self.opened: list[str] = []
        self.broken = set(broken)

    def __call__(self, name: str) -> Embedder:
        self.opened.append(name)
        if name in self.broken:
            raise MissingExtraError(f"The model {name}", "local")
        return MODELS[name]

    def spaces(self, store: Store, name: str | None) -> Spaces:
        """The spaces of a store with these settings."""

        def from_spec(spec: dict[str, Any]) -> Embedder:
            return self(str(spec["name"]))

        return Spaces(store, None if name is None else (lambda: self(name)), {"name": name}, from_spec)


def embed_all(place: RecordedHome, spaces: Spaces) -> None:
    filled = spaces.filled()
    assert filled is not None
    run_until_idle(EmbedWork(place.store, filled.embedder, filled.space, 10, 60, place.clock))


@pytest.fixture
def embedded(place: RecordedHome) -> RecordedHome:
    """A home with one entry, embedded by the old model."""
    place.say("c", LONG)
    embed_all(place, Opening().spaces(place.store, "old"))
    return place


class TestFilling:
    def test_the_configured_model_is_opened_when_it_is_needed_and_once(self, place: RecordedHome) -> None:
        opening = Opening()
        spaces = opening.spaces(place.store, "old")
        assert opening.opened == []
        assert spaces.filled() == spaces.filled()
        assert spaces.embedder() is MODELS["old"]
        assert opening.opened == ["old"]

    def test_a_forked_process_opens_the_model_anew(self, place: RecordedHome, monkeypatch: pytest.MonkeyPatch) -> None:
        """By one connection to an endpoint two processes would read each other's answers."""
        opening = Opening()
        spaces = opening.spaces(place.store, "old")
        parent = os.getpid()
        for pid in (parent, parent, parent + 1, parent + 1):
            monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
            assert spaces.embedder() is MODELS["old"]
        assert opening.opened == ["old", "old"]

    def test_without_a_model_nothing_is_filled(self, place: RecordedHome) -> None:
        spaces = Opening().spaces(place.store, None)
        assert spaces.filled() is None
        assert spaces.embedder() is None

    def test_a_model_that_cannot_be_opened_says_so(self, place: RecordedHome) -> None:
        with pytest.raises(MissingExtraError, match=r"harken\[local\]"):
            Opening("old").spaces(place.store, "old").filled()

    def test_a_changed_model_fills_a_space_of_its_own(self, embedded: RecordedHome) -> None:
        filled = Opening().spaces(embedded.store, "new").filled()
        assert filled is not None
        assert (filled.space.name, filled.space.state) == (MODELS["new"].space.id, "filling")
        assert filled.space.spec == {"name": "new"}


class TestAnswering:
    def test_nothing_answers_while_nothing_is_embedded(self, place: RecordedHome) -> None:
        place.say("c", LONG)
        opening = Opening()
        spaces = opening.spaces(place.store, "old")
        assert spaces.answering() is None
        spaces.filled()
        assert spaces.answering() is None

    def test_the_filled_space_answers_by_the_same_model(self, embedded: RecordedHome) -> None:
        opening = Opening()
        answering = opening.spaces(embedded.store, "old").answering()
        assert answering is not None
        assert answering.embedder.space == MODELS["old"].space
        assert opening.opened == ["old"]

    def test_without_a_model_nothing_answers(self, embedded: RecordedHome) -> None:
        assert Opening().spaces(embedded.store, None).answering() is None

    def test_the_old_model_answers_while_the_new_one_fills(self, embedded: RecordedHome) -> None:
        opening = Opening()
        spaces = opening.spaces(embedded.store, "new")
        answering = spaces.answering()
        assert answering is not None
        assert answering.embedder.space == MODELS["old"].space
        embed_all(embedded, spaces)
        answering = spaces.answering()
        assert answering is not None
        assert answering.embedder.space == MODELS["new"].space
        assert sorted(opening.opened) == ["new", "old"]

    def test_the_old_model_answers_where_the_new_one_cannot_be_opened(self, embedded: RecordedHome) -> None:
        answering = Opening("new").spaces(embedded.store, "new").answering()
        assert answering is not None
        assert answering.embedder.space == MODELS["old"].space

    def test_a_model_that_cannot_be_opened_says_so_to_who_asks(self, embedded: RecordedHome) -> None:
        with pytest.raises(MissingExtraError, match="The model old"):
            Opening("old").spaces(embedded.store, "old").answering()

    def test_a_model_that_can_be_opened_again_answers_again(self, embedded: RecordedHome) -> None:
        opening = Opening("old")
        spaces = opening.spaces(embedded.store, "old")
        with pytest.raises(MissingExtraError):
            spaces.answering()
        opening.broken.clear()
        assert spaces.answering() is not None

    def test_other_settings_of_the_same_model_open_it_once(self, embedded: RecordedHome) -> None:
        opening = Opening()
        spaces = Spaces(embedded.store, lambda: opening("old"), {"name": "old", "threads": 8}, _never)
        answering = spaces.answering()
        assert answering is not None
        assert answering.embedder.space == MODELS["old"].space


def _never(_spec: dict[str, Any]) -> Embedder:
    raise ModelFileError("asked for the older model")
