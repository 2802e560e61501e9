"""Conversations read back: messages in their surroundings, heads, counts, what is known and forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BindParameter,
    Row,
    Select,
    Table,
    Text,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
)

from harken.errors import NotFoundError
from harken.model.conversations import (
    KEPT_FOLDERS,
    TASK_CHANNEL,
    Conversation,
    Grave,
    Message,
    MessageType,
    ProjectIdentity,
    Role,
    SavedRecord,
    Tombstone,
    Trust,
    Trusted,
)
from harken.model.lookups import Surroundings
from harken.storage.ports import MESSAGE_SOURCE, Transaction, asked_by, bare_by, batches, named_rows, rows_in
from harken.storage.state import RowCounts, count_rows
from harken.storage.statements import begins
from harken.storage.tables import (
    conversations,
    entries,
    exchanges,
    failed_work,
    joined,
    messages,
    projects,
    reader,
    refers,
    segments,
    tombstones,
)

_OWN = (Trust.OWNER.value, Trust.AGENT.value)


def find_known(tx: Transaction, table: Table, uids: Sequence[str]) -> set[str]:
    """Which of the uids the table has."""
    return {row[0] for row in bare_by(tx, table.c.uid, uids, table.c.uid)} if uids else set()


def find_tombstones(tx: Transaction, uids: Iterable[str]) -> set[str]:
    """Which of the uids were forgotten."""
    return find_known(tx, tombstones, list(uids))


def foresee_tombstones(tx: Transaction, uids: Sequence[str]) -> None:
    """Be told that `find_tombstones` is about to be asked."""
    if tx.dialect.is_remote:
        tx.dialect.foresee(tx.connection, asked_by(tx, tombstones.c.uid, uids, tombstones.c.uid))


def own_conversations(tx: Transaction, uids: Iterable[str]) -> set[str]:
    """Which of the conversations hold words of the owner or of their agents."""
    own = exists().where(
        messages.c.tenant == tx.tenant, refers(messages.c.conversation_id, conversations), messages.c.trust.in_(_OWN)
    )
    statement = tx.select(conversations.c.uid).where(own)
    return {row.uid for row in rows_in(tx, statement, conversations.c.uid, list(uids))}


def places_of(tx: Transaction, uids: Sequence[str]) -> dict[str, str]:
    """The conversation that each of these conversations, exchanges and segments is of."""
    place: dict[str, str] = {}
    for table in (conversations, exchanges, segments):
        source = table if table is conversations else joined(table, conversations)
        statement = tx.select(table.c.uid, conversations.c.uid.label("place"), of=table).select_from(source)
        place |= {row[0]: row[1] for row in rows_in(tx, statement, table.c.uid, uids)}
    return place


def raised_trust(tx: Transaction, said: Sequence[Message], moment: datetime) -> list[Trusted]:
    """For messages that are here as `imported` and turn out to be the owner's or an agent's own: that they are.

    Only where the words are the same: the id alone may be anybody's.
    """
    wanted = {message.uid: message for message in said if message.trust.value in _OWN}
    columns = (messages.c.uid, messages.c.role, messages.c.type, messages.c.author, messages.c.text)
    statement = tx.select(*columns, conversations.c.uid.label("conversation_uid"))
    imported = statement.select_from(joined(messages, conversations)).where(messages.c.trust == Trust.IMPORTED.value)
    raised = []
    for row in rows_in(tx, imported, messages.c.uid, wanted):
        new = wanted[row.uid]
        same = (new.conversation_uid, new.role, new.type, new.author, new.text)
        if same == (row.conversation_uid, Role(row.role), MessageType(row.type), row.author, row.text):
            raised.append(Trusted(new.uid, new.conversation_uid, new.trust, moment))
    return raised


def raise_trust(tx: Transaction, events: Sequence[Trusted]) -> None:
    """Give messages that stand as `imported`, and what search sees of them, the trust that they have after all."""
    for trust in {event.trust for event in events}:
        for uids in batches(event.uid for event in events if event.trust is trust):
            said = messages.c.uid.in_(uids), messages.c.trust == Trust.IMPORTED.value
            seen = entries.c.ref_uid.in_(uids), entries.c.trust == Trust.IMPORTED.value
            tx.update(messages, *said, trust=trust.value)
            tx.update(entries, *seen, entries.c.source == MESSAGE_SOURCE, trust=trust.value)


_SHORTEST_BEGINNING, _SURE_BEGINNING = 4, 8
_ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Counts:
    """How much the store holds.

    Attributes:
        embedded: entries with a vector in the answering space.
        embeddable: entries that have or wait for a vector.
    """

    messages: int
    conversations: int
    exchanges: int
    projects: int
    entries: int
    embeddable: int
    embedded: int
    failed: int
    forgotten: int


def list_projects(tx: Transaction) -> list[tuple[str, str, int]]:
    """(key, name, conversations) of every project, the busiest first."""
    count = func.count(conversations.c.id)
    rows = tx.connection.execute(
        tx.select(projects.c.key, projects.c.name, count)
        .select_from(projects.outerjoin(conversations, refers(conversations.c.project_id, projects)))
        .group_by(projects.c.key, projects.c.name)
        .order_by(count.desc())
    )
    return [(row[0], row[1], row[2]) for row in rows]


def find_conversation(tx: Transaction, uid: str) -> Conversation | None:
    """The conversation, or None."""
    rows = named_rows(tx, *conversation_question(tx, uid))
    return read_conversation(rows[0], project=project_in(rows[0])) if rows else None


def conversation_question(tx: Transaction, uid: str) -> tuple[Select[Any], dict[str, str]]:
    """What `find_conversation` asks."""
    return _CONVERSATION, {"of_tenant": tx.tenant, "of_uid": uid}


# Made once: it runs with every context.
_CONVERSATION = (
    select(conversations, projects.c.key, projects.c.name)
    .select_from(conversations.outerjoin(projects, refers(conversations.c.project_id, projects)))
    .where(conversations.c.tenant == bindparam("of_tenant"), conversations.c.uid == bindparam("of_uid", type_=Text))
)


def project_in(row: Any) -> ProjectIdentity | None:
    """The project whose key and name a row has."""
    return None if row.key is None else ProjectIdentity(row.key, row.name)


read_conversation = reader(Conversation, ("project", "origin"))


def find_message(tx: Transaction, uid: str) -> Message | None:
    """The message, or None."""
    row = tx.connection.execute(_messages(tx).where(messages.c.uid == uid)).first()
    return None if row is None else _message(row)


def resolve_uid(tx: Transaction, prefix: str) -> list[tuple[str, str]]:
    """(kind, uid) of every message, conversation or exchange whose id begins like this, in four characters or more.

    Ten at most of each; where no id does, or fewer than eight are given, the conversations whose own name is this.
    """
    own = tx.select(conversations.c.uid).where(conversations.c.external_id == prefix).limit(10)
    # Programs call theirs by numbers, with which one of many ids begins.
    if len(prefix) < _SURE_BEGINNING and (named := tx.connection.scalars(own).all()):
        return [("conversation", uid) for uid in named]
    found: list[tuple[str, str]] = []
    for kind, table in (("message", messages), ("conversation", conversations), ("exchange", exchanges)):
        statement = tx.select(table.c.uid).where(begins(table.c.uid, prefix, tx.dialect.is_remote))
        if len(prefix) >= _SHORTEST_BEGINNING:
            found.extend((kind, uid) for uid in tx.connection.scalars(statement.limit(10)))
    return found or [("conversation", uid) for uid in tx.connection.scalars(own)]


def messages_of(tx: Transaction, conversation_uid: str, limit: int | None = None) -> list[Message]:
    """The conversation's messages, oldest first."""
    return list(each_message_of(tx, conversation_uid, limit))


def each_message_of(tx: Transaction, conversation_uid: str, limit: int | None = None) -> Iterator[Message]:
    """The same one by one: there may be more of them than fit in memory."""
    statement = _messages(tx).where(conversations.c.uid == conversation_uid)
    ordered = statement.order_by(messages.c.position, messages.c.id).limit(limit)
    rows = tx.connection.execute(ordered, execution_options={"yield_per": _ROWS_AT_ONCE})
    return (_message(row) for row in rows)


def messages_of_segment(
    tx: Transaction, conversation_uid: str, segment_uid: str, newest: int | None = None
) -> list[Message]:
    """The segment's messages, or so many of its newest, oldest first."""
    asked = {"of_tenant": tx.tenant, "of_conversation": conversation_uid, "of_segment": segment_uid}
    rows = tx.connection.execute(_OF_SEGMENT.limit(newest), asked).all()
    return [_message(row) for row in reversed(rows)]


def messages_holding(tx: Transaction, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(uid, text) of every message that has all of these words somewhere in its text, written in one of the usual ways.

    Reads all messages. Not every engine knows the capitals of every alphabet, so the usual ways are tried one by one.
    """
    holding = [
        or_(*(messages.c.text.contains(form, autoescape=True) for form in {word, word.upper(), word.capitalize()}))
        for word in map(str.lower, words)
    ]
    rows = tx.connection.execute(tx.select(messages.c.uid, messages.c.text).where(*holding).order_by(messages.c.id))
    return ((row.uid, row.text) for row in rows)


def messages_before(tx: Transaction, moment: datetime, limit: int) -> list[str]:
    """The ids of so many messages that are older than a moment, the oldest first."""
    older = tx.select(messages.c.uid).where(messages.c.created_at < moment).order_by(messages.c.created_at)
    return list(tx.connection.scalars(older.limit(limit)))


def read_page(tx: Transaction, conversation_uid: str, offset: int, limit: int) -> tuple[list[Message], int]:
    """So many messages of a conversation from a place on, oldest first, and how many it has in all."""
    mine = conversations.c.uid == conversation_uid
    ordered = _messages(tx).where(mine).order_by(messages.c.position, messages.c.id)
    rows = tx.connection.execute(ordered.limit(limit).offset(offset)).all()
    counted = tx.select(func.count(), of=messages).select_from(joined(messages, conversations)).where(mine)
    return [_message(row) for row in rows], int(tx.connection.execute(counted).scalar_one())


def messages_of_exchange(tx: Transaction, exchange_uid: str) -> list[Message]:
    """The exchange's messages, oldest first."""
    statement = _messages(tx).where(exchanges.c.uid == exchange_uid)
    rows = tx.connection.execute(statement.order_by(messages.c.position, messages.c.id))
    return [_message(row) for row in rows]


def tombstones_of(tx: Transaction, conversation_uid: str) -> list[Grave]:
    """What was forgotten of a conversation, itself included, or of a kept source's folder, oldest first."""
    mine = tx.select(tombstones).where(tombstones.c.conversation_uid == conversation_uid).order_by(tombstones.c.id)
    return [
        SavedRecord(row.kind, row.uid, row.at, None) if row.kind in KEPT_FOLDERS else _tombstone(row)
        for row in tx.connection.execute(mine)
    ]


_tombstone = reader(Tombstone)


def messages_around(tx: Transaction, message: Message, reach: int) -> tuple[list[Message], int, int]:
    """Up to `reach` messages on each side and the message itself, with how many lie before and after those."""
    row_id = tx.connection.execute(tx.select(messages.c.id).where(messages.c.uid == message.uid)).scalar_one()
    of_conversation = _messages(tx).where(conversations.c.uid == message.conversation_uid)
    place, mine = tuple_(messages.c.position, messages.c.id), tuple_(literal(message.position), literal(row_id))
    earlier, later = place < mine, place > mine
    before = tx.connection.execute(
        of_conversation.where(earlier).order_by(messages.c.position.desc(), messages.c.id.desc()).limit(reach)
    ).all()
    after = tx.connection.execute(
        of_conversation.where(later).order_by(messages.c.position, messages.c.id).limit(reach)
    ).all()
    shown = [*(_message(row) for row in reversed(before)), message, *(_message(row) for row in after)]
    return shown, _count(tx, message, earlier) - len(before), _count(tx, message, later) - len(after)


def count_all(tx: Transaction, space_id: int | None, counted: RowCounts | None = None) -> Counts:
    """How much there is; `embedded` is of the given space."""
    rows = counted or count_rows(tx)
    return Counts(
        messages=rows.messages,
        conversations=tx.count(conversations, exists().where(refers(messages.c.conversation_id, conversations))),
        exchanges=rows.exchanges,
        projects=tx.count(projects),
        entries=sum(rows.entries.values()),
        embeddable=rows.embeddable,
        embedded=rows.vectors.get(space_id or 0, 0),
        failed=tx.count(failed_work),
        forgotten=tx.count(tombstones),
    )


def look_up(tx: Transaction, beginning: str, reach: int) -> Surroundings:
    """A message among its neighbours, an exchange, or a whole conversation, by id or the beginning of one.

    Raises:
        NotFoundError: it names nothing, or more than one thing.
    """
    found = resolve_uid(tx, beginning)
    if len(found) != 1:
        what = "names nothing" if not found else "is the beginning of several ids"
        raise NotFoundError(f"'{beginning}' {what}. Ids are printed by: harken search QUERY")
    kind, uid = found[0]
    message = find_message(tx, uid) if kind == "message" else None
    before = after = 0
    if message is not None:
        shown, before, after = messages_around(tx, message, reach)
    else:
        shown = messages_of(tx, uid) if kind == "conversation" else messages_of_exchange(tx, uid)
    if kind == "exchange" and not shown:
        raise NotFoundError(f"Nothing is left of exchange {uid}: its messages were forgotten.")
    conversation = find_conversation(tx, uid if kind == "conversation" else shown[0].conversation_uid)
    if conversation is None:
        raise NotFoundError(f"'{beginning}' has no conversation. Repair the store: harken doctor --fix")
    return Surroundings(conversation, tuple(shown), message, before, after)


def _count(tx: Transaction, message: Message, condition: Any) -> int:
    statement = tx.select(func.count(), of=messages).select_from(joined(messages, conversations))
    mine = conversations.c.uid == message.conversation_uid
    return int(tx.connection.execute(statement.where(mine, condition)).scalar_one())


def _messages(tx: Transaction) -> Select[Any]:
    return _WHOLE.where(messages.c.tenant == tx.tenant)


_WHOLE = select(
    messages,
    conversations.c.uid.label("conversation_uid"),
    segments.c.uid.label("segment_uid"),
    exchanges.c.uid.label("exchange_uid"),
).select_from(joined(messages, conversations, segments, exchanges))
# Built once: it runs before every model call.
_OF_SEGMENT = _WHOLE.where(
    messages.c.tenant == bindparam("of_tenant"),
    conversations.c.uid == bindparam("of_conversation"),
    segments.c.uid == bindparam("of_segment"),
).order_by(messages.c.position.desc(), messages.c.id.desc())


_message = reader(Message, role=Role, type=MessageType, trust=Trust)


# What is dated further ahead than clocks differ was written by one that is wrong.
AHEAD_AT_MOST = timedelta(days=1)
# Built once: these run before every model call.
_OF_TENANT: BindParameter[str] = bindparam("of_tenant")
_NEWEST_SEGMENT = (
    select(segments.c.uid)
    .select_from(joined(segments, conversations))
    .where(segments.c.tenant == _OF_TENANT, conversations.c.uid == bindparam("of_conversation"))
    .order_by(segments.c.number.desc())
    .limit(1)
)


def newest_segment(tx: Transaction, conversation_uid: str) -> str | None:
    """The id of a conversation's newest segment; None where it has none, or is not there."""
    return tx.connection.scalar(_NEWEST_SEGMENT, {"of_tenant": tx.tenant, "of_conversation": conversation_uid})


def newest_conversation(tx: Transaction, now: datetime, channel: str | None = None) -> str | None:
    """The id of the conversation in which something was said last, of a channel or of all but tasks; None without one.

    One that a wrong clock has dated into the future comes after all others.
    """
    of_channel = conversations.c.channel != TASK_CHANNEL if channel is None else conversations.c.channel == channel
    newest = tx.select(conversations.c.uid).where(of_channel)
    newest = newest.order_by(conversations.c.updated_at.desc(), conversations.c.id.desc()).limit(1)
    # Two looks at an index rather than a sort of all that there is.
    found: str | None = tx.connection.scalar(newest.where(conversations.c.updated_at <= now + AHEAD_AT_MOST))
    return tx.connection.scalar(newest) if found is None else found


def entries_of(tx: Transaction, ref_uids: Iterable[str]) -> set[int]:
    """Row ids of the entries that were made from these records."""
    return {row[0] for row in bare_by(tx, entries.c.ref_uid, ref_uids, entries.c.id)}


def entry_of(tx: Transaction, beginning: str) -> int | None:
    """The row id of an entry of the one record whose id begins like this, in four characters or more."""
    uid = entries.c.ref_uid
    named = tx.select(func.max(entries.c.id), of=entries).where(begins(uid, beginning, tx.dialect.is_remote))
    found = tx.connection.scalars(named.group_by(uid).limit(2)).all() if len(beginning) >= _SHORTEST_BEGINNING else ()
    return found[0] if len(found) == 1 else None


def conversations_named(tx: Transaction, name: str) -> list[Row[Any]]:
    """Rows (`id`, `uid`, `external_id`) of conversations whose id or own name is this; two at most.

    Where there is none, of those whose id begins like this, in four characters or more.
    """
    uid, own = conversations.c.uid, conversations.c.external_id
    asked = tx.select(conversations.c.id, uid, own).limit(2)
    found = list(tx.connection.execute(asked.where((uid == name) | (own == name))))
    if found or len(name) < _SHORTEST_BEGINNING:
        return found
    return list(tx.connection.execute(asked.where(uid.startswith(name, autoescape=True))))


def conversation_named(tx: Transaction, name: str) -> Row[Any]:
    """The row (`id`, `uid`) of the one conversation whose id is or begins like this, or whose own name is this.

    Raises:
        NotFoundError: there is none, or more than one.
    """
    found = conversations_named(tx, name) if name else []
    found = [row for row in found if row.uid == name] or found
    if len(found) != 1:
        what = "Several conversations begin with" if found else "There is no conversation"
        raise NotFoundError(f"{what} {name}. Ids are printed by: harken list")
    return found[0]


def select_exchanges(tx: Transaction, conversation_uid: str) -> Select[Any]:
    """The exchanges of a conversation, each with its segment's id as `segment_uid`."""
    return (
        tx.select(exchanges, segments.c.uid.label("segment_uid"))
        .select_from(joined(exchanges, conversations, segments))
        .where(conversations.c.uid == conversation_uid)
    )
