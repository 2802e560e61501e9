"""Warnings before work begins: what went wrong in work like this, from experiences and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from harken.config.sections import AssembleConfig
from harken.context.compose import FormattedContext, Items, Plan, compose, gather, ranked
from harken.context.dedupe import distinct
from harken.model.conversations import ContextItem, SearchScope
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
    rare: RareWords | None = None
    pairs = []
    for hit, item in zip(found.hits, found.items, strict=True):
        admitted = gate.admits(hit.similarity, is_untrusted=False)
        if admitted is None:
            rare = rare or _rare_words(store, hit.entry.source, query)
            admitted = rare.admit(hit.entry.id, is_near=False, is_untrusted=hit.entry.trust.is_untrusted)
        elif hit.keyword_rank is None:
            admitted = False
        if admitted:
            pairs.append((hit, item))
    return replace(found, hits=tuple(hit for hit, _ in pairs), items=tuple(item for _, item in pairs))


def _rare_words(store: Readable, source: str, query: str) -> RareWords:
    with store.reading() as tx:
        return RareWords.read(tx, parse_query(query), row_scope(tx, SearchScope(sources=(source,))))


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

    using = f" using {strategy}" if strategy else ""

    def experiences(query: str, axis: str, **filters: str) -> SourceHit:
        found = sources.search_experiences(about or query, axis, limit=limit, is_filled=not about, **filters)
        return near(sources.store, found, about) if about else found

    def values() -> SourceHit:
        query, most = about or f"principles for {domain}{using}", min(limit, _MOST_VALUES)
        found = sources.search_values(query, most, domain=domain, is_filled=not about)
        return near(sources.store, found, about) if about else found

    falsified = ExperienceStatus.FALSIFIED.value
    asks: dict[str, Callable[[], SourceHit]] = {
        "failures": lambda: experiences(f"failures and issues in {domain}", "full", domain=domain, outcome=falsified),
        "surprises": lambda: experiences(f"unexpected outcomes in {domain}", "surprise", domain=domain),
        "root causes": lambda: experiences(f"why hypotheses fail in {domain}", "root_cause", domain=domain),
        "values": values,
    }
    if strategy or about:
        named = {"strategy": strategy} if strategy else {}
        asks["strategy"] = lambda: experiences(f"outcomes using {strategy} strategy", "strategy", **named)

    def items(part: str) -> Items:
        told = [_told(part, item) for item in ranked(asks[part](), config, now)]
        once = distinct(told, config.duplicate_similarity)
        # Stable, so the most relevant stay first among those that failed and among the others.
        return sorted(once, key=_has_not_failed) if part == "strategy" else once

    found, failed = gather({part: partial(items, part) for part in asks})
    title = f"Premortem: {domain}" + (f" with {strategy}" if strategy else "")
    whole = config.model_copy(update={"min_item_tokens": max(_STORY_TOKENS, config.min_item_tokens)})
    return compose(found, failed, Plan(title, HEADINGS, _WEIGHTS, _based_on), max_tokens, whole)


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
