"""Making one ranking of several."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from harken.config.settings import SearchConfig


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
    """Fuse what words and what meaning found, the way the settings say.

    Args:
        keyword: keyword scores, best first.
        vector: the nearest by cosine similarity, best first.
        similarity: the cosine similarity of every candidate that has a vector.
        config: which fusion, and its weights.
        untrusted: candidates that are not to be trusted: they count as less similar by the margin that they need more.
    Returns:
        A score per id, 0 to 1; scores compare only within one call.
    """
    if untrusted:
        similarity = {e: s - config.untrusted_margin * (e in untrusted) for e, s in similarity.items()}
        vector = sorted(vector, key=lambda entry_id: -similarity[entry_id])
    if config.fusion == "rrf":
        return fuse_ranks([list(keyword), list(vector)], config.rrf_k)
    share = config.vector_weight
    return fuse_scores([(1.0 - share, keyword), (share, similarity)])
