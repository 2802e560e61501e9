"""What was indexed; what was spent and what workers do; whether all agrees, and the settings."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import groupby
from typing import Any

from harken.serve.viewer.pages import PageMaker, PageRequest, Rendered


def indexed(asked: PageRequest) -> Rendered:
    """Say of which projects code, documents and history can be searched."""
    found = asked.call("indexed")["indexed"]
    groups = [
        (key, {each["source"]: each["parts"] for each in group})
        for key, group in groupby(found, key=lambda each: each["project"])
    ]
    return Rendered("indexed.html", {"title": "Code and documents", "groups": groups})


def spend(asked: PageRequest) -> Rendered:
    """Show what was said, recalled and spent by month, agent and project; and the workers."""
    stats, status = asked.call("stats"), asked.call("status")
    months = [each for each in stats["months"] if each["name"][:1].isdigit()]
    moments = [int(datetime.strptime(each["name"], "%Y-%m").astimezone().timestamp()) for each in months]
    chart: dict[str, Any] = {
        name: json.dumps({"x": moments, "series": [{"name": label, "values": [each[key] for each in months]}]})
        for name, label, key in (("messages", "messages", "messages"), ("recalls", "recalled tokens", "recall_tokens"))
    }
    facts = {"title": "Spend and jobs", "stats": stats, "status": status, "chart": chart, "months": months}
    return Rendered("spend.html", {**facts, "failures": asked.call("failures", limit=50)["failures"]})


def health(asked: PageRequest) -> Rendered:
    """Show the settings, and how the store stands; the doctor looks where it is asked to."""
    return Rendered("health.html", _health(asked, None))


def examine(asked: PageRequest) -> Rendered:
    """Have the doctor look at everything; it changes nothing."""
    found = [{"check": each.check, "problem": each.problem} for each in asked.harken.maintenance.doctor()]
    return Rendered("health.html", _health(asked, found))


def _health(asked: PageRequest, findings: list[dict[str, str]] | None) -> dict[str, Any]:
    values = [value.view() for value in asked.harken.loaded.values()]
    return {
        "title": "Health and settings",
        "status": asked.call("status"),
        "findings": findings,
        "settings": [(name, list(group)) for name, group in groupby(values, key=lambda each: _section(each["key"]))],
    }


def _section(key: str) -> str:
    return key.partition(".")[0] if "." in key else "general"


PAGES: dict[str, PageMaker] = {"/indexed": indexed, "/spend": spend, "/health": health, "/do/examine": examine}
MENU = (("Code and documents", "/indexed"), ("Spend and jobs", "/spend"), ("Health and settings", "/health"))
