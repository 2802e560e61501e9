"""What was saved on purpose, and what a project's last conversation came to, as hooks quote it."""

from __future__ import annotations

from collections.abc import Sequence

from harken.assemble.render import Quote
from harken.config import SearchConfig
from harken.engine import Harken
from harken.model import Hit, Message, MessageType, SearchScope
from harken.record.project import identify_project
from harken.retrieve.query import parse_query
from harken.retrieve.small_talk import is_small_talk
from harken.retrieve.weigh import least_similarity
from harken.storage.past import latest_exchange_summaries, latest_of_project
from harken.storage.reading import messages_of_exchange
from harken.storage.scopes import present_sources
from harken.words import content_terms

SAVED = SearchScope(sources=("memory", "experience", "value"))
_MOST = 12
_SHOWN = 4
_LAST_EXCHANGES = 3


def saved_quotes(harken: Harken, prompt: str) -> list[Quote]:
    """What was saved and is as near to a prompt as it takes, best first; an experience once, whatever of it is near."""
    query = parse_query(prompt)
    if not query.text or is_small_talk(query):
        return []
    with harken.store.reading() as tx:
        if not present_sources(tx, SAVED.sources):
            # A second search would cost the person who waits as much as the first.
            return []
    found = harken.search(query.text, scope=SAVED, limit=_MOST)
    config = harken.settings.search
    near = [hit for hit in found.hits if _is_near(hit, found.threshold, config)]
    once = {hit.entry.ref_uid: _quote(hit) for hit in reversed(near)}
    return list(reversed(once.values()))[:_SHOWN]


def open_experience(harken: Harken, directory: str, session: str) -> list[Quote]:
    """The experience that is under way in a folder's project, and whether another session has left it open."""
    found = harken.experiences.active(directory=directory, session=session)
    if found is None:
        return []
    one = found.experience
    text = (
        f"Open experience: {one.goal}\nHypothesis: {one.hypothesis}\nAction: {one.action}\nPrediction: {one.prediction}"
    )
    if found.is_orphan:
        text += "\nBegun in another session, and still open: it can be adopted, or resolved as abandoned."
    return [Quote(text, "experience", one.uid, "", one.updated_at, "agent")]


def last_conversation(harken: Harken, directory: str, conversation_uid: str) -> list[Quote]:
    """What the conversation before this one in a folder's project came to.

    Until it has rested long enough to be summarized: what its last exchanges came to.
    """
    project = identify_project(directory)
    keys = (project.key, *project.aliases) if project else ()
    with harken.store.reading() as tx:
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
    """Whether all that a person or an agent said stands in the summary, so that quoting it would say it twice."""
    told = set(content_terms(summary))
    return all(told.issuperset(content_terms(each.text)) for each in said if each.type is MessageType.TEXT)


def _is_near(hit: Hit, threshold: float | None, config: SearchConfig) -> bool:
    """By meaning alone: one shared word is no reason to tell of something that nobody asked for."""
    if hit.similarity is None or threshold is None:
        return False
    return hit.similarity >= least_similarity(threshold, hit.entry.trust, config)


def _quote(hit: Hit) -> Quote:
    entry = hit.entry
    return Quote(entry.text, entry.source, entry.ref_uid, "", entry.created_at, entry.trust.value)
