"""What an argument of an operation is, and the arguments that tools of a chat take as well.

Arguments stand in frozen dataclasses: name, type and default in the field, the rest beside it. Nothing here imports
more than the standard library, so that the command line can tell of an operation without loading what carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from harken.errors import UsageError

SECTIONS = ("user", "agent")
MODES = ("hybrid", "keyword", "semantic")
SUMMARIES = ("exchange", "conversation", "tools")
SOURCES = ("message", "memory", "experience", "value", "code", "commit", "document", *SUMMARIES)
CONTEXT_TYPES = ("memories", "code", "experiences", "values", "commits", "documents", "conversations")
DEFAULT_LIMIT, MAX_LIMIT = 10, 50
MOST_COMMITS = 10_000
DEFAULT_AGENT = "agent"
CATEGORIES = ("preference", "fact", "event", "workflow", "context", "error", "decision")
MAX_CONTENT_CHARS, MAX_TAGS = 10_000, 20


def check_limit(limit: int, most: int | None = None) -> None:
    """Hold how many are wanted to what there may be.

    Raises:
        UsageError: it is less than one, or too many.
    """
    if limit < 1 or (most is not None and limit > most):
        bounds = "at least 1" if most is None else f"from 1 to {most}"
        raise UsageError(f"limit must be {bounds}, not {limit}.")


def check_names(**given: object) -> None:
    """Raise UsageError for a name that is no text: a row's number, a UUID."""
    for what, name in given.items():
        if not isinstance(name, str):
            raise UsageError(f"{what} is a str, not {name.__class__.__name__}: give str(…) of it, always the same.")


def several(given: Iterable[Any]) -> list[Any]:
    """The values of a list; a text or a dict that stands alone is one, and not its characters or keys."""
    return [given] if isinstance(given, str | Mapping) else list(given)


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands beside the type of an argument.

    Attributes:
        help: for people and models.
        least: of a number its smallest value, of a text or a list its shortest length.
        most: the largest value, or the greatest length.
        choices: the words that are possible; all where none are named.
        is_shared: whether MCP and HTTP take it as well; else the command line alone.
        is_rare: whether lists of tools leave it out, which cost tokens in each conversation; it is taken all the same.
        is_verbatim: of a text: blanks around it are a part of it.
    """

    help: str
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    is_shared: bool = True
    is_rare: bool = False
    is_verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the command line spells an argument, where not as `--name`; default, limits and help replace its own.

    Attributes:
        option: as it is written; `--no-…` of an argument that is true unless it is given.
        metavar: of a word that stands by itself; of several words it ends with `...`.
        is_hidden: whether the command line leaves it at its default.
        separator: between several in one value.
        default: `...` is the argument's own.
    """

    option: str = ""
    metavar: str | None = None
    is_word: bool = False
    is_hidden: bool = False
    separator: str = ""
    default: Any = ...
    limits: tuple[float | None, float | None] | None = None
    help: str = ""


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """An argument as its field tells it.

    Attributes:
        kind: `str`, `int`, `float` or `bool`.
        default: `dataclasses.MISSING` where it is required; None where it may be left out.
    """

    name: str
    kind: type
    is_many: bool
    default: Any
    about: Argument
    spelling: Spelling


def arguments_of(record: type) -> tuple[ArgumentField, ...]:
    """The fields of a dataclass of arguments, in their order; see `Argument` and `Spelling`."""
    hints = get_type_hints(record, include_extras=True)
    found = []
    for each in fields(record):
        hint, about, *spelling = get_args(hints[each.name])
        kinds = [kind for kind in get_args(hint) if kind is not NoneType] or [hint]
        is_many = get_origin(hint) is tuple
        found.append(ArgumentField(each.name, kinds[0], is_many, each.default, about, *spelling or [Spelling()]))
    return tuple(found)


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(record: type, is_brief: bool = False) -> dict[str, Any]:
    """The JSON schema of the arguments that programs give, without titles and null: small models trip over both.

    Args:
        record: a dataclass of arguments.
        is_brief: without rare arguments, and without what a refusal says as well: lengths, that no others are taken.
    """
    shared = [each for each in arguments_of(record) if each.about.is_shared]
    listed = [each for each in shared if not (is_brief and each.about.is_rare)]
    schema: dict[str, Any] = {"type": "object", "properties": {each.name: _schema(each, is_brief) for each in listed}}
    if required := [each.name for each in listed if each.default is MISSING]:
        schema["required"] = required
    return schema if is_brief else {**schema, "additionalProperties": False}


def _schema(argument: ArgumentField, is_brief: bool) -> dict[str, Any]:
    about, is_text = argument.about, argument.kind is str
    schema: dict[str, Any] = {"type": _JSON_TYPES[argument.kind]}
    if about.choices:
        schema["enum"] = list(about.choices)
    if argument.is_many:
        schema = {"type": "array", "items": schema}
    if not (is_brief and (is_text or argument.is_many)):
        names = ("minItems", "maxItems") if argument.is_many else ("minLength", "maxLength")
        names = names if argument.is_many or is_text else ("minimum", "maximum")
        limits = zip(names, (about.least, about.most), strict=True)
        schema |= {name: limit for name, limit in limits if limit is not None}
    schema["description"] = about.help
    if not argument.is_many and argument.default not in (MISSING, None, ""):
        schema["default"] = argument.default
    return schema


OFFSET = "Where to go on: the next_offset of the answer before."


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory to be saved."""

    content: Annotated[
        str,
        Argument("One thing, in a sentence or a few.", 1, MAX_CONTENT_CHARS),
        Spelling(is_word=True, metavar="TEXT..."),
    ]
    category: Annotated[str, Argument("What kind of memory it is.", choices=CATEGORIES)] = "fact"
    importance: Annotated[float | None, Argument("From 0 to 1; left out, 0.5.", 0, 1)] = None
    tags: Annotated[
        tuple[str, ...],
        Argument("Words to find it by.", most=MAX_TAGS),
        Spelling("--tag", help="A word to find it by."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailsWanted:
    """A conversation or an exchange to be read page by page."""

    conversation_id: Annotated[
        str | None, Argument("A conversation's id, how it begins, or its own name.", most=200)
    ] = None
    exchange_id: Annotated[str | None, Argument("An exchange's id, or how it begins.", most=200)] = None
    include_full_transcript: Annotated[
        bool, Argument("True: every word, tools included. False: title, summaries, status, each question and answer.")
    ] = False
    offset: Annotated[int, Argument(OFFSET, 0)] = 0

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one id is given."""
        if bool(self.conversation_id) == bool(self.exchange_id):
            given = "both are given" if self.conversation_id else "neither is given"
            raise ValueError(f"give exactly one of conversation_id and exchange_id; {given}")
