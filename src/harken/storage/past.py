"""Past conversations as rows, a log of how they were looked for, and the runs of tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, and_, bindparam, case, func, insert, or_, select, true

from harken.model.conversations import (
    TASK_CHANNEL,
    TASK_UID,
    UNTRUSTED,
    Exchange,
    ExchangeStatus,
    MessageType,
    Role,
    Trust,
)
from harken.model.lookups import Injected, Injection, Retrieval
from harken.storage.conversations import select_exchanges
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE
from harken.storage.overview import first_words, read_titles
from harken.storage.ports import (
    MESSAGE_SOURCE,
    Dialect,
    Question,
    Transaction,
    among_these,
    asked_by,
    batches,
    named_rows,
    rows_among,
    rows_by,
)
from harken.storage.records.rules import read_rules
from harken.storage.tables import (
    conversations,
    entries,
    exchanges,
    injections,
    joined,
    messages,
    projects,
    reader,
    refers,
    retrievals,
    same,
    summaries,
    writer,
)

RETRIEVALS = ("retrievals",)
# So many rows of the log are kept.
LOG_ROWS = 10_000
_SHOWN_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class ConversationHead:
    """A conversation as it is shown; the summary is empty where nobody has made one yet.

    Attributes:
        title: its own, else that of its summary, else its first telling words.
        trust: of title and summary: an agent's where the conversation was begun by its owner or by an agent, else
            that of its first words.
        project: its key; empty where it belongs to none.
        parent_uid: the conversation that a subagent's is a side of.
    """

    uid: str
    title: str
    summary: str
    created_at: datetime
    exchange_count: int
    trust: Trust = Trust.AGENT
    project: str = ""
    parent_uid: str | None = None


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message of an exchange, its text to the length that may be shown; what search sees of it is its entry."""

    uid: str
    entry_id: int | None
    role: Role
    text: str
    trust: Trust
    author: str | None

    @property
    def name(self) -> str:
        """The name that it was recorded with; `Agent` where one asks in a person's place, as of a subagent."""
        return self.author or ("Agent" if self.role is Role.USER and self.trust is Trust.AGENT else "")


@dataclass(frozen=True, slots=True)
class ExchangeHead:
    """An exchange as it is shown: what people and agents said in it, oldest first."""

    uid: str
    started_at: datetime
    said: tuple[SaidMessage, ...]


class PlacedTurn(NamedTuple):
    """An entry of what a person or an agent said, or of a memory, as far as its place goes; `chars` of its text."""

    entry_id: int
    conversation_id: int | None
    exchange_id: int | None
    role: str | None
    created_at: datetime
    chars: int


def list_turns(tx: Transaction, source: str = MESSAGE_SOURCE) -> list[PlacedTurn]:
    """Every message that people and agents said, or every memory; conversation by conversation, oldest first.

    Nothing of tasks, which ask the same at each run, and nothing that is not to be trusted.
    """
    tasks = tx.select(conversations.c.id).where(conversations.c.channel == TASK_CHANNEL)
    columns = (entries.c.id, entries.c.conversation_id, entries.c.exchange_id, entries.c.role)
    said = tx.select(*columns, entries.c.created_at, func.length(entries.c.text)).where(
        entries.c.source == source,
        entries.c.is_turn if source == MESSAGE_SOURCE else true(),
        entries.c.trust.not_in(UNTRUSTED),
        or_(entries.c.conversation_id.is_(None), entries.c.conversation_id.not_in(tasks)),
    )
    in_order = said.order_by(entries.c.conversation_id, entries.c.position, entries.c.id)
    return [PlacedTurn._make(row) for row in tx.connection.execute(in_order)]


def conversation_row(tx: Transaction, uid: str) -> int | None:
    """The row of a conversation; None for one that is not recorded yet."""
    return next((row[0] for row in tx.dialect.bare_rows(tx.connection, *_row_question(tx, uid))), None)


def _row_question(tx: Transaction, uid: str) -> Question:
    return asked_by(tx, conversations.c.uid, [uid], conversations.c.id)


def foresee_conversations(tx: Transaction, uid: str | None) -> None:
    """Be told that conversations other than one are about to be searched."""
    own = [] if uid is None else [_row_question(tx, uid)]
    tx.dialect.foresee(tx.connection, _others_question(tx, uid), *own)


def foresee_heads(tx: Transaction, conversation_ids: Sequence[int]) -> None:
    """Be told that `conversation_heads` is about to be asked."""
    tx.dialect.foresee(tx.connection, among_these(tx, _conversation_heads(tx.dialect), conversation_ids))


def has_others(tx: Transaction, uid: str | None) -> bool:
    """Whether any conversation but this one is recorded."""
    return bool(tx.dialect.bare_rows(tx.connection, *_others_question(tx, uid)))


def _others_question(tx: Transaction, uid: str | None) -> Question:
    # No conversation has an empty id.
    return _OTHERS, {"of_tenant": tx.tenant, "uid": uid or ""}


# Made once: it runs before every search, and putting it together takes longer than running it.
_OTHERS = (
    select(conversations.c.id)
    .where(conversations.c.tenant == bindparam("of_tenant"), conversations.c.uid != bindparam("uid"))
    .limit(1)
)


def conversation_heads(tx: Transaction, conversation_ids: Sequence[int]) -> dict[int, ConversationHead]:
    """What is shown of conversations, by row."""
    heads = {}
    rows = list(rows_among(tx, _conversation_heads(tx.dialect), conversation_ids))
    said = first_words(tx, [row.id for row in rows if not row.title and not row.summary_title])
    for row in rows:
        is_own = row.begun_by in (Trust.OWNER, Trust.AGENT)
        trust = Trust.AGENT if is_own else Trust(row.begun_by or Trust.IMPORTED)
        title = row.title or row.summary_title or said.get(row.id, "")
        shown = (title, row.text or "", row.created_at, row.exchanges, trust, row.project or "", row.parent_uid)
        heads[row.id] = ConversationHead(row.uid, *shown)
    return heads


@cache
def _conversation_heads(dialect: Dialect) -> Select[Any]:
    of_summary = and_(same(conversations.c.uid, summaries.c.item_uid), summaries.c.kind == CONVERSATION)
    counted = (
        select(func.count())
        .where(exchanges.c.tenant == bindparam("of_tenant"), exchanges.c.conversation_id == conversations.c.id)
        .scalar_subquery()
    )
    # The first that was said by anybody: to look at all of a long conversation takes a tenth of a second.
    begun_by = (
        select(messages.c.trust)
        .where(messages.c.tenant == bindparam("of_tenant"), messages.c.conversation_id == conversations.c.id)
        .where(messages.c.trust != Trust.TOOL.value)
        .order_by(messages.c.created_at, messages.c.id)
        .limit(1)
        .scalar_subquery()
    )
    columns = [conversations.c[name] for name in ("id", "uid", "title", "created_at", "parent_uid")]
    made = (summaries.c.title.label("summary_title"), summaries.c.text, projects.c.key.label("project"))
    of_project = refers(conversations.c.project_id, projects)
    return (
        select(*columns, *made, counted.label("exchanges"), begun_by.label("begun_by"))
        .select_from(conversations.outerjoin(summaries, of_summary).outerjoin(projects, of_project))
        .where(conversations.c.tenant == bindparam("of_tenant"), dialect.among(conversations.c.id))
    )


def latest_of_project(tx: Transaction, project_ids: Collection[int], without_uid: str) -> ConversationHead | None:
    """The conversation of a project (its rows) in which something was said last, other than one; or None."""
    latest = (
        tx.select(conversations.c.id)
        .where(conversations.c.uid != without_uid, conversations.c.parent_uid.is_(None))
        .where(conversations.c.project_id.in_(project_ids))
        .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
    )
    found: int | None = tx.connection.execute(latest.limit(1)).scalar()
    return None if found is None else conversation_heads(tx, [found]).get(found)


def latest_exchange_summaries(tx: Transaction, conversation_uid: str, limit: int) -> dict[str, str]:
    """Summaries of a conversation's last exchanges by their ids, oldest first: made at once, its own when it rests."""
    mine = summaries.c.conversation_uid == conversation_uid, summaries.c.kind == EXCHANGE, summaries.c.text != ""
    found = (
        tx.select(summaries.c.item_uid, summaries.c.text)
        .join(exchanges, same(summaries.c.item_uid, exchanges.c.uid))
        .where(*mine)
        .order_by(exchanges.c.number.desc(), exchanges.c.id.desc())
        .limit(limit)
    )
    return {row.item_uid: row.text for row in reversed(tx.connection.execute(found).all())}


def exchange_heads(
    tx: Transaction, exchange_ids: Sequence[int], conversation_ids: Sequence[int]
) -> dict[int, ExchangeHead]:
    """What is shown of exchanges, by row; mostly a server's last question. Messages are indexed by conversations."""
    if not exchange_ids:
        return {}
    said: dict[int, list[SaidMessage]] = {}
    of_them = {"of_conversations": tx.dialect.listing(list(conversation_ids))}
    heads = exchanges.c.id, exchanges.c.uid, exchanges.c.started_at
    for batch in batches(exchange_ids):
        statement, values = among_these(tx, _spoken(tx.dialect), batch)
        tx.dialect.end_with(tx.connection, asked_by(tx, exchanges.c.id, batch, *heads), (statement, values | of_them))
        for row in named_rows(tx, statement, values | of_them):
            said.setdefault(row.exchange_id, []).append(_said(row))
    return {
        row.id: ExchangeHead(row.uid, row.started_at, tuple(said.get(row.id, ())))
        for row in rows_by(tx, exchanges.c.id, exchange_ids, *heads)
    }


_said = reader(SaidMessage, role=Role, trust=Trust)


@cache
def _spoken(dialect: Dialect) -> Select[Any]:
    seen = and_(same(messages.c.uid, entries.c.ref_uid), entries.c.part == "")
    columns = (messages.c.exchange_id, messages.c.uid, messages.c.role, messages.c.trust, messages.c.author)
    return (
        select(*columns, func.substr(messages.c.text, 1, _SHOWN_CHARS).label("text"), entries.c.id.label("entry_id"))
        .select_from(messages.outerjoin(entries, seen))
        .where(messages.c.tenant == bindparam("of_tenant"), dialect.among(messages.c.exchange_id))
        .where(dialect.among(messages.c.conversation_id, "of_conversations"))
        .where(messages.c.type == MessageType.TEXT.value)
        .where(or_(messages.c.role == Role.USER.value, messages.c.role == Role.ASSISTANT.value))
        .order_by(messages.c.position, messages.c.id)
    )


def log_retrieval(tx: Transaction, found: Retrieval) -> None:
    """Keep a line of the log; the oldest go."""
    row = {"tenant": tx.tenant, **_retrieval_row(found)}
    added = tx.connection.execute(insert(retrievals), row).inserted_primary_key
    if added is not None and added[0] % 1_000 == 0:
        newest = tx.select(retrievals.c.at).order_by(retrievals.c.at.desc())
        oldest = tx.connection.execute(newest.offset(LOG_ROWS).limit(1)).scalar()
        if oldest is not None:
            tx.delete(retrievals, retrievals.c.at <= oldest)


def list_retrievals(tx: Transaction, limit: int) -> list[Retrieval]:
    """The log, newest first."""
    newest = tx.select(retrievals).order_by(retrievals.c.at.desc(), retrievals.c.id.desc())
    return list(map(_retrieval, tx.connection.execute(newest.limit(limit))))


_retrieval, _retrieval_row = reader(Retrieval), writer(Retrieval, retrievals)


def list_injections(
    tx: Transaction, limit: int, before: datetime | None = None, conversation_uid: str | None = None
) -> list[Injection]:
    """What came back by itself, a line for each moment, newest first; of all conversations or of one."""
    wanted = [] if before is None else [injections.c.at < before]
    wanted += [] if conversation_uid is None else [injections.c.conversation_uid == conversation_uid]
    moment = injections.c.conversation_uid, injections.c.at
    newest = tx.select(*moment).where(*wanted).group_by(*moment).order_by(injections.c.at.desc(), moment[0])
    moments = [(row.conversation_uid, row.at) for row in tx.connection.execute(newest.limit(limit))]
    given: dict[tuple[str, datetime], list[Row[Any]]] = {each: [] for each in moments}
    for row in rows_by(tx, injections.c.conversation_uid, {uid for uid, _ in moments}):
        given.get((row.conversation_uid, row.at), []).append(row)
    for found in given.values():
        found.sort(key=lambda row: int(row.id))
    rows = [row for found in given.values() for row in found]
    named = {row.ref_uid for row in rows}
    told = told_now(tx, named)
    titles = read_titles(tx, [uid for uid, _ in moments])
    return [
        Injection(
            uid, at, next((row.event for row in found), None), titles.get(uid, ""),
            tuple(replace(told.get(row.ref_uid) or Injected(row.ref_uid, "", "", None), why=row.why) for row in found),
        )
        for (uid, at), found in given.items()
    ]  # fmt: skip


def told_now(tx: Transaction, uids: Collection[str]) -> dict[str, Injected]:
    """What these ids name, as it stands now: entries by their texts, exchanges by what was asked, and titles."""
    titles = read_titles(tx, list(uids))
    found = {uid: Injected(uid, "conversation", title, None, uid) for uid, title in titles.items()}
    heads = exchanges.c.id, exchanges.c.uid, exchanges.c.conversation_id
    named = {row.id: row for row in rows_by(tx, exchanges.c.uid, uids, *heads)}
    talks = _uids_of(tx, {row.conversation_id for row in named.values()})
    asked = tx.select(messages.c.exchange_id, messages.c.text).where(
        # By their conversations, which have an index.
        messages.c.conversation_id.in_(talks),
        messages.c.exchange_id.in_(named),
        messages.c.role == Role.USER.value,
        messages.c.type == MessageType.TEXT.value,
    )
    for row in tx.connection.execute(asked.order_by(messages.c.position.desc())) if named else ():
        exchange = named[row.exchange_id]
        where = talks[exchange.conversation_id]
        found[exchange.uid] = Injected(exchange.uid, "exchange", row.text[:_SHOWN_CHARS], None, where)
    columns = entries.c.ref_uid, entries.c.source, entries.c.text, entries.c.conversation_id
    rows = [row for row in rows_by(tx, entries.c.ref_uid, uids, *columns) if row.ref_uid not in found]
    talks = _uids_of(tx, {row.conversation_id for row in rows if row.conversation_id is not None})
    for row in rows:
        found[row.ref_uid] = Injected(row.ref_uid, row.source, row.text, None, talks.get(row.conversation_id))
    if lacking := {uid for uid in uids if uid not in found and "." in uid}:
        found |= _rules_told(tx, lacking)
    return found


def _uids_of(tx: Transaction, ids: Collection[int]) -> dict[int, str]:
    """The conversations' ids by the numbers of their rows."""
    return {row.id: row.uid for row in rows_by(tx, conversations.c.id, ids, conversations.c.id, conversations.c.uid)}


def _rules_told(tx: Transaction, uids: Collection[str]) -> dict[str, Injected]:
    """The same of rules, which are called by their message and by where they stand in it."""
    return {
        rule.uid: Injected(rule.uid, "rule", rule.text, None, rule.conversation_uid)
        for rule in read_rules(tx)
        if rule.uid in uids
    }


_RUNS_AT_ONCE = 50


def list_tasks(tx: Transaction) -> list[tuple[str, str, int, int]]:
    """(id, name, runs, completed runs) of every task, by name."""
    completed = case((exchanges.c.status == ExchangeStatus.COMPLETED.value, 1), else_=0)
    rows = tx.connection.execute(
        tx.select(conversations.c.uid, conversations.c.external_id, func.count(exchanges.c.id), func.sum(completed))
        .select_from(joined(exchanges, conversations))
        .where(conversations.c.channel == TASK_CHANNEL, conversations.c.uid.startswith(TASK_UID, autoescape=True))
        .group_by(conversations.c.uid, conversations.c.external_id)
    )
    return sorted(((row[0], row[1], int(row[2]), int(row[3])) for row in rows), key=lambda found: (found[1], found[0]))


def newest_exchanges(tx: Transaction, conversation_uid: str) -> Iterator[Exchange]:
    """A conversation's exchanges, the newest first by time: two homes that came together have counted apart."""
    ordered = select_exchanges(tx, conversation_uid).order_by(exchanges.c.started_at.desc(), exchanges.c.id.desc())
    offset = 0
    while rows := tx.connection.execute(ordered.limit(_RUNS_AT_ONCE).offset(offset)).all():
        for row in rows:
            yield _exchange(row, conversation_uid=conversation_uid)
        offset += len(rows)


_exchange = reader(Exchange, ("conversation_uid",), status=ExchangeStatus)
