"""Pages of a list: in place of an offset a cursor, of use for the same question of the same principal alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from harken.errors import UsageError
from harken.model.arguments import arguments_of
from harken.serve.operations.operation import AnyOperation

CURSOR, NEXT_CURSOR = "cursor", "next_cursor"
_PLACES = ("offset", "before")
_MARK_BYTES = 16
# What a page is of does not change with how long it is.
_FREE = {CURSOR, "limit"}


@cache
def place_of(operation: AnyOperation) -> str | None:
    """The argument that says where a page begins; None of what has no pages."""
    names = {each.name for each in arguments_of(operation.arguments) if each.about.is_shared}
    return next((name for name in _PLACES if name in names), None)


def opened(operation: AnyOperation, given: object, asker: str) -> object:
    """The arguments with the place that their cursor names.

    Args:
        operation: what is asked for.
        given: its arguments.
        asker: who asks, and in which space: no cursor of another is taken.

    Raises:
        UsageError: the cursor is none, or was given to another question.
    """
    place = place_of(operation)
    if place is None or not isinstance(given, Mapping):
        return given
    if place in given:
        raise UsageError(f"{place}: over HTTP a page is named by its cursor, the next_cursor of the answer before.")
    rest = {name: value for name, value in given.items() if name != CURSOR}
    cursor = given.get(CURSOR)
    return rest if cursor in (None, "") else {**rest, place: _place_in(cursor, _mark(operation, given, asker))}


def closed(operation: AnyOperation, given: object, answer: dict[str, Any], asker: str) -> dict[str, Any]:
    """The answer with a cursor in place of where it goes on."""
    place = place_of(operation)
    if place is None or not isinstance(given, Mapping):
        return answer
    rest = {name: value for name, value in answer.items() if name != f"next_{place}"}
    more = answer.get(f"next_{place}")
    if more is None:
        return {**rest, NEXT_CURSOR: None}
    content = json.dumps([more]).encode() + _mark(operation, given, asker)
    return {**rest, NEXT_CURSOR: base64.urlsafe_b64encode(content).decode().rstrip("=")}


def _mark(operation: AnyOperation, given: Mapping[str, Any], asker: str) -> bytes:
    asked = {name: value for name, value in given.items() if name not in _FREE}
    text = json.dumps([operation.name, asker, asked], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_MARK_BYTES]


def _place_in(cursor: object, mark: bytes) -> Any:
    refusal = UsageError("cursor: not of this question. Give the next_cursor of its answer, and the same arguments.")
    if not isinstance(cursor, str) or len(cursor) > 200:
        raise refusal
    try:
        content = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if content[-_MARK_BYTES:] != mark:
            raise refusal
        [place] = json.loads(content[:-_MARK_BYTES])
    except (ValueError, binascii.Error, RecursionError) as error:
        raise refusal from error
    return place
