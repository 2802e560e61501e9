from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from harken.text.shown import readable_age


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=5), "just now"),
        (-timedelta(hours=2), "just now"),
        (timedelta(hours=1, minutes=1), "1 hour ago"),
        (timedelta(days=3, minutes=1), "3 days ago"),
    ],
)
def test_an_age_is_told_in_words(ago: timedelta, words: str) -> None:
    assert readable_age(datetime.now(UTC) - ago) == words


def test_what_is_long_ago_or_dated_into_the_future_is_told_by_its_date() -> None:
    for years in (-3, 3):
        moment = datetime.now(UTC) + timedelta(days=365 * years)
        assert readable_age(moment) == moment.astimezone().strftime("%Y-%m-%d %H:%M")
