"""The tools of a chat: what they are called with is checked, what goes wrong is told to the model, never raised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import from_json

from harken.errors import HarkenError
from harken.model.arguments import ArgumentField, arguments_of, schema_of
from harken.providers.chat_model import ToolCall, ToolSpec


class RecordForm(BaseModel):
    """Checks arguments that stand in a dataclass (`harken.model.arguments`); see `form_of`.

    Unknown names are refused, so that a misspelt one is noticed.
    """

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    record_type: ClassVar[type[Any]]
    blank: ClassVar[dict[str, tuple[object, ...]]]

    def record(self) -> Any:
        """The arguments as their dataclass has them."""
        return self.record_type(**{name: tuple(v) if isinstance(v, list) else v for name, v in self})

    @model_validator(mode="before")
    @classmethod
    def _given(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Leave out what may be left out and is null, or blank where a text may be: many models name every argument."""
        return {n: v for n, v in given.items() if (v.strip() if isinstance(v, str) else v) not in cls.blank.get(n, ())}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Have the record check what no field alone can."""
        self.record()
        return self


_FORMS: dict[type, type[RecordForm]] = {}
# Models send a list as the text of its JSON as well, as they send "5" for 5.
_LIST = BeforeValidator(lambda given: from_json(given) if isinstance(given, str) and given[:1] == "[" else given)
# PostgreSQL has no NUL: a text is kept without, and an id with it names nothing.
_NO_NUL = BeforeValidator(lambda given: given.replace("\0", "\ufffd") if isinstance(given, str) else given)


def form_of(record: type[Any]) -> type[RecordForm]:
    """The pydantic model of a dataclass of arguments, without those that the command line alone takes."""
    if record not in _FORMS:
        shared: dict[str, Any] = {each.name: _field(each) for each in arguments_of(record) if each.about.is_shared}
        _FORMS[record] = create_model(record.__name__, __base__=RecordForm, __doc__=record.__doc__, **shared)
        _FORMS[record].record_type = record
        free = (each for each in arguments_of(record) if each.default is not MISSING)
        _FORMS[record].blank = {each.name: (None, []) if each.about.least else (None, "", []) for each in free}
    return _FORMS[record]


def _field(argument: ArgumentField) -> tuple[Any, Any]:
    about = argument.about
    kind: Any = argument.kind
    if about.choices:
        chosen = AfterValidator(partial(_one_of, tuple(about.choices)))
        kind = Annotated[kind, chosen, Field(json_schema_extra={"enum": list(about.choices)})]
    if about.is_verbatim:
        kind = Annotated[kind, StringConstraints(strip_whitespace=False)]
    kind = Annotated[kind, _NO_NUL] if argument.kind is str else kind
    kind = Annotated[list[kind], _LIST] if argument.is_many else kind | None if argument.default is None else kind
    limits = ("min_length", "max_length") if argument.is_many or argument.kind is str else ("ge", "le")
    facts: dict[str, Any] = {"description": about.help, **dict(zip(limits, (about.least, about.most), strict=True))}
    if argument.is_many and argument.default is not MISSING:
        facts["default_factory"] = partial(list, argument.default)
    elif argument.default is not MISSING:
        facts["default"] = argument.default
    return kind, Field(**facts)


def _one_of(names: Sequence[str], given: str) -> str:
    if given not in names:
        raise ValueError(f"must be one of {', '.join(names)}")
    return given


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The turn that a tool is called in, and the room for its answer."""

    conversation_uid: str
    exchange_uid: str
    room_tokens: int


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool's answer.

    Attributes:
        text: for the model.
        kept: recorded in its place, unless empty. Recalled words are never recorded again: they would come back as
            their own echo.
    """

    text: str
    kept: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a chat's model may call; its arguments are a dataclass of `harken.model.arguments`."""

    name: str
    description: str
    arguments: type[Any]
    run: Callable[[Any, ToolContext], ToolOutcome]

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return ToolSpec(self.name, self.description, schema_of(self.arguments))


class Toolbox:
    """Tools by name, in the order in which the model is told of them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them; their schemas take 2 ms, for each call of the model."""
        return tuple(tool.spec for tool in self._tools.values())

    def call(self, call: ToolCall, here: ToolContext) -> ToolOutcome:
        """The tool's answer, or what was wrong with the call and how to call it instead."""
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolOutcome(f"There is no tool '{call.name}'. Tools: {', '.join(self._tools)}.", failed=True)
        problem = call.problem
        try:
            wanted = None if problem else form_of(tool.arguments).model_validate(dict(call.arguments)).record()
        except ValidationError as error:
            problem = problems_of(error)
        if problem:
            properties = tool.spec.parameters.get("properties", {})
            named = ", ".join(f"{name} ({facts.get('type', 'any')})" for name, facts in properties.items())
            usage = f"Arguments: {named or 'none'}. Call it again."
            return ToolOutcome(f"{call.name} was not called: {problem}. {usage}", failed=True)
        try:
            return tool.run(wanted, here)
        except HarkenError as error:
            return ToolOutcome(f"{call.name} failed: {error}", failed=True)


def problems_of(error: ValidationError) -> str:
    """All that is wrong with arguments, in one line."""
    found = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in problem["loc"])
        words = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            words = "there is no such argument"
        found.append(f"{place}: {words}" if place else words)
    return "; ".join(found)
