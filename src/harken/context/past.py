"""Saved records and past conversations as a context quotes them: summaries, then exchanges, cut short."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from harken.context.compose import marked, on_one_scale
from harken.context.render import Quote, likeness, speakers
from harken.model.conversations import (
    DERIVED_SOURCES,
    ContextItem,
    Hit,
    Message,
    MessageType,
    SearchScope,
    Trust,
    least_trusted,
)
from harken.model.lookups import SearchResult
from harken.search.candidates import Gate, RareWords, other_project
from harken.search.past import PastConversation
from harken.search.query import Query
from harken.search.search import Searcher
from harken.search.session import SearchSession
from harken.sources.searches import item_of
from harken.storage.conversations import messages_of_exchange
from harken.storage.entries import present_sources, row_scope
from harken.storage.past import latest_exchange_summaries, latest_of_project
from harken.storage.ports import Readable
from harken.text import tokens
from harken.text.shown import one_line
from harken.text.words import content_terms

_LAST_EXCHANGES = 3
_LATEST = "the last conversation of this project"
SAVED = SearchScope(sources=("memory", "experience", "value"))
MOST_SAVED, _SAVED_SHOWN = 12, 4
# What one of them may take of a chat's context; its file or its id tells the rest.
_KNOWN_TOKENS = 300
# A passage tells of several things, and so is less like a question about one: with enough of its words, so much less.
_PASSAGE_LEEWAY = 0.2


def known_quotes(
    searcher: Searcher, query: Query, searches: SearchSession, least: float | None, said: Sequence[str]
) -> list[Quote]:
    """What was saved or indexed and answers a question, best first, as assembled contexts show it; not what was `said`.

    Each is near enough by meaning, at `least` that near where something is set, or nearly so, or without a vector, and
    then has enough of the question's rare words.
    """
    with searches.view.reading() as tx:
        scope = SearchScope(sources=present_sources(tx, (*SAVED.sources, *DERIVED_SOURCES)))
    if not scope.sources:
        # Another search would cost the person who waits as much as that of past conversations.
        return []
    found = searcher.search(query.text, scope, MOST_SAVED, session=searches)
    asked = searches.vector(query, known_scripts_only=True) if found.threshold is not None else ""
    if not isinstance(asked, str) and searches.is_courtesy(asked):
        return []
    own = Gate.of(None if isinstance(asked, str) else asked, least, searches.config)
    quotes: list[Quote] = []
    with searches.view.reading() as tx:
        rare = RareWords.read(tx, query, searches.projects.inside(row_scope(tx, scope)))
        for hit in found.hits:
            if any(hit.entry.text in text for text in said):
                continue
            entry, is_untrusted = hit.entry, hit.entry.trust.is_untrusted
            gate = replace(own, leeway=_PASSAGE_LEEWAY) if own.leeway and entry.source == "document" else own
            admitted = gate.admits(hit.similarity, is_untrusted, hit.keyword_rank is not None)
            if admitted is None:
                is_near = hit.similarity is not None and gate.threshold is not None
                admitted = rare.admit(entry.id, is_near, is_untrusted)
            if admitted and (item := item_of(tx, hit)):
                text = tokens.clip_middle(item.content, _KNOWN_TOKENS)
                quotes.append(_quote(hit, text, gate.threshold))
    return quotes[:_SAVED_SHOWN]


def saved_quotes(found: SearchResult, untrusted_margin: float) -> list[Quote]:
    """What was saved and is as near to a prompt as it takes, best first; an experience once, whatever of it is near."""
    gate = Gate(found.threshold, untrusted_margin)
    # By meaning alone: one shared word is no reason to tell of something that nobody asked for.
    near = [hit for hit in found.hits if gate.admits(hit.similarity, hit.entry.trust.is_untrusted)]
    once = {hit.entry.ref_uid: _quote(hit, hit.entry.text, found.threshold) for hit in reversed(near)}
    return list(reversed(once.values()))[:_SAVED_SHOWN]


def _quote(hit: Hit, text: str, threshold: float | None) -> Quote:
    entry, project = hit.entry, other_project(hit)
    why = likeness("its text", hit.similarity, threshold) + (" · shares words" if hit.keyword_rank else "")
    return Quote(text, entry.source, entry.ref_uid, "", entry.created_at, entry.trust.value, project=project, why=why)


def past_items(conversations: Sequence[PastConversation], untrusted_weight: float = 1.0) -> list[ContextItem]:
    """A context's item for each conversation: what it was about, and what was said in its best exchanges.

    The likeness of one that quotes what is not to be trusted is multiplied by a weight.
    """
    likenesses = []
    for each in conversations:
        likeness = min(1.0, max(0.0, each.score if each.similarity is None else each.similarity))
        likenesses.append(likeness * (untrusted_weight if _trust(each).is_untrusted else 1.0))
    scaled = on_one_scale([each.score for each in conversations], likenesses)
    return [_conversation_item(each, round(part, 4)) for each, part in zip(conversations, scaled, strict=True)]


def _conversation_item(found: PastConversation, relevance: float) -> ContextItem:
    title = one_line(found.title) or "untitled"
    lines = [f'**Conversation** "{title}" on {found.at.date().isoformat()}']
    if found.summary:
        lines.append(one_line(found.summary))
    for exchange in found.exchanges:
        lines.extend(f"- **{name}**: {text}" for name, text in speakers(exchange))
    metadata = {
        "id": found.uid,
        "title": title,
        "created_at": found.at.isoformat(),
        "exchange_count": found.exchange_count,
        "exchange_ids": [exchange.uid for exchange in found.exchanges],
    }
    return marked(
        ContextItem("conversation", "\n".join(lines), relevance, metadata), _trust(found), found.other_project
    )


def _trust(found: PastConversation) -> Trust:
    return least_trusted((found.trust, *(exchange.trust for exchange in found.exchanges)))


def latest_quotes(store: Readable, project_ids: Collection[int], conversation_uid: str) -> list[Quote]:
    """The summary of the conversation before this one in a project, or of its last exchanges until it has one."""
    with store.reading() as tx:
        latest = latest_of_project(tx, project_ids, conversation_uid)
        if latest is None:
            return []
        last = {} if latest.summary else latest_exchange_summaries(tx, latest.uid, _LAST_EXCHANGES)
        whole = tuple(uid for uid, text in last.items() if _tells_whole(text, messages_of_exchange(tx, uid)))
    lines = [latest.summary] if latest.summary else list(last.values())
    if not latest.title and not lines:
        return []
    text = "\n".join([f'Last conversation "{latest.title or "untitled"}"', *lines])
    facts = latest.uid, "", latest.created_at, latest.trust.value, whole
    return [Quote(text, "conversation", *facts, why=_LATEST)]


def _tells_whole(summary: str, said: Sequence[Message]) -> bool:
    """True where all that a person or an agent said stands in the summary: quoting it would say it twice."""
    told = set(content_terms(summary))
    return all(told.issuperset(content_terms(each.text)) for each in said if each.type is MessageType.TEXT)
