"""How relevant what was found is: the search's own order, on one scale for all sources, and what lifts or lowers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from harken.config.settings import AssembleConfig
from harken.model.conversations import ContextItem, Hit, Trust
from harken.search.weights import trust_factor
from harken.sources.found import SourceHit
from harken.sources.source import relevance_of

_SECONDS_PER_DAY = 86_400
_RECENT = ("commit", "experience")


def ranked(found: SourceHit, config: AssembleConfig, now: datetime) -> list[ContextItem]:
    """What a search of one source found, most relevant first, each with its relevance: 0 to 1.

    A source is as relevant as its likest record; within it the search's own scores decide, which know the words that
    similarity does not: also how far a record may be believed, by which its likeness counts less as well. Then tier,
    importance and age, each a factor.
    """
    likenesses = [relevance_of(hit) * trust_factor(hit) for hit in found.hits]
    scaled = on_one_scale([hit.score for hit in found.hits], likenesses)
    lifted = [
        replace(
            marked(item, hit.entry.trust), relevance=round(min(1.0, relevance * _factor(item, hit, config, now)), 4)
        )
        for item, hit, relevance in zip(found.items, found.hits, scaled, strict=True)
    ]
    return sorted(lifted, key=lambda item: -item.relevance)


def marked(item: ContextItem, trust: Trust) -> ContextItem:
    """The item; one that is not to be trusted says so before everything else."""
    if not trust.is_untrusted:
        return item
    return replace(
        item, content=f"*Trust: {trust.label}*\n{item.content}", metadata={**item.metadata, "trust": trust.value}
    )


def on_one_scale(scores: Sequence[float], likenesses: Sequence[float]) -> list[float]:
    """Relevances, 0 to 1, in the proportions of the scores, the highest as high as the greatest likeness."""
    capped = [min(1.0, max(0.0, score)) for score in scores]
    highest, likest = max(capped, default=0.0), max(likenesses, default=0.0)
    return [likest * score / highest if highest > 0 else 0.0 for score in capped]


def _factor(item: ContextItem, hit: Hit, config: AssembleConfig, now: datetime) -> float:
    factor = 1.0
    if item.source == "experience":
        factor *= getattr(config.tiers, item.metadata["confidence_tier"], 1.0)
    if item.source == "memory":
        factor *= 1.0 + config.importance_lift * (2.0 * float(item.metadata["importance"]) - 1.0)
    if item.source in _RECENT:
        age_days = max(0.0, (now - hit.entry.created_at).total_seconds() / _SECONDS_PER_DAY)
        factor *= 1.0 + config.recency_lift * 0.5 ** (age_days / config.recency_half_life_days)
    return factor
