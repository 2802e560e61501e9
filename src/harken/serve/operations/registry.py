"""All operations: by their names for programs, and by their words for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType

from harken.errors import NotFoundError
from harken.serve.operations import (
    contexts,
    conversations,
    experiences,
    feedback,
    labels,
    rules,
    saved,
    searching,
    status,
    values,
    webhooks,
    workspace,
)
from harken.serve.operations.operation import AnyOperation
from harken.serve.team import people, spaces

_ALL: tuple[AnyOperation, ...] = (
    *searching.OPERATIONS,
    *conversations.OPERATIONS,
    *contexts.OPERATIONS[:2],
    *status.OPERATIONS,
    *contexts.OPERATIONS[2:],
    *saved.OPERATIONS,
    *rules.OPERATIONS,
    *feedback.OPERATIONS,
    *labels.OPERATIONS,
    *experiences.OPERATIONS,
    *values.OPERATIONS,
    *workspace.OPERATIONS,
    *webhooks.OPERATIONS,
)
OPERATIONS = {each.name: each for each in _ALL if each.answer is not NoneType}
# Of a team's server: those of a memory, and those of the team.
_OF_TEAM = (*spaces.OPERATIONS, *people.OPERATIONS)
TEAM_OPERATIONS = OPERATIONS | {each.name: each for each in _OF_TEAM if each.answer is not NoneType}
people.VERBS.update(each.name for each in (*_ALL, *_OF_TEAM))
COMMANDS = {each.words: each for each in _ALL if each.show is not None}


def operation_of(name: str, known: Mapping[str, AnyOperation] = OPERATIONS) -> AnyOperation:
    """The operation of that name, of those that are known.

    Raises:
        NotFoundError: there is none.
    """
    if name not in known:
        raise NotFoundError(f"There is no '{name}'. There are: {', '.join(known)}.")
    return known[name]
