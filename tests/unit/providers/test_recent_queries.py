"""What is asked several times in a row is embedded once."""

from __future__ import annotations

import numpy as np
import pytest

from harken.errors import ProviderError
from harken.jobs.spaces import RecentQueries
from harken.testing import HashingEmbedder


def test_the_same_words_are_embedded_once_for_all_searches() -> None:
    model = HashingEmbedder()
    recent = RecentQueries(model)
    first = recent.embed_query("Where is the harbour plan?")
    again = recent.embed_query("Where is the harbour plan?")
    assert model.calls == 1
    np.testing.assert_array_equal(first, HashingEmbedder().embed_query("Where is the harbour plan?"))
    np.testing.assert_array_equal(first, again)


def test_other_words_get_their_own_vector() -> None:
    recent = RecentQueries(HashingEmbedder())
    assert not np.array_equal(recent.embed_query("harbour"), recent.embed_query("orchard"))


def test_only_the_last_few_are_kept() -> None:
    model = HashingEmbedder()
    recent = RecentQueries(model)
    for number in range(50):
        recent.embed_query(f"question {number}")
    recent.embed_query("question 49")
    assert model.calls == 50
    recent.embed_query("question 0")
    assert model.calls == 51


def test_no_search_can_spoil_the_vector_of_another() -> None:
    recent = RecentQueries(HashingEmbedder())
    with pytest.raises(ValueError, match="read-only"):
        recent.embed_query("harbour")[0] = 9.0


def test_what_the_model_refused_is_asked_of_it_again() -> None:
    model = HashingEmbedder()
    model.fail(ProviderError("the endpoint is down"))
    recent = RecentQueries(model)
    with pytest.raises(ProviderError, match="down"):
        recent.embed_query("harbour")
    assert recent.embed_query("harbour").shape == (model.space.dims,)
