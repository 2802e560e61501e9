"""What a verb is, and how one is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harken.chat.tools import Arguments, problems_of
from harken.engine import Harken
from harken.errors import UsageError


class Facts(BaseModel):
    """What a verb answers; a key that is not written down here is a mistake of ours."""

    model_config = ConfigDict(extra="forbid")


class Effect(Enum):
    """What a verb does to the store."""

    READS = "reads"
    ADDS = "adds"
    CHANGES = "changes"
    DESTROYS = "destroys"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and how far it may reach.

    Attributes:
        directory: the working directory; None where there is none, as over a network.
        is_limited: whether only the project of the directory, and the roots that the settings name, may be read.
        progress: told (done, in all) by verbs that take long.
    """

    directory: Path | None = None
    is_limited: bool = False
    progress: Callable[[int, int], None] = field(default=lambda _done, _all: None)


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be asked for.

    Attributes:
        title: for people.
        summary: for people and models.
        form: its arguments.
        answer: what comes back; the same keys as the command line's `--json`.
        run: called with the open store, the checked arguments and the caller.
        is_idempotent: whether a second call with the same arguments changes nothing.
        is_long: whether it reports progress.
    """

    name: str
    title: str
    summary: str
    form: type[Arguments]
    answer: type[Facts]
    run: Callable[[Harken, Any, Caller], Facts]
    effect: Effect = Effect.READS
    is_idempotent: bool = False
    is_long: bool = False

    def call(self, harken: Harken, given: object, caller: Caller) -> dict[str, Any]:
        """The answer, as JSON has it.

        Args:
            harken: the open store.
            given: the arguments as they came, checked here.
            caller: who asks.
        Raises:
            UsageError: the arguments are not what the verb takes.
            HarkenError: what the verb raises.
        """
        return self.run(harken, self.check(given), caller).model_dump(mode="json")

    def check(self, given: object) -> Arguments:
        """The arguments.

        Raises:
            UsageError: they are not what the verb takes.
        """
        if not isinstance(given, Mapping):
            raise UsageError(f"{self.name} takes a JSON object. {self._usage()}")
        try:
            return self.form.model_validate(dict(given))
        except ValidationError as error:
            raise UsageError(f"{problems_of(error)}. {self._usage()}") from None

    def _usage(self) -> str:
        fields = self.form.model_fields.items()
        known = [f"{name} (required)" if facts.is_required() else name for name, facts in fields]
        return f"Arguments of {self.name}: {', '.join(known) or 'none'}."
