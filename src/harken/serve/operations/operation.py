"""An operation: its arguments, its function, the JSON of its answer, its command, and who calls it.

This module and those of the operations load nothing that takes long (no numpy, SQLAlchemy, pydantic, engine or rich):
help and completion are made of them, and commands that the daemon carries out. What an operation needs to run is
imported when it runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import MISSING, dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, Protocol, TypeVar

from harken.errors import NotFoundError, UsageError
from harken.files import make_private
from harken.model.arguments import Argument, Spelling, arguments_of
from harken.providers.priority import FOREGROUND
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.chat.tools import RecordForm
    from harken.context.builder import ContextSession
    from harken.engine import Harken
    from harken.engine.team import Team
    from harken.model.provenance import Provenance
    from harken.model.team import KeyScope, Speaker

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")
Piece = str | tuple[str, str]
"""Text, or text and a style."""
LOST = "The daemon ended while it worked; whether it was done is not known. Look, then try again."


class Printer(Protocol):
    """Prints a command's answer for people."""

    def say(self, *pieces: Piece, lit: str = "") -> None:
        """A line of the answer; the style of the first piece is that of the whole line.

        Args:
            pieces: put together as they are; an empty line without any.
            lit: a pattern; what it matches is highlighted.
        """
        ...

    def write(self, text: str) -> None:
        """Text of the answer as it is, without styles or wrapping."""
        ...

    def note(self, text: str) -> None:
        """A line beside the answer."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The one who asks.

    Attributes:
        directory: the working directory; None where there is none, as over a network.
        is_limited: whether only the project of the directory, and the roots that the settings name, may be read.
        is_owner: whether the owner of the memory types it, at the command line or in a chat.
        talk: the conversation of the chat in which it is typed.
        progress: told (done, in all) by operations that take long.
        once: the caller's own name for this very call, empty without one: ids of what it makes are made of it.
    """

    directory: Path | None = None
    is_limited: bool = False
    is_owner: bool = False
    talk: ContextSession | None = None
    progress: Callable[[int, int], None] = field(default=lambda _done, _all: None)
    once: str = ""

    def reach(self, path: str | None, roots: Sequence[Path]) -> Path | None:
        """The real place of a path, which may be relative to the caller's directory; None names that directory.

        It has to lie there or in one of the roots, which are open to everybody; None where nothing is named or known.

        Raises:
            UsageError: it does not exist, or lies where this caller may not reach.
        """
        if path is None:
            return self.directory
        try:
            wanted = Path(path).expanduser()
            if not wanted.is_absolute():
                if self.directory is None:
                    raise UsageError(f"{path} is relative, and no working directory is known. Give an absolute path.")
                wanted = self.directory / wanted
            real = wanted.resolve()
            exists = real.exists()
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"path: no path of this machine ({type(error).__name__}).") from error
        # Whether it exists is itself no business of one who may not reach it.
        if self.is_limited and not any(real.is_relative_to(root) for root in self._open_roots(roots)):
            raise UsageError(
                f"{path} lies outside of the project and of the folders in serve.roots. Name its folder there "
                "(harken.toml), or do it at the command line."
            )
        if not exists:
            raise UsageError(f"{path} does not exist.")
        return real

    def read_ahead(self, limit: int) -> int:
        """How many to look for: one more tells programs, which read page by page, whether there are others."""
        return limit if self.is_owner else limit + 1

    def project(self, harken: Harken, named: str | None) -> str | None:
        """The key of the project that a folder belongs to, where an owner names one by a path; else what is named."""
        if named is None or not self.is_owner or not named.startswith((".", "/", "~")):
            return named
        from harken.record.project import identify_project

        found = identify_project((self.directory or Path.cwd()) / Path(named).expanduser())
        known = {key for key, _, _ in harken.maintenance.projects()}
        # A folder that got a remote since keeps the name that it had.
        names = (found.key, *found.aliases) if found else (named,)
        return next((name for name in names if name in known), names[-1])

    def _open_roots(self, roots: Sequence[Path]) -> Iterator[Path]:
        from harken.sources.workspace.git import find_repository

        yield from (root.expanduser().resolve() for root in roots)
        if self.directory is None:
            return
        try:
            directory = self.directory.resolve()
            repository = find_repository(directory) if directory.is_dir() else None
        except (OSError, ValueError, RuntimeError):
            # It cannot be a directory of this machine, and opens nothing.
            return
        project = repository.root.resolve() if repository else directory
        # An application that starts us in `/` or in somebody's home has not opened all that lies below.
        if not Path.home().resolve().is_relative_to(project):
            yield project


class TeamMember(NamedTuple):
    """Who asks, and of which team."""

    team: Team
    speaker: Speaker


class Effect(Enum):
    """The effect of an operation on the store."""

    READS = "reads"
    ADDS = "adds"
    CHANGES = "changes"
    DESTROYS = "destroys"


HIDDEN = Spelling(is_hidden=True)
WORDS = Spelling(is_word=True, metavar="...")
WORD = Spelling(is_word=True)
AT_MOST = Spelling(limits=(None, None), help="At most so many.")

Project = Annotated[str | None, Argument("Only this project: its short name, key or folder.", most=1000)]
IncludeUntrusted = Annotated[
    bool,
    Argument(
        "False leaves out what is not to be trusted: whatever tools brought, pages among it. Where the settings leave "
        "it out, true does not bring it back.",
        is_rare=True,
    ),
    Spelling("--no-untrusted", help="Leave out what is not to be trusted: what tools brought, web pages among it."),
]
Directory = Annotated[
    str | None,
    Argument("The project's folder; left out, the one that the server was started in.", 1, 4000, is_rare=True),
    Spelling(help="Its project's, in place of the current one."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArguments:
    """Nothing has to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdArguments:
    """One thing by its id."""

    id: Annotated[str, Argument("Its id, or the beginning of it."), WORD]


def whose(origin: Provenance | None) -> Piece:
    """What stands behind something of a team's shared spaces: which one, and whose it is."""
    return (f"  {origin.label}", "magenta") if origin else ""


def view_of(found: Any) -> Any:
    """The record's own JSON; of several records a list; what is no record as it is."""
    if isinstance(found, list | tuple):
        return [one.view() for one in found]
    return found.view() if hasattr(found, "view") else found


@dataclass(frozen=True, slots=True)
class Operation(Generic[Wanted, Found]):
    """One thing that can be asked for.

    Attributes:
        name: for programs; where it is for people alone, the words of its command.
        summary: the command's help as well, unless it has its own.
        arguments: a dataclass; see `harken.model.arguments`.
        answer: the TypedDict that `view` gives; `NoneType` where MCP and HTTP do not offer it.
        view: the answer as JSON, for MCP and HTTP; the record's own unless given.
        scope: the `KeyScope` that a team's key has to have, or several with blanks between; empty of any key.
        is_of_team: whether it is about a team and not about a memory: it runs on a `TeamMember`.
        is_secret: whether its answer is for one look alone, and may be written down nowhere.
        is_idempotent: whether a second call with the same arguments changes nothing.
        is_long: whether it reports progress.
        command: the words of its command, where they are not those of its name.
        asks: what is said where a person does not agree, and what they type a yes to do; None where nobody is asked.
        show: prints the answer for people; None where it is for programs alone.
        shell_view: the answer as `--json` prints it.
        is_paged: whether what is printed goes through the person's pager where it is longer than the terminal.
    """

    name: str
    summary: str
    arguments: type[Wanted]
    run: Callable[[Harken, Wanted, Caller], Found]
    title: str = ""
    answer: type = NoneType
    view: Callable[[Found, Wanted], Mapping[str, Any]] = lambda found, _wanted: view_of(found)
    effect: Effect = Effect.READS
    scope: str = "read"
    is_of_team: bool = False
    is_secret: bool = False
    is_idempotent: bool = False
    is_long: bool = False
    command: str = ""
    help: str = ""
    asks: Callable[[Any, Wanted], tuple[str, str]] | None = None
    show: Callable[[Printer, Found], None] | None = None
    shell_view: Callable[[Found], object] = view_of
    is_paged: bool = False

    @property
    def keeps_answer(self) -> bool:
        """Whether its answer may be written down, to be given again: it has ids, and nobody's words.

        What can be done again is done again: its answer tells what stands there now.
        """
        is_done_again = self.is_idempotent and self.effect is Effect.CHANGES
        return self.effect is not Effect.READS and not self.is_secret and not is_done_again

    @property
    def scopes(self) -> tuple[KeyScope, ...]:
        """What a team's key has to have, all of it."""
        from harken.model.team import KeyScope

        return tuple(map(KeyScope.of, self.scope.split()))

    @property
    def is_asked_by_get(self) -> bool:
        """Whether its arguments may stand in an address, which many a log keeps: nobody's words are among them."""
        return self.is_of_team and self.effect is Effect.READS and not self.has_required

    @property
    def words(self) -> str:
        """Its command, as it is typed."""
        return self.command or self.name.replace("_", " ")

    def call(self, harken: Harken, given: object, caller: Caller) -> dict[str, Any]:
        """The answer as JSON has it; `given` are the arguments as they came, checked here.

        Raises:
            UsageError: the arguments are not what the operation takes.
            HarkenError: what the operation raises.
        """
        wanted = self.check(given)
        with self.awaited():
            return dict(self.view(self.run(harken, wanted, caller), wanted))

    def tell(self, printer: Printer, found: Found, given: Mapping[str, Any]) -> None:
        """Print the answer for people, and below a page that is full how to see what may follow."""
        assert self.show is not None  # noqa: S101 - whoever prints has looked
        self.show(printer, found)
        if isinstance(found, Sequence) and len(found) == given.get("limit") and self.answer is not NoneType:
            printer.note(f"Listed are {len(found)} at most; more with a higher --limit.")

    def awaited(self) -> AbstractContextManager[object]:
        """The background gives way meanwhile, unless it takes long: that would be as if there were none."""
        return nullcontext() if self.is_long else FOREGROUND

    def check(self, given: object) -> Wanted:
        """The arguments, unless they are not what the operation takes.

        Raises:
            UsageError: says what it does take.
        """
        from pydantic import ValidationError

        from harken.chat.tools import problems_of

        if not isinstance(given, Mapping):
            raise UsageError(f"{self.name} takes a JSON object. {self._usage()}")
        try:
            wanted: Wanted = self.form.model_validate(dict(given)).record()
        except ValidationError as error:
            raise UsageError(f"{problems_of(error)}. {self._usage()}") from None
        return wanted

    def _usage(self) -> str:
        shared = [each for each in arguments_of(self.arguments) if each.about.is_shared]
        names = [f"{each.name} (required)" if each.default is MISSING else each.name for each in shared]
        return f"Arguments of {self.name}: {', '.join(names) or 'none'}."

    @property
    def form(self) -> type[RecordForm]:
        """The pydantic model that checks the arguments of callers over MCP and HTTP."""
        from harken.chat.tools import form_of

        return form_of(self.arguments)

    @property
    def has_required(self) -> bool:
        """Whether an argument has to be given."""
        return any(each.default is MISSING for each in arguments_of(self.arguments))


AnyOperation = Operation[Any, Any]
of_team: Callable[..., AnyOperation] = partial(Operation, is_of_team=True)
"""An operation about a team."""


def changing(
    name: str,
    summary: str,
    arguments: type[Wanted],
    run: Callable[[Harken, Wanted, Caller], Found],
    title: str = "",
    answer: type = NoneType,
    **more: Any,
) -> Operation[Wanted, Found]:
    """An operation that changes what is saved; done again, it changes nothing more."""
    kind: dict[str, Any] = {"effect": Effect.CHANGES, "scope": "remember", "is_idempotent": True}
    return Operation(name, summary, arguments, run, title, answer, **kind, **more)


def listed(name: str) -> Callable[[Sequence[object], object], dict[str, Any]]:
    """The view of an answer that is several records: a list of that name."""
    return lambda found, _wanted: {name: view_of(found)}


def paged(name: str, view: Callable[[Sequence[Any]], Any] = view_of) -> Callable[[Sequence[Any], Any], dict[str, Any]]:
    """The view of a page, of which one record more was found where others follow: a list, and where it goes on."""

    def page(found: Sequence[Any], wanted: Any) -> dict[str, Any]:
        end = wanted.offset + wanted.limit
        return {name: view(found[: wanted.limit]), "next_offset": end if len(found) > wanted.limit else None}

    return page


_NUMBERED = "last_listed.json"


def number_listed(harken: Harken, ids: Sequence[str]) -> None:
    """Keep the ids that a person is shown in a list, so that `show 2` means its second."""
    folder = harken.home / "cache"
    # Whoever may not write here names things by their ids.
    with suppress(OSError):
        make_private(folder)
        (folder / _NUMBERED).write_text(json.dumps(ids), encoding="utf-8")


def id_meant(harken: Harken, given: str, caller: Caller, shortest_id: int = 6, lists: str = "list") -> str:
    """The id that is given; of an owner's number, which is shorter than any id, what it stood for in the last list.

    Raises:
        NotFoundError: the list had no such place, or is none that could be kept.
    """
    if not (caller.is_owner and given.isdecimal() and len(given) < shortest_id):
        return given
    folder = harken.home / "cache"
    if not all(os.access(place, os.W_OK) for place in (folder, harken.home) if place.exists()):
        raise NotFoundError(f"{folder} cannot be written, so no list is kept. Name it by the id that stands beside it.")
    try:
        ids = list(json.loads((folder / _NUMBERED).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        ids = []
    if not 0 < int(given) <= len(ids):
        raise NotFoundError(f"The last list had {counted(len(ids), 'line')}, so no number {given}. Try: harken {lists}")
    return str(ids[int(given) - 1])


def show_each(line: Callable[[Any], str], otherwise: str) -> Callable[[Printer, Sequence[Any]], None]:
    """A printer of several records, a line for each; of none it prints what stands otherwise."""

    def show(printer: Printer, found: Sequence[Any]) -> None:
        for text in map(line, found) if found else [otherwise]:
            printer.say(text)

    return show


def forgetting(words: str, summary: str, forget: Callable[[Harken, str], str]) -> Operation[IdArguments, str]:
    """The command that forgets one thing for good, and says its whole id."""
    return Operation(
        words,
        summary,
        IdArguments,
        lambda harken, wanted, _caller: forget(harken, wanted.id),
        effect=Effect.DESTROYS,
        scope="forget",
        show=lambda printer, gone: printer.say(f"Forgot {gone}."),
        shell_view=lambda gone: {"forgotten": [gone]},
    )
