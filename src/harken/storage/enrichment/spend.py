"""The books on calls of language models: a row for each call, written before the call and settled after it.

A call is never booked twice: its row is there before it is sent, and settling a settled row changes nothing. A process
that dies in between leaves the row `open`: whether the endpoint charged for it, nobody here can know, so it counts with
its estimate against the day's limit, and not in what was spent. Lost with a database that is made anew from the
journal: the books themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from sqlalchemy import ColumnElement, case, func, select

from harken.storage.ports import Transaction
from harken.storage.tables import reader, spend, writer

# What a writing transaction of the books says that it writes.
BOOKS = ("spend",)
# In a team's first space, what a call for another space was for: nobody is told there of whom or what.
ELSEWHERE = "elsewhere"
_ZERO = Decimal(0)


class CallState(StrEnum):
    """The state of a call."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call about to be made.

    Attributes:
        kind: what it is for: `exchange`, `conversation`, `segment`, `tools`, `chat`…
        estimate_usd: the most it may cost; None where no price is known.
    """

    uid: str
    kind: str
    item_uid: str
    model: str
    started_at: datetime
    estimate_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of a call, and its price, None where that is not known."""

    state: CallState
    at: datetime
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    price_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over calls.

    Attributes:
        calls: those that were answered.
        usd: what those cost whose price is known.
        unpriced: answered calls of models without a known price.
        unsettled: calls under way, and those whose end nobody saw.
        unsettled_usd: the most that these may have cost.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal = _ZERO
    unpriced: int = 0
    unsettled: int = 0
    unsettled_usd: Decimal = _ZERO

    @property
    def at_most_usd(self) -> Decimal:
        """The most that may have been spent; this is held against a limit."""
        return self.usd + self.unsettled_usd


def day_of(moment: datetime) -> str:
    """The day in the books, `YYYY-MM-DD` in UTC, as vendors count days."""
    return moment.astimezone(UTC).date().isoformat()


def book_call(tx: Transaction, call: ModelCall) -> None:
    """Write down that a call is about to be made."""
    counted = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}
    tx.insert(spend, [{**_call_row(call), **counted, "day": day_of(call.started_at), "state": CallState.OPEN.value}])


def settle_call(tx: Transaction, uid: str, end: Settlement) -> bool:
    """Write down the end of a call.

    Returns:
        Whether it was open; a call that is settled already stays as it is.
    """
    named = spend.c.uid == uid, spend.c.state == CallState.OPEN.value
    return tx.update(spend, *named, **_settlement_row(end), ended_at=end.at) == 1


_call_row, _settlement_row = writer(ModelCall, spend), writer(Settlement, spend, "state")


_ANSWERED = spend.c.state == CallState.DONE.value
_UNSETTLED = spend.c.state.in_((CallState.OPEN.value, CallState.LOST.value))


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


_SUMS = select(
    _count(_ANSWERED).label("calls"),
    func.coalesce(func.sum(spend.c.input_tokens), 0).label("input_tokens"),
    func.coalesce(func.sum(spend.c.output_tokens), 0).label("output_tokens"),
    func.sum(case((_ANSWERED, spend.c.price_usd))).label("usd"),
    _count(_ANSWERED & spend.c.price_usd.is_(None)).label("unpriced"),
    _count(_UNSETTLED).label("unsettled"),
    func.sum(case((_UNSETTLED, spend.c.estimate_usd))).label("unsettled_usd"),
)
_COUNTED = dict.fromkeys(("calls", "input_tokens", "output_tokens", "unpriced", "unsettled"), int)


def _or_zero(usd: Decimal | None) -> Decimal:
    return usd or _ZERO


_spent = reader(Spent, **_COUNTED, usd=_or_zero, unsettled_usd=_or_zero)


def spent_in_all(tx: Transaction, *conditions: ColumnElement[bool]) -> Spent:
    """The sums of all calls, or of those that meet conditions."""
    return _spent(tx.connection.execute(_SUMS.where(spend.c.tenant == tx.tenant, *conditions)).one())


def spent_on_day(tx: Transaction, day: str) -> Spent:
    """The sums of one day, `YYYY-MM-DD`."""
    return spent_in_all(tx, spend.c.day == day)


def spent_on_item(tx: Transaction, kind: str, item_uid: str) -> Spent:
    """The sums for one record; a second summary of it adds to the first."""
    return spent_in_all(tx, spend.c.kind == kind, spend.c.item_uid == item_uid)


def spent_by_kind(tx: Transaction, day: str | None = None) -> dict[str, Spent]:
    """The sums of each kind of work, of one day or of all."""
    within = [] if day is None else [spend.c.day == day]
    sums = _SUMS.add_columns(spend.c.kind).where(spend.c.tenant == tx.tenant, *within)
    return {row.kind: _spent(row) for row in tx.connection.execute(sums.group_by(spend.c.kind).order_by(spend.c.kind))}


def spent_by_item(tx: Transaction) -> list[tuple[str, str, Decimal]]:
    """(month `YYYY-MM`, record, price) of all answered calls whose price is known; not of those for other spaces."""
    month = func.substr(spend.c.day, 1, 7).label("month")
    sums = tx.select(month, spend.c.item_uid, func.sum(spend.c.price_usd), of=spend).where(_ANSWERED)
    grouped = sums.where(spend.c.price_usd.is_not(None), spend.c.item_uid != ELSEWHERE).group_by(
        month, spend.c.item_uid
    )
    return [(row[0], row[1], row[2]) for row in tx.connection.execute(grouped)]


def mean_output_tokens(tx: Transaction, kind: str, model: str, least: int) -> float | None:
    """The mean length of a model's answers of a kind of work; None where it gave fewer than `least`."""
    mine = (spend.c.kind == kind, spend.c.model == model, _ANSWERED, spend.c.output_tokens > 0)
    found = spent_in_all(tx, *mine)
    return found.output_tokens / found.calls if found.calls >= least else None
