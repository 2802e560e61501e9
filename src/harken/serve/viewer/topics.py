"""What conversations are about: topics and their map; what was decided in each, what is open, what was asked before."""

from __future__ import annotations

from typing import Any

from harken.errors import NotFoundError, UsageError
from harken.serve.operations.operation import view_of
from harken.serve.viewer.pages import Drawn, Gone, PageMaker, PageRequest, Rendered
from harken.text.characters import legible
from harken.text.shown import one_line

_JOB = "topics"
# Of each topic the list names so many conversations; its own page has all.
_SHOWN, _LISTED, _TITLE_CHARS, _OFFSET_DIGITS = 6, 100, 90, 6
# A page of the digest has so many topics, each with its newest conversations.
_DIGESTED, _NEWEST = 10, 20


def topics(asked: PageRequest) -> Rendered:
    """List the topics, the largest first, beside their map."""
    found = asked.call("topics")["topics"]
    named = [each for each in found if each["name"]]
    facts = {
        "title": "Topics",
        "topics": named,
        "loose": sum(len(each["conversations"]) for each in found if not each["name"]),
        "placed": sum(len(each["conversations"]) for each in found),
        "looked_at": max((each["updated_at"] for each in found), default=None),
        "since": asked.jobs.since(_JOB),
        "failure": asked.jobs.failure(_JOB),
        "shown": _SHOWN,
    }
    return Rendered("topics.html", facts)


def drawn(asked: PageRequest) -> Drawn:
    """Give the places of all conversations, each with its topic's number in the list; -1 for none."""
    found = asked.call("topics")["topics"]
    names, points = list[str](), list[list[Any]]()
    for topic in found:
        number = len(names) if topic["name"] else -1
        names += [_shown(topic["name"])] if topic["name"] else []
        points += [
            [each["x"], each["y"], number, each["id"], _shown(each["title"] or "Untitled")]
            for each in topic["conversations"]
        ]
    return Drawn({"topics": names, "points": points})


def _shown(text: str) -> str:
    return legible(one_line(text, _TITLE_CHARS))


def topic(asked: PageRequest) -> Rendered:
    """Show a topic with all its conversations, and let it be called otherwise."""
    uid, offset = asked.places["uid"], _offset(asked)
    found = next((each for each in asked.call("topics")["topics"] if each["id"] == uid and each["name"]), None)
    if found is None:
        raise NotFoundError("There is no such topic any more. They change as conversations come and go.")
    end = offset + _LISTED
    facts = {
        "title": found["name"],
        "topic": found,
        "talks": found["conversations"][offset:end],
        "more": asked.other(offset=end) if len(found["conversations"]) > end else None,
    }
    return Rendered("topic.html", facts)


def _offset(asked: PageRequest) -> int:
    given = asked.query.get("offset", "0")
    if not given.isdecimal() or len(given) > _OFFSET_DIGITS:
        raise UsageError("The offset is a number: follow the links below the list.")
    return int(given)


def refresh(asked: PageRequest) -> Gone:
    """Begin to look for topics anew; the page does not wait."""
    asked.require("topic_rename")
    if not asked.jobs.begin(_JOB):
        return Gone("/topics")
    return Gone("/topics", (_JOB, asked.harken.topics.refresh))


def rename(asked: PageRequest) -> Gone:
    """Call a topic as the form says."""
    renamed = asked.say("topic_rename", id=asked.field("id"), name=asked.field("name"))
    return Gone(f"/topics/{renamed['id']}")


def digest(asked: PageRequest) -> Rendered:
    """Tell what was decided in each topic and what is open; and of a question, when it was asked before."""
    question = asked.query.get("q", "").strip()
    before = view_of(asked.harken.chats.past(question, is_logged=False))["asked_before"] if question else None
    offset = _offset(asked)
    wanted = {**asked.given("since", "project"), "limit": _DIGESTED, "offset": offset, "newest": _NEWEST}
    found = asked.call("digest", **wanted)
    facts = {
        "title": "Decided and open",
        "topics": found["topics"],
        "newest": _NEWEST,
        "more": asked.other(offset=found["next_offset"]) if found["next_offset"] else None,
        "projects": asked.harken.maintenance.projects(),
        "wanted": asked.given("since", "project"),
        "question": question,
        "before": before,
    }
    return Rendered("digest.html", facts)


PAGES: dict[str, PageMaker] = {
    "/topics": topics,
    "/topics/map": drawn,
    "/topics/{uid}": topic,
    "/digest": digest,
    "/do/topics": refresh,
    "/do/rename": rename,
}
MENU = (("Topics", "/topics"), ("Decided and open", "/digest"))
