"""What came back by itself, why, and what a person says of it; and what memory did, in numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from harken.serve.viewer.pages import Gone, PageMaker, PageRequest, Rendered

_LISTED = 25
# So many weeks are drawn and listed.
_WEEKS = 26
EVENTS = {
    "userpromptsubmit": "with this prompt",
    "sessionstart": "as the session began",
    "posttooluse": "after a check that failed",
    "posttoolusefailure": "after a check that failed",
}


def recalls(asked: PageRequest) -> Rendered:
    """List what came back, newest first, in all conversations or in one."""
    found = asked.call("recalls", **asked.given("conversation", "before"), limit=_LISTED)
    return Rendered(
        "recalls.html",
        {
            "title": "Came back",
            "recalls": found["recalls"],
            "events": EVENTS,
            "conversation": asked.query.get("conversation"),
            "earlier": asked.other(before=found["next_before"]) if found["next_before"] else None,
        },
    )


def rate(asked: PageRequest) -> Gone:
    """Say of what came back how it was, and return to where that was said."""
    fields = {name: asked.field(name) for name in ("id", "verdict", "conversation")}
    asked.say("rate", **fields)
    return asked.back


def statistics(asked: PageRequest) -> Rendered:
    """Show what memory did: how often it answered, of what use that was, how long hooks took."""
    stats = asked.call("stats")
    weeks = [each for each in stats["weeks"] if _monday(each["name"])][-_WEEKS:]
    hooks = [each for each in stats["hooks"] if _monday(each["week"])]
    charts = {
        "prompts": _chart(weeks, {"prompts": "prompts", "given something": "recalls"}),
        "tokens": _chart(weeks, {"tokens": "recall_tokens"}),
    }
    facts = {"title": "What memory did", "stats": stats, "weeks": weeks, "hooks": hooks, "charts": charts}
    return Rendered("statistics.html", {**facts, "hooks_chart": _hooks_chart(hooks)})


def _monday(week: str) -> int:
    """The first moment of a week, `2026-W48`, by the clock that charts go by, in seconds; 0 of what is none."""
    try:
        year, number = week.split("-W")
        day = date.fromisocalendar(int(year), int(number), 1)
    except ValueError:
        return 0
    return int(datetime(day.year, day.month, day.day).astimezone().timestamp())


def _chart(weeks: Sequence[Mapping[str, Any]], named: Mapping[str, str]) -> str:
    series = [{"name": label, "values": [each[key] for each in weeks]} for label, key in named.items()]
    return json.dumps({"x": [_monday(each["name"]) for each in weeks], "series": series})


def _hooks_chart(hooks: Sequence[Mapping[str, Any]]) -> str:
    """The half and the 95 percent of the agent whose hooks were asked most, by week."""
    counts: dict[str, int] = {}
    for each in hooks:
        counts[each["agent"]] = counts.get(each["agent"], 0) + each["count"]
    busiest = max(counts, key=lambda agent: counts[agent], default="")
    mine = sorted((each for each in hooks if each["agent"] == busiest), key=lambda each: str(each["week"]))[-_WEEKS:]
    series = [
        {"name": label, "values": [each[key] for each in mine]}
        for label, key in (("half within, ms", "p50_ms"), ("95 % within, ms", "p95_ms"))
    ]
    return json.dumps({"x": [_monday(each["week"]) for each in mine], "series": series, "lines": True})


PAGES: dict[str, PageMaker] = {"/recalls": recalls, "/statistics": statistics, "/do/rate": rate}
MENU = (("Came back", "/recalls"), ("What memory did", "/statistics"))
