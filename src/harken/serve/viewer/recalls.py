"""What came back by itself: each moment, its texts, why each came, and in which conversation."""

from __future__ import annotations

from harken.serve.viewer.pages import PageMaker, PageRequest, Rendered

_LISTED = 25
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


PAGES: dict[str, PageMaker] = {"/recalls": recalls}
MENU = (("Came back", "/recalls"),)
