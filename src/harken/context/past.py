"""Saved records and past conversations as a context quotes them: summaries, then exchanges, cut short."""

from __future__ import annotations

from collections.abc import Sequence

from harken.context.compose import marked, on_one_scale
from harken.context.render import Quote, speakers
from harken.model.conversations import (
    ContextItem,
    Message,
    MessageType,
    ProjectIdentity,
    SearchScope,
    Trust,
    least_trusted,
)
from harken.model.lookups import SearchResult
from harken.search.candidates import Gate
from harken.search.past import PastConversation
from harken.storage.conversations import messages_of_exchange
from harken.storage.past import latest_exchange_summaries, latest_of_project
from harken.storage.ports import Readable
from harken.text.shown import one_line
from harken.text.words import content_terms

_LAST_EXCHANGES = 3
SAVED = SearchScope(sources=("memory", "experience", "value"))
MOST_SAVED, _SAVED_SHOWN = 12, 4


def saved_quotes(found: SearchResult, untrusted_margin: float) -> list[Quote]:
    """What was saved and is as near to a prompt as it takes, best first; an experience once, whatever of it is near."""
    gate = Gate(found.threshold, untrusted_margin)
    # By meaning alone: one shared word is no reason to tell of something that nobody asked for.
    near = [hit.entry for hit in found.hits if gate.admits(hit.similarity, hit.entry.trust.is_untrusted)]
    once = {
        entry.ref_uid: Quote(entry.text, entry.source, entry.ref_uid, "", entry.created_at, entry.trust.value)
        for entry in reversed(near)
    }
    return list(reversed(once.values()))[:_SAVED_SHOWN]


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
    return marked(ContextItem("conversation", "\n".join(lines), relevance, metadata), _trust(found))


def _trust(found: PastConversation) -> Trust:
    return least_trusted((found.trust, *(exchange.trust for exchange in found.exchanges)))


def latest_quotes(store: Readable, project: ProjectIdentity | None, conversation_uid: str) -> list[Quote]:
    """The summary of the conversation before this one in a project, or of its last exchanges until it has one."""
    keys = (project.key, *project.aliases) if project else ()
    with store.reading() as tx:
        latest = latest_of_project(tx, keys, conversation_uid)
        if latest is None:
            return []
        last = {} if latest.summary else latest_exchange_summaries(tx, latest.uid, _LAST_EXCHANGES)
        whole = tuple(uid for uid, text in last.items() if _tells_whole(text, messages_of_exchange(tx, uid)))
    lines = [latest.summary] if latest.summary else list(last.values())
    if not latest.title and not lines:
        return []
    text = "\n".join([f'Last conversation "{latest.title or "untitled"}"', *lines])
    return [Quote(text, "conversation", latest.uid, "", latest.created_at, latest.trust.value, whole)]


def _tells_whole(summary: str, said: Sequence[Message]) -> bool:
    """True where all that a person or an agent said stands in the summary: quoting it would say it twice."""
    told = set(content_terms(summary))
    return all(told.issuperset(content_terms(each.text)) for each in said if each.type is MessageType.TEXT)
