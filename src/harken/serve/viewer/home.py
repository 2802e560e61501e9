"""The first page: today, projects, what waits and what failed, what was spent, and what came back last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from harken.serve.viewer.pages import PageMaker, PageRequest, Rendered
from harken.serve.viewer.rendering import first_of_map, heat_map

_SHOWN, _PROJECTS = 5, 12


def home(asked: PageRequest) -> Rendered:
    """Make the first page."""
    today = datetime.now(UTC).astimezone().date()
    status = asked.call("status", projects=True)
    talks = asked.call("conversations", limit=_SHOWN)
    days = {each["day"]: each["questions"] for each in asked.call("days", since=str(first_of_map(today)))["days"]}
    return Rendered(
        "home.html",
        {
            "title": "Home",
            "status": status,
            "projects": [each for each in status["projects"] if each["conversations"]][:_PROJECTS],
            "conversations": talks["conversations"],
            "recalls": asked.call("recalls", limit=_SHOWN)["recalls"],
            "due": len(asked.call("memory_due")["memories"]),
            "failures": asked.call("failures", limit=_SHOWN)["failures"],
            "troubles": [each for each in status["workers"] if each["halted"] or each["retrying"] or each["given_up"]],
            "cells": heat_map(days, today),
            "today": today.isoformat(),
            "yesterday": (today - timedelta(days=1)).isoformat(),
            "asked_today": days.get(today.isoformat(), 0),
        },
    )


PAGES: dict[str, PageMaker] = {"/": home}
MENU = (("Home", "/"),)
