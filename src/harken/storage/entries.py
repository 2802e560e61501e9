"""Entries: what search sees. Writing them keeps the full-text index in step, in the same transaction."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    literal_column,
    not_,
    or_,
    select,
    true,
    tuple_,
    type_coerce,
    union_all,
)

from harken.errors import NotFoundError, StoreCorruptError
from harken.model.conversations import UNTRUSTED, Entry, Message, MessageType, NewEntry, Role, SearchScope, Trust
from harken.storage.conversations import conversation_named
from harken.storage.enrichment.jobs import drop_work
from harken.storage.ports import (
    AMONG,
    MESSAGE_SOURCE,
    Dialect,
    Question,
    RowScope,
    Transaction,
    among_these,
    asked_by,
    bare_among,
    batches,
    rows_in,
)
from harken.storage.projects import project_row
from harken.storage.tables import (
    REPAIR,
    conversations,
    entries,
    entry_facets,
    exchanges,
    failed_work,
    from_microseconds,
    projects,
    refers,
    segments,
    to_microseconds,
    vectors,
    work,
)
from harken.storage.vectors import EMBED, EMBED_LANGUAGES, backlog_question, delete_vectors, delete_vectors_where
from harken.text import tokens
from harken.text.rules import may_state_briefly
from harken.text.traits import Studied, study

# A row of the table as far as most entries are alike.
BLANK_ENTRY: Mapping[str, Any] = {
    **dict.fromkeys(("conversation_id", "segment_id", "exchange_id", "project_id", "role", "author")),
    **{"part": "", "weight": 1.0, "is_turn": False, "space_id": 0, "position": 0},
}
_EMBEDDED_ROLES = (Role.USER, Role.ASSISTANT)
# So many turns on either side count for what is said between them.
NEIGHBOURS = 2
# Facets of a person's message that states rules: that it does, and, begun like this, where in its text each stands.
STATES_RULE, RULE_SPAN = "rule:stated", "rule:at:"
# Among entries of one position, the one that comes now stands last: its id is the highest.
_LAST_OF_POSITION = 2**62


class _Known(dict[str, Trust]):
    def __missing__(self, key: str) -> Trust:
        raise StoreCorruptError(f"The database is damaged: an entry holds what cannot be. {REPAIR}")


TRUSTS = _Known({trust.value: trust for trust in Trust})
# As its bare number: a column's type takes longer to convert it than all the rest of the row.
MOMENT = type_coerce(entries.c.created_at, BigInteger)


def add_entries(
    tx: Transaction,
    rows: Sequence[dict[str, Any]],
    new_conversations: frozenset[int] = frozenset(),
    facets: Sequence[Sequence[str]] = (),
    studied: Sequence[Studied | None] = (),
    conversation_uid: str = "",
) -> None:
    """Insert entries and index them, with the neighbours whose context they change.

    Args:
        tx: a writing transaction.
        rows: rows of the entries table, complete but for ids; tenant and traits are put in.
        new_conversations: row ids of conversations that have no other entries, which saves looking for neighbours.
        facets: those of each row; none where it is empty. What a person says gets one more for each rule it states.
        studied: what was found in the text of each row before, where that is known.
        conversation_uid: the conversation of all of them, where they are of one.
    """
    if not rows:
        return
    end = tx.text.end_of(tx, conversation_uid, rows, new_conversations)
    index = None
    if end is None:
        turns = [row for row in rows if row["is_turn"] and row["conversation_id"] not in new_conversations]
        touched = _turns_around(tx, [(row["conversation_id"], (row["position"], _LAST_OF_POSITION)) for row in turns])
        index = tx.text.before_change(tx.connection, touched)
    found = [
        known or study(row["text"], row["role"] == Role.USER and row["is_turn"])
        for row, known in zip(rows, studied or repeat(None, len(rows)), strict=True)
    ]
    for row, one in zip(rows, found, strict=True):
        row["tenant"], row["traits"] = tx.tenant, one.traits
    if any(one.rules for one in found):
        own = facets or repeat((), len(rows))
        facets = [[*mine, *rule_facets(one.rules)] for mine, one in zip(own, found, strict=True)]
    added = tx.dialect.add_rows(tx.connection, entries, rows)
    named = zip(added, facets, strict=True) if facets else ()
    each = ({"entry_id": entry_id, "facet": facet} for entry_id, mine in named for facet in dict.fromkeys(mine))
    tx.insert(entry_facets, each)
    if index:
        index(added)
    elif end is not None:
        tx.text.append(tx, end, dict(zip(added, rows, strict=True)), facets)


def rule_facets(rules: Sequence[tuple[int, int]]) -> list[str]:
    """The facets of a message whose text has rules at these places."""
    return [STATES_RULE, *(f"{RULE_SPAN}{first}-{end}" for first, end in rules)] if rules else []


def _turns_around(tx: Transaction, places: Iterable[tuple[int, tuple[int, int]]]) -> list[int]:
    """Turns whose context changes when something comes or goes at places: conversation, and position with id.

    Those are two before the first place of a conversation, two behind its last, and all between.
    """
    spans: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
    for conversation_id, place in places:
        first, last = spans.get(conversation_id, (place, place))
        spans[conversation_id] = (min(first, place), max(last, place))
    found: list[int] = []
    for conversation_id, (first, last) in spans.items():
        where = {"of_tenant": tx.tenant, "of_conversation": conversation_id}
        where |= {"first_at": first[0], "first_id": first[1], "last_at": last[0], "last_id": last[1]}
        found.extend(row[0] for row in tx.dialect.bare_rows(tx.connection, _TURNS_AROUND, where))
    return found


_PLACE = tuple_(entries.c.position, entries.c.id)
_FIRST, _LAST = (
    tuple_(bindparam(f"{end}_at", type_=BigInteger()), bindparam(f"{end}_id", type_=BigInteger()))
    for end in ("first", "last")
)
OF_TENANT = entries.c.tenant == bindparam("of_tenant")
_TURNS = select(entries.c.id).where(
    OF_TENANT, entries.c.conversation_id == bindparam("of_conversation"), entries.c.is_turn
)
_BEFORE = (
    _TURNS.where(_PLACE < _FIRST).order_by(entries.c.position.desc(), entries.c.id.desc()).limit(NEIGHBOURS)
).subquery()
_BEHIND = (_TURNS.where(_PLACE > _LAST).order_by(entries.c.position, entries.c.id).limit(NEIGHBOURS)).subquery()
# Built once: it runs with every recorded message.
_TURNS_AROUND = union_all(
    select(_BEFORE.c.id), _TURNS.where(and_(_PLACE >= _FIRST, _PLACE <= _LAST)), select(_BEHIND.c.id)
)


def remove_entries(tx: Transaction, condition: ColumnElement[bool], is_indexed: bool = True) -> None:
    """Remove the entries that a condition on their table names, with all that hangs on them.

    What stood beside them gets its new context; not so damaged ones, whose words are not those that were indexed: they
    are to be left in the full text until that is rebuilt.
    """
    entry_ids = list(tx.connection.scalars(tx.select(entries.c.id).where(condition)))
    if not entry_ids:
        return
    delete_vectors(tx, entry_ids)
    for kind in (EMBED, EMBED_LANGUAGES):
        drop_work(tx, kind, entry_ids)
    columns = tx.select(entries.c.id, entries.c.conversation_id, entries.c.position, entries.c.is_turn)
    rows = rows_in(tx, columns, entries.c.id, entry_ids)
    touched = set(_turns_around(tx, [(row.conversation_id, (row.position, row.id)) for row in rows if row.is_turn]))
    touched = touched | set(entry_ids) if is_indexed else set()
    tx.text.remove(tx.connection, sorted(touched))
    for batch in batches(entry_ids):
        tx.delete(entry_facets, entry_facets.c.entry_id.in_(batch))
        tx.delete(entries, entries.c.id.in_(batch))
    tx.text.add(tx.connection, sorted(touched.difference(entry_ids)))


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What all entries of a record beside conversations share.

    Attributes:
        source: `memory`, `experience`, `value`, `code`, `commit` or `document`.
        uid: the record's id, unique among all sources.
        project_id: the row of its project.
    """

    source: str
    uid: str
    created_at: datetime
    project_id: int | None = None
    trust: Trust = Trust.AGENT


def add_record_entries(tx: Transaction, records: Sequence[tuple[RecordHead, Sequence[NewEntry]]]) -> None:
    """Have search see records; none of them may have entries yet. Blank texts make none."""
    placed = [(head, new) for head, made in records for new in made if new.text.strip()]
    rows = [
        {
            **BLANK_ENTRY,
            "source": head.source,
            "part": new.part,
            "ref_uid": head.uid,
            "project_id": head.project_id,
            "trust": head.trust.value,
            "created_at": head.created_at,
            "text": new.text,
            "weight": new.weight,
            "space_id": 0 if new.is_embedded else None,
        }
        for head, new in placed
    ]
    add_entries(tx, rows, facets=[new.facets for _, new in placed])


def drop_record_entries(tx: Transaction, source: str, uids: Sequence[str]) -> None:
    """Have search no longer see records; those that have no entries are no error."""
    for batch in batches(uids):
        remove_entries(tx, and_(entries.c.source == source, entries.c.ref_uid.in_(batch)))


_SEARCHABLE = (MessageType.TEXT, MessageType.TOOL_CALL, MessageType.TOOL_RESULT)


def is_searchable(message: Message) -> bool:
    """Whether search sees a message."""
    return message.type in _SEARCHABLE and message.role is not Role.SYSTEM and bool(message.text.strip())


class MessageEntry(NamedTuple):
    """What the entry of a message says; of its text, so many characters and their checksum."""

    role: str | None
    author: str | None
    trust: str
    created_at: datetime
    position: int
    is_turn: bool
    chars: int
    checksum: int

    def is_of(self, message: Message) -> bool:
        """Whether it is what search is to see of the message; of tools' texts it sees the beginning."""
        is_text = message.type is MessageType.TEXT
        chars = len(message.text) if is_text else self.chars
        said = (message.role, message.author, message.trust, message.created_at, message.position, is_text, chars)
        return is_searchable(message) and self == (*said, zlib.crc32(message.text[:chars].encode()))


def message_entries(tx: Transaction, conversation_uid: str) -> dict[str, MessageEntry]:
    """The entries of a conversation's messages, by the messages' ids."""
    columns = (entries.c.ref_uid, entries.c.role, entries.c.author, entries.c.trust, entries.c.created_at)
    statement = tx.select(*columns, entries.c.position, entries.c.is_turn, entries.c.text)
    of_it = select(conversations.c.id).where(
        conversations.c.tenant == tx.tenant, conversations.c.uid == conversation_uid
    )
    mine = entries.c.source == MESSAGE_SOURCE, entries.c.conversation_id == of_it.scalar_subquery()
    rows = tx.connection.execute(statement.where(*mine), execution_options={"yield_per": 1000})
    return {row[0]: MessageEntry._make((*row[1:7], len(row[7]), zlib.crc32(row[7].encode()))) for row in rows}


def record_entries(tx: Transaction, source: str) -> set[tuple[str, ...]]:
    """The record's id, part, text and trust of each entry of a source."""
    columns = entries.c.ref_uid, entries.c.part, entries.c.text, entries.c.trust
    return {tuple(row) for row in tx.connection.execute(tx.select(*columns).where(entries.c.source == source))}


def gets_vector(is_text: bool, role: Role, text: str, min_tokens: int, studied: Studied | None = None) -> bool:
    """Whether a message is embedded: words of a person or an agent, enough of them; never a tool's or a marker's.

    Of a person's few words, which may state a rule, the vector is not kept. `studied`: what was found in them before.
    """
    if not is_text or role not in _EMBEDDED_ROLES:
        return False
    counted = studied.tokens if studied is not None else 0
    is_long = counted >= min_tokens if counted else tokens.reaches(text, min_tokens)
    return is_long or (role is Role.USER and may_state_briefly(text))


def wait_again(
    tx: Transaction, min_tokens: int, progress: Callable[[int], None] = lambda _done: None, sources: Sequence[str] = ()
) -> int:
    """Remove vectors, and let every entry that may have one wait for it; what was given up is tried again.

    Needs a transaction that keeps every other writer out. Without sources, all entries wait; messages of fewer tokens
    do not. Tells `progress` how many were looked at; returns how many will have a vector.
    """
    of_sources = entries.c.source.in_(sources) if sources else true()
    chosen_ids = tx.select(entries.c.id).where(of_sources)
    delete_vectors_where(tx, vectors.c.entry_id.in_(chosen_ids) if sources else true())
    for table in (work, failed_work):
        mine = table.c.kind.in_((EMBED, EMBED_LANGUAGES))
        tx.delete(table, mine, table.c.item_id.in_(chosen_ids) if sources else true())
    columns = (entries.c.id, entries.c.source, entries.c.is_turn, entries.c.role, entries.c.text, entries.c.space_id)
    rows = tx.connection.execute(tx.select(*columns).where(of_sources).order_by(entries.c.id))
    waiting: list[int] = []
    never: list[int] = []
    brief = 0
    for done, row in enumerate(rows, start=1):
        wanted = row.space_id is not None
        if row.source == MESSAGE_SOURCE:
            wanted = row.role is not None and gets_vector(row.is_turn, Role(row.role), row.text, min_tokens)
            brief += wanted and not tokens.reaches(row.text, min_tokens)
        (waiting if wanted else never).append(row.id)
        if done % 1000 == 0:
            progress(done)
    for ids, space_id in ((waiting, 0), (never, None)):
        for batch in batches(ids):
            tx.update(entries, tx.dialect.one_of(entries.c.id, batch), space_id=space_id)
    return len(waiting) - brief


def load_entries(tx: Transaction, entry_ids: Sequence[int]) -> dict[int, Entry]:
    """Entries by id; ids that name nothing are left out."""
    return {
        row[0]: Entry(*(*row[:8], from_microseconds(row[8]), TRUSTS[row[9]], *row[10:]))
        for row in bare_among(tx, _whole(tx.dialect), entry_ids)
    }


def entries_question(tx: Transaction, entry_ids: Sequence[int]) -> Question:
    """What `load_entries` asks."""
    return among_these(tx, _whole(tx.dialect), entry_ids)


def foresee_segment(tx: Transaction, segment_uid: str, excluded: Sequence[str], now: datetime) -> None:
    """Be told that a segment is about to be searched, less what was made of some records."""
    questions = [_segment_question(tx, segment_uid), backlog_question(tx, now)]
    if excluded:
        questions.append(asked_by(tx, entries.c.ref_uid, excluded, entries.c.id))
    tx.dialect.foresee(tx.connection, *questions)


def _segment_question(tx: Transaction, uid: str) -> Question:
    return asked_by(tx, segments.c.uid, [uid], segments.c.id, segments.c.conversation_id)


@cache
def _whole(dialect: Dialect) -> Select[Any]:
    joined = (
        entries.outerjoin(conversations, refers(entries.c.conversation_id, conversations))
        .outerjoin(exchanges, refers(entries.c.exchange_id, exchanges))
        .outerjoin(projects, refers(entries.c.project_id, projects))
    )
    # In the order of an `Entry`.
    named = (entries.c.id, entries.c.source, entries.c.ref_uid, conversations.c.uid, exchanges.c.uid, projects.c.key)
    spoken = (entries.c.role, entries.c.author, MOMENT, entries.c.trust, entries.c.text)
    columns = (*named, *spoken, entries.c.weight, entries.c.part, entries.c.position)
    return select(*columns).select_from(joined).where(OF_TENANT, dialect.among(entries.c.id))


def row_scope(tx: Transaction, scope: SearchScope) -> RowScope:
    """The scope with row ids in place of names.

    Raises:
        NotFoundError: it names a project, conversation or segment that is not there, or several; or a segment of
            another conversation.
    """
    conversation_id = segment_id = None
    if scope.conversation is not None:
        conversation_id = int(conversation_named(tx, scope.conversation).id)
    if scope.segment is not None:
        found = next(iter(tx.dialect.bare_rows(tx.connection, *_segment_question(tx, scope.segment))), None)
        if found is None:
            raise NotFoundError(f"There is no segment {scope.segment}.")
        if conversation_id not in (None, found[1]):
            raise NotFoundError(f"Segment {scope.segment} is not of conversation {scope.conversation}.")
        # Named as well because entries are indexed by it.
        segment_id, conversation_id = found[0], found[1]
    return RowScope(
        sources=scope.sources,
        project_id=None if scope.project is None else project_row(tx, scope.project),
        conversation_id=conversation_id,
        segment_id=segment_id,
        roles=scope.roles,
        since=None if scope.since is None else to_microseconds(scope.since),
        until=None if scope.until is None else to_microseconds(scope.until),
        facets=scope.facets,
        without_sources=present_sources(tx, scope.without_sources),
        without_untrusted=scope.without_untrusted,
    )


def present_sources(tx: Transaction, sources: tuple[str, ...]) -> tuple[str, ...]:
    """Those sources outside of conversations that have entries: others need neither be looked for nor left out."""
    row = tx.dialect.bare_rows(tx.connection, *sources_question(tx, sources))[0] if sources else ()
    return tuple(source for source, is_there in zip(sources, row, strict=True) if is_there)


def sources_question(tx: Transaction, sources: tuple[str, ...]) -> Question:
    """What `present_sources` asks."""
    return _which_are_there(sources), {"of_tenant": tx.tenant}


@cache
def _which_are_there(sources: tuple[str, ...]) -> Select[Any]:
    """Built once for the same sources: it runs with most searches."""
    apart = select(entries.c.id).where(
        entries.c.tenant == bindparam("of_tenant", type_=Text), entries.c.conversation_id.is_(None)
    )
    there: list[ColumnElement[Any]] = [apart.where(entries.c.source == source).exists() for source in sources]
    return select(*there)


def has_kept_of(tx: Transaction, sources: tuple[str, ...], project_ids: Collection[int]) -> bool:
    """Whether sources of what people save have entries of some projects."""
    asked = {"of_tenant": tx.tenant, AMONG: tx.dialect.listing(list(project_ids))}
    return bool(tx.dialect.bare_rows(tx.connection, _kept_of(tx.dialect, sources), asked))


@cache
def _kept_of(dialect: Dialect, sources: tuple[str, ...]) -> Select[Any]:
    any_of = or_(*(entries.c.source == source for source in sources))
    of_projects = entries.c.conversation_id.is_(None), any_of, dialect.among(entries.c.project_id)
    return select(entries.c.id).where(OF_TENANT, *of_projects).limit(literal_column("1"))


def in_scope(tx: Transaction, entry_ids: Sequence[int], scope: RowScope) -> set[int]:
    """Which of the entries a scope lets through."""
    statement = tx.select(entries.c.id).where(*scope_conditions(scope, tx.dialect.is_remote))
    return {row[0] for row in rows_in(tx, statement, entries.c.id, entry_ids)}


def newest_entries(tx: Transaction, scope: RowScope, limit: int) -> list[int]:
    """The entries of a scope that were made last, newest first."""
    inside = tx.select(entries.c.id).where(*scope_conditions(scope, tx.dialect.is_remote))
    return list(tx.connection.scalars(inside.order_by(entries.c.created_at.desc(), entries.c.id.desc()).limit(limit)))


def has_entries(tx: Transaction) -> bool:
    """Whether there is anything to be found at all."""
    return bool(tx.dialect.bare_rows(tx.connection, ANY_ENTRY, {"of_tenant": tx.tenant}))


# Made once: it runs after each search that finds nothing.
ANY_ENTRY = select(entries.c.id).where(OF_TENANT).limit(literal_column("1"))


def scope_conditions(scope: RowScope, has_tenants: bool = True) -> list[ColumnElement[bool]]:
    """The scope as conditions on the entries table; where there is one tenant alone, no facet is asked for its own."""
    conditions: list[ColumnElement[bool]] = []
    for column, wanted in (
        *((entries.c.project_id, scope.project_id), (entries.c.conversation_id, scope.conversation_id)),
        *((entries.c.segment_id, scope.segment_id), (entries.c.source, scope.sources)),
        *((entries.c.conversation_id, scope.conversation_ids), (entries.c.role, scope.roles)),
    ):
        if wanted not in (None, ()):
            conditions.append(column.in_(wanted) if isinstance(wanted, tuple) else column == wanted)
    conditions += _without_projects(scope)
    if scope.outside_conversations:
        # Says nothing new, and lets the index of what is in no conversation be used.
        conditions.append(entries.c.conversation_id.is_(None))
    if scope.without_sources:
        conditions.append(entries.c.source.not_in(scope.without_sources))
    if scope.without_conversation_id is not None:
        conditions.append(entries.c.conversation_id.is_distinct_from(scope.without_conversation_id))
    if scope.without_untrusted:
        conditions.append(entries.c.trust.not_in([trust.value for trust in UNTRUSTED]))
    if scope.since is not None:
        conditions.append(entries.c.created_at >= from_microseconds(scope.since))
    if scope.until is not None:
        conditions.append(entries.c.created_at < from_microseconds(scope.until))
    for facet in scope.facets:
        # No index of facets has the tenant, and reading each row for it takes twice as long.
        key = (entry_facets.c.tenant, entry_facets.c.entry_id) if has_tenants else (entry_facets.c.entry_id,)
        mine = tuple_(entries.c.tenant, entries.c.id) if has_tenants else entries.c.id
        conditions.append(mine.in_(select(*key).where(entry_facets.c.facet == facet)))
    return conditions


def _without_projects(scope: RowScope) -> list[ColumnElement[bool]]:
    """Of these projects none; what is of no project at all stays."""
    others = entries.c.project_id.in_(scope.without_project_ids)
    return [or_(entries.c.project_id.is_(None), not_(others))] if scope.without_project_ids else []
