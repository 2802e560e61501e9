"""Consent to summarize: a language model may, unasked, read what was said after it was set, and no import.

Kept beside the records: the moment at which each model was first seen, as a state row, and for each conversation that
an import added to, as a counter, the number of its last imported exchange. Numbers, since a file may claim any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import ColumnElement, Insert, and_, false, func, literal_column, or_

from harken.config.sections import WorkerConfig
from harken.providers.summarizer import EXTRACTIVE
from harken.storage.ports import Dialect, Transaction
from harken.storage.state import get_setting, set_setting
from harken.storage.tables import conversations, counters, exchanges, joined, messages, refers, summaries

_MODEL, _IMPORTED = "summarizing:", "imported:"


@dataclass(frozen=True, slots=True)
class SummarySizes:
    """How many messages an exchange, and exchanges a conversation, must have to get a summary, of whatever kind."""

    messages: int = 1
    exchanges: int = 1

    @classmethod
    def of(cls, config: WorkerConfig) -> SummarySizes:
        """Those that the settings say."""
        return cls(config.min_messages_for_exchange_summary, config.min_exchanges_for_conversation_summary)


@dataclass(frozen=True, slots=True)
class Consent:
    """Limits of the items that a language model may summarize unasked.

    Attributes:
        since: what was said from this moment on; None: nothing.
        ongoing: ids of conversations that are being held, which are left alone until they are over.
        is_paused: only what needs no model is to be found: the model fails, or the day's money is spent.
    """

    since: datetime | None = None
    ongoing: frozenset[str] = frozenset()
    is_paused: bool = False
    sizes: SummarySizes = SummarySizes()


@dataclass(frozen=True, slots=True)
class SummaryBacklog:
    """Limits of the older items that a model may be asked to summarize.

    Attributes:
        said_since: what was said from this moment on is summarized unasked, and is no part of it.
        project_id: only conversations of this project's row.
        since: only conversations and exchanges that began then or later.
    """

    said_since: datetime | None = None
    project_id: int | None = None
    since: datetime | None = None
    sizes: SummarySizes = SummarySizes()


NO_MODEL = Consent()


def note_model(tx: Transaction, model: str, now: datetime) -> datetime:
    """Remember when a model was first seen, in a writing transaction; the moment that stands."""
    since = model_since(tx, model)
    if since is None:
        set_setting(tx, _MODEL + model, now.isoformat())
    return since or now


def model_since(tx: Transaction, model: str) -> datetime | None:
    """The time at which a model was first seen; None where it never was."""
    found = get_setting(tx, _MODEL + model)
    return datetime.fromisoformat(found) if found else None


def drop_model(tx: Transaction, model: str) -> None:
    """The model is set no more: when it is set again, that moment counts."""
    set_setting(tx, _MODEL + model, None)


def note_imported(tx: Transaction, last_numbers: Mapping[str, int]) -> None:
    """Remember up to which exchange an import filled conversations, by their ids."""
    # In one order everywhere, so that two writers never wait for each other.
    counted = sorted(last_numbers.items())
    rows = [{"tenant": tx.tenant, "name": _IMPORTED + uid, "value": number} for uid, number in counted]
    tx.dialect.execute_each(tx.connection, _raise_number(tx.dialect), rows)


@cache
def _raise_number(dialect: Dialect) -> Insert:
    """Made once: it runs with every transaction of an import."""
    new: ColumnElement[int] = literal_column("excluded.value")
    return dialect.upsert(counters, {}, ("name",), {"value": new}, where=counters.c.value < new)


def is_new_exchange(tx: Transaction, since: datetime | None) -> ColumnElement[bool]:
    """The condition that a model may summarize an exchange unasked; of exchanges joined with conversations."""
    if since is None:
        return false()
    return and_(exchanges.c.started_at >= since, exchanges.c.number > _imported(tx))


def is_new_conversation(tx: Transaction, since: datetime | None) -> ColumnElement[bool]:
    """The same of a conversation, where conversations and summaries are selected from.

    All of it is new; or a model, once asked for it, has summarized it before, and it went on by itself since.
    """
    if since is None:
        return false()
    # Told its tenant as well, as all that is asked of a row outside: a sharded server takes no equality for it.
    of_conversation = exchanges.c.conversation_id == conversations.c.id
    numbers = tx.select(func.max(exchanges.c.number), of=exchanges).where(of_conversation)
    last = numbers.correlate(conversations).scalar_subquery()
    goes_on = and_(conversations.c.updated_at >= since, last > _imported(tx))
    by_model = and_(summaries.c.id.is_not(None), summaries.c.text != "", summaries.c.model != EXTRACTIVE)
    return and_(goes_on, or_(and_(conversations.c.created_at >= since, _imported(tx) < 0), by_model))


def is_new_message(tx: Transaction, since: datetime | None) -> ColumnElement[bool]:
    """The same of a message by its exchange, where messages are selected from."""
    if since is None:
        return false()
    mine = tx.select(exchanges.c.id).select_from(joined(exchanges, conversations))
    of_message = refers(messages.c.exchange_id, exchanges)
    return mine.where(of_message, is_new_exchange(tx, since)).correlate(messages).exists()


def _imported(tx: Transaction) -> ColumnElement[int]:
    """The number of the last exchange that an import brought into a selected conversation; -1 where none did."""
    of_conversation = counters.c.name == _IMPORTED + conversations.c.uid
    found = tx.select(counters.c.value).where(of_conversation).correlate(conversations).scalar_subquery()
    return func.coalesce(found, -1)
