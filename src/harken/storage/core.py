"""Core memory as rows: small facts of the user and the agent that stand in every prompt."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, insert, select, update

from harken.model import CoreFact
from harken.storage.store import Transaction
from harken.storage.tables import core_memory

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
