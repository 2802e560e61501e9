"""Buckets of requests: full at first, empty after as many as they hold, filled again within a minute."""

from __future__ import annotations

from harken.serve.http.rates import Rates


def test_an_empty_bucket_says_when_the_next_token_is_there() -> None:
    now = [100.0]
    rates = Rates(30, clock=lambda: now[0])
    assert [rates.take("a").wait_seconds for _ in range(30)] == [0.0] * 30
    assert rates.take("a").wait_seconds == 2.0
    now[0] += 1.5
    assert rates.take("a").wait_seconds == 0.5
    now[0] += 0.5
    assert rates.take("a").wait_seconds == 0.0
    assert rates.take("a").wait_seconds == 2.0


def test_each_name_has_a_bucket_of_its_own_and_none_holds_more_than_it_may() -> None:
    now = [0.0]
    rates = Rates(2, clock=lambda: now[0])
    assert [rates.take(name).wait_seconds > 0 for name in "aaabb"] == [False, False, True, False, False]
    now[0] += 3600
    assert rates.take("a").headers == {"ratelimit-limit": "2", "ratelimit-remaining": "1", "ratelimit-reset": "30"}


def test_none_has_no_limit() -> None:
    rates = Rates(0)
    assert all(rates.take("a").wait_seconds == 0 for _ in range(1000))
    assert rates.take("a").headers == {}
