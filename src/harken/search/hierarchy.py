"""From entries that were found to conversations, and in each the exchanges that get a place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from harken.config.settings import RagConfig
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, TOOLS
from harken.storage.entries import EntryFacts

# What the second best exchange of a conversation, and its summary, add to the best one.
_SECOND, _SUMMARY = 0.2, 0.2
# What an exchange's summary adds to the exchange, and its conversation's score; docs/adr/0011-past-conversations.md.
_EXCHANGE_SUMMARY, _CONVERSATION = 0.3, 0.4
# An exchange with less than this share of the best one's score is hardly ever what was asked for.
_LEAST = 0.5
# What says again what an exchange says.
_TOLD = (EXCHANGE, CONVERSATION, TOOLS)


@dataclass(frozen=True, slots=True)
class Lists:
    """What one search found: entries with their scores.

    Attributes:
        similarity: cosine, -1 to 1, of those that have a vector and were compared.
        scores: fused and weighed; they compare within one search.
        facts: of the same entries as `scores`.
    """

    keyword: Mapping[int, float]
    similarity: Mapping[int, float]
    scores: Mapping[int, float]
    facts: Mapping[int, EntryFacts]


@dataclass(frozen=True, slots=True)
class Placed:
    """A conversation's row with its exchanges' rows, best first, each with its score and similarity."""

    row: int
    score: float
    similarity: float | None
    exchanges: Mapping[int, tuple[float, float | None]]


def rank_conversations(found: Lists) -> dict[int, float]:
    """Rows of conversations with their scores, best first: by their best exchange, the next one, and their summary."""
    summary: dict[int, float] = {}
    of_exchanges: dict[int, dict[int, float]] = {}
    for entry_id, each in found.facts.items():
        if each.conversation_id is None:
            continue
        score = found.scores[entry_id]
        if each.source == CONVERSATION:
            summary[each.conversation_id] = score
        else:
            mine = of_exchanges.setdefault(each.conversation_id, {})
            key = each.exchange_id or -entry_id
            mine[key] = max(score, mine.get(key, 0.0))
    totals: dict[int, float] = {}
    for row in {*summary, *of_exchanges}:
        best, second, *_ = [*sorted(of_exchanges.get(row, {}).values(), reverse=True), 0.0, 0.0]
        totals[row] = max(best, summary.get(row, 0.0)) + _SECOND * second + _SUMMARY * summary.get(row, 0.0)
    return {row: totals[row] for row in sorted(totals, key=lambda row: (-totals[row], -row))}


def place_exchanges(
    chosen: Mapping[int, float],
    everywhere: Lists,
    found: Lists,
    passing: Collection[int],
    told: Collection[int],
    config: RagConfig,
) -> list[Placed]:
    """Give exchanges their places.

    Args:
        chosen: rows of the conversations that come back with their scores, best first.
        everywhere: what a search of all conversations found.
        found: what a search in these conversations found.
        passing: entries of it that may come back.
        told: rows of conversations that have a summary; one without keeps a place for its best exchange.
        config: how many places there are.
    """
    limit = config.exchange_limit_per_conversation
    placed = [_placed(row, score, found, passing) for row, score in chosen.items()]
    if config.share_places:
        return _shared(placed, config.conversation_limit * limit, told, _by_own_words(everywhere))
    return [replace(each, exchanges=dict(list(each.exchanges.items())[:limit])) for each in placed]


def _placed(row: int, score: float, found: Lists, passing: Collection[int]) -> Placed:
    """A conversation with every exchange of which something passes."""
    of_it: dict[int, list[int]] = {}
    nearest: list[float | None] = []
    for entry_id, each in found.facts.items():
        if each.conversation_id == row:
            nearest.append(found.similarity.get(entry_id))
            if each.exchange_id is not None:
                of_it.setdefault(each.exchange_id, []).append(entry_id)
    exchanges = {
        exchange: (
            _score(entry_ids, found) + _CONVERSATION * score,
            best_of([found.similarity.get(entry_id) for entry_id in entry_ids]),
        )
        for exchange, entry_ids in of_it.items()
        if any(entry_id in passing for entry_id in entry_ids)
    }
    best_first = sorted(exchanges.items(), key=lambda each: (-each[1][0], -each[0]))
    return Placed(row, score, best_of(nearest), dict(best_first))


def _score(entry_ids: Sequence[int], found: Lists) -> float:
    """By its own words or its summary, whichever says it better, and by its summary once more."""
    best = max(found.scores[entry_id] for entry_id in entry_ids)
    summaries = [found.scores[entry_id] for entry_id in entry_ids if found.facts[entry_id].source == EXCHANGE]
    return best + _EXCHANGE_SUMMARY * max(summaries, default=0.0)


def _by_own_words(everywhere: Lists) -> list[int]:
    """Exchanges as a search without summaries finds them, best first."""
    best: dict[int, float] = {}
    for entry_id, each in everywhere.facts.items():
        if each.exchange_id is not None and each.source not in _TOLD:
            best[each.exchange_id] = max(everywhere.scores[entry_id], best.get(each.exchange_id, 0.0))
    return sorted(best, key=lambda row: (-best[row], -row))


def _shared(placed: Sequence[Placed], places: int, told: Collection[int], by_own_words: Sequence[int]) -> list[Placed]:
    """Half of all places go to those whose own words are nearest, so that no summary hides them; the rest to the best.

    One that is far behind the best gets none, and its tokens are saved. A conversation without a summary has nothing
    else to show and keeps one.
    """
    kept = {exchange for each in placed if each.row not in told for exchange in list(each.exchanges)[:1]}
    scores = {row: score for each in placed for row, (score, _) in each.exchanges.items()}
    least = _LEAST * max(scores.values(), default=0.0)
    near_enough = {row for row, score in scores.items() if score >= least}
    nearest = [row for row in by_own_words if row in near_enough][: places // 2]
    best = sorted(near_enough, key=lambda row: (-scores[row], -row))
    for row in (*nearest, *best):
        if len(kept) < places:
            kept.add(row)
    return [
        replace(each, exchanges={row: facts for row, facts in each.exchanges.items() if row in kept}) for each in placed
    ]


def best_of(similarities: Sequence[float | None]) -> float | None:
    """The highest; None where none is known."""
    return max((each for each in similarities if each is not None), default=None)
