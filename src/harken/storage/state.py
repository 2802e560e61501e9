"""Small facts beside the records: settings, counters, import states, core memory, what hooks already gave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Insert, Table, and_, bindparam, delete, insert, select, update

from harken.model.conversations import CoreFact
from harken.storage.columns import Dialect
from harken.storage.ports import Transaction
from harken.storage.tables import core_memory, counters, import_state, injections, journal_files, settings

# Made once: it runs with every context.
_FACTS = select(core_memory).where(core_memory.c.tenant == bindparam("of_tenant"))


def apply_core_fact(tx: Transaction, fact: CoreFact) -> None:
    """Set it, or delete it where it has no value."""
    named = (core_memory.c.tenant == tx.tenant, core_memory.c.section == fact.section, core_memory.c.key == fact.key)
    if fact.value is None:
        tx.connection.execute(delete(core_memory).where(*named))
        return
    values = {"value": fact.value, "updated_at": fact.at}
    if tx.connection.execute(update(core_memory).where(*named).values(**values)).rowcount == 0:
        row = {"tenant": tx.tenant, "section": fact.section, "key": fact.key, **values}
        tx.connection.execute(insert(core_memory).values(**row))


def core_facts(tx: Transaction) -> list[CoreFact]:
    """Every core memory: the user's, then the agent's, each in the order of their keys."""
    rows = tx.connection.execute(_FACTS, {"of_tenant": tx.tenant})
    facts = [CoreFact(row.section, row.key, row.value, row.updated_at) for row in rows]
    return sorted(facts, key=lambda fact: (fact.section != "user", fact.section, fact.key))


def drop_core_facts(tx: Transaction) -> None:
    """Remove every one, for a rebuild."""
    tx.connection.execute(delete(core_memory).where(core_memory.c.tenant == tx.tenant))


INJECTIONS = ("injections",)


def given_to(tx: Transaction, conversation_uid: str) -> set[str]:
    """Ids of everything that was given to a conversation."""
    return set(tx.connection.scalars(_GIVEN, {"of_tenant": tx.tenant, "uid": conversation_uid}))


# Made once, as is the one below: somebody waits, and putting them together takes longer than running them.
_GIVEN = select(injections.c.ref_uid).where(
    injections.c.tenant == bindparam("of_tenant"), injections.c.conversation_uid == bindparam("uid")
)


def note_given(tx: Transaction, conversation_uid: str, ref_uids: Iterable[str], now: datetime) -> None:
    """Write down that these were given to a conversation; the first time counts."""
    given = {"tenant": tx.tenant, "conversation_uid": conversation_uid, "at": now}
    if rows := [{**given, "ref_uid": ref_uid} for ref_uid in ref_uids]:
        tx.connection.execute(_noted(tx.dialect), rows)


@cache
def _noted(dialect: Dialect) -> Insert:
    return dialect.upsert(injections, {}, ("conversation_uid", "ref_uid"))


def drop_given(tx: Transaction, conversation_uid: str) -> None:
    """Forget what a conversation was given, with the conversation."""
    tx.connection.execute(
        delete(injections).where(injections.c.tenant == tx.tenant, injections.c.conversation_uid == conversation_uid)
    )


# The key of a message's metadata that says how many secrets of each kind were taken out of it.
REDACTED = "redacted"


@dataclass(frozen=True, slots=True)
class ImportState:
    """How far a transcript file was read.

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
# Built once: these two run with every recorded message.
_JOURNAL_OFFSET = select(journal_files.c.applied).where(_OF_JOURNAL_FILE)
_PUT_JOURNAL_OFFSET = update(journal_files).where(_OF_JOURNAL_FILE).values(applied=bindparam("new_applied"))


def get_setting(tx: Transaction, name: str) -> Any:
    """The value that was set at run time, or None."""
    value = tx.connection.execute(
        select(settings.c.value).where(settings.c.tenant == tx.tenant, settings.c.name == name)
    ).scalar()
    return None if value is None else json.loads(value)


def all_settings(tx: Transaction) -> dict[str, Any]:
    """Every value that was set at run time."""
    rows = tx.connection.execute(select(settings.c.name, settings.c.value).where(settings.c.tenant == tx.tenant))
    return {row.name: json.loads(row.value) for row in rows}


def set_setting(tx: Transaction, name: str, value: Any) -> None:
    """Keep a value, or forget it when it is None."""
    if value is None:
        tx.connection.execute(delete(settings).where(settings.c.tenant == tx.tenant, settings.c.name == name))
    else:
        _put(tx, settings, {"name": name}, {"value": json.dumps(value)})


def count_up(tx: Transaction, amounts: Mapping[str, int]) -> None:
    """Add to counters, making those that are new."""
    # In one order everywhere, so that two writers never wait for each other.
    for name, amount in sorted(amounts.items()):
        row = {"tenant": tx.tenant, "name": name, "value": amount}
        more = {"value": counters.c.value + amount}
        tx.connection.execute(tx.dialect.upsert(counters, row, ("name",), more))


def read_counters(tx: Transaction, prefix: str) -> dict[str, int]:
    """Counters whose name begins with the prefix, without it; those that stand at zero are left out."""
    rows = tx.connection.execute(
        select(counters.c.name, counters.c.value).where(
            counters.c.tenant == tx.tenant, counters.c.name.startswith(prefix, autoescape=True), counters.c.value != 0
        )
    )
    return {row.name.removeprefix(prefix): row.value for row in rows}


def get_import_state(tx: Transaction, format_name: str, path: str) -> ImportState | None:
    """How far the file was read, or None for a new one."""
    row = tx.connection.execute(
        select(import_state).where(
            import_state.c.tenant == tx.tenant, import_state.c.format == format_name, import_state.c.path == path
        )
    ).first()
    if row is None:
        return None
    return ImportState(
        row.format, row.path, row.size, row.modified, row.offset, row.fingerprint, row.unreadable, row.imported_at
    )


def put_import_state(tx: Transaction, state: ImportState) -> None:
    """Remember how far the file was read."""
    values = {
        "size": state.size,
        "modified": state.modified,
        "offset": state.offset,
        "fingerprint": state.fingerprint,
        "unreadable": state.unreadable,
        "imported_at": state.imported_at,
    }
    _put(tx, import_state, {"format": state.format, "path": state.path}, values)


def journal_offsets(tx: Transaction) -> dict[str, int]:
    """For each journal file, how many of its bytes the rows already hold."""
    rows = tx.connection.execute(
        select(journal_files.c.path, journal_files.c.applied).where(journal_files.c.tenant == tx.tenant)
    )
    return {row.path: row.applied for row in rows}


def journal_offset(tx: Transaction, path: str) -> int:
    """How many bytes of one journal file the rows already hold."""
    applied = tx.connection.execute(_JOURNAL_OFFSET, {"of_tenant": tx.tenant, "of_path": path}).scalar()
    return applied or 0


def put_journal_offset(tx: Transaction, path: str, applied: int) -> None:
    """Remember how far a journal file is in the rows."""
    values = {"of_tenant": tx.tenant, "of_path": path, "new_applied": applied}
    if tx.connection.execute(_PUT_JOURNAL_OFFSET, values).rowcount == 0:
        tx.connection.execute(insert(journal_files).values(tenant=tx.tenant, path=path, applied=applied))


def drop_journal_offset(tx: Transaction, path: str) -> None:
    """The journal file is gone."""
    tx.connection.execute(
        delete(journal_files).where(journal_files.c.tenant == tx.tenant, journal_files.c.path == path)
    )


def _put(tx: Transaction, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    tx.connection.execute(tx.dialect.upsert(table, {"tenant": tx.tenant, **key, **values}, tuple(key), values))


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
