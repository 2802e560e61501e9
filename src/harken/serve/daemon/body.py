"""The body of a request, up to a length, and in no longer than a time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

# Less than a daemon that ends waits for what it still answers.
PATIENCE_SECONDS = 15.0


class BodyError(Exception):
    """A request is not what the route takes.

    Args:
        status: of HTTP.
        message: what is wrong, and what to send.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def content_of(request: Request, longest: int) -> bytes:
    """The body.

    Raises:
        BodyError: it is longer than so many bytes, or does not come whole.
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
