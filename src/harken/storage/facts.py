"""What ranking needs to know of candidates: their facts, and what stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, bindparam, select, tuple_

from harken.model.conversations import Trust
from harken.storage.entries import MOMENT, OF_TENANT, TRUSTS, entries_question
from harken.storage.ports import MESSAGE_SOURCE, Dialect, Question, Transaction, among_these, bare_among, rows_by
from harken.storage.tables import entries, from_microseconds
from harken.text.traits import ASKS


class EntryFacts(NamedTuple):
    """What weighing needs of a candidate; cheaper than the whole entry, and than a dataclass to make.

    Attributes:
        created_us: when, in microseconds since 1970 UTC: hardly any ranking asks for the moment itself.
        conversation_id: the row of the conversation that it is of, if any; likewise the exchange's.
        traits: of its text, as `harken.text.traits` packs them.
        project_id: the row of its project, if any.
        rated: what verdicts on it multiply its score by.
        space_id: the row of the space that has its vector, 0 until one has, None of what gets none.
    """

    author: str | None
    role: str | None
    created_us: int
    weight: float
    trust: Trust
    source: str = MESSAGE_SOURCE
    conversation_id: int | None = None
    exchange_id: int | None = None
    ref_uid: str = ""
    traits: int = 0
    project_id: int | None = None
    rated: float = 1.0
    space_id: int | None = None

    @property
    def created_at(self) -> datetime:
        """When it was said or saved."""
        return from_microseconds(self.created_us)


def entry_facts(tx: Transaction, entry_ids: Sequence[int]) -> dict[int, EntryFacts]:
    """The facts of each candidate, by id."""
    rows = bare_among(tx, _facts(tx.dialect), entry_ids)
    return {row[0]: EntryFacts(row[1], row[2], row[3], row[4], TRUSTS[row[5]], *row[6:]) for row in rows}


@cache
def _facts(dialect: Dialect) -> Select[Any]:
    columns = (entries.c.author, entries.c.role, MOMENT, entries.c.weight, entries.c.trust, entries.c.source)
    places = (entries.c.conversation_id, entries.c.exchange_id, entries.c.ref_uid)
    more = entries.c.traits, entries.c.project_id, entries.c.rated, entries.c.space_id
    return select(entries.c.id, *columns, *places, *more).where(OF_TENANT, dialect.among(entries.c.id))


def turns_of(tx: Transaction, exchange_ids: Sequence[int]) -> list[int]:
    """The entries of what was said in exchanges."""
    found = rows_by(tx, entries.c.exchange_id, exchange_ids, entries.c.id, entries.c.is_turn)
    return sorted(row.id for row in found if row.is_turn)


class Neighbours(NamedTuple):
    """The turns beside an entry, 0 where there is none."""

    before: int = 0
    follows_question: bool = False
    after: int = 0


def neighbours(tx: Transaction, entry_ids: Sequence[int]) -> dict[int, Neighbours]:
    """What stands beside each of the entries that are turns."""
    found = {}
    for entry_id, told, after in bare_among(tx, _beside(tx.dialect), entry_ids):
        found[entry_id] = Neighbours((told or 0) // (2 * ASKS), bool((told or 0) & ASKS), after or 0)
    return found


def asked_last(
    tx: Transaction, candidates: Sequence[int], beside: Sequence[int], whole: Sequence[int]
) -> list[Question]:
    """What `entry_facts`, `neighbours` and `load_entries` ask of these."""
    asked = (_facts(tx.dialect), candidates), (_beside(tx.dialect), beside)
    questions: list[Question] = [among_these(tx, statement, entry_ids) for statement, entry_ids in asked if entry_ids]
    return [*questions, entries_question(tx, whole)] if whole else questions


@cache
def _beside(dialect: Dialect) -> Select[Any]:
    own, place = entries.alias("own"), entries.alias("other")
    here, there = tuple_(own.c.position, own.c.id), tuple_(place.c.position, place.c.id)
    of_tenant = dialect.of_tenant(place, bindparam("of_tenant"))
    turns = and_(*of_tenant, place.c.conversation_id == own.c.conversation_id, place.c.is_turn)
    # As one number: to look for the turn once more takes as long again.
    told = place.c.id * 2 * ASKS + place.c.traits.bitwise_and(ASKS)
    before = select(told).where(turns, there < here).order_by(place.c.position.desc(), place.c.id.desc()).limit(1)
    after = select(place.c.id).where(turns, there > here).order_by(place.c.position, place.c.id).limit(1)
    mine = own.c.tenant == bindparam("of_tenant"), own.c.is_turn, dialect.among(own.c.id)
    return select(own.c.id, before.scalar_subquery(), after.scalar_subquery()).where(*mine)
