"""Memories, experiences, values and rules, to be read and corrected; and forgetting, with a look at what goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from harken.errors import NotFoundError, UsageError
from harken.model.arguments import CATEGORIES
from harken.model.experiences import DOMAINS
from harken.serve.viewer.pages import Gone, PageMaker, PageRequest, Rendered, place_of
from harken.text.characters import printable

_LISTED, _LEARNED, _TAGS = 40, 100, 24
_AGREED = "forget"
_SOON_DAYS = 30
_LISTS = {
    "memory": "/memories",
    "message": "/conversations",
    "conversation": "/conversations",
    "experience": "/experiences",
    "value": "/values",
}


def memories(asked: PageRequest) -> Rendered:
    """List memories, newest first, of a category or with a tag; where it is wanted, those that others replaced."""
    tag, is_all = asked.query.get("tag"), asked.query.get("superseded") == "1"
    wanted = {**asked.given("category", "project"), "tags": [tag] if tag else None, "superseded": is_all or None}
    found = asked.call("memories", **wanted, limit=_LISTED, offset=asked.query.get("offset", "0"))
    return Rendered(
        "memories.html",
        {
            "title": "Memories",
            "memories": found["memories"],
            "categories": CATEGORIES,
            "wanted": {**asked.given("category", "project"), "tag": tag, "superseded": is_all},
            "tags": [each for each in asked.call("tags")["tags"] if each["memories"]][:_TAGS],
            "due": len(asked.call("memory_due")["memories"]),
            "older": asked.other(offset=found["next_offset"]) if found["next_offset"] else None,
        },
    )


def memory(asked: PageRequest) -> Rendered:
    """Show a memory with those that it replaced, and the one that replaced it."""
    found = _saved(asked, "memory", asked.places["uid"])
    chain = [found]
    while (above := chain[0]["superseded_by"]) and above not in {each["id"] for each in chain}:
        chain.insert(0, _saved(asked, "memory", above))
    waiting = list(found["supersedes"])
    while waiting:
        uid = waiting.pop(0)
        if uid in {each["id"] for each in chain}:
            continue
        try:
            chain.append(_saved(asked, "memory", uid))
        except NotFoundError:
            continue
        waiting += chain[-1]["supersedes"]
    is_due = found["id"] in {each["id"] for each in asked.call("memory_due")["memories"]}
    facts = {"title": "A memory", "memory": found, "chain": chain, "categories": CATEGORIES, "is_due": is_due}
    return Rendered("memory.html", facts)


def _saved(asked: PageRequest, kind: str, uid: str) -> dict[str, Any]:
    found: dict[str, Any] | None = asked.call("show", id=uid)[kind]
    if found is None:
        raise NotFoundError(f"{uid} is no {kind}.")
    return found


def edit(asked: PageRequest) -> Gone:
    """Change a memory as its form says."""
    uid = asked.field("id")
    try:
        importance = float(asked.field("importance"))
    except ValueError:
        raise UsageError("The importance is a number from 0 to 1.") from None
    before = _saved(asked, "memory", uid)
    if asked.field("at") not in ("", before["updated_at"]):
        raise UsageError("This memory was changed since its page was opened. Open it anew, and correct what it says.")
    shown = ", ".join(before["tags"])
    typed = _typed(asked, "tags", shown)
    parts = before["tags"] if typed == shown else [part.strip().lstrip("#") for part in typed.split(",")]
    tags = tuple(filter(None, parts))
    asked.command(
        "memory edit",
        id=uid,
        text=_typed(asked, "text", before["content"]),
        category=asked.field("category") or before["category"],
        importance=importance,
        tags=tags,
        no_tags=not tags,
    )
    return Gone(f"/memories/{before['id']}")


def _typed(asked: PageRequest, name: str, was: str) -> str:
    """A field of the form; where nobody has changed what it showed of a text, that text."""
    typed = asked.field(name).replace("\r\n", "\n")
    return was if typed == printable(was).strip() else typed


def due(asked: PageRequest) -> Rendered:
    """List the memories that are to be looked at again, the longest due first; and those that soon will be."""
    now = asked.call("memory_due")["memories"]
    known = {each["id"] for each in now}
    soon = [each for each in asked.call("memory_due", within=_SOON_DAYS)["memories"] if each["id"] not in known]
    return Rendered("due.html", {"title": "Does it still hold?", "now": now, "soon": soon, "days": _SOON_DAYS})


def confirm(asked: PageRequest) -> Gone:
    """Say that a memory still holds."""
    asked.say("memory_confirm", id=asked.field("id"))
    return asked.back


def review(asked: PageRequest) -> Gone:
    """Say when to look at a memory again: on a day, as its category suggests, or never."""
    when = asked.field("when")
    by = asked.field("by") if when == "day" else None
    if when == "day" and not by:
        raise UsageError("Give a day, or say never.")
    asked.say("memory_review", id=asked.field("id"), by=by, never=when == "never")
    return asked.back


def experiences(asked: PageRequest) -> Rendered:
    """List experiences, of all kinds of work or of one."""
    domain = asked.query.get("domain")
    found = asked.call("experiences", domain=domain, limit=_LEARNED)["experiences"]
    facts = {"title": "Experiences", "experiences": found, "domains": DOMAINS, "domain": domain, "most": _LEARNED}
    return Rendered("experiences.html", facts)


def experience(asked: PageRequest) -> Rendered:
    """Show the whole story of an experience."""
    found = _saved(asked, "experience", asked.places["uid"])
    return Rendered("experience.html", {"title": "An experience", "found": found})


def values(asked: PageRequest) -> Rendered:
    """List values with the experiences that they came of, and rules."""
    seat = getattr(asked.harken, "seat", None)
    facts = {
        "title": "Values and rules",
        "me": seat.speaker.principal.name if seat else None,
        "values": asked.call("values", limit=_LEARNED)["values"],
        "rules": asked.call("rules", everything=True)["rules"],
    }
    return Rendered("values.html", facts)


def preview(asked: PageRequest) -> Rendered:
    """Say what would go, before anything does."""
    kind, uid = asked.query.get("kind", "memory"), asked.query.get("id", "")
    found = asked.call("forget", ids=[uid], kind=kind)
    facts = {
        "title": "Forget for good",
        "kind": kind,
        "id": uid,
        "planned": found,
        "text": _text_of(asked, kind, uid),
        "back": place_of(kind, uid, None) or f"/conversations/{uid}",
        "agreed": _AGREED,
    }
    return Rendered("forget.html", facts)


def _text_of(asked: PageRequest, kind: str, uid: str) -> str:
    """The words that would go, or the title of their conversation."""
    if kind == "value":
        return ""
    if kind in ("message", "conversation"):
        found = asked.call("read_conversation", id=uid, limit=1)
        text: str = found["conversation"]["title"] if kind == "conversation" else found["messages"][0]["text"]
        return text
    shown: Mapping[str, Any] = asked.call("show", id=uid)
    return str(shown["memory"]["content"] if shown["memory"] else shown["experience"]["goal"])


def forget(asked: PageRequest) -> Gone:
    """Forget what the form names; the word has to be typed."""
    kind, uid = asked.field("kind"), asked.field("id")
    if asked.field("word").lower() != _AGREED:
        raise UsageError(f"Nothing was forgotten. Type the word {_AGREED} if it is to go for good.")
    asked.call("forget", ids=[uid], kind=kind, confirm=True)
    return Gone(f"/forgotten?{urlencode({'kind': kind})}")


def forgotten(asked: PageRequest) -> Rendered:
    """Say that it is gone."""
    kind = asked.query.get("kind", "memory")
    return Rendered("forgotten.html", {"title": "Forgotten", "list": _LISTS.get(kind, "/")})


PAGES: dict[str, PageMaker] = {
    "/memories": memories,
    "/memories/due": due,
    "/memories/{uid}": memory,
    "/experiences": experiences,
    "/experiences/{uid}": experience,
    "/values": values,
    "/forget": preview,
    "/forgotten": forgotten,
    "/do/edit": edit,
    "/do/confirm": confirm,
    "/do/review": review,
    "/do/forget": forget,
}
MENU = (("Memories", "/memories"), ("Experiences", "/experiences"), ("Values and rules", "/values"))
