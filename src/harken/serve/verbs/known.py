"""Arguments that have to be one of the words that Harken knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic.fields import FieldInfo

from harken.context.assembler import CONTEXT_TYPES
from harken.model.experiences import AXES, DOMAINS, OUTCOMES, ROOT_CAUSES, STRATEGIES, ExperienceStatus


def _one_of(names: Sequence[str], given: str) -> str:
    if given not in names:
        raise ValueError(f"must be one of {', '.join(names)}")
    return given


def _known(names: Sequence[str]) -> tuple[AfterValidator, FieldInfo]:
    """Checks that a text is one of these, and tells it in the schema."""
    return AfterValidator(partial(_one_of, names)), Field(json_schema_extra={"enum": list(names)})


Domain = Annotated[str, *_known(DOMAINS)]
Strategy = Annotated[str, *_known(STRATEGIES)]
Cause = Annotated[str, *_known(ROOT_CAUSES)]
Axis = Annotated[str, *_known(AXES)]
Outcome = Annotated[str, *_known(OUTCOMES)]
AnyStatus = Annotated[str, *_known([status.value for status in ExperienceStatus])]
ContextType = Annotated[str, *_known(CONTEXT_TYPES)]
