"""What is about a query, out of what a search found: for texts that come without being asked for."""

from __future__ import annotations

from dataclasses import replace

from harken.model import Hit, SearchScope
from harken.retrieve.autorag import has_enough, rare_holders, telling_holders
from harken.retrieve.query import parse_query
from harken.sources.found import Found
from harken.storage.one_reading import Readable
from harken.storage.scopes import row_scope


def near(store: Readable, found: Found, query: str) -> Found:
    """What shares a word with the query and is over the threshold; short queries resemble much by meaning alone.

    What has no vector must have half of the query's rare words instead: rare among all of its source.
    """
    unsure = [hit for hit in found.hits if hit.similarity is None]
    wordy = _with_enough_words(store, unsure, query) if unsure else set()

    def is_near(hit: Hit) -> bool:
        if hit.similarity is None or found.threshold is None:
            return hit.entry.id in wordy
        return hit.keyword_rank is not None and hit.similarity >= found.threshold

    pairs = [(hit, item) for hit, item in zip(found.hits, found.items, strict=True) if is_near(hit)]
    return replace(found, hits=tuple(hit for hit, _ in pairs), items=tuple(item for _, item in pairs))


def _with_enough_words(store: Readable, hits: list[Hit], query: str) -> set[int]:
    sources = tuple({hit.entry.source for hit in hits})
    with store.reading() as tx:
        rare = rare_holders(telling_holders(tx, parse_query(query), row_scope(tx, SearchScope(sources=sources))))
    wordy = set()
    for hit in hits:
        held = [term for term, holders in rare.items() if hit.entry.id in holders]
        if has_enough(held, rare, near=False, is_trusted=not hit.entry.trust.is_untrusted):
            wordy.add(hit.entry.id)
    return wordy
