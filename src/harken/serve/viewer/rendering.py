"""Templates: every text is made legible and escaped, whoever wrote it; moments and counts as people read them."""

from __future__ import annotations

import re
from calendar import month_abbr
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from harken.model.provenance import Provenance
from harken.serve.viewer.pages import place_of
from harken.text.characters import legible, printable
from harken.text.decisions import outcome
from harken.text.shown import counted, one_line, readable_age, readable_bytes, short_key

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[^\n`]*$")
_CODE = re.compile(r"`([^`\n]+)`")
_WEEKS, _LEVELS = 53, 4
_MOST_CHARS = 12_000


def make_environment(prefix: str, menu: Sequence[tuple[str, str]]) -> Environment:
    """Make the environment of all templates: addresses begin with the prefix, and the menu names some of them."""
    made = Environment(
        loader=PackageLoader("harken.serve.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # Addresses of ours alone: what stands in a memory is never one.
    made.globals |= {
        "months": month_abbr[1:],
        "at": lambda path: prefix + path,
        "menu": menu,
        "place": place_of,
        "sign_out": "",
    }
    made.filters |= {
        "said": said,
        # What comes back from a form is saved: joiners that words are spelt with stay.
        "typed": lambda text: escape(printable(text)),
        "moment": moment,
        "clock": lambda text: f"{_local(text):%H:%M}",
        "day": lambda text: f"{_local(text):%A, %-d %B %Y}",
        "date": lambda text: f"{_local(text):%-d %B %Y}",
        "counted": counted,
        "size": readable_bytes,
        "line": one_line,
        "outcome": outcome,
        "short": short_key,
        "provenance": lambda origin: Provenance.of(origin).label,
        "dollars": lambda value: f"${value:,.2f}" if not value or value >= 0.01 else f"${value:,.4f}",
        "percent": lambda value: f"{min(1.0, max(0.0, value)) * 100:.1f}",
    }
    return made


def _finalized(value: Any) -> Any:
    """What is printed, before it is escaped: no text turns, hides or commands anything, wherever it came from."""
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _local(text: str | datetime) -> datetime:
    return (datetime.fromisoformat(text) if isinstance(text, str) else text).astimezone()


def moment(text: str | datetime) -> Markup:
    """When something was, as people say it, with the whole moment beside it."""
    at = _local(text)
    exact = f"{at:%Y-%m-%d %H:%M:%S}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), exact, readable_age(at))


def said(text: str, most: int = _MOST_CHARS) -> Markup:
    """A text as it was written: its blocks of code in frames, all else as words; nothing of it a link or a tag."""
    shown = legible(text[:most])
    made = Markup("").join(
        Markup("<pre><code>{}</code></pre>").format(words) if is_code else _paragraph(words)
        for is_code, words in _blocks(shown)
    )
    left = len(text) - most
    return made + Markup('<p class="more">… {} more characters</p>').format(f"{left:,}") if left > 0 else made


def _paragraph(words: str) -> Markup:
    """Words, with what stands between backticks as code."""
    parts = (
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(_CODE.split(words))
    )
    return Markup('<p class="words">{}</p>').format(Markup("").join(parts))


def _blocks(text: str) -> Iterator[tuple[bool, str]]:
    """(whether it is code, its words) of each part of a text, without fences."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found and (not fence or (found[1].startswith(fence) and line.strip() == found[1])):
            if any(map(str.strip, lines)):
                yield bool(fence), "\n".join(lines).strip("\n")
            lines, fence = [], "" if fence else found[1]
        else:
            lines.append(line)
    if any(map(str.strip, lines)):
        yield bool(fence), "\n".join(lines).strip("\n")


def marked(text: str, terms: Sequence[str]) -> Markup:
    """A text on one line with words marked that begin like one of the terms."""
    flat = legible(one_line(text))
    stems = sorted({re.escape(term[:-2] if len(term) > 5 else term) for term in terms if term}, key=len, reverse=True)
    if not stems:
        return escape(flat)
    pieces = re.split(rf"((?i:\b(?:{'|'.join(stems)})\w*))", flat)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if at % 2 else piece for at, piece in enumerate(pieces)
    )


def first_of_map(last: date) -> date:
    """The first day of a map that ends with a day: a Monday, a year before it."""
    return last - timedelta(days=last.weekday() + 7 * (_WEEKS - 1))


def heat_map(counts: dict[str, int], last: date) -> list[dict[str, Any]]:
    """A cell for each day of the last year: its week and weekday, its count, and how warm it is, 0 to 4."""
    first = first_of_map(last)
    most = max(counts.values(), default=0)
    cells = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        count = counts.get(day.isoformat(), 0)
        warmth = 0 if not count else min(_LEVELS, 1 + int(_LEVELS * (count / (most + 1)) ** 0.5))
        cells.append(
            {"day": day.isoformat(), "week": number // 7, "weekday": number % 7, "count": count, "warmth": warmth}
        )
    return cells
