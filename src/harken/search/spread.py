"""Questions that ask for many things: what they are about, and hits spread over exchanges instead of piled on one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from harken.model.conversations import Reason, Role
from harken.search.candidates import Candidates
from harken.search.fusion import MOST_HOLDERS
from harken.search.query import Query, distinctive_terms, parse_query
from harken.search.session import QueryVector
from harken.storage.enrichment.summaries import EXCHANGE
from harken.storage.facts import EntryFacts, turns_of
from harken.storage.ports import MESSAGE_SOURCE, Transaction
from harken.storage.vectors import read_vectors, similarities
from harken.text.words import STOP_WORDS, WORD, phrases, word_lists

# A longer text brings what it asks about along: "summarize this", and a page.
_MOST_ASKED_CHARS = 400
_ASKED_AGAIN = 64
# What counts beside the score of what an exchange asks, in standard deviations: the best of what answers it, the
# theme's words, likeness to the best exchanges; what a late place in its session costs, likeness to what was asked just
# before, and to all that is asked. What a likeness to one that stands before costs in a list of facts.
# Measured in docs/adr/0023-many-answers.md.
_ANSWERED, _COVERAGE, _LIKE_BEST = 1.3, 0.2, 0.7
_LATE, _LIKE_BEFORE, _LIKE_ALL = 1.25, 0.5, 0.6
_SAID_AGAIN = 0.2
# So long a silence ends a session.
_SILENCE_US = 6 * 3_600 * 1_000_000
_BEST, _KEPT, _SPREAD, _MOST_DEVIATIONS, _LEAST_DEVIATION = 5, 3, 50, 3.0, 1e-6
# Cosine similarity of any two texts of one talk; over it they are alike.
_UNLIKE = 0.6
_LIST = re.compile(
    r"\b(?:what|which)(?: (?!(?:has|have|had|did|do|does)\b)[\w'’+-]+){0,2}?"
    r" (?!(?:its|was|has|does|as)\b)[\w'’-]+[^\Wisu]s (?:has|have|had|did|do|does)\b"
    r"|\b(?:cu[aá]les|quel(?:le)?s|quali|quais|какие)\b|\bwelche \w+ (?:haben|habe|hat)\b|哪些",
    re.IGNORECASE,
)

_Floats = NDArray[np.float64]


@lru_cache(_ASKED_AGAIN)
def _asks(text: str) -> frozenset[str]:
    """The kinds of phrases for many things that a question has; each space and kind of entry asks for the same."""
    found = {name for name in ("order", "course", "all") if phrases("many", name).search(text)}
    if found and phrases("many", "back").search(text):
        return frozenset(found | {"back"})
    return frozenset({"list"} if _LIST.search(text) else ())


@dataclass(frozen=True, slots=True)
class Several:
    """A question that asks for many.

    Attributes:
        query: what it is about, without the words that say how the answer is wanted.
        is_theme: it asks for what was said about a theme; otherwise for a list of facts.
        in_order: it asks how things came one after another, so contexts quote by time.
        is_brief: it asks for the order alone, for which what was asked in each exchange says enough.
    """

    query: Query
    is_theme: bool = False
    in_order: bool = False
    is_brief: bool = False

    @classmethod
    def asked_by(cls, query: Query) -> Several | None:
        """What a query asks for, if it is many."""
        if len(query.text) > _MOST_ASKED_CHARS:
            return None
        asks = _asks(query.text)
        if "back" in asks:
            return cls(_theme(query), True, bool(asks & {"order", "course"}), "order" in asks)
        return cls(query) if "list" in asks else None

    def spread(self, tx: Transaction, found: Candidates, asked: QueryVector | None) -> None:
        """Score candidates anew, so that they come in the order of a spread over what was asked for."""
        best = found.best_first()
        order = self._by_exchange(tx, found, asked, best) if self.is_theme else _unlike(tx, found, asked, best)
        scores = sorted((found.scores[entry_id] for entry_id in best), reverse=True)
        for entry_id, score in zip(order, scores, strict=True):
            said_on = found.facts[entry_id].created_at.astimezone()
            note = f"one of several asked for: {said_on.day} {said_on:%B %Y}"
            before = found.scores[entry_id]
            found.reasons[entry_id].append(Reason("several", score / before if before else 1.0, note))
            found.scores[entry_id] = score

    def _by_exchange(
        self, tx: Transaction, found: Candidates, asked: QueryVector | None, best: Sequence[int]
    ) -> list[int]:
        exchanges: dict[int, list[int]] = {}
        for entry_id in best:
            exchanges.setdefault(found.facts[entry_id].exchange_id or -entry_id, []).append(entry_id)
        # What was asked stands for the exchange.
        said = [sorted(each, key=lambda entry_id: _place(found, entry_id)) for each in exchanges.values()]
        heads = [each[0] for each in said]
        logs = {entry_id: math.log(score + 1e-3) for entry_id, score in found.scores.items()}
        least = min(logs.values(), default=0.0)
        answers = [max((logs[entry_id] for entry_id in each[1:]), default=least) for each in said]
        held = tx.text.holders(tx.connection, distinctive_terms(self.query.terms), found.scope, most=MOST_HOLDERS)
        of = held.of
        rarity = {term: math.log((held.entries + 0.5) / (len(ids) + 0.5)) for term, ids in of.items() if ids}
        covered = [sum(r for t, r in rarity.items() if h in of[t]) for h in heads]
        total = _scaled([logs[head] for head in heads]) + _ANSWERED * _scaled(answers) + _COVERAGE * _scaled(covered)
        vectors = _vectors(tx, asked, heads)
        top = [heads[place] for place in np.argsort(-total, kind="stable")[:_BEST]]
        leading = [vectors[head] for head in top if head in vectors]
        if leading:
            total = total + _LIKE_BEST * _likeness(vectors, heads, leading)
            total = total - _LIKE_ALL * _likeness(vectors, heads, list(vectors.values()))
        late, like_before = _places_in_time(found, heads, vectors)
        total = total - _LATE * late - _LIKE_BEFORE * like_before
        ranked = [said[place] for place in np.argsort(-total, kind="stable")]
        if self.is_brief:
            return [each[0] for each in ranked] + [entry_id for each in ranked for entry_id in each[1:]]
        return [entry_id for each in ranked for entry_id in each]


def led_to(tx: Transaction, found: Candidates, near: Mapping[int, EntryFacts]) -> dict[int, EntryFacts]:
    """Candidates with the turns of exchanges of which only the summary was found: it leads to them."""
    said = {each.exchange_id for each in near.values() if each.source == MESSAGE_SOURCE}
    leads = {
        each.exchange_id: entry_id
        for entry_id, each in near.items()
        if each.source == EXCHANGE and each.exchange_id and each.exchange_id not in said
    }
    turns = turns_of(tx, list(leads))
    found.read_facts(tx, turns)
    added = {entry_id: found.facts[entry_id] for entry_id in turns if not found.facts[entry_id].trust.is_untrusted}
    for entry_id, each in added.items():
        found.fused.setdefault(entry_id, found.fused[leads[each.exchange_id or 0]])
    return {**near, **added}


def _unlike(tx: Transaction, found: Candidates, asked: QueryVector | None, best: Sequence[int]) -> list[int]:
    """The best three as they are, then those that say least of what stands before them again. Source: MMR, 1998."""
    head, tail = list(best[:_SPREAD]), list(best[_SPREAD:])
    vectors = _vectors(tx, asked, head)
    worth = dict(zip(head, _scaled([math.log(found.scores[entry_id] + 1e-4) for entry_id in head]), strict=True))
    order, left = head[:_KEPT], head[_KEPT:]
    alike = dict.fromkeys(left, 0.0)

    def note(chosen: int) -> None:
        for entry_id in left:
            if chosen in vectors and entry_id in vectors:
                likeness = (float(vectors[chosen] @ vectors[entry_id]) - _UNLIKE) / (1 - _UNLIKE)
                alike[entry_id] = max(alike[entry_id], likeness)

    for chosen in order:
        note(chosen)
    while left:
        chosen = max(left, key=lambda entry_id: worth[entry_id] - _SAID_AGAIN * alike[entry_id])
        left.remove(chosen)
        order.append(chosen)
        note(chosen)
    return [*order, *tail]


def _place(found: Candidates, entry_id: int) -> tuple[bool, bool, int]:
    facts = found.facts[entry_id]
    return facts.source != MESSAGE_SOURCE, facts.role != Role.USER.value, entry_id


def _places_in_time(
    found: Candidates, heads: Sequence[int], vectors: Mapping[int, NDArray[np.float32]]
) -> tuple[_Floats, _Floats]:
    """How late in its session each exchange comes, by ln(1 + those before it), and how like it is to the two before it.

    Who begins a session says what it is about, and what goes on with the last matter begins none. Both are scaled; of
    what is in no conversation nothing comes before.
    """
    late, compared = dict.fromkeys(heads, 0), dict[int, tuple[int, int]]()
    talks: dict[int, list[int]] = {}
    for head in sorted(heads, key=lambda head: (found.facts[head].created_us, head)):
        before = talks.setdefault(found.facts[head].conversation_id or -head, [])
        if before and found.facts[head].created_us - found.facts[before[-1]].created_us < _SILENCE_US:
            late[head] = late[before[-1]] + 1
        known = [each for each in before[-2:] if each in vectors]
        if known and head in vectors:
            compared[head] = known[0], known[-1]
        before.append(head)
    like = dict[int, float]()
    if compared:
        own, first, second = (
            np.array([vectors[each] for each in column]) for column in (compared, *zip(*compared.values(), strict=True))
        )
        like = dict(zip(compared, np.einsum("nd,nd->n", own, first + second).tolist(), strict=True))
    usual = sum(like.values()) / max(1, len(like))
    return _scaled(np.log1p(list(late.values()))), _scaled([like.get(head, usual) for head in heads])


def _likeness(
    vectors: Mapping[int, NDArray[np.float32]], heads: Sequence[int], others: Sequence[NDArray[np.float32]]
) -> _Floats:
    """How like exchanges are to the middle of others, scaled; one without a vector is as the least alike."""
    near = dict(
        zip(vectors, similarities(np.array(list(vectors.values())), np.mean(others, axis=0)).tolist(), strict=True)
    )
    low = min(near.values())
    return _scaled([near.get(head, low) for head in heads])


def _vectors(tx: Transaction, asked: QueryVector | None, entry_ids: Sequence[int]) -> dict[int, NDArray[np.float32]]:
    if asked is None:
        return {}
    ids, matrix = read_vectors(tx, asked.space, entry_ids)
    return dict(zip(ids.tolist(), matrix, strict=True))


def _scaled(values: Sequence[float] | _Floats) -> _Floats:
    """In standard deviations from their mean, at most 3 either way; what differs by rounding alone is equal."""
    given = np.array(values, dtype=np.float64)
    if not given.size:
        return given
    scaled = (given - given.mean()) / max(float(given.std()), _LEAST_DEVIATION)
    clipped: _Floats = np.clip(scaled, -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
    return clipped


def searched_for(query: Query) -> Query:
    """What a search of a query looks for: of a question that asks for many, what it is about."""
    several = Several.asked_by(query)
    return several.query if several else query


def _theme(query: Query) -> Query:
    """The query of the words that say what about; all of it where none does."""
    frame = word_lists("many")["frame"]
    said = [word for word in WORD.findall(query.text) if word.lower() not in frame and word.lower() not in STOP_WORDS]
    theme = parse_query(" ".join(said))
    return replace(theme, words=query.words, quote="") if theme.terms else query
