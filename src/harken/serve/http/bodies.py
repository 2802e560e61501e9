"""Bodies of requests: read whole and in time, or refused."""

from __future__ import annotations

import asyncio
import json

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

LONGEST_ARGUMENTS = 4 * 1024 * 1024
# Less than a daemon that ends waits for what it still answers.
PATIENCE_SECONDS = 15.0


class BodyError(HTTPException):
    """A request is not what the route takes; the detail says what is wrong, and what to send."""


async def read_body(request: Request, longest: int) -> bytes:
    """Return the whole body.

    Raises:
        BodyError: it is longer than so many bytes, does not come in time, or was cut off.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > longest:
                    raise BodyError(413, f"The body is longer than {longest} bytes.")
                parts.append(part)
    except TimeoutError:
        raise BodyError(408, f"The body did not come within {PATIENCE_SECONDS:g} s. Send it at once.") from None
    except ClientDisconnect:
        raise BodyError(400, "The body was cut off.") from None
    return b"".join(parts)


def parse_body(content: bytes) -> object:
    """Return what the JSON says; an empty body says `{}`.

    Raises:
        BodyError: it is no JSON.
    """
    if not content.strip():
        return {}
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BodyError(400, f"The body is no JSON ({type(error).__name__}). Send an object of arguments.") from None
