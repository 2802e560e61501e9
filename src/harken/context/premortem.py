"""Warnings before work begins: what went wrong in work like this, from experiences and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from harken.config.settings import AssembleConfig
from harken.context.compose import FormattedContext, Items, Plan, compose, gather, ranked
from harken.context.dedupe import distinct
from harken.model.conversations import ContextItem, Hit, SearchScope
from harken.model.experiences import DOMAINS, STRATEGIES, ExperienceStatus, check_one_of
from harken.search.query import parse_query
from harken.search.relevance import Gate, RareWords
from harken.sources.searches import SourceSearcher
from harken.sources.source import SourceHit
from harken.storage.ports import Readable
from harken.storage.scopes import row_scope


def near(store: Readable, found: SourceHit, query: str) -> SourceHit:
    """What shares a word with the query and is over the threshold; short queries resemble much by meaning alone.

    What has no vector must have half of the query's rare words instead: rare among all of its source.
    """
    gate = Gate(found.threshold)
    admitted = [gate.admits(hit.similarity, is_untrusted=False) for hit in found.hits]
    unsure = [hit for hit, is_near in zip(found.hits, admitted, strict=True) if is_near is None]
    wordy = _with_enough_words(store, unsure, query) if unsure else set()
    pairs = [
        (hit, item)
        for hit, item, is_near in zip(found.hits, found.items, admitted, strict=True)
        if (is_near and hit.keyword_rank is not None) or hit.entry.id in wordy
    ]
    return replace(found, hits=tuple(hit for hit, _ in pairs), items=tuple(item for _, item in pairs))


def _with_enough_words(store: Readable, hits: Sequence[Hit], query: str) -> set[int]:
    sources = tuple({hit.entry.source for hit in hits})
    with store.reading() as tx:
        rare = RareWords.read(tx, parse_query(query), row_scope(tx, SearchScope(sources=sources)))
    return {
        hit.entry.id
        for hit in hits
        if rare.are_enough(len(rare.held_by(hit.entry.id)), is_near=False, is_untrusted=hit.entry.trust.is_untrusted)
    }


HEADINGS: Mapping[str, str] = {
    "failures": "Common Failures",
    "strategy": "Strategy Performance",
    "surprises": "Unexpected Outcomes",
    "root causes": "Root Causes to Watch",
    "values": "Relevant Principles",
}
_WEIGHTS: Mapping[str, float] = {"failures": 3, "strategy": 2, "surprises": 2, "root causes": 2, "values": 1}
_MOST_VALUES = 5
# A story cut short loses its end, which is what a warning is about.
_STORY_TOKENS = 200
# The failures are told whole; of the same stories, the other parts tell only what they are there for.
_TOLD: Mapping[str, tuple[str, ...]] = {
    "strategy": ("Goal", "Outcome", "Lesson"),
    "surprises": ("Prediction", "Outcome", "Surprise"),
    "root causes": ("Hypothesis", "Root cause"),
}


def premortem(
    sources: SourceSearcher,
    domain: str,
    strategy: str | None,
    limit: int,
    max_tokens: int,
    config: AssembleConfig,
    now: datetime,
    about: str = "",
) -> FormattedContext:
    """The warnings for a domain, and for a strategy in it.

    Args:
        sources: finds whatever has the facets, near to the query or not.
        domain: what the work is.
        strategy: how it is to be done; None leaves that part out.
        limit: how many of each kind at most.
        max_tokens: a soft limit.
        config: how items are weighed and cut.
        now: the moment, for the age of experiences.
        about: only what is near to this; how any strategy has done is told then, unless one is named.
    Raises:
        UsageError: there is no such domain or strategy.
    """
    check_one_of("domain", domain, DOMAINS)
    if strategy is not None:
        check_one_of("strategy", strategy, STRATEGIES)

    def told(found: SourceHit) -> SourceHit:
        return near(sources.store, found, about) if about else found

    def experiences(query: str, axis: str, **filters: str) -> SourceHit:
        return told(
            sources.search_experiences(about or query, axis, limit=limit, is_filled=not about, **filters),
        )

    def values(query: str) -> SourceHit:
        most = min(limit, _MOST_VALUES)
        return told(sources.search_values(about or query, most, domain=domain, is_filled=not about))

    falsified = ExperienceStatus.FALSIFIED.value
    principles = f"principles for {domain}" + (f" using {strategy}" if strategy else "")
    asks: dict[str, Callable[[], SourceHit]] = {
        "failures": lambda: experiences(f"failures and issues in {domain}", "full", domain=domain, outcome=falsified),
        "surprises": lambda: experiences(f"unexpected outcomes in {domain}", "surprise", domain=domain),
        "root causes": lambda: experiences(f"why hypotheses fail in {domain}", "root_cause", domain=domain),
        "values": lambda: values(principles),
    }
    if strategy or about:
        named = {"strategy": strategy} if strategy else {}
        asks["strategy"] = lambda: experiences(f"outcomes using {strategy} strategy", "strategy", **named)
    found, failed = gather({name: _items(name, ask, config, now) for name, ask in asks.items()})
    title = f"Premortem: {domain}" + (f" with {strategy}" if strategy else "")
    whole = config.model_copy(update={"min_item_tokens": max(_STORY_TOKENS, config.min_item_tokens)})
    return compose(found, failed, Plan(title, HEADINGS, _WEIGHTS, _based_on), max_tokens, whole)


def _items(part: str, ask: Callable[[], SourceHit], config: AssembleConfig, now: datetime) -> Callable[[], Items]:
    def items() -> Items:
        told = [_told(part, item) for item in ranked(ask(), config, now)]
        once = distinct(told, config.duplicate_similarity)
        # Stable, so the most relevant stay first among those that failed and among the others.
        return sorted(once, key=_has_not_failed) if part == "strategy" else once

    return items


def _told(part: str, item: ContextItem) -> ContextItem:
    names = _TOLD.get(part)
    if names is None:
        return item
    head, *lines = item.content.split("\n")
    wanted = tuple(f"- **{name}**:" for name in names)
    return replace(item, content="\n".join([head, *(line for line in lines if line.startswith(wanted))]))


def _has_not_failed(item: ContextItem) -> bool:
    return bool(item.metadata["outcome_status"] != ExperienceStatus.FALSIFIED.value)


def _based_on(items: Items) -> str:
    count = len({item.metadata["id"] for item in items if item.source == "experience"})
    return f"Based on {count} past experiences"
