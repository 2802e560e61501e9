"""What a page is made of: what was asked for, the operations that answer it, and the template that shows the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from harken.engine import Harken
from harken.serve.operations.operation import Caller, view_of
from harken.serve.operations.registry import COMMANDS, operation_of


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page.

    Attributes:
        path: below the prefix, with what stands in its places.
        query: of the address; of several values the last, and none that is empty.
        form: what was sent with it, checked to come from these pages.
    """

    harken: Harken
    places: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, list[str]] = field(default_factory=dict)

    def call(self, name: str, **given: Any) -> dict[str, Any]:
        """The answer of an operation, as every program gets it; arguments that are None are left out.

        Raises:
            HarkenError: what the operation raises.
        """
        named = {each: value for each, value in given.items() if value is not None}
        return operation_of(name).call(self.harken, named, Caller())

    def command(self, words: str, **given: Any) -> Any:
        """The JSON of a command that programs are not offered."""
        operation = COMMANDS[words]
        with operation.awaited():
            return view_of(operation.run(self.harken, operation.arguments(**given), Caller()))

    def given(self, *names: str) -> dict[str, str | None]:
        """Of the address what has these names."""
        return {name: self.query.get(name) for name in names}

    def field(self, name: str) -> str:
        """A field of the form, without blanks around it."""
        return self.form.get(name, [""])[-1].strip()

    def other(self, **changes: Any) -> str:
        """The query of this address with changes; None takes a name out."""
        named = {**self.query, **changes}
        return urlencode({name: value for name, value in named.items() if value not in (None, "")})


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template, and the facts that it shows."""

    template: str
    facts: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Gone:
    """The browser is sent to another of the pages: what it sent was done."""

    path: str


def place_of(source: str, uid: str, conversation: str | None) -> str | None:
    """The page that has a thing, of its source and id; None where there is none."""
    if source == "memory":
        return f"/memories/{uid}"
    if source == "experience":
        return f"/experiences/{uid}"
    if source == "value":
        return f"/values#v-{uid}"
    if source == "rule":
        uid = uid.partition(".")[0]
    if source == "conversation" or (conversation and source not in ("message", "exchange")):
        return f"/conversations/{conversation or uid}"
    return f"/conversations/{uid}#m-{uid}" if conversation else None


PageMaker = Callable[[PageRequest], Rendered | Gone]
"""Makes a page; runs in a thread of its own."""
