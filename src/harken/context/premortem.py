"""Warnings before work begins: what went wrong in work like this, from experiences and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from harken.config.sections import AssembleConfig
from harken.context.compose import FormattedContext, Items, Plan, compose, gather, own_first, ranked
from harken.context.dedupe import distinct
from harken.model.conversations import ContextItem, SearchScope
from harken.model.experiences import DOMAINS, STRATEGIES, ExperienceStatus, check_one_of
from harken.search.query import parse_query
from harken.search.relevance import Gate, RareWords
from harken.sources.searches import SourceSearcher
from harken.sources.source import SourceHit
from harken.storage.entries import row_scope
from harken.storage.ports import Readable
from harken.text.shown import counted


def near(store: Readable, found: SourceHit, query: str) -> SourceHit:
    """Keep hits that share a word with the query and are over the threshold; short queries resemble much by meaning.

    What has no vector must have half of the query's rare words instead: rare among all of its source.
    """
    gate = Gate(found.threshold)
    rare: RareWords | None = None
    pairs = []
    for hit, item in zip(found.hits, found.items, strict=True):
        admitted = gate.admits(hit.similarity, is_untrusted=False)
        if admitted is None:
            if rare is None:
                with store.reading() as tx:
                    only_its_source = row_scope(tx, SearchScope(sources=(hit.entry.source,)))
                    rare = RareWords.read(tx, parse_query(query), only_its_source)
            admitted = rare.admit(hit.entry.id, is_near=False, needs_all=hit.entry.trust.is_untrusted)
        elif hit.keyword_rank is None:
            admitted = False
        if admitted:
            pairs.append((hit, item))
    return replace(found, hits=tuple(hit for hit, _ in pairs), items=tuple(item for _, item in pairs))


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
    """The warnings for a domain, and for a strategy in it where one is named.

    With `about`, only what is near to that is told, and how any strategy has done, unless one is named. `limit` is of
    each kind, `max_tokens` a soft limit; `now` is for the age of experiences.

    Raises:
        UsageError: there is no such domain or strategy.
    """
    check_one_of("domain", domain, DOMAINS)
    if strategy is not None:
        check_one_of("strategy", strategy, STRATEGIES)

    def experiences(query: str, axis: str, **filters: str) -> SourceHit:
        return sources.search_experiences(about or query, axis, limit=limit, is_filled=not about, **filters)

    def values() -> SourceHit:
        query = about or f"principles for {domain}" + (f" using {strategy}" if strategy else "")
        return sources.search_values(query, min(limit, _MOST_VALUES), domain=domain, is_filled=not about)

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
        found = near(sources.store, asks[part](), about) if about else asks[part]()
        once = distinct([_told(part, item) for item in ranked(found, config, now)], config.duplicate_similarity)
        # Stable, so the most relevant stay first among those that failed and among the others.
        return (
            sorted(once, key=lambda item: item.metadata["outcome_status"] != falsified) if part == "strategy" else once
        )

    asked, failed = gather({part: partial(items, part) for part in asks})
    found = own_first(asked)
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


def _based_on(items: Items) -> str:
    count = len({item.metadata["id"] for item in items if item.source == "experience"})
    return f"Based on {counted(count, 'past experience')}"
