"""Saved records and past conversations as a context quotes them: summaries, then exchanges, cut short."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from harken.context.compose import marked, on_one_scale
from harken.context.render import Quote, likeness, told_of
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
from harken.model.lookups import PastConversation
from harken.search.asked import objected
from harken.search.candidates import RATED, other_project
from harken.search.past import PastRecall
from harken.search.query import Query, QueryVector
from harken.search.relevance import Gate, RareWords
from harken.search.search import Searcher, foresee_search
from harken.search.session import LookAhead, SearchSession, attempted
from harken.search.spread import searched_for
from harken.search.union import in_one_order, trust_here, whose
from harken.sources.searches import item_of
from harken.storage.conversations import messages_of_exchange
from harken.storage.entries import present_sources, row_scope, sources_question
from harken.storage.past import latest_exchange_summaries, latest_of_project
from harken.storage.ports import Readable, Transaction
from harken.storage.records.marks import having_any
from harken.storage.records.rows import due_memories
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


@dataclass(frozen=True, slots=True)
class SavedQuotes:
    """Quotes what was saved or indexed about a question.

    Attributes:
        without_tags: what has any of these is left out.
    """

    searcher: Searcher
    query: Query
    without_tags: Sequence[str] = ()

    def known(self, searches: SearchSession, least: float | None, said: Sequence[str]) -> list[Quote]:
        """What was saved or indexed and answers it, best first, as assembled contexts show it; not what was `said`.

        Each is near enough by meaning, at `least` that near where something is set, or nearly so, or without a vector,
        and then has enough of the question's rare words.
        """
        return _of_all(searches, lambda there: self._known(there, least, said))

    def near(self, searches: SearchSession) -> list[Quote]:
        """What was saved and is as near as it takes, best first; an experience once, whatever of it is near."""
        return _of_all(searches, self._near, lambda tx, there: foresee_saved(tx, there, self.query))

    def _known(self, searches: SearchSession, least: float | None, said: Sequence[str]) -> list[tuple[Hit, Quote]]:
        with searches.view.reading() as tx:
            scope = SearchScope(sources=present_sources(tx, (*SAVED.sources, *DERIVED_SOURCES)))
        if not scope.sources:
            # Another search would cost the person who waits as much as that of past conversations.
            return []
        found = self.searcher.here(self.query.text, scope, MOST_SAVED, "hybrid", None, searches)
        answer = searches.vector(self.query, known_scripts_only=True) if found.threshold is not None else ""
        asked = None if isinstance(answer, str) else answer
        if asked is not None and asked.is_talk and not asked.is_english:
            return []
        own = Gate.of(asked, least, searches.config)
        quotes: list[tuple[Hit, Quote]] = []
        with searches.view.reading() as tx:
            rare = RareWords.read(tx, self.query, searches.projects.inside(row_scope(tx, scope)))
            barred, stale = self._barred(tx, searches, found.hits, asked), _unconfirmed(tx, found.hits, searches.now)
            for hit in found.hits:
                if hit.entry.id in barred or any(hit.entry.text in text for text in said):
                    continue
                entry, is_untrusted = hit.entry, hit.entry.trust.is_untrusted
                gate = replace(own, leeway=_PASSAGE_LEEWAY) if own.leeway and entry.source == "document" else own
                admitted = gate.admits(hit.similarity, is_untrusted, hit.keyword_rank is not None)
                if admitted is None:
                    is_near = hit.similarity is not None and gate.threshold is not None
                    admitted = rare.admit(entry.id, is_near, is_untrusted)
                if admitted and (item := item_of(tx, hit)):
                    text = tokens.clip_middle(stale.get(entry.ref_uid, "") + item.content, _KNOWN_TOKENS)
                    quotes.append((hit, _quote(hit, text, gate.threshold)))
        return quotes[:_SAVED_SHOWN]

    def _near(self, searches: SearchSession) -> list[tuple[Hit, Quote]]:
        with searches.view.reading() as tx:
            if not present_sources(tx, SAVED.sources):
                return []
        asked: QueryVector | str = ""
        with attempted("vectors", []):
            asked = searches.vector(searched_for(self.query))
        if isinstance(asked, str) or not _is_any_near(searches, asked):
            return []
        found = self.searcher.here(self.query.text, SAVED, MOST_SAVED, "hybrid", None, searches)
        gate = Gate(found.threshold, searches.config.untrusted_margin)
        # By meaning alone: one shared word is no reason to tell of something that nobody asked for.
        near = [hit for hit in found.hits if gate.admits(hit.similarity, hit.entry.trust.is_untrusted)]
        with searches.view.reading() as tx:
            barred, stale = self._barred(tx, searches, near, asked), _unconfirmed(tx, near, searches.now)
        once = {
            hit.entry.ref_uid: (hit, _quote(hit, stale.get(hit.entry.ref_uid, "") + hit.entry.text, found.threshold))
            for hit in reversed(near)
            if hit.entry.id not in barred
        }
        return list(reversed(once.values()))[:_SAVED_SHOWN]

    def _barred(
        self, tx: Transaction, searches: SearchSession, hits: Sequence[Hit], asked: QueryVector | None
    ) -> set[int]:
        """The entries of what was called wrong for such a question, or has a tag that is left out."""
        judged = [hit.entry.id for hit in hits if any(reason.name == RATED for reason in hit.reasons)]
        barred = objected(tx, self.query, judged, searches.view.nearest, asked)
        if self.without_tags:
            barred |= having_any(tx, [hit.entry.id for hit in hits], self.without_tags)
        return barred


def _of_all(
    searches: SearchSession,
    ask: Callable[[SearchSession], list[tuple[Hit, Quote]]],
    ahead: LookAhead = lambda _tx, _there: None,
) -> list[Quote]:
    """The best quotations of all spaces that may be read, each with whose words it is."""
    if searches.others is None:
        return [quote for _, quote in ask(searches)]
    merged = in_one_order(
        searches.asked(ask, ahead),
        lambda pair: pair[0].score,
        lambda pair: pair[0].similarity,
        lambda pair, score: (replace(pair[0], score=score), pair[1]),
        lambda pair: (pair[1].source, pair[1].at, pair[1].text),
    )[:_SAVED_SHOWN]
    origins = whose(searches, [(space, (hit.entry.ref_uid, hit.entry.conversation_uid)) for space, (hit, _) in merged])
    return [
        replace(quote, origin=origin, trust=trust_here(Trust(quote.trust), origin).value)
        for (_, (_, quote)), origin in zip(merged, origins, strict=True)
    ]


def foresee_saved(tx: Transaction, searches: SearchSession, query: Query) -> None:
    """Have a server asked for what `SavedQuotes.near` is likely to ask."""
    tx.dialect.foresee(tx.connection, sources_question(tx, SAVED.sources))
    foresee_search(tx, searches, query.text, SAVED, MOST_SAVED)


def _is_any_near(searches: SearchSession, asked: QueryVector) -> bool:
    """Whether anything saved may be near, which mostly nothing is; a server is not asked, once more, for that."""
    bar = Gate.of(asked, searches.config.relevance_threshold, searches.config).bar(False)
    with searches.view.reading() as tx:
        if tx.dialect.is_remote:
            return True
        near = asked.compare(tx, searches.view.nearest, row_scope(tx, SAVED), 1, [])[0]
    return any(similarity >= bar for similarity in near.values())


def _unconfirmed(tx: Transaction, hits: Sequence[Hit], now: datetime) -> dict[str, str]:
    """What stands before memories that are due to be looked at again, by their ids."""
    uids = [hit.entry.ref_uid for hit in hits if hit.entry.source == "memory"]
    due = due_memories(tx, now, uids) if uids else []
    return {uid: f"(not confirmed since {held.astimezone():%Y-%m-%d}) " for uid, held in due}


def _quote(hit: Hit, text: str, threshold: float | None) -> Quote:
    entry, project = hit.entry, other_project(hit)
    why = likeness("its text", hit.similarity, threshold) + (" · shares words" if hit.keyword_rank else "")
    return Quote(text, entry.source, entry.ref_uid, "", entry.created_at, entry.trust.value, project=project, why=why)


def past_items(recall: PastRecall, untrusted_weight: float, now: datetime) -> list[ContextItem]:
    """A context's item for each conversation: what it was about, and what was said in its best exchanges.

    The likeness of one that quotes what is not to be trusted is multiplied by a weight. That the same was asked before
    comes first.
    """
    conversations = recall.conversations
    likenesses = []
    for each in conversations:
        near = min(1.0, max(0.0, each.score if each.similarity is None else each.similarity))
        likenesses.append(near * (untrusted_weight if _trust(each).is_untrusted else 1.0))
    scaled = on_one_scale([each.score for each in conversations], likenesses)
    items = [_conversation_item(each, part, recall.query) for each, part in zip(conversations, scaled, strict=True)]
    if (asked := recall.asked) is None:
        return items
    # Not by the conversation's id: what it says comes as well.
    facts = {"id": asked.exchange_uid, "exchange_ids": [asked.exchange_uid], "created_at": asked.at[-1].isoformat()}
    told = ContextItem("conversation", f"**{asked.sentence(now)}**", 1.0, facts)
    return [marked(told, asked.trust, asked.other_project), *items]


def _conversation_item(found: PastConversation, relevance: float, query: str) -> ContextItem:
    title = one_line(found.title) or "untitled"
    lines = [f'**Conversation** "{title}" on {found.at.astimezone():%Y-%m-%d}']
    summary, shown = told_of(found, query)
    lines += [summary] if summary else []
    lines += [f"- **{name}**: {text}" for said in shown for name, text in said]
    metadata = {
        "id": found.uid,
        "title": title,
        "created_at": found.at.isoformat(),
        "exchange_count": found.exchange_count,
        "exchange_ids": [exchange.uid for exchange in found.exchanges],
    }
    item = ContextItem("conversation", "\n".join(lines), round(relevance, 4), metadata)
    return marked(item, _trust(found), found.other_project, found.origin)


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
