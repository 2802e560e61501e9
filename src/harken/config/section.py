"""Sections of settings: a class says by its annotations what each value may be, and whatever it is given is checked.

By hand: to import pydantic and have it build its validators would take a fifth of what a command takes in all (ADR 1).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

UNKNOWN = "there is no such setting"
# The default of a section or a table: its own defaults.
DEFAULTS: Any = MappingProxyType({})
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_COMPARISONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le}
_MASK = "**********"


class Field(NamedTuple):
    """The limits of a value; None sets none."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    pattern: str = ""

    def check(self, value: Any) -> Any:
        """Return the value.

        Raises:
            ValueError: it is not within them.
        """
        for sign, limit in ((">=", self.ge), (">", self.gt), ("<=", self.le)):
            if limit is not None and not _COMPARISONS[sign](value, limit):
                raise ValueError(f"must be {sign} {limit:g}, got {value}")
        if self.pattern and not re.search(self.pattern, value):
            raise ValueError(f"must match {self.pattern}")
        return value


class SecretText:
    """A text that is not shown."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        """Return the text."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and self._text == other._text

    def __repr__(self) -> str:
        return _MASK


class SettingsError(ValueError):
    """Values that settings cannot have: each one's dotted key, and what is wrong."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(problem for _, problem in problems))
        self.problems = problems


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SettingsSection:
    """A section: unknown keys are refused, values do not change."""

    def __init__(self, **given: Any) -> None:
        section: Any = type(self)
        problems: list[tuple[str, str]] = []
        for name, (read, default) in _readers(section).items():
            try:
                vars(self)[name] = read(given.pop(name, default))
            except SettingsError as error:
                problems += [(f"{name}.{key}".rstrip("."), problem) for key, problem in error.problems]
            except ValueError as error:
                problems.append((name, f"{name} {error}"))
        problems += [(name, UNKNOWN) for name in given]
        if problems:
            raise SettingsError(problems)

    @classmethod
    @cache
    def hints(cls) -> Mapping[str, Any]:
        """Return the annotation of each setting, in the order of the class."""
        return get_type_hints(cls)

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return the same with other values, which are right."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), **update)
        return copied

    def model_dump(self) -> dict[str, Any]:
        """Return the values as JSON has them, secrets masked."""
        return {name: _plain(value) for name, value in vars(self).items()}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: settings are frozen")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"


@cache
def _readers(section: type) -> dict[str, tuple[Callable[[Any], Any], Any]]:
    hints = get_type_hints(section, include_extras=True)
    return {name: (_reader(hint), getattr(section, name, None)) for name, hint in hints.items()}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return what makes a value of what a file, a variable or a caller has; its ValueError goes on from the name."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        read, limits = _reader(parts[0]), parts[1]
        return lambda value: limits.check(read(value))
    if kind in (Union, UnionType):
        # Of one kind and None, for which TOML and the environment have no other word.
        read, texts = _reader(parts[0]), {str: ("",), SecretText: ("",), AnyText: ()}
        nothings = texts.get(parts[0], ("", "none", "NONE", "None"))
        return lambda value: None if value is None or value in nothings else read(value)
    if kind is tuple:
        read = _reader(parts[0])
        return lambda value: tuple(map(read, _checked(isinstance(value, list | tuple), value, "must be a list")))
    if kind is Literal:
        words = f"must be {', '.join(map(repr, parts[:-1]))} or {parts[-1]!r}"
        return lambda value: _checked(value in parts, value, words)
    if kind is dict:
        return lambda value: dict(_checked(isinstance(value, Mapping), value, "must be a table"))
    if issubclass(hint, SettingsSection):
        words = "is a section, which holds settings of its own"
        return lambda value: (
            value if isinstance(value, hint) else hint(**_checked(isinstance(value, Mapping), value, words))
        )
    make, words = _KINDS[hint]

    def read_plain(value: Any) -> Any:
        try:
            return make(value)
        except (ValueError, TypeError, KeyError, ArithmeticError):
            raise ValueError(words) from None

    return read_plain


def _checked(is_right: bool, value: Any, otherwise: str) -> Any:
    if not is_right:
        raise ValueError(otherwise)
    return value


def _whole(value: Any) -> int:
    return int(_checked(not isinstance(value, float) or value.is_integer(), value, ""))


def _finite(value: Any) -> Decimal:
    number = Decimal(str(value))
    return Decimal(_checked(number.is_finite(), number, ""))


def _text(value: Any) -> str:
    return str(_checked(isinstance(value, str), value, ""))


AnyText = Annotated[str, Field()]  # Where to be empty is another thing than None.
_KINDS: Mapping[type, tuple[Callable[[Any], Any], str]] = {
    bool: (lambda value: _TRUTHS[str(value).strip().lower()], "must be true or false"),
    int: (_whole, "must be a whole number"),
    float: (float, "must be a number"),
    Decimal: (_finite, "must be a number"),
    str: (_text, "must be a text"),
    Path: (Path, "must be a path"),
    SecretText: (lambda value: value if isinstance(value, SecretText) else SecretText(_text(value)), "must be a text"),
}


def _plain(value: Any) -> Any:
    if isinstance(value, SettingsSection):
        return value.model_dump()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path | Decimal | SecretText) else value
