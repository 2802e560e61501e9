"""A second look at the best few: a cross-encoder reads query and text together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harken.model import Hit, Reason
from harken.providers.embedder import Reranker
from harken.retrieve.weigh import trust_factor


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
