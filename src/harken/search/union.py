"""Makes one ranking of what several spaces have found, each thing with whose words it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from harken.model.conversations import CoreFact, Hit, Trust
from harken.model.lookups import PastConversation
from harken.model.provenance import Provenance
from harken.search.session import SearchSession

_Found = TypeVar("_Found")
# As far as somebody else's words may be believed: chosen by a person of the team, and data to everybody else.
_OF_ANOTHER = {Trust.OWNER: Trust.IMPORTED, Trust.AGENT: Trust.IMPORTED}


def trust_here(trust: Trust, origin: Provenance | None) -> Trust:
    """How far words may be believed by who reads them: somebody else's are never the owner's, nor their agent's."""
    return trust if origin is None or origin.is_mine else _OF_ANOTHER.get(trust, trust)


def in_one_order(
    answers: Iterable[tuple[str, Sequence[_Found]]],
    score: Callable[[_Found], float],
    likeness: Callable[[_Found], float | None],
    scored: Callable[[_Found, float], _Found],
    same: Callable[[_Found], Hashable],
) -> list[tuple[str, _Found]]:
    """What each space has found, with its space, best first by scores on one scale; of equal ones, the first space's.

    A space's scores compare within it alone, and the best of each is near 1, however little it has to do with the
    question. So they are multiplied by how like its likest is to the question, beside the likest of all.

    Args:
        answers: each best first.
        score: of one thing.
        likeness: likewise, cosine, -1 to 1; None where it is not known.
        scored: the same thing with another score.
        same: what a thing and its copy in another space have in common; only the first space's is shown.
    """
    found: list[tuple[str, list[_Found]]] = []
    seen: set[Hashable] = set()
    for space, items in answers:
        fresh = [item for item in items if same(item) not in seen]
        seen.update(map(same, fresh))
        found += [(space, fresh)] if fresh else []
    if len(found) < 2:
        return [(space, item) for space, items in found for item in items]
    likest = [best_of(map(likeness, items)) for _, items in found]
    highest = best_of(likest)
    merged: list[tuple[str, _Found]] = []
    for (space, items), best in zip(found, likest, strict=True):
        factor = 1.0 if best is None or highest is None or highest <= 0 else max(0.0, best) / highest
        merged += [(space, scored(item, score(item) * factor)) for item in items]
    return sorted(merged, key=lambda each: -score(each[1]))


def best_of(similarities: Iterable[float | None]) -> float | None:
    """The highest; None where none is known."""
    return max((each for each in similarities if each is not None), default=None)


def whose(session: SearchSession, found: Iterable[tuple[str, Sequence[str | None]]]) -> list[Provenance | None]:
    """Whose words things are, each named by its space and its ids, the nearest one first; None of one's own."""
    named = [(space, [uid for uid in uids if uid]) for space, uids in found]
    return [None for _ in named] if session.others is None else session.others.provenance(named)


def hits_in_one_order(answers: Iterable[tuple[str, Sequence[Hit]]]) -> list[tuple[str, Hit]]:
    """The hits of several spaces, each with its space, best first."""
    return in_one_order(
        answers,
        lambda hit: hit.score,
        lambda hit: hit.similarity,
        lambda hit, score: replace(hit, score=score),
        lambda hit: (hit.entry.source, hit.entry.part, hit.entry.created_at, hit.entry.text),
    )


def facts_told_apart(session: SearchSession, facts: Sequence[CoreFact]) -> list[CoreFact]:
    """Core memory of a shared space, each fact that somebody else has set with their name."""
    origins = whose(session, [(session.space, (fact.uid,)) for fact in facts])
    return [
        fact if origin is None or origin.is_mine else replace(fact, value=f"{fact.value} (set by {origin.by or '?'})")
        for fact, origin in zip(facts, origins, strict=True)
    ]


def hits_told_apart(session: SearchSession, found: Sequence[tuple[str, Hit]]) -> list[Hit]:
    """Hits, each with its space, with whose words they are, and believed accordingly."""
    if session.others is None:
        return [hit for _, hit in found]
    origins = whose(session, [(space, (hit.entry.ref_uid, hit.entry.conversation_uid)) for space, hit in found])
    return [
        hit
        if origin is None
        else replace(hit, origin=origin, entry=replace(hit.entry, trust=trust_here(hit.entry.trust, origin)))
        for (_, hit), origin in zip(found, origins, strict=True)
    ]


def talk_told_apart(
    talk: PastConversation, origin: Provenance | None, said: Sequence[Provenance | None]
) -> PastConversation:
    """A conversation with where it stands, and who has said what in it."""
    exchanges = [
        replace(
            each, trust=trust_here(each.trust, by), said_by="" if by is None or by.is_mine else by.by or "Somebody else"
        )
        for each, by in zip(talk.exchanges, (each or origin for each in said), strict=True)
    ]
    return replace(talk, origin=origin, trust=trust_here(talk.trust, origin), exchanges=tuple(exchanges))
