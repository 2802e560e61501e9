"""Small facts beside the records: settings, counters, import states, core memory, what hooks already gave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from sqlalchemy import Insert, Table, Text, and_, bindparam, case, delete, func, literal_column, null, select

from harken.model.conversations import REDACTED, CoreFact
from harken.model.lookups import HookTimes
from harken.storage.ports import MESSAGE_SOURCE, Dialect, Question, RowCount, Transaction, asked_by
from harken.storage.tables import (
    conversations,
    core_memory,
    counters,
    entries,
    exchanges,
    import_state,
    injections,
    interpret,
    joined,
    journal_files,
    messages,
    metadata,
    reader,
    same,
    segments,
    settings,
    summaries,
    vectors,
    writer,
)

# Made once: it runs with every context.
_FACTS = select(core_memory).where(core_memory.c.tenant == bindparam("of_tenant"))


def apply_core_fact(tx: Transaction, fact: CoreFact) -> None:
    """Set it, or delete it where it has no value."""
    if fact.value is None:
        tx.delete(core_memory, core_memory.c.section == fact.section, core_memory.c.key == fact.key)
    else:
        values = {"value": fact.value, "updated_at": fact.at}
        tx.put(core_memory, {"section": fact.section, "key": fact.key}, values)


def core_facts(tx: Transaction, *sections: str) -> list[CoreFact]:
    """Every core memory, or those of sections: the user's, then the agent's, each in the order of their keys."""
    rows = tx.connection.execute(_FACTS, {"of_tenant": tx.tenant})
    facts = [
        CoreFact(row.section, row.key, row.value, row.updated_at)
        for row in rows
        if not sections or row.section in sections
    ]
    return sorted(facts, key=lambda fact: (fact.section != "user", fact.section, fact.key))


def drop_core_facts(tx: Transaction) -> None:
    """Remove every one, for a rebuild."""
    tx.delete(core_memory)


INJECTIONS = ("injections",)
# The setting that says that freed space holds words to be overwritten; see `record.forget.finish_forgetting`.
SCRUB_DUE = "store.scrub_due"


_RECALLS, _RECALL_TOKENS, _HOOKS = "recalls:", "recall_tokens:", "hook_ms:"
# The steps of the scale by which answers of hooks are counted, in milliseconds.
_STEPS = (5, 10, 15, 20, 30, 40, 60, 80, 100, 150, 200, 300, 500, 1_000, 10_000)


def note_recall(
    tx: Transaction, conversation_uid: str, tokens: int, now: datetime, took: Sequence[tuple[str, float]] = ()
) -> None:
    """Count that so many tokens came back in a conversation by themselves, on this day of UTC.

    Args:
        tx: a writing transaction.
        conversation_uid: where.
        tokens: how many.
        now: the moment.
        took: agents whose hooks were answered since the last time, and in how many milliseconds.
    """
    day = now.astimezone(UTC)
    mine, amounts = f"{day:%Y-%m-%d}:{conversation_uid}", dict[str, int]()
    for agent, milliseconds in took:
        step = next((step for step in _STEPS if milliseconds <= step), _STEPS[-1])
        name = f"{_HOOKS}{week_of(day)}:{agent}:{step}"
        amounts[name] = amounts.get(name, 0) + 1
    count_up(tx, {**amounts, _RECALLS + mine: 1, _RECALL_TOKENS + mine: tokens})


def week_of(day: date) -> str:
    """`2026-W48`, by ISO 8601."""
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"


def hook_times(tx: Transaction) -> list[HookTimes]:
    """How long hooks took, by agent and week, newest first."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for name, count in read_counters(tx, _HOOKS).items():
        week, agent, step = name.split(":")
        found.setdefault((week, agent), {})[int(step)] = count
    return [HookTimes(agent, week, counts) for (week, agent), counts in sorted(found.items(), reverse=True)]


def recalls_by_day(tx: Transaction) -> list[tuple[str, str, int, int]]:
    """(day, conversation, times, tokens) of what came back, in no order; an older Harken counted by the month."""
    tokens = read_counters(tx, _RECALL_TOKENS)
    return [
        (*name.split(":", 1), times, tokens.get(name, 0))  # type: ignore[misc]
        for name, times in read_counters(tx, _RECALLS).items()
    ]


def given_to(tx: Transaction, conversation_uid: str) -> set[str]:
    """Ids of everything that was given to a conversation."""
    return {row[0] for row in tx.dialect.bare_rows(tx.connection, *given_question(tx, conversation_uid))}


def given_question(tx: Transaction, conversation_uid: str) -> Question:
    """What `given_to` asks."""
    return asked_by(tx, injections.c.conversation_uid, [conversation_uid], injections.c.ref_uid)


def note_given(
    tx: Transaction, conversation_uid: str, reasons: Mapping[str, str], now: datetime, event: str | None = None
) -> None:
    """Write down that a conversation was given these, and why each, at an event of its agent; the first time counts."""
    given = {"tenant": tx.tenant, "conversation_uid": conversation_uid, "at": now, "event": event}
    if rows := [{**given, "ref_uid": ref_uid, "why": why or None} for ref_uid, why in reasons.items()]:
        tx.dialect.execute_each(tx.connection, _note_given(tx.dialect), rows)


@cache
def _note_given(dialect: Dialect) -> Insert:
    return dialect.upsert(injections, {}, ("conversation_uid", "ref_uid"))


def drop_given(tx: Transaction, conversation_uid: str) -> None:
    """Forget what a conversation was given, with the conversation."""
    tx.delete(injections, injections.c.conversation_uid == conversation_uid)


@dataclass(frozen=True, slots=True)
class ImportState:
    """The state of a transcript file when it was last read.

    Attributes:
        modified: the file's modification time then, in nanoseconds.
        offset: bytes that need not be read again; only files that grow have one.
        fingerprint: hash of what was read, to tell a grown file from a rewritten one.
        unreadable: lines that could not be read, so far.
    """

    format: str
    path: str
    size: int
    modified: int
    offset: int
    fingerprint: str
    unreadable: int
    imported_at: datetime


_OF_JOURNAL_FILE = and_(journal_files.c.tenant == bindparam("of_tenant"), journal_files.c.path == bindparam("of_path"))
# Built once: these run with every recorded message.
_JOURNAL_OFFSET = select(journal_files.c.applied).where(_OF_JOURNAL_FILE)
_APPLIED = (journal_files.c.path, journal_files.c.applied)
_JOURNAL_OFFSETS = select(*_APPLIED).where(
    journal_files.c.tenant == bindparam("of_tenant"),
    journal_files.c.path >= bindparam("first"),
    journal_files.c.path < bindparam("end"),
)


@cache
def _put_journal_offset(dialect: Dialect) -> Insert:
    return dialect.upsert(journal_files, {}, ("path",), {"applied": literal_column("excluded.applied")})


def get_setting(tx: Transaction, name: str) -> Any:
    """The value that was set at run time, or None."""
    rows = tx.dialect.bare_rows(tx.connection, *setting_question(tx, name))
    return interpret(json.loads, rows[0][0]) if rows else None


def setting_question(tx: Transaction, name: str) -> Question:
    """What `get_setting` asks."""
    return _SETTING, {"of_tenant": tx.tenant, "of_name": name}


# Made once: a dozen of them are read for `status`, and some with each search.
_SETTING = select(settings.c.value).where(
    settings.c.tenant == bindparam("of_tenant", type_=Text), settings.c.name == bindparam("of_name", type_=Text)
)


def all_settings(tx: Transaction) -> dict[str, Any]:
    """Every value that was set at run time."""
    rows = tx.connection.execute(tx.select(settings.c.name, settings.c.value))
    return {row.name: interpret(json.loads, row.value) for row in rows}


def set_setting(tx: Transaction, name: str, value: Any) -> None:
    """Keep a value, or forget it when it is None."""
    if value is None:
        tx.delete(settings, settings.c.name == name)
    else:
        tx.put(settings, {"name": name}, {"value": json.dumps(value)})


def count_up(tx: Transaction, amounts: Mapping[str, int]) -> None:
    """Add to counters, making those that are new."""
    # In one order everywhere, so that two writers never wait for each other.
    rows = [{"tenant": tx.tenant, "name": name, "value": amount} for name, amount in sorted(amounts.items())]
    if rows:
        tx.dialect.execute_each(tx.connection, _count_up(tx.dialect), rows)


@cache
def _count_up(dialect: Dialect) -> Insert:
    return dialect.upsert(counters, {}, ("name",), {"value": counters.c.value + literal_column("excluded.value")})


def read_counters(tx: Transaction, prefix: str) -> dict[str, int]:
    """Counters whose name begins with the prefix, without it; those that stand at zero are left out."""
    named = counters.c.name.startswith(prefix, autoescape=True)
    rows = tx.connection.execute(tx.select(counters.c.name, counters.c.value).where(named, counters.c.value != 0))
    return {row.name.removeprefix(prefix): row.value for row in rows}


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows there are of what grows with what is said.

    Attributes:
        entries: by the space of their newest vector; 0 waits for one, -1 never gets one.
        vectors: by their space.
        summarized: by kind, how many exchanges and conversations have a summary that covers all that was said, and one
            that is stale; None where the engine keeps no such counts.
    """

    messages: int
    exchanges: int
    entries: Mapping[int, int]
    vectors: Mapping[int, int]
    summarized: Mapping[str, tuple[int, int]] | None = None

    @property
    def embeddable(self) -> int:
        """How many entries have or wait for a vector."""
        return sum(number for space_id, number in self.entries.items() if space_id >= 0)


def count_rows(tx: Transaction) -> RowCounts:
    """Count them; without looking at most of them where the engine keeps counts."""
    kept = tx.dialect.kept_counts(tx.connection)
    found = _counted(tx) if kept is None else kept
    said, answered = (found.get((table.name, 0), 0) for table in _SAID)
    pairs = {kind: (found.get((name, 0), -1), found.get((name, 1), -1)) for kind, name in PAIRS.items()}
    summarized = None if any(-1 in numbers for numbers in pairs.values()) else pairs
    return RowCounts(said, answered, _by_space(found, entries), _by_space(found, vectors), summarized)


def recount(tx: Transaction) -> None:
    """Set the counts right that the engine keeps, if it does."""
    tx.dialect.keep_counts(tx.connection, {**_counted(tx), **_count_pairs(tx)})


def wrong_counts(tx: Transaction) -> int:
    """How many of the counts that the engine keeps are not those of the rows."""
    kept = tx.dialect.kept_counts(tx.connection)
    if kept is None:
        return 0
    found = {**_counted(tx), **_count_pairs(tx)}
    return sum(kept.get(key, 0) != found.get(key, 0) for key in {*kept, *found})


_SAID, _SPACED = (messages, exchanges), (entries, vectors)
# By the kind of summary the name under which an engine counts what has one: 0 where it covers all that was said, 1
# where it is stale.
PAIRS = {"exchange": "exchange_summaries", "conversation": "conversation_summaries"}


def _by_space(found: Mapping[RowCount, int], table: Table) -> dict[int, int]:
    return {space_id: number for (name, space_id), number in found.items() if name == table.name}


def _counted(tx: Transaction) -> dict[RowCount, int]:
    found = {(table.name, 0): tx.count(table) for table in _SAID}
    for table in _SPACED:
        # Where it is not null, in the order of an index.
        by_space = tx.select(table.c.space_id, func.count()).where(table.c.space_id.is_not(None))
        rows = tx.connection.execute(by_space.group_by(table.c.space_id))
        found |= {(table.name, row[0]): int(row[1]) for row in rows}
    found[entries.name, -1] = tx.count(entries) - sum(_by_space(found, entries).values())
    return found


def _count_pairs(tx: Transaction) -> dict[RowCount, int]:
    """Count what has a summary, and what has one that is stale."""
    found: dict[RowCount, int] = {}
    for kind, name in PAIRS.items():
        found |= {(name, 0): 0, (name, 1): 0}
        item, source = (exchanges, joined(exchanges, conversations)) if kind == "exchange" else (conversations,) * 2
        of_item = and_(same(item.c.uid, summaries.c.item_uid), summaries.c.kind == kind)
        completed = exchanges.c.completed_at if kind == "exchange" else null()
        ended = func.coalesce(completed, conversations.c.updated_at)
        is_stale = case((summaries.c.covers < ended, 1), else_=0)
        rows = (
            tx.select(is_stale, func.count(), of=item).select_from(source.join(summaries, of_item)).group_by(is_stale)
        )
        found |= {(name, row[0]): int(row[1]) for row in tx.connection.execute(rows)}
    return found


def get_import_state(tx: Transaction, format_name: str, path: str) -> ImportState | None:
    """The state of the file when it was last read, or None for a new one."""
    named = import_state.c.format == format_name, import_state.c.path == path
    row = tx.connection.execute(tx.select(import_state).where(*named)).first()
    return None if row is None else _import_state(row)


def put_import_state(tx: Transaction, state: ImportState) -> None:
    """Remember how far the file was read."""
    row = {"tenant": tx.tenant, **_import_row(state)}
    tx.dialect.execute_each(tx.connection, _put_import_state(tx.dialect), [row])


@cache
def _put_import_state(dialect: Dialect) -> Insert:
    """Made once: it runs with every transaction of an import."""
    key = "format", "path"
    changed = [field.name for field in fields(ImportState) if field.name not in key]
    return dialect.upsert(import_state, {}, key, {name: literal_column(f'excluded."{name}"') for name in changed})


_import_state, _import_row = reader(ImportState), writer(ImportState, import_state)


def journal_offsets(tx: Transaction, folder: str | None = None) -> dict[str, int]:
    """For each journal file, of one folder or of all, the number of its bytes that the rows already hold."""
    if folder is None:
        return {row[0]: row[1] for row in tx.connection.execute(tx.select(*_APPLIED))}
    # All paths that begin with the folder; `0` is the sign behind `/`.
    span = {"of_tenant": tx.tenant, "first": f"{folder}/", "end": f"{folder}0"}
    return {row[0]: row[1] for row in tx.dialect.bare_rows(tx.connection, _JOURNAL_OFFSETS, span)}


def applied_bytes(tx: Transaction) -> int:
    """How many bytes of all journal files the rows hold; a file that is being rewritten counts as empty."""
    held = tx.select(func.sum(journal_files.c.applied), of=journal_files).where(journal_files.c.applied > 0)
    return int(tx.connection.scalar(held) or 0)


def journal_offset(tx: Transaction, path: str) -> int:
    """The number of bytes of a journal file that the rows already hold."""
    found = tx.dialect.bare_rows(tx.connection, _JOURNAL_OFFSET, {"of_tenant": tx.tenant, "of_path": path})
    return found[0][0] if found else 0


def put_journal_offset(tx: Transaction, path: str, applied: int) -> None:
    """Remember how far a journal file is in the rows."""
    put_journal_offsets(tx, {path: applied})


def put_journal_offsets(tx: Transaction, applied: Mapping[str, int]) -> None:
    """The same of several files, by path."""
    rows = [{"tenant": tx.tenant, "path": path, "applied": size} for path, size in applied.items()]
    tx.dialect.execute_each(tx.connection, _put_journal_offset(tx.dialect), rows)


def drop_journal_offset(tx: Transaction, path: str) -> None:
    """The journal file is gone."""
    tx.delete(journal_files, journal_files.c.path == path)


def redaction_counts(metadata: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The counters that messages with this metadata add to: secrets taken out of them, by kind."""
    counts: dict[str, int] = {}
    for facts in metadata:
        found = facts.get(REDACTED) if facts else None
        # Whoever hands a message in may have a key of the same name, with anything in it.
        for kind, amount in found.items() if isinstance(found, Mapping) else ():
            if isinstance(amount, int):
                counts[f"redacted:{kind}"] = counts.get(f"redacted:{kind}", 0) + amount
    return counts


def stray_rows(tx: Transaction, fix: bool) -> int:
    """How many rows are of no conversation and no tenant that there is; to fix that is to remove them."""
    known = select(conversations.c.id).where(conversations.c.tenant == tx.tenant)
    count = 0
    for table in (conversations, segments, exchanges, messages, entries):
        lost = table.c.tenant != tx.tenant
        if table is not conversations:
            lost |= and_(table.c.conversation_id.is_not(None), table.c.conversation_id.not_in(known))
        if table is entries:
            lost |= and_(entries.c.source == MESSAGE_SOURCE, entries.c.conversation_id.is_(None))
        count += int(tx.connection.execute(select(func.count()).select_from(table).where(lost)).scalar_one())
        if fix:
            tx.connection.execute(delete(table).where(lost))
    return count


def drop_everything(tx: Transaction) -> int:
    """Delete all rows of the tenant, and its full text; how many that were."""
    count = sum(tx.delete(table) for table in metadata.sorted_tables)
    tx.text.rebuild(tx.connection)
    return count
