"""Forgetting: the words leave the rows, the full text, the vectors, the caches and the journal; an id remains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from harken.errors import NotFoundError
from harken.journal.journal import DATABASE_NAME, TYPED_NAME, Journal
from harken.journal.replay import IngestOf, drop_set_aside, replay_conversation, superseded
from harken.journal.staging import remove_staged
from harken.model.conversations import Grave, SavedRecord, Tombstone
from harken.model.team import RecordOrigin
from harken.storage.conversations import conversation_named, conversations_named, resolve_uid
from harken.storage.enrichment.webhooks import tell
from harken.storage.events import forget_rows
from harken.storage.ports import Store, Transaction, rows_by
from harken.storage.positions import conversations_of_messages, message_counts
from harken.storage.projects import drop_unused, project_row
from harken.storage.records.recalls import judged_place
from harken.storage.records.rows import KEPT, TOPIC, kept_times, topics_with
from harken.storage.state import SCRUB_DUE, get_setting, set_setting
from harken.storage.tables import conversations

# How many go in one transaction: others wait for the write lock no longer than a second or so.
_AT_ONCE = 100
_SHOWN = 8  # characters of an id, at least, in lists


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """A tombstone for each message, saved record or whole conversation to be forgotten; how many messages that is.

    Attributes:
        copies: those that were shared, in other spaces of a team, and go as well.
        shared: the ids of all whose copies are looked for when it is forgotten; without any, these stay.
    """

    tombstones: tuple[Grave, ...]
    messages: int
    copies: tuple[RecordOrigin, ...] = ()
    shared: tuple[str, ...] = ()

    @property
    def shares(self) -> int:
        """How often any of it was shared: a message that was has a copy of its own, and one of its conversation."""
        return len({(copy.space, copy.at) for copy in self.copies})


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result of forgetting; what is not `scrubbed` from freed space yet, whoever opens the store next does."""

    messages: int
    conversations: int
    scrubbed: bool


def plan_messages(tx: Transaction, uids: Sequence[str], moment: datetime) -> ForgetPlan:
    """Name messages by id, or by how it begins: a terminal shows no more of it.

    Raises:
        NotFoundError: an id names no message, or several.
    """
    places = dict(conversations_of_messages(tx, uids))
    places |= conversations_of_messages(tx, [_begun(tx, uid) for uid in uids if uid not in places])
    topics = _topics(tx, places.values(), moment)
    graves = (Tombstone(uid, place, "message", moment) for uid, place in places.items())
    return ForgetPlan((*graves, *topics), len(places))


def _begun(tx: Transaction, beginning: str) -> str:
    found = [uid for kind, uid in resolve_uid(tx, beginning) if kind == "message"] if len(beginning) >= _SHOWN else []
    if not found and (saved := [kind for kind, _, _ in judged_place(tx, beginning) if kind in KEPT]):
        words = {"value": "values"}.get(saved[0], saved[0])
        raise NotFoundError(f"{beginning} is no message but a {saved[0]}. Try: harken {words} forget {beginning}")
    if len(found) != 1:
        what = f"Several ids of messages begin with {beginning}" if found else f"There is no message {beginning}"
        raise NotFoundError(f"{what}. Ids are printed by: harken search QUERY")
    return found[0]


def _topics(tx: Transaction, conversation_uids: Iterable[str], moment: datetime) -> list[SavedRecord]:
    """Topics of conversations that are forgotten, or a part of them: their names may be made of its words.

    They are found again, with others.
    """
    return [SavedRecord(TOPIC, uid, moment, None) for uid in topics_with(tx, set(conversation_uids))]


def whole_uid(tx: Transaction, name: str) -> str:
    """The id of the one conversation that is called so, or whose id begins so, as lists print it; else the name.

    Raises:
        NotFoundError: several are.
    """
    found = conversations_named(tx, name)
    if len(found) > 1:
        found = [conversation_named(tx, name)]
    return found[0].uid if found and (len(name) >= _SHOWN or found[0].external_id == name) else name


def with_subagents(tx: Transaction, names: Sequence[str]) -> list[str]:
    """Ids of conversations, by how each begins or by name, and of their subagents'."""
    return _and_subagents(tx, [whole_uid(tx, name) for name in names])


def _and_subagents(tx: Transaction, uids: Sequence[str]) -> list[str]:
    """Conversations and those of their subagents, who tell what they were asked and have subagents of their own."""
    found, asking = dict.fromkeys(uids), list(uids)
    while asking:
        asked = rows_by(tx, conversations.c.parent_uid, asking, conversations.c.uid)
        asking = [row.uid for row in asked if row.uid not in found]
        found |= dict.fromkeys(asking)
    return list(found)


def plan_conversations(tx: Transaction, uids: Sequence[str], moment: datetime) -> ForgetPlan:
    """Name whole conversations by id.

    Raises:
        NotFoundError: an id names no conversation.
    """
    sizes = message_counts(tx, uids)
    if short := [uid for uid in uids if uid not in sizes and conversations_named(tx, uid)]:
        raise NotFoundError(f"To forget by {short[0]} takes {_SHOWN} characters of the id, which harken list prints.")
    if missing := [uid for uid in uids if uid not in sizes]:
        raise NotFoundError(f"There is no conversation {missing[0]}. Ids are printed by: harken list")
    graves = (Tombstone(uid, uid, "conversation", moment) for uid in sorted(sizes))
    return ForgetPlan((*graves, *_topics(tx, sizes, moment)), sum(sizes.values()))


def plan_project(tx: Transaction, name: str, moment: datetime) -> ForgetPlan:
    """Name every conversation of a project, by its key or its short name, with those of subagents wherever they are.

    Raises:
        NotFoundError: no project, or more than one, has that name.
    """
    of_project = tx.select(conversations.c.uid).where(conversations.c.project_id == project_row(tx, name))
    return plan_conversations(tx, _and_subagents(tx, tx.connection.scalars(of_project).all()), moment)


def plan_saved(tx: Transaction, source: str, uids: Sequence[str], moment: datetime) -> ForgetPlan:
    """Name records of a kept source by id; those that are not there are left out."""
    return ForgetPlan(tuple(SavedRecord(source, uid, moment, None) for uid in sorted(kept_times(tx, source, uids))), 0)


def plan_tombstones(tx: Transaction, graves: Sequence[Grave]) -> ForgetPlan:
    """Name what was forgotten in another store, and is still in this one."""
    tombstones = [grave for grave in graves if isinstance(grave, Tombstone)]
    places = conversations_of_messages(tx, [tombstone.uid for tombstone in tombstones if tombstone.kind == "message"])
    single = [replace(one, conversation_uid=places[one.uid]) for one in tombstones if one.uid in places]
    ended = {tombstone.uid: tombstone.at for tombstone in tombstones if tombstone.kind == "conversation"}
    sizes = message_counts(tx, _and_subagents(tx, list(ended)))
    whole = [Tombstone(uid, uid, "conversation", ended.get(uid) or max(ended.values())) for uid in sizes]
    saved = [grave for grave in graves if isinstance(grave, SavedRecord) and kept_times(tx, grave.source, [grave.uid])]
    moment = max((grave.at for grave in (*single, *whole)), default=None)
    topics = _topics(tx, {*places.values(), *sizes}, moment) if moment else []
    return ForgetPlan((*single, *whole, *saved, *topics), len(single) + sum(sizes.values()))


def erase_copies(home: Path) -> None:
    """Remove files that may hold any words: typed in chats, set aside, left by backups and exports that were killed."""
    remove_staged(home)
    drop_set_aside(home / DATABASE_NAME)
    (home / TYPED_NAME).unlink(missing_ok=True)


def forget(
    store: Store,
    journal: Journal | None,
    plan: ForgetPlan,
    ingest: IngestOf,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Forgotten:
    """Forget for good.

    First the rows go, together with notes that the journal is still to be rewritten and freed space to be overwritten;
    then the journal; then the space. A process that dies between leaves the notes, and whoever opens the store next
    finishes the work.
    """
    with store.writing():
        # Fails where the store may only be read, before anything is gone.
        pass
    # Topics come and go by themselves.
    if journal is not None and any(isinstance(one, Tombstone) or one.source != TOPIC for one in plan.tombstones):
        erase_copies(journal.home)
    total = len(plan.tombstones)
    for start in range(0, total, _AT_ONCE):
        with store.writing() as tx:
            note_scrub(tx)
            doomed = plan.tombstones[start : start + _AT_ONCE]
            uids, kinds = [one.uid for one in doomed], (conversations, *(kept.table for kept in KEPT.values()))
            of = {row.project_id for each in kinds for row in rows_by(tx, each.c.uid, uids, each.c.project_id)}
            forget_rows(tx, doomed)
            drop_unused(tx, of - {None})
            tell(tx, doomed[-1].at, forgotten=doomed)
            if journal is not None:
                for folder in {tombstone.conversation_uid for tombstone in doomed}:
                    superseded(tx, journal, folder)
            progress(start + len(doomed), total)
    if journal is not None:
        for folder in sorted({tombstone.conversation_uid for tombstone in plan.tombstones}):
            with store.writing() as tx:
                replay_conversation(tx, journal, folder, ingest(tx))
    store.nearest.discard()
    whole = sum(1 for one in plan.tombstones if isinstance(one, Tombstone) and one.kind == "conversation")
    return Forgotten(plan.messages, whole, finish_forgetting(store))


def note_scrub(tx: Transaction) -> None:
    """Write down that freed space holds words that are to be overwritten, whoever comes to it."""
    # Each note is another, so that whoever comes to one takes no later one away.
    set_setting(tx, SCRUB_DUE, token_hex(8))


def finish_forgetting(store: Store) -> bool:
    """Overwrite what forgotten words left in freed space, if that is still to be done.

    Returns:
        Whether nothing is left to do; False while another process prevents it, or where it is left to others.
    """
    # Again, for what another process has forgotten since: its words may be behind the scrubbing.
    while scrub_for([store], store):
        pass
    return _scrub_due(store) is None


def scrub_for(stores: Iterable[Store], server: Store) -> int:
    """Overwrite once what several stores on one server have forgotten; for how many of them that was done."""
    due = [(store, note) for store in stores if (note := _scrub_due(store))]
    if not due or not server.scrub():
        return 0
    for store, note in due:
        with store.writing() as tx:
            # Another note is of what was forgotten since.
            if get_setting(tx, SCRUB_DUE) == note:
                set_setting(tx, SCRUB_DUE, None)
    return len(due)


def _scrub_due(store: Store) -> Any:
    with store.reading() as tx:
        return get_setting(tx, SCRUB_DUE)
