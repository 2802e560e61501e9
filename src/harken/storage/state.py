"""Small facts beside the records: settings, counters, import states, core memory, what hooks already gave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import Insert, Table, and_, bindparam, func, literal_column, select

from harken.model.conversations import REDACTED, CoreFact
from harken.storage.ports import Dialect, RowCount, Transaction, rows_by
from harken.storage.tables import (
    core_memory,
    counters,
    entries,
    exchanges,
    import_state,
    injections,
    interpret,
    journal_files,
    messages,
    reader,
    settings,
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


_RECALLS, _RECALL_TOKENS = "recalls:", "recall_tokens:"


def note_recall(tx: Transaction, conversation_uid: str, tokens: int, now: datetime) -> None:
    """Count that so many tokens came back in a conversation by themselves, in this month of UTC."""
    mine = f"{now.astimezone(UTC):%Y-%m}:{conversation_uid}"
    count_up(tx, {_RECALLS + mine: 1, _RECALL_TOKENS + mine: tokens})


def recalls_by_month(tx: Transaction) -> list[tuple[str, str, int, int]]:
    """(month, conversation, times, tokens) of what came back, in no order."""
    tokens = read_counters(tx, _RECALL_TOKENS)
    return [
        (*name.split(":", 1), times, tokens.get(name, 0))  # type: ignore[misc]
        for name, times in read_counters(tx, _RECALLS).items()
    ]


def given_to(tx: Transaction, conversation_uid: str) -> set[str]:
    """Ids of everything that was given to a conversation."""
    return {row[0] for row in rows_by(tx, injections.c.conversation_uid, [conversation_uid], injections.c.ref_uid)}


def note_given(
    tx: Transaction, conversation_uid: str, reasons: Mapping[str, str], now: datetime, event: str | None = None
) -> None:
    """Write down that a conversation was given these, and why each, at an event of its agent; the first time counts."""
    given = {"tenant": tx.tenant, "conversation_uid": conversation_uid, "at": now, "event": event}
    if rows := [{**given, "ref_uid": ref_uid, "why": why or None} for ref_uid, why in reasons.items()]:
        tx.connection.execute(tx.dialect.upsert(injections, {}, ("conversation_uid", "ref_uid")), rows)


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
    value = tx.connection.scalar(tx.select(settings.c.value).where(settings.c.name == name))
    return None if value is None else interpret(json.loads, value)


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
    for name, amount in sorted(amounts.items()):
        row = {"tenant": tx.tenant, "name": name, "value": amount}
        more = {"value": counters.c.value + amount}
        tx.connection.execute(tx.dialect.upsert(counters, row, ("name",), more))


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
    """

    messages: int
    exchanges: int
    entries: Mapping[int, int]
    vectors: Mapping[int, int]

    @property
    def embeddable(self) -> int:
        """How many entries have or wait for a vector."""
        return sum(number for space_id, number in self.entries.items() if space_id >= 0)


def count_rows(tx: Transaction) -> RowCounts:
    """Count them; without looking at most of them where the engine keeps counts."""
    kept = tx.dialect.kept_counts(tx.connection)
    found = _counted(tx) if kept is None else kept
    said, answered = (found.get((table.name, 0), 0) for table in _SAID)
    return RowCounts(said, answered, _by_space(found, entries), _by_space(found, vectors))


def recount(tx: Transaction) -> None:
    """Set the counts right that the engine keeps, if it does."""
    tx.dialect.keep_counts(tx.connection, _counted(tx))


def wrong_counts(tx: Transaction) -> int:
    """How many of the counts that the engine keeps are not those of the rows."""
    kept = tx.dialect.kept_counts(tx.connection)
    if kept is None:
        return 0
    found = _counted(tx)
    return sum(kept.get(key, 0) != found.get(key, 0) for key in {*kept, *found})


_SAID, _SPACED = (messages, exchanges), (entries, vectors)


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


def get_import_state(tx: Transaction, format_name: str, path: str) -> ImportState | None:
    """The state of the file when it was last read, or None for a new one."""
    named = import_state.c.format == format_name, import_state.c.path == path
    row = tx.connection.execute(tx.select(import_state).where(*named)).first()
    return None if row is None else _import_state(row)


def put_import_state(tx: Transaction, state: ImportState) -> None:
    """Remember how far the file was read."""
    tx.put(import_state, {"format": state.format, "path": state.path}, _import_row(state))


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
        found = facts.get(REDACTED)
        # Whoever hands a message in may have a key of the same name, with anything in it.
        for kind, amount in found.items() if isinstance(found, Mapping) else ():
            if isinstance(amount, int):
                counts[f"redacted:{kind}"] = counts.get(f"redacted:{kind}", 0) + amount
    return counts
