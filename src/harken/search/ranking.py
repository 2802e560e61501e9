"""One ranking of candidates: lists fused, scores weighed with reasons, and a second look by a cross-encoder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from harken.config.sections import SearchConfig
from harken.model.conversations import Hit, Reason, Role
from harken.providers.embedder import Reranker
from harken.search.query import Query
from harken.storage.entries import EntryFacts

_ASSISTANT_CUES = frozenset({"you", "your"})
_USER_CUES = frozenset({"i", "my", "me"})
_SECONDS_PER_DAY = 86_400
_TRUST = "trust"


def fuse_ranks(rankings: Sequence[Sequence[int]], k: int = 60) -> dict[int, float]:
    """Fuse rankings by reciprocal rank.

    Args:
        rankings: entry ids per retriever, best first; may be empty.
        k: damping, unitless, > 0.
    Returns:
        A score per id, higher is better; scores compare only within one call.
    Raises:
        ValueError: k is not positive.
    Source: Cormack et al. 2009.
    """
    if k <= 0:
        raise ValueError(f"k must be positive, not {k}")
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, entry_id in enumerate(ranking, start=1):
            scores[entry_id] = scores.get(entry_id, 0.0) + 1.0 / (k + rank)
    return scores


def fuse_scores(parts: Sequence[tuple[float, Mapping[int, float]]]) -> dict[int, float]:
    """Fuse scored lists by a convex combination of their min-max normalized scores.

    Args:
        parts: for each retriever its weight and a score per id, higher is better; an id that a list lacks gets the
            list's lowest.
    Returns:
        A score per id, 0 to the sum of the weights; scores compare only within one call.
    Source: Bruch et al. 2023; measured against `fuse_ranks` in docs/adr/0004-convex-fusion.md.
    """
    fused: dict[int, float] = {}
    for weight, scores in parts:
        if not scores:
            continue
        low, high = min(scores.values()), max(scores.values())
        span = high - low
        for entry_id, score in scores.items():
            fused[entry_id] = fused.get(entry_id, 0.0) + weight * ((score - low) / span if span > 0 else 1.0)
    return fused


def fuse_hybrid(
    keyword: Mapping[int, float],
    vector: Iterable[int],
    similarity: Mapping[int, float],
    config: SearchConfig,
    untrusted: Collection[int] = (),
) -> dict[int, float]:
    """Fuse what words and what meaning found, the way the settings say: a score per id, 0 to 1, higher is better.

    Both lists are best first; `similarity` (cosine, -1 to 1) has every candidate with a vector. What is not to be
    trusted counts as less similar by the margin that it needs more. Scores compare only within one call.
    """
    if untrusted:
        similarity = {e: s - config.untrusted_margin * (e in untrusted) for e, s in similarity.items()}
        vector = sorted(vector, key=lambda entry_id: -similarity[entry_id])
    if config.fusion == "rrf":
        return fuse_ranks([list(keyword), list(vector)], config.rrf_k)
    share = config.vector_weight
    return fuse_scores([(1.0 - share, keyword), (share, similarity)])


def weigh(facts: EntryFacts, cue: AuthorCue, config: SearchConfig, now: datetime) -> list[Reason]:
    """The factors of one candidate; those that are neutral are left out."""
    reasons = []
    if cue.names(facts):
        reasons.append(Reason("author", 1.0 + config.author_lift, "the query names who said it"))
    if config.recency_half_life_days is not None:
        age_days = max(0.0, (now - facts.created_at).total_seconds() / _SECONDS_PER_DAY)
        reasons.append(Reason("recency", 0.5 ** (age_days / config.recency_half_life_days), f"{age_days:.0f} days old"))
    if facts.weight != 1.0:
        reasons.append(Reason("importance", facts.weight))
    if facts.trust.is_untrusted and config.untrusted_weight != 1.0:
        reasons.append(Reason(_TRUST, config.untrusted_weight, f"not to be trusted: {facts.trust.label}"))
    return reasons


def trust_factor(hit: Hit) -> float:
    """What its trust has multiplied a hit's score by; 1 for what may be trusted."""
    return next((reason.value for reason in hit.reasons if reason.name == _TRUST), 1.0)


class AuthorCue:
    """Whom a query names as the speaker: one of the candidates' authors, or the person, or the agent; never several."""

    def __init__(self, query: Query, candidates: Mapping[int, EntryFacts]) -> None:
        authors = {facts.author for facts in candidates.values() if facts.author}
        self._authors = {author for author in authors if _named(author, query)}
        self._role = _role_meant(query) if not authors else None

    def names(self, facts: EntryFacts) -> bool:
        """Whether this candidate's author is the one meant."""
        if len(self._authors) == 1:
            return facts.author in self._authors
        return not self._authors and self._role is not None and facts.role == self._role


def _named(author: str, query: Query) -> bool:
    first = next(iter(author.lower().split()), "")
    return first in query.words or f"{first}'s" in query.words or f"{first}’s" in query.words


def _role_meant(query: Query) -> str | None:
    agent, person = bool(query.words & _ASSISTANT_CUES), bool(query.words & _USER_CUES)
    if agent == person:
        return None
    return Role.ASSISTANT.value if agent else Role.USER.value


def rerank(reranker: Reranker, query: str, hits: Sequence[Hit], top: int, blend: float) -> list[Hit]:
    """Reorder the best hits by a blend of their score and the cross-encoder's judgement.

    Args:
        reranker: the cross-encoder.
        query: as it was asked.
        hits: best first.
        top: how many are looked at again; the others keep their places behind them.
        blend: the judgement's share, 0 to 1; both parts are brought to 0..1 among the `top` first. What is not to be
            trusted loses as much of it as of its score: what is written to be found reads like an answer.
    """
    head, tail = list(hits[:top]), list(hits[top:])
    if len(head) < 2:
        return [*head, *tail]
    judged = _normalized(reranker.score(query, [hit.entry.spoken for hit in head]).tolist())
    scores = _normalized([hit.score for hit in head])
    trusted = [trust_factor(hit) for hit in head]
    blended = [
        (1 - blend) * score + blend * judgement * factor
        for score, judgement, factor in zip(scores, judged, trusted, strict=True)
    ]
    order = sorted(range(len(head)), key=lambda index: -blended[index])
    places = sorted((hit.score for hit in head), reverse=True)
    return [
        replace(head[index], score=place, reasons=(*head[index].reasons, Reason("rerank", judged[index])))
        for index, place in zip(order, places, strict=True)
    ] + tail


def _normalized(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 1.0 for value in values]
