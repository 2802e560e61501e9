"""What an operation is: its arguments, its function, the JSON of its answer, and its command.

This module and those of the operations load nothing that takes long (no numpy, SQLAlchemy, pydantic, engine or rich):
help and completion are made of them. What an operation needs to run is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from harken.errors import UsageError
from harken.model.arguments import Argument, arguments_of
from harken.serve.operations.caller import Caller

if TYPE_CHECKING:
    from harken.chat.tools import RecordForm
    from harken.engine import Harken
    from harken.serve.cli.session import CommandSession

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")


class Effect(Enum):
    """What an operation does to the store."""

    READS = "reads"
    ADDS = "adds"
    CHANGES = "changes"
    DESTROYS = "destroys"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the command line spells an argument, where not as `--name`.

    Attributes:
        option: as it is written; `--no-…` of an argument that is true unless it is given.
        metavar: of a word that stands by itself; of several words it ends with `...`.
        is_word: whether it stands by itself.
        is_hidden: whether the command line leaves it at its default.
        separator: between several in one value.
        default: in place of the argument's own; `...` is that.
        limits: likewise; None on one side is none.
        help: likewise.
    """

    option: str = ""
    metavar: str | None = None
    is_word: bool = False
    is_hidden: bool = False
    separator: str = ""
    default: Any = ...
    limits: tuple[float | None, float | None] | None = None
    help: str = ""


HIDDEN = Spelling(is_hidden=True)
WORDS = Spelling(is_word=True, metavar="...")
WORD = Spelling(is_word=True)
NO_UNTRUSTED = Spelling(
    "--no-untrusted", help="Leave out what is not to be trusted: what tools brought, web pages among it."
)

Project = Annotated[str | None, Argument("Only this project: its short name, key or folder.", most=1000)]
Since = Annotated[str | None, Argument("Not before this: 2026-05-08, yesterday, '2 weeks ago', 'May 2023'.", most=100)]
IncludeUntrusted = Annotated[
    bool,
    Argument(
        "False leaves out what is not to be trusted: whatever tools brought, pages among it. Where the settings leave "
        "it out, true does not bring it back."
    ),
]
Directory = Annotated[
    str | None,
    Argument("The project's folder; left out, the one that the server was started in.", 1, 4000),
]


@dataclass(frozen=True, slots=True)
class ShellCommand(Generic[Wanted, Found]):
    """An operation as a command.

    Attributes:
        path: its words, e.g. `memory add`.
        help: its first line stands in lists of commands.
        show: prints the answer for people.
        view: what `--json` prints.
        spelling: of its arguments, by name.
    """

    path: str
    help: str
    show: Callable[[CommandSession, Found, Wanted], None]
    view: Callable[[Found], object]
    spelling: Mapping[str, Spelling] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation(Generic[Wanted, Found]):
    """One thing that can be asked for.

    Attributes:
        title: for people.
        summary: for people and models.
        arguments: a dataclass; see `harken.model.arguments`.
        run: called with the open store, the checked arguments and the caller.
        view: the answer as JSON, for MCP and HTTP.
        answer: the TypedDict that `view` gives.
        is_idempotent: whether a second call with the same arguments changes nothing.
        is_long: whether it reports progress.
        command: on the command line and in a chat; None where it is for programs alone.
    """

    name: str
    title: str
    summary: str
    arguments: type[Wanted]
    run: Callable[[Harken, Wanted, Caller], Found]
    view: Callable[[Found, Wanted], Mapping[str, Any]]
    answer: type
    effect: Effect = Effect.READS
    is_idempotent: bool = False
    is_long: bool = False
    command: ShellCommand[Wanted, Found] | None = None

    def call(self, harken: Harken, given: object, caller: Caller) -> dict[str, Any]:
        """The answer as JSON has it.

        Args:
            harken: the open store.
            given: the arguments as they came, checked here.
            caller: who asks.
        Raises:
            UsageError: the arguments are not what the operation takes.
            HarkenError: what the operation raises.
        """
        wanted = self.check(given)
        return dict(self.view(self.run(harken, wanted, caller), wanted))

    def check(self, given: object) -> Wanted:
        """The arguments.

        Raises:
            UsageError: they are not what the operation takes.
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

    @property
    def form(self) -> type[RecordForm]:
        """The pydantic model that checks the arguments of callers over MCP and HTTP."""
        from harken.chat.tools import form_of

        return form_of(self.arguments)

    @property
    def has_required(self) -> bool:
        """Whether an argument has to be given."""
        return any(each.default is MISSING for each in arguments_of(self.arguments))

    def _usage(self) -> str:
        shared = [each for each in arguments_of(self.arguments) if each.about.is_shared]
        known = [f"{each.name} (required)" if each.default is MISSING else each.name for each in shared]
        return f"Arguments of {self.name}: {', '.join(known) or 'none'}."


AnyOperation = Operation[Any, Any]
