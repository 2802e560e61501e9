"""The places of past conversations and of their exchanges: which come back, in which order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from harken.config.sections import RagConfig
from harken.search.candidates import Candidates
from harken.search.union import best_of
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, TOOLS

# What the second best exchange of a conversation, and its summary, add to the best one.
_SECOND, _SUMMARY = 0.2, 0.2
# What an exchange's summary adds to the exchange, and its conversation's score; docs/adr/0011-past-conversations.md.
_EXCHANGE_SUMMARY, _CONVERSATION = 0.3, 0.4
# An exchange with less than this share of the best one's score is hardly ever what was asked for.
_LEAST = 0.5
# Sources that say again what an exchange says.
SUMMARIES = (EXCHANGE, CONVERSATION, TOOLS)


@dataclass(frozen=True, slots=True)
class Placed:
    """A conversation's row with its exchanges' rows, best first, each with its score and similarity."""

    row: int
    score: float
    similarity: float | None
    exchanges: Mapping[int, tuple[float, float | None]]


def rank_conversations(found: Candidates) -> dict[int, float]:
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
    everywhere: Candidates,
    found: Candidates,
    passing: Collection[int],
    told: Collection[int],
    config: RagConfig,
) -> list[Placed]:
    """Give exchanges their places: those of `chosen` conversations, by row with their scores, best first.

    `everywhere` is what a search of all found, `found` what one in these did, `passing` the entries of it that may come
    back, `told` the rows of conversations with a summary.
    """
    limit = config.exchange_limit_per_conversation
    placed = [_placed(row, score, found, passing) for row, score in chosen.items()]
    if config.share_places:
        return _shared(placed, config.conversation_limit * limit, told, everywhere)
    return [replace(each, exchanges=dict(list(each.exchanges.items())[:limit])) for each in placed]


def _placed(row: int, score: float, found: Candidates, passing: Collection[int]) -> Placed:
    """A conversation with every exchange of which something passes."""
    of_it: dict[int, list[int]] = {}
    nearest: list[float | None] = []
    for entry_id, each in found.facts.items():
        if each.conversation_id == row:
            nearest.append(found.similarity.get(entry_id))
            if each.exchange_id is not None:
                of_it.setdefault(each.exchange_id, []).append(entry_id)
    exchanges = {}
    for exchange, entry_ids in of_it.items():
        if not set(entry_ids).isdisjoint(passing):
            # By its own words or its summary, whichever says it better, and by its summary once more.
            best = max(found.scores[entry_id] for entry_id in entry_ids)
            made = [found.scores[entry_id] for entry_id in entry_ids if found.facts[entry_id].source == EXCHANGE]
            weighed = best + _EXCHANGE_SUMMARY * max(made, default=0.0) + _CONVERSATION * score
            exchanges[exchange] = weighed, best_of(map(found.similarity.get, entry_ids))
    best_first = sorted(exchanges.items(), key=lambda each: (-each[1][0], -each[0]))
    return Placed(row, score, best_of(nearest), dict(best_first))


def _shared(placed: Sequence[Placed], places: int, told: Collection[int], everywhere: Candidates) -> list[Placed]:
    """Half of all places go to those whose own words are nearest, so that no summary hides them; the rest to the best.

    One that is far behind the best gets none, and its tokens are saved. A conversation without a summary has nothing
    else to show and keeps one.
    """
    own: dict[int, float] = {}
    for entry_id, facts in everywhere.facts.items():
        if facts.exchange_id is not None and facts.source not in SUMMARIES:
            own[facts.exchange_id] = max(everywhere.scores[entry_id], own.get(facts.exchange_id, 0.0))
    kept = {exchange for each in placed if each.row not in told for exchange in list(each.exchanges)[:1]}
    scores = {row: score for each in placed for row, (score, _) in each.exchanges.items()}
    least = _LEAST * max(scores.values(), default=0.0)
    near_enough = {row for row, score in scores.items() if score >= least}
    nearest = sorted(near_enough & own.keys(), key=lambda row: (-own[row], -row))
    best = sorted(near_enough, key=lambda row: (-scores[row], -row))
    for row in (*nearest[: places // 2], *best):
        if len(kept) < places:
            kept.add(row)
    return [replace(one, exchanges={row: one.exchanges[row] for row in one.exchanges if row in kept}) for one in placed]
