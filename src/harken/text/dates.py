"""Dates as people give them: `2026-05-08`, `yesterday`, `two weeks ago`, `May 2023`."""

from __future__ import annotations

import calendar
import re
import unicodedata
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module, resources

from harken.errors import UsageError

_DAY, _ISO_WEEK = re.compile(r"\d{4}-\d{2}-\d{2}"), re.compile(r"\d{4}-?W\d{2}")
# Nobody writes a longer date; trying 200,000 characters in all languages takes 15 seconds.
_LONGEST = 100
# None is an abbreviation of a time zone, which each language takes: those of four or five letters end in `t` or `z`.
_LONG_WORD = re.compile("[a-z]{6,}|[a-z]{3,4}[a-su-y](?![a-z])")
# "Last week" is one, where "2 weeks ago" is a day; so is "in a year".
_WEEK = re.compile(
    r"\b(?:last|this|next|letzte|diese|nächste|derni|cette|prochain|pass?ad|esta|pr[oó][sx]|scors|quest|прошл|эт[ао]|следую)"
    "|[上本这下先今来]"
)
_COUNTED = re.compile(
    r"\bago\b|\b(?:in|e[nm]|tra) \D*\d{,3} (?:mon|qu|ye|jah|m[eê]s|an|añ)|^(?:vor|hace|il y a|dans|há|через)\b"
    "|(?:назад|fa|atrás|[前后後])$"
)
_QUARTER = re.compile("quart[ae]|кварт", re.IGNORECASE)
_DOTTED = re.compile(r"\d\d?\.\d\d?\.")
# A month, a day or a year, as chance has it; who writes `7` means days.
_NUMBER = re.compile(r"\W*\d{1,3}\W*")
# In Chinese one of the days of last week, or of next, where others mean the latest that is over, or the first to come.
_OF_ANOTHER_WEEK = re.compile("[上下]个?(?:周|星期|礼拜)[一-龥]$")


def parse_since(text: str, now: datetime, prefer: str = "past") -> datetime:
    """Return the first moment of what is named, timezone-aware; `friday` is the last one, or the next in the `future`.

    Raises:
        UsageError: it is no date.
    """
    return _span(text, now, prefer)[0]


def since_of(text: str | None) -> datetime | None:
    """Return the first moment of what is named, as seen from now; None where nothing is.

    Raises:
        UsageError: it is no date.
    """
    return parse_since(text, datetime.now(UTC)) if text else None


def parse_until(text: str, now: datetime) -> datetime:
    """Return the first moment after what is named: `2026-05-08` reaches to the end of that day.

    Raises:
        UsageError: it is no date.
    """
    return _span(text, now)[1]


def _span(text: str, now: datetime, prefer: str = "past") -> tuple[datetime, datetime]:
    """Return the first moment of what is named and the first after it, in UTC; days are of this machine's clock."""
    text = text.strip()
    try:
        return _day_or_moment(text) or _spoken_span(text, now, prefer)
    except (ValueError, OverflowError) as error:
        # The calendar ends with the year 9999, and its first and last days in another time zone already lie beyond.
        raise UsageError(f"'{text}' is not a day of the calendar, or at the end of time. Write 2026-05-08.") from error


def _day_or_moment(text: str) -> tuple[datetime, datetime] | None:
    """Return the span that ISO 8601 names; None where it is written otherwise."""
    try:
        day = datetime.combine(date.fromisoformat(text), time())
    except ValueError:
        if _DAY.fullmatch(text):
            raise
    else:
        return day.astimezone(UTC), (day + timedelta(days=7 if _ISO_WEEK.fullmatch(text) else 1)).astimezone(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC), moment.astimezone(UTC)


def _spoken_span(text: str, now: datetime, prefer: str) -> tuple[datetime, datetime]:
    # Imported late: it costs a quarter of a second, and most searches name no date.
    from dateparser.date import DateDataParser

    settings = {"RELATIVE_BASE": now.astimezone().replace(tzinfo=None), "PREFER_DATES_FROM": prefer}
    # With dots the day stands first, in English as well.
    settings |= {"RETURN_TIME_AS_PERIOD": True} | ({"DATE_ORDER": "DMY"} if _DOTTED.match(text) else {})
    is_read = len(text) <= _LONGEST and not _NUMBER.fullmatch(text)
    found = DateDataParser(["en"], settings=settings).get_date_data(text) if is_read else None
    # Making its patterns of all 205 languages takes 2.5 s.
    if found is not None and found.date_obj is None and (languages := _languages_of(text)):
        parser = DateDataParser(list(dict.fromkeys((*languages, "en"))), settings=settings)
        found = parser.get_date_data(text)
        found = found if found.date_obj else parser.get_date_data(_known(text, prefer))
    if found is None or found.date_obj is None:
        raise UsageError(f"'{text}' is not a date. Write 2026-05-08, yesterday, '2 weeks ago' or 'May 2023'.")
    if found.period == "time":
        return found.date_obj.astimezone(UTC), found.date_obj.astimezone(UTC)
    begin = found.date_obj.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if _OF_ANOTHER_WEEK.match(text) and begin.isocalendar()[:2] == now.astimezone().isocalendar()[:2]:
        begin += timedelta(days=7 if text[0] == "下" else -7)
    days, period = 1, "quarter" if found.period == "month" and _QUARTER.search(text) else found.period
    if period == "week" and _WEEK.search(text.lower()):
        begin, days = begin - timedelta(days=begin.weekday()), 7
    elif (months := {"month": 1, "quarter": 3, "year": 12}.get(period)) and not _COUNTED.search(text.lower()):
        begin = begin.replace(month=(begin.month - 1) // months * months + 1, day=1)
        days = sum(calendar.monthrange(begin.year, begin.month + more)[1] for more in range(months))
    return begin.astimezone(UTC), (begin + timedelta(days=days)).astimezone(UTC)


def _known(text: str, prefer: str) -> str:
    """Return it in words that dateparser knows: `hace 3 días` of `hace tres días`, `Freitag` of `letzten Freitag`."""
    for line in resources.files(__package__).joinpath("data/dates.txt").read_text("utf-8").splitlines():
        when, pattern, known = line.split("\t")
        text = re.sub(pattern, known, text, flags=re.IGNORECASE) if when in ("any", prefer) else text
    return text


def _languages_of(text: str) -> list[str]:
    """Return the languages whose dates have the beginning of a long ASCII word of this text; all where it has none."""
    from dateparser.data.languages_info import language_order

    beginnings = {word[:4].encode() for word in _LONG_WORD.findall(text.lower())}
    if not beginnings or not text.isascii():
        return list(language_order)
    data = {name: str(import_module(f"dateparser.data.date_translation_data.{name}").info) for name in language_order}
    plain = {name: unicodedata.normalize("NFKD", each).encode("ascii", "ignore").lower() for name, each in data.items()}
    return [name for name, words in plain.items() if any(beginning in words for beginning in beginnings)]
