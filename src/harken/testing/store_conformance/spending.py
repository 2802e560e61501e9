"""The books on model calls: nothing booked twice, nothing lost, sums exact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from harken.storage.spend import (
    Call,
    CallState,
    Settlement,
    Spent,
    book_call,
    day_of,
    settle_call,
    spent_by_day,
    spent_by_kind,
    spent_in_all,
    spent_on_day,
    spent_on_item,
)
from harken.storage.store import Store

NOON = datetime(2026, 5, 8, 12, 0, tzinfo=UTC)
TODAY, TOMORROW = "2026-05-08", "2026-05-09"
ESTIMATE = Decimal("0.004")


def _book(store: Store, uid: str, item: str = "e1", kind: str = "exchange", days: int = 0) -> None:
    with store.writing() as tx:
        book_call(tx, Call(uid, kind, item, "openai:gpt-5-mini", NOON + timedelta(days=days), ESTIMATE))


def _settle(store: Store, uid: str, price: str | None, state: CallState = CallState.DONE) -> bool:
    with store.writing() as tx:
        usd = None if price is None else Decimal(price)
        return settle_call(tx, uid, Settlement(state, NOON, 100, 10, 5, usd))


class SpendTests:
    """What is known of money."""

    def test_empty_books_are_zero(self, store: Store) -> None:
        with store.reading() as tx:
            assert spent_in_all(tx) == Spent()
            assert (spent_by_day(tx), spent_by_kind(tx)) == ({}, {})

    def test_a_call_under_way_counts_against_a_limit_and_is_not_spent(self, store: Store) -> None:
        _book(store, "c1")
        with store.reading() as tx:
            spent = spent_on_day(tx, TODAY)
        assert (spent.usd, spent.unsettled, spent.unsettled_usd, spent.at_most_usd) == (
            Decimal(0),
            1,
            ESTIMATE,
            ESTIMATE,
        )

    def test_a_call_is_settled_once(self, store: Store) -> None:
        _book(store, "c1")
        assert _settle(store, "c1", "0.001")
        assert not _settle(store, "c1", "0.001")
        assert not _settle(store, "c1", None, CallState.LOST)
        with store.reading() as tx:
            assert spent_in_all(tx) == Spent(1, 100, 10, Decimal("0.001"))

    def test_a_second_summary_adds_to_the_first(self, store: Store) -> None:
        for uid in ("c1", "c2"):
            _book(store, uid)
            _settle(store, uid, "0.001")
        with store.reading() as tx:
            assert spent_on_item(tx, "exchange", "e1") == Spent(2, 200, 20, Decimal("0.002"))
            assert spent_on_item(tx, "conversation", "e1") == Spent()

    def test_days_and_kinds_are_summed_apart(self, store: Store) -> None:
        for uid, kind, days in (("c1", "exchange", 0), ("c2", "tools", 0), ("c3", "exchange", 1)):
            _book(store, uid, kind=kind, days=days)
            _settle(store, uid, "0.5")
        with store.reading() as tx:
            assert {day: spent.calls for day, spent in spent_by_day(tx).items()} == {TOMORROW: 1, TODAY: 2}
            assert list(spent_by_day(tx, 1)) == [TOMORROW]
            assert {kind: spent.calls for kind, spent in spent_by_kind(tx).items()} == {"exchange": 2, "tools": 1}
            assert {kind: spent.calls for kind, spent in spent_by_kind(tx, TOMORROW).items()} == {"exchange": 1}

    def test_what_was_refused_cost_nothing_and_what_was_lost_may_have(self, store: Store) -> None:
        for uid in ("c1", "c2"):
            _book(store, uid)
        _settle(store, "c1", "0", CallState.FAILED)
        _settle(store, "c2", None, CallState.LOST)
        with store.reading() as tx:
            spent = spent_in_all(tx)
        assert (spent.calls, spent.usd, spent.unsettled, spent.unsettled_usd) == (0, Decimal(0), 1, ESTIMATE)

    def test_a_call_without_a_price_is_counted_as_one(self, store: Store) -> None:
        _book(store, "c1")
        _settle(store, "c1", None)
        with store.reading() as tx:
            spent = spent_in_all(tx)
        assert (spent.calls, spent.unpriced, spent.usd) == (1, 1, Decimal(0))

    def test_small_prices_add_up_exactly(self, store: Store) -> None:
        for number in range(10):
            _book(store, f"c{number}")
            _settle(store, f"c{number}", "0.000000001")
        with store.reading() as tx:
            assert spent_in_all(tx).usd == Decimal("0.00000001")

    def test_days_are_those_of_utc(self, store: Store) -> None:
        assert day_of(datetime.fromisoformat("2026-05-09T01:00:00+03:00")) == TODAY
