"""What went wrong, as RFC 9457 has it: the same words for what is not there and for what is another's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from harken.errors import (
    AccessError,
    ConfigError,
    HarkenError,
    KeyRefusedError,
    NotFoundError,
    RepeatedRequestError,
    StoreBusyError,
    StoreError,
    UsageError,
    sentence_of,
)
from harken.log import Log

_log = Log(__name__)

MEDIA_TYPE = "application/problem+json"
KINDS = {
    400: ("malformed", "The body is no JSON, or was cut off."),
    401: ("unauthorized", "The key is missing, unknown, expired or revoked."),
    403: ("forbidden", "The key lacks a scope, or its principal a right in the space."),
    404: ("not-found", "There is nothing of that id or name that this key may see."),
    405: ("method", "The address does not take this method."),
    408: ("timeout", "The body does not come."),
    409: ("conflict", "A request with this idempotency key is being answered at this moment."),
    413: ("too-long", "The body is too long."),
    422: ("invalid", "The arguments are not what the verb takes; the detail says what it does take."),
    429: ("too-many-requests", "The key, or the address, has asked more often than it may."),
    500: ("mistake", "A mistake of ours."),
    503: ("unavailable", "The store, or a model or an extra that is needed, cannot be had now."),
}
_STATUSES: tuple[tuple[type[HarkenError], int], ...] = (
    (KeyRefusedError, 401),
    (AccessError, 403),
    (NotFoundError, 404),
    (UsageError, 422),
    (RepeatedRequestError, 409),
)
_AGAIN_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong with a request.

    Attributes:
        detail: one sentence, for people.
        headers: beside those of every answer.
    """

    status: int
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def view(self) -> dict[str, Any]:
        """The problem as JSON."""
        name = KINDS[self.status][0] if self.status in KINDS else HTTPStatus(self.status).phrase.lower()
        title = HTTPStatus(self.status).phrase
        return {"type": f"urn:harken:problem:{name}", "title": title, "status": self.status, "detail": self.detail}

    def response(self) -> JSONResponse:
        """The problem as it is answered."""
        return JSONResponse(self.view(), self.status, dict(self.headers), MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """What an error is to whoever asked; one that nobody meant to raise is logged by its class alone."""
    if isinstance(error, HTTPException):
        return Problem(error.status_code, sentence_of(error.detail), error.headers or {})
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            headers = {"www-authenticate": 'Bearer realm="harken"'} if status == 401 else {}
            headers |= {"retry-after": str(_AGAIN_SECONDS)} if status == 409 else {}
            return Problem(status, sentence_of(error), headers)
    if isinstance(error, StoreError | ConfigError):
        # Its words name the server's own places.
        _log.error("store_failed", error_class=type(error).__name__)
        busy = "is busy" if isinstance(error, StoreBusyError) else "cannot be reached"
        return Problem(503, f"The store {busy}. Try again in a moment.", {"retry-after": str(_AGAIN_SECONDS)})
    if isinstance(error, HarkenError):
        return Problem(503, sentence_of(error), {"retry-after": str(_AGAIN_SECONDS)})
    _log.error("request_failed", error_class=type(error).__name__)
    return Problem(500, f"Unexpected {type(error).__name__}; please report it.")


def too_many(seconds: float, headers: Mapping[str, str]) -> Problem:
    """Asked too often: come back after so many seconds."""
    wait = str(max(1, ceil(seconds)))
    return Problem(429, f"Too many requests. Come back in {wait} s.", {**headers, "retry-after": wait})
