"""Searches that belong together: one view of the store, each query embedded once."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from harken.config.sections import SearchConfig
from harken.errors import ProviderError
from harken.jobs.embed import EmbedWork
from harken.jobs.job import run_until_idle
from harken.providers.embedder import Vectors
from harken.search.query import parse_query
from harken.search.session import QueryVector, SearchSession, SearchSessions
from harken.storage.vectors import ensure_space
from harken.testing import HashingEmbedder
from recorded import LONG, RecordedHome


@pytest.fixture
def model() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def sessions(place: RecordedHome, model: HashingEmbedder) -> SearchSessions:
    place.say("c", LONG)
    with place.store.writing() as tx:
        space = ensure_space(tx, model.space.id, model.space.dims, model.space.threshold, {})
    run_until_idle(EmbedWork(place.store, model, space, 10, 60, place.clock))
    return SearchSessions(place.store, SearchConfig, lambda _space: model, place.clock)


def vector(session: SearchSession, text: str) -> Vectors:
    asked = session.vector(parse_query(text))
    assert isinstance(asked, QueryVector)
    return asked.readings[0][1]


def test_the_same_words_are_embedded_once_for_all_searches(sessions: SearchSessions, model: HashingEmbedder) -> None:
    before = model.calls
    with sessions.open() as one, sessions.open(limit=3) as other:
        first, again = vector(one, "Where is the harbour plan?"), vector(one, "Where is the harbour plan?")
        third = vector(other, "Where is the harbour plan?")
    assert model.calls == before + 1
    np.testing.assert_array_equal(first, HashingEmbedder().embed_query("Where is the harbour plan?"))
    assert first is again is third


def test_other_words_get_their_own_vector(sessions: SearchSessions) -> None:
    with sessions.open() as session:
        assert not np.array_equal(vector(session, "harbour"), vector(session, "orchard"))


def test_only_the_last_ones_are_kept(sessions: SearchSessions, model: HashingEmbedder) -> None:
    before = model.calls
    with sessions.open() as session:
        for number in range(300):
            vector(session, f"question {number}")
    with sessions.open() as session:
        vector(session, "question 299")
        assert model.calls == before + 300
        vector(session, "question 0")
        assert model.calls == before + 301


def test_no_search_can_spoil_the_vector_of_another(sessions: SearchSessions) -> None:
    with sessions.open() as session, pytest.raises(ValueError, match="read-only"):
        vector(session, "harbour")[0] = 9.0


def test_what_the_model_refused_is_asked_of_it_again_by_the_next_call(
    sessions: SearchSessions, model: HashingEmbedder
) -> None:
    model.fail(ProviderError("the endpoint is down"))
    with sessions.open() as session:
        for _ in range(2):
            with pytest.raises(ProviderError, match="down"):
                vector(session, "harbour")
    with sessions.open() as session:
        assert vector(session, "harbour").shape == (model.space.dims,)


def test_a_session_keeps_its_settings_and_its_moment(sessions: SearchSessions, place: RecordedHome) -> None:
    with sessions.open(include_untrusted=False) as session:
        began = session.now
        place.clock.go_on(days=1)
        assert not session.config.include_untrusted
        assert session.now == began < place.clock()
    with sessions.open() as session:
        assert session.config.include_untrusted
    assert datetime.now(UTC).tzinfo == session.now.tzinfo
