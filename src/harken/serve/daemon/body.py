"""The body of a request, up to a length."""

from __future__ import annotations

from starlette.requests import Request


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
        BodyError: it is longer than so many bytes.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > longest:
            raise BodyError(413, f"The body is longer than {longest} bytes.")
        parts.append(part)
    return b"".join(parts)
