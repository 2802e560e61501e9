"""Conversations by day, project, agent and tag; one as it was said, with what came back in its margin, and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from harken.serve.viewer.pages import Gone, PageMaker, PageRequest, Rendered
from harken.serve.viewer.recalls import EVENTS
from harken.serve.viewer.rendering import first_of_map, heat_map

_LISTED, _READ = 40, 40
# A hook is asked a moment after, or before, the prompt is written into the transcript.
_CLOCKS_DIFFER = timedelta(seconds=5)
_TOOLS = ("tool_call", "tool_result")
_ALL = 2_000_000
_TAGS = 24


def listing(asked: PageRequest) -> Rendered:
    """List conversations, the newest first, of a day, a project or an agent, or with a tag."""
    day, tag = asked.query.get("day"), asked.query.get("tag")
    wanted: dict[str, Any] = {**asked.given("project", "agent", "since", "until"), "tags": [tag] if tag else None}
    wanted |= {"since": day, "until": day} if day else {}
    found = asked.call("conversations", **wanted, offset=asked.query.get("offset", "0"), limit=_LISTED)
    talks = found["conversations"]
    today = datetime.now(UTC).astimezone().date()
    days = {each["day"]: each["questions"] for each in asked.call("days", since=str(first_of_map(today)))["days"]}
    return Rendered(
        "conversations.html",
        {
            "title": "Conversations",
            "groups": [(name, list(group)) for name, group in groupby(talks, key=_day_of)],
            "total": found["total"],
            "projects": asked.harken.maintenance.projects(),
            "wanted": {**asked.given("project", "agent", "since", "until"), "day": day, "tag": tag},
            "tags": [each for each in asked.call("tags")["tags"] if each["conversations"]][:_TAGS],
            "older": asked.other(offset=found["next_offset"]) if found["next_offset"] else None,
            "cells": heat_map(days, today),
            "other": asked.other,
        },
    )


def _day_of(talk: Mapping[str, Any]) -> str:
    return f"{datetime.fromisoformat(talk['updated_at']).astimezone():%Y-%m-%d}"


def conversation(asked: PageRequest) -> Rendered:
    """Show a conversation as it was said, a page of it."""
    uid = asked.places["uid"]
    found = asked.call("read_conversation", id=uid, offset=asked.query.get("offset"), limit=_READ)
    recalls = _by_prompt(found)
    offset, whole = found["offset"], found["conversation"]["id"]
    # What stands in another space than the reader's own is read here, and changed where that space is named.
    is_own = found["conversation"]["origin"] is None
    return Rendered(
        "conversation.html",
        {
            "title": found["conversation"]["title"] or "Untitled",
            "found": found,
            "rows": list(_rows(found["messages"])),
            "recalls": recalls,
            "events": EVENTS,
            "marked": uid,
            "label": asked.harken.labels.show(whole).view() if is_own else None,
            "suggested": asked.command("tag suggest", on=whole)["suggested"] if is_own else (),
            "projects": asked.harken.maintenance.projects(),
            "earlier": asked.other(offset=max(0, offset - _READ)) if offset else None,
            "later": asked.other(offset=found["next_offset"]) if found["next_offset"] else None,
        },
    )


def _rows(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Messages in their order; those of tools that follow each other together, and a mark where a segment begins."""
    segment = messages[0]["segment_id"] if messages else ""
    for is_tools, group in groupby(messages, key=lambda each: each["type"] in _TOOLS):
        found = list(group)
        if is_tools:
            names = [each["tool_name"] or "tool" for each in found if each["type"] == "tool_call"]
            yield {"kind": "tools", "messages": found, "names": list(dict.fromkeys(names)), "calls": len(names)}
            continue
        for message in found:
            if message["segment_id"] != segment:
                yield {"kind": "segment", "at": message["created_at"]}
            segment = message["segment_id"]
            yield {"kind": "message", "message": message}


def _by_prompt(found: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """What came back, by the message of this page in whose margin it stands: the prompt that it came with."""
    messages = found["messages"]
    prompts = [each for each in messages if each["role"] == "user" and each["type"] == "text"]
    if not messages:
        return {}
    begin, end = (datetime.fromisoformat(messages[at]["created_at"]) for at in (0, -1))
    placed: dict[str, list[Mapping[str, Any]]] = {}
    for recall in reversed(found["recalls"]):
        at = datetime.fromisoformat(recall["at"])
        if (at < begin - _CLOCKS_DIFFER and found["offset"]) or (at > end + _CLOCKS_DIFFER and found["next_offset"]):
            # Of a page before or behind this one.
            continue
        earlier = [each for each in prompts if datetime.fromisoformat(each["created_at"]) <= at + _CLOCKS_DIFFER]
        place = earlier[-1] if earlier else (prompts or messages)[0]
        placed.setdefault(place["id"], []).append(recall)
    return placed


def message(asked: PageRequest) -> Rendered:
    """Show one message, all of it."""
    found = asked.call("read_conversation", id=asked.places["uid"], limit=1)
    return Rendered(
        "message.html", {"title": "A message", "found": found, "message": found["messages"][0], "all": _ALL}
    )


def tag(asked: PageRequest) -> Gone:
    """Give a conversation a tag that was typed or suggested, or take one from it."""
    typed, suggested, gone = asked.field("add").lstrip("#"), asked.field("suggested"), asked.field("remove")
    # What stands on a button comes encoded, since what is printed is made legible.
    new = [typed] if typed else [unquote(suggested)] if suggested else []
    asked.say("tag", id=asked.field("id"), add=new, remove=[unquote(gone)] if gone else [])
    return asked.back


def entitle(asked: PageRequest) -> Gone:
    """Correct a conversation's title; empty takes that back."""
    asked.say("conversation_title", on=asked.field("id"), title=asked.field("title"))
    return asked.back


def move(asked: PageRequest) -> Gone:
    """Correct a conversation's project; empty takes that back."""
    asked.say("conversation_project", on=asked.field("id"), project=asked.field("project"))
    return asked.back


PAGES: dict[str, PageMaker] = {
    "/conversations": listing,
    "/conversations/{uid}": conversation,
    "/messages/{uid}": message,
    "/do/tag": tag,
    "/do/title": entitle,
    "/do/project": move,
}
MENU = (("Conversations", "/conversations"),)
