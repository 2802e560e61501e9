"""What a page is made of: what was asked for, the operations that answer it, and the template that shows the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Protocol
from urllib.parse import urlencode

from harken.engine import Harken
from harken.errors import HarkenError, sentence_of
from harken.log import Log
from harken.serve.operations.operation import AnyOperation, Caller, view_of
from harken.serve.operations.registry import COMMANDS, operation_of

_log = Log(__name__)


class PageJobs:
    """Work that a page does not wait for, one of each name at a time; nothing of it outlives the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._since: dict[str, datetime] = {}
        self._failures: dict[str, str] = {}

    def since(self, name: str) -> datetime | None:
        """When the work under way began; None where there is none."""
        return self._since.get(name)

    def failure(self, name: str) -> str:
        """Why the last work of this name failed; empty where it did not."""
        return self._failures.get(name, "")

    def begin(self, name: str) -> bool:
        """Whether the work may begin: none of its name is under way. Who is told so has to `run` it."""
        with self._lock:
            if name in self._since:
                return False
            self._since[name] = datetime.now(UTC)
            self._failures.pop(name, None)
            return True

    def run(self, name: str, work: Callable[[], object]) -> None:
        """Do work that was begun; what goes wrong is kept for the page that asks how it went."""
        try:
            work()
        except HarkenError as error:
            self._failures[name] = sentence_of(error)
        except Exception as error:  # noqa: BLE001 - the serve boundary; its words may hold a message's
            _log.error("job_failed", job=name, error_class=type(error).__name__)
            self._failures[name] = f"Unexpected {type(error).__name__}; please report it."
        finally:
            self._since.pop(name, None)


class PageMember(Protocol):
    """Somebody of a team at a browser."""

    def answer(self, operation: AnyOperation, given: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of an operation, if they may have it."""
        ...

    def require(self, operation: AnyOperation) -> None:
        """Pass if they may do what an operation does."""
        ...


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page.

    Attributes:
        places: what stands in the places of its address, by name.
        query: of the address; of several values the last, and none that is empty.
        form: what was sent with it, checked to come from these pages.
        jobs: the work that pages have begun.
        member: who asks, on a team's server; None where the owner of the memory does.
    """

    harken: Harken
    places: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, list[str]] = field(default_factory=dict)
    jobs: PageJobs = field(default_factory=PageJobs)
    member: PageMember | None = None

    def call(self, name: str, **given: Any) -> dict[str, Any]:
        """The answer of an operation, as every program gets it; arguments that are None are left out.

        Raises:
            HarkenError: what the operation raises.
        """
        return self._call(name, Caller(), given)

    def say(self, operation: str, /, **given: Any) -> dict[str, Any]:
        """As `call`, of the person at the browser: it is the owner who says so, and no agent.

        Raises:
            HarkenError: what the operation raises.
        """
        return self._call(operation, Caller(is_owner=True), given)

    def _call(self, name: str, caller: Caller, given: Mapping[str, Any]) -> dict[str, Any]:
        named = {each: value for each, value in given.items() if value is not None}
        operation = operation_of(name)
        if self.member is not None:
            return self.member.answer(operation, named)
        return operation.call(self.harken, named, caller)

    def command(self, words: str, **given: Any) -> Any:
        """The JSON of a command that programs are not offered."""
        operation = COMMANDS[words]
        if self.member is not None:
            return self.member.answer(operation, given)
        with operation.awaited():
            return view_of(operation.run(self.harken, operation.arguments(**given), Caller()))

    def require(self, name: str) -> None:
        """Pass if whoever asks may do what an operation does."""
        if self.member is not None:
            self.member.require(operation_of(name))

    def given(self, *names: str) -> dict[str, str | None]:
        """Of the address what has these names."""
        return {name: self.query.get(name) for name in names}

    def field(self, name: str) -> str:
        """A field of the form, without blanks around it."""
        return self.form.get(name, [""])[-1].strip()

    @property
    def back(self) -> Gone:
        """The page that the form was on."""
        path = self.field("back")
        return Gone(path if path.startswith("/") else "/")

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
    """The browser is sent to another of the pages: what it sent was done.

    Attributes:
        job: the name of work that was begun, and is done once the browser was told; with the work itself.
    """

    path: str
    job: tuple[str, Callable[[], object]] | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """Facts for a script of ours that draws them."""

    facts: Mapping[str, Any]


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


PageMaker = Callable[[PageRequest], Rendered | Gone | Drawn]
"""Makes a page; runs in a thread of its own."""
