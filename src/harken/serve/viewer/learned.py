"""What was tried and how it went; the principles that came of it; the rules that a person has stated."""

from __future__ import annotations

from harken.errors import NotFoundError
from harken.model.experiences import DOMAINS
from harken.serve.viewer.pages import PageMaker, PageRequest, Rendered

_LISTED = 100


def experiences(asked: PageRequest) -> Rendered:
    """List experiences, of all kinds of work or of one."""
    domain = asked.query.get("domain")
    found = asked.call("experiences", domain=domain, limit=_LISTED)["experiences"]
    facts = {"title": "Experiences", "experiences": found, "domains": DOMAINS, "domain": domain, "most": _LISTED}
    return Rendered("experiences.html", facts)


def experience(asked: PageRequest) -> Rendered:
    """Show the whole story of an experience."""
    uid = asked.places["uid"]
    found = asked.call("show", id=uid)["experience"]
    if found is None:
        raise NotFoundError(f"{uid} is no experience.")
    return Rendered("experience.html", {"title": "An experience", "found": found})


def values(asked: PageRequest) -> Rendered:
    """List values with the experiences that they came of, and rules."""
    facts = {
        "title": "Values and rules",
        "values": asked.call("values", limit=_LISTED)["values"],
        "rules": asked.call("rules", everything=True)["rules"],
    }
    return Rendered("values.html", facts)


PAGES: dict[str, PageMaker] = {"/experiences": experiences, "/experiences/{uid}": experience, "/values": values}
MENU = (("Experiences", "/experiences"), ("Values and rules", "/values"))
