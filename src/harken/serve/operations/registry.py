"""All operations, by name."""

from __future__ import annotations

from harken.errors import NotFoundError
from harken.serve.operations import contexts, experiences, saved, values, workspace
from harken.serve.operations.operation import AnyOperation
from harken.serve.operations.searching import SEARCH, SHOW
from harken.serve.operations.status import STATUS

OPERATIONS: dict[str, AnyOperation] = {
    operation.name: operation
    for operation in (
        SEARCH,
        SHOW,
        contexts.CONTEXT,
        contexts.FETCH,
        STATUS,
        contexts.ASSEMBLE,
        contexts.PREMORTEM,
        *saved.OPERATIONS,
        *experiences.OPERATIONS,
        *values.OPERATIONS,
        *workspace.OPERATIONS,
    )
}


def operation_of(name: str) -> AnyOperation:
    """The operation of that name.

    Raises:
        NotFoundError: there is none.
    """
    if name not in OPERATIONS:
        raise NotFoundError(f"There is no '{name}'. There are: {', '.join(OPERATIONS)}.")
    return OPERATIONS[name]
