"""Which exchanges of past conversations get a place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from harken.config.sections import RagConfig, SearchConfig
from harken.model.conversations import Trust
from harken.search.candidates import Candidates
from harken.search.places import place_exchanges
from harken.search.query import parse_query
from harken.storage.enrichment.summaries import EXCHANGE
from harken.storage.facts import EntryFacts
from harken.storage.ports import RowScope
from harken.storage.tables import to_microseconds

NOW = datetime(2026, 11, 22, tzinfo=UTC)
CONVERSATION = 1
Found = tuple[str, int, float]


def candidates(*found: Found) -> Candidates:
    """What a search found: of each entry its source, its exchange and its score."""
    facts = {
        entry_id: EntryFacts(
            source=source,
            author=None,
            role=None,
            trust=Trust.OWNER,
            weight=1.0,
            created_us=to_microseconds(NOW),
            conversation_id=CONVERSATION,
            exchange_id=exchange,
        )
        for entry_id, (source, exchange, _) in enumerate(found, start=1)
    }
    scores = {entry_id: score for entry_id, (*_, score) in enumerate(found, start=1)}
    return Candidates(parse_query("tap"), SearchConfig(), RowScope(), 10, facts=facts, scores=scores)


def placed(found: Candidates, places: int, told: Sequence[int] = (CONVERSATION,)) -> set[int]:
    config = RagConfig(conversation_limit=1, exchange_limit_per_conversation=places)
    (each,) = place_exchanges({CONVERSATION: 1.0}, found, found, list(found.facts), told, config)
    return set(each.exchanges)


def test_no_summary_hides_the_exchange_whose_own_words_are_nearest() -> None:
    summarized = [("message", 1, 0.9), (EXCHANGE, 1, 0.9), ("message", 2, 0.8), (EXCHANGE, 2, 0.9)]
    found = candidates(*summarized, ("message", 3, 0.95))

    assert 3 in placed(found, 2)
    assert len(placed(found, 2)) == 2


def test_what_its_summary_says_better_gets_one_of_the_other_places() -> None:
    found = candidates(("message", 1, 0.9), ("message", 2, 0.8), ("message", 3, 0.5), (EXCHANGE, 3, 0.85))

    assert placed(found, 2) == {1, 3}


def test_an_exchange_far_behind_the_best_gets_no_place_though_there_are_some() -> None:
    found = candidates(("message", 1, 0.9), (EXCHANGE, 1, 1.0), ("message", 2, 0.1))

    assert placed(found, 5) == {1}


def test_a_conversation_without_a_summary_shows_its_best_exchange() -> None:
    found = candidates(("message", 1, 0.01))

    assert placed(found, 5, told=()) == {1}
