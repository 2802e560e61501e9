"""Search, with what each hit's score is made of as bars, and what another threshold would have given."""

from __future__ import annotations

import re
from typing import Any

from harken.errors import UsageError
from harken.serve.viewer.pages import PageMaker, PageRequest, Rendered
from harken.serve.viewer.rendering import marked

_LISTED = 20
_SOURCES = (
    ("", "everything said or saved"),
    ("message", "messages"),
    ("memory", "memories"),
    ("experience", "experiences"),
    ("value", "values"),
    ("code", "code"),
    ("commit", "commits"),
    ("document", "documents"),
)
_WORD = re.compile(r"\w{3,}")
_EXCERPT_CHARS = 600


def search(asked: PageRequest) -> Rendered:
    """Search, where something is asked for; else the empty form."""
    query = asked.query.get("q", "").strip()
    facts: dict[str, Any] = {
        "title": "Search",
        "query": query,
        "sources": _SOURCES,
        "wanted": asked.query,
        "found": None,
    }
    if query:
        facts |= _found(asked, query)
    return Rendered("search.html", facts)


def _found(asked: PageRequest, query: str) -> dict[str, Any]:
    source = asked.query.get("source")
    wanted: dict[str, Any] = {
        **asked.given("project", "since", "until", "mode"),
        "query": query,
        "sources": [source] if source else None,
        "limit": _LISTED,
        "offset": asked.query.get("offset", "0"),
        "text_chars": _EXCERPT_CHARS,
    }
    found = asked.call("search", **wanted)
    own, threshold = found["threshold"], _threshold(asked)
    new: set[str] = set()
    is_tried = None not in (threshold, own) and threshold != own
    if is_tried:
        usual = {each["id"] for each in found["hits"]}
        found = asked.call("search", **wanted, threshold=threshold)
        new = {each["id"] for each in found["hits"]} - usual
    terms = _WORD.findall(query)
    return {
        "found": found,
        "own_threshold": own,
        "threshold": threshold if is_tried else own,
        "is_tried": is_tried,
        "new": new,
        "excerpts": {each["id"]: marked(each["text"], terms) for each in found["hits"]},
        "most": max((each["score"] for each in found["hits"]), default=1.0) or 1.0,
        "more": asked.other(offset=found["next_offset"]) if found["next_offset"] else None,
    }


def _threshold(asked: PageRequest) -> float | None:
    given = asked.query.get("threshold", "")
    try:
        return float(given) if given else None
    except ValueError:
        raise UsageError("The threshold is a number from 0 to 1.") from None


PAGES: dict[str, PageMaker] = {"/search": search}
MENU = (("Search", "/search"),)
