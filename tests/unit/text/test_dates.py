from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from dateparser.languages.loader import LocaleDataLoader
from dateparser.languages.locale import Locale
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import UsageError
from harken.text.dates import parse_since, parse_until

# A Wednesday in summer.
NOW = datetime(2026, 7, 15, 10, 30, tzinfo=UTC)
ALL_DAY = timedelta(days=1)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's clock runs on UTC, unless a test says otherwise."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class TestSpans:
    @pytest.mark.parametrize(
        ("text", "since", "until"),
        [
            ("2026-05-08", utc(2026, 5, 8), utc(2026, 5, 9)),
            ("20260508", utc(2026, 5, 8), utc(2026, 5, 9)),
            (" 2026-05-08 ", utc(2026, 5, 8), utc(2026, 5, 9)),
            ("2026-05-08T10:30", utc(2026, 5, 8, 10, 30), utc(2026, 5, 8, 10, 30)),
            ("2026-05-08T10:30:00+02:00", utc(2026, 5, 8, 8, 30), utc(2026, 5, 8, 8, 30)),
            ("2026-W10", utc(2026, 3, 2), utc(2026, 3, 9)),
            ("2026W10", utc(2026, 3, 2), utc(2026, 3, 9)),
            ("2026-W10-3", utc(2026, 3, 4), utc(2026, 3, 5)),
            ("today", utc(2026, 7, 15), utc(2026, 7, 16)),
            ("yesterday", utc(2026, 7, 14), utc(2026, 7, 15)),
            ("two weeks ago", utc(2026, 7, 1), utc(2026, 7, 2)),
            ("this week", utc(2026, 7, 13), utc(2026, 7, 20)),
            ("Last week", utc(2026, 7, 6), utc(2026, 7, 13)),
            ("letzte Woche", utc(2026, 7, 6), utc(2026, 7, 13)),
            ("上周", utc(2026, 7, 6), utc(2026, 7, 13)),
            ("last month", utc(2026, 6, 1), utc(2026, 7, 1)),
            ("a month ago", utc(2026, 6, 15), utc(2026, 6, 16)),
            ("2 Years Ago", utc(2024, 7, 15), utc(2024, 7, 16)),
            ("vor einem Monat", utc(2026, 6, 15), utc(2026, 6, 16)),
            ("hace un mes", utc(2026, 6, 15), utc(2026, 6, 16)),
            ("2 года назад", utc(2024, 7, 15), utc(2024, 7, 16)),
            ("letzten Monat", utc(2026, 6, 1), utc(2026, 7, 1)),
            ("agosto 2025", utc(2025, 8, 1), utc(2025, 9, 1)),
            ("Q1 2026", utc(2026, 1, 1), utc(2026, 4, 1)),
            ("last quarter", utc(2026, 4, 1), utc(2026, 7, 1)),
            ("This quarter", utc(2026, 7, 1), utc(2026, 10, 1)),
            ("letztes Quartal", utc(2026, 4, 1), utc(2026, 7, 1)),
            ("в прошлом квартале", utc(2026, 4, 1), utc(2026, 7, 1)),
            ("3 hours ago", utc(2026, 7, 15, 7, 30), utc(2026, 7, 15, 7, 30)),
            ("May 2023", utc(2023, 5, 1), utc(2023, 6, 1)),
            ("February 2024", utc(2024, 2, 1), utc(2024, 3, 1)),
            ("8 May 2023", utc(2023, 5, 8), utc(2023, 5, 9)),
            ("2024", utc(2024, 1, 1), utc(2025, 1, 1)),
            ("март 2023", utc(2023, 3, 1), utc(2023, 4, 1)),
            ("gestern", utc(2026, 7, 14), utc(2026, 7, 15)),
            ("fevrier 2024", utc(2024, 2, 1), utc(2024, 3, 1)),
            ("15 marca 2024", utc(2024, 3, 15), utc(2024, 3, 16)),
            ("okt 10:30 CHADT", utc(2025, 10, 14, 20, 45), utc(2025, 10, 14, 20, 45)),
            ("yesterday at 5pm", utc(2026, 7, 14, 17), utc(2026, 7, 14, 17)),
            ("vor einer Stunde", utc(2026, 7, 15, 9, 30), utc(2026, 7, 15, 9, 30)),
            ("03.04.2026", utc(2026, 4, 3), utc(2026, 4, 4)),
            ("last 7 days", utc(2026, 7, 8), utc(2026, 7, 9)),
            ("letzten Freitag", utc(2026, 7, 10), utc(2026, 7, 11)),
            ("am Montag", utc(2026, 7, 13), utc(2026, 7, 14)),
            ("hace tres días", utc(2026, 7, 12), utc(2026, 7, 13)),
            ("el viernes pasado", utc(2026, 7, 10), utc(2026, 7, 11)),
            ("vendredi dernier", utc(2026, 7, 10), utc(2026, 7, 11)),
            ("due settimane fa", utc(2026, 7, 1), utc(2026, 7, 2)),
            ("la settimana scorsa", utc(2026, 7, 6), utc(2026, 7, 13)),
            ("l'anno scorso", utc(2025, 1, 1), utc(2026, 1, 1)),
            ("há duas semanas", utc(2026, 7, 1), utc(2026, 7, 2)),
            ("semana passada", utc(2026, 7, 6), utc(2026, 7, 13)),
            ("10 dez de 2025", utc(2025, 12, 10), utc(2025, 12, 11)),
            ("в прошлую пятницу", utc(2026, 7, 10), utc(2026, 7, 11)),
            ("в октябре", utc(2025, 10, 1), utc(2025, 11, 1)),
            ("прошлая неделя", utc(2026, 7, 6), utc(2026, 7, 13)),
            ("两周前", utc(2026, 7, 1), utc(2026, 7, 2)),
            ("十天前", utc(2026, 7, 5), utc(2026, 7, 6)),
            ("两个星期前", utc(2026, 7, 1), utc(2026, 7, 2)),
            ("这周", utc(2026, 7, 13), utc(2026, 7, 20)),
            ("上周一", utc(2026, 7, 6), utc(2026, 7, 7)),
            ("上周五", utc(2026, 7, 10), utc(2026, 7, 11)),
            ("a few days ago", utc(2026, 7, 12), utc(2026, 7, 13)),
            ("a couple of weeks ago", utc(2026, 7, 1), utc(2026, 7, 2)),
            ("last few days", utc(2026, 7, 12), utc(2026, 7, 13)),
            ("vor ein paar Tagen", utc(2026, 7, 12), utc(2026, 7, 13)),
            ("几天前", utc(2026, 7, 12), utc(2026, 7, 13)),
        ],
    )
    def test_what_is_named_begins_and_ends_here(self, text: str, since: datetime, until: datetime) -> None:
        assert (parse_since(text, NOW), parse_until(text, NOW)) == (since, until)

    @pytest.mark.parametrize(
        ("text", "since"),
        [
            ("in a year", utc(2027, 7, 15)),
            ("in 3 months", utc(2026, 10, 15)),
            ("in 3 Monaten", utc(2026, 10, 15)),
            ("next quarter", utc(2026, 10, 1)),
            ("in March 2027", utc(2027, 3, 1)),
            ("en 2 meses", utc(2026, 9, 15)),
            ("fra due settimane", utc(2026, 7, 29)),
            ("nächste Woche", utc(2026, 7, 20)),
            ("nächsten Freitag", utc(2026, 7, 17)),
            ("2个月后", utc(2026, 9, 15)),
            ("下周五", utc(2026, 7, 24)),
            ("下周一", utc(2026, 7, 20)),
        ],
    )
    def test_what_is_counted_from_today_is_a_day(self, text: str, since: datetime) -> None:
        assert parse_since(text, NOW, "future") == since

    @given(st.dates(min_value=datetime(1900, 1, 1).date(), max_value=datetime(2200, 1, 1).date()))
    def test_a_day_lasts_a_day(self, day: object) -> None:
        assert parse_until(str(day), NOW) - parse_since(str(day), NOW) == ALL_DAY

    @pytest.mark.parametrize(
        "text",
        ["", "someday", "2026-02-30", "2026-13-01", "9999-12-31", "🦓", "December 9999", "1 January 0001",
         "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "in 7973 years", "a\0b", "\ud83d",
         "2 weeks ago " * 20_000, "7", "30", "-3", "100"],
    )  # fmt: skip
    def test_what_is_no_date_is_refused_with_an_example(self, text: str) -> None:
        with pytest.raises(UsageError, match="is not a"):
            parse_until(text, NOW)

    @pytest.mark.parametrize(
        "text", ["someday", "whenever it suits", "--output=owned", "quay' OR '1'='1'; DROP TABLE messages"]
    )
    def test_what_has_no_word_of_a_date_is_not_looked_for_in_two_hundred_languages(
        self, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: dict[str, Locale] = {}
        monkeypatch.setattr(LocaleDataLoader, "_loaded_locales", made)
        with pytest.raises(UsageError, match="is not a date"):
            parse_since(text, NOW)
        assert 1 <= len(made) <= 3


class TestOtherClocks:
    """Days are those of this machine's clock, with summer time where there is one."""

    @pytest.fixture(autouse=True)
    def berlin(self, zone: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        if time.tzname[0] != "CET":
            pytest.skip("this machine has no time zone data")

    def test_a_day_in_winter_is_counted_in_winter_time(self) -> None:
        assert parse_since("2026-01-15", NOW) == utc(2026, 1, 14, 23)
        assert parse_since("2026-07-01", NOW) == utc(2026, 6, 30, 22)

    def test_the_day_on_which_summer_begins_has_23_hours(self) -> None:
        assert parse_until("2026-03-29", NOW) - parse_since("2026-03-29", NOW) == timedelta(hours=23)

    def test_today_is_what_the_clock_on_the_wall_says(self) -> None:
        late = utc(2026, 7, 15, 22, 30)
        assert parse_since("today", late) == utc(2026, 7, 15, 22)
        assert os.environ["TZ"] == "Europe/Berlin"
