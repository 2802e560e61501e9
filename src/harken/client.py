"""Clients of a team's server, blocking and awaited: a method for each verb, made of the operations.

What can be asked for is described once, by the operations; the types of it stand in `client.pyi`, which
`tools/clients.py` writes.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import MISSING
from functools import partial
from typing import Any, Self
from uuid import uuid4

import httpx

from harken import __version__
from harken.errors import EndpointError, UsageError
from harken.model.arguments import arguments_of
from harken.serve.operations.operation import AnyOperation, Effect
from harken.serve.operations.registry import TEAM_OPERATIONS, operation_of
from harken.text.characters import sound_value

# Too often, the same is being answered, the store or the server is away: come back.
_AGAIN = (409, 429, 502, 503, 504)
_LEAST_WAIT, _MOST_WAIT = 0.2, 30.0
_Got = httpx.Response | httpx.TransportError | None
_Steps = Generator[httpx.Request | float, _Got, dict[str, Any]]


class ApiError(EndpointError):
    """The server refuses a request.

    Args:
        status: of HTTP.
        kind: of problem, a URN.
        detail: a sentence.
    """

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(f"{detail} ({status})")
        self.status = status
        self.kind = kind
        self.detail = detail


class _Client:
    """What both clients share: how a request is made, when it is sent again, what becomes of its answer."""

    _connections: type[httpx.Client | httpx.AsyncClient]
    _loop: Callable[[], object] = staticmethod(lambda: None)

    def __init__(
        self,
        url: str,
        key: str,
        space: str | None = None,
        *,
        attempts: int = 5,
        timeout_seconds: float = 30.0,
        transport: Any = None,
    ) -> None:
        if not url.startswith(("https://", "http://")):
            raise UsageError(f"'{url}' is no address of a server. Give one like https://memory.example.org")
        if not (key := key.strip()).isascii() or not key.isprintable() or not key:
            raise UsageError("Without a key nobody is answered. It begins with hk_: harken key create")
        self._headers = {"authorization": f"Bearer {key}", "user-agent": f"harken-client/{__version__}"}
        self._space = space
        self._attempts = max(1, attempts)
        timeout = httpx.Timeout(timeout_seconds, pool=None)
        self._connect = partial(self._connections, base_url=url, timeout=timeout, transport=transport)
        self._opened: list[Any] = [None, None]

    @property
    def _http(self) -> Any:
        """The connections of this process, and of this event loop: two would read each other's answers."""
        here = os.getpid(), self._loop()
        if self._opened[0] != here:
            self._opened[:] = here, self._connect()
        return self._opened[1]

    def in_space(self, space: str | None) -> Self:
        """The same client, whose calls name a space; it shares the connections."""
        other = copy(self)
        other._space = space
        return other

    def _steps(self, operation: AnyOperation, given: dict[str, Any]) -> _Steps:
        """Yield requests to send, each answered with its response or what the transport raised, and seconds to wait.

        Raises:
            ApiError: the server refuses.
            EndpointError: it cannot be reached.
        """
        headers = dict(self._headers)
        if self._space is not None:
            headers["harken-space"] = self._space
        if operation.effect is not Effect.READS:
            # The same for every attempt: what was done by one whose answer was lost is not done again.
            headers["idempotency-key"] = uuid4().hex
        named = sound_value({name: value for name, value in given.items() if value is not None})
        encoded = httpx.Headers(headers, encoding="utf-8")
        request = self._http.build_request("POST", f"/v1/{operation.name}", json=named, headers=encoded)
        # A key that is made anew with each call is not made twice for an answer that was lost.
        attempts = 1 if operation.is_secret else self._attempts
        for attempt in range(1, attempts + 1):
            wait = min(_MOST_WAIT, _LEAST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
            response = yield request
            assert response is not None  # noqa: S101 - a request was yielded
            if isinstance(response, httpx.TransportError):
                if attempt == attempts:
                    reason = str(response) or type(response).__name__
                    raise EndpointError(f"{request.url} cannot be reached: {reason}.") from response
                yield wait
                continue
            if response.status_code == httpx.codes.OK:
                with suppress(ValueError):
                    answer: dict[str, Any] = response.json()
                    return answer
                raise _refusal(response)
            if response.status_code not in _AGAIN or attempt == attempts:
                raise _refusal(response)
            # Later than it says, each by another moment: whoever was refused together would come back together.
            asked = response.headers.get("retry-after", "")
            yield wait + (min(_MOST_WAIT, float(asked)) if asked.isdecimal() else 0.0)
        raise AssertionError("the last attempt returns or raises")


class HarkenClient(_Client):
    """A client that blocks; safe to use from several threads.

    Args:
        url: of the server, `https://memory.example.org`.
        key: `hk_…`; it says who asks.
        space: the one that calls name; None for one's own.
        attempts: how often a request is sent at most, where the server says to come back, or cannot be reached.
        timeout_seconds: for an answer.
        transport: in place of the network.
    """

    _connections = httpx.Client

    def call(self, verb: str, /, **given: Any) -> dict[str, Any]:
        """The answer of a verb by its name."""
        steps = self._steps(operation_of(verb, TEAM_OPERATIONS), given)
        got: _Got = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as done:
                return dict(done.value)
            try:
                if isinstance(step, httpx.Request):
                    got = self._http.send(step)
                else:
                    time.sleep(step)
            except httpx.TransportError as error:
                got = error

    def pages(self, verb: str, /, **given: Any) -> Iterator[dict[str, Any]]:
        """The answers of a verb that lists, page by page."""
        while True:
            answer = self.call(verb, **given)
            yield answer
            if not answer.get("next_cursor"):
                return
            given["cursor"] = answer["next_cursor"]

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class AsyncHarkenClient(_Client):
    """The same, awaited; see `HarkenClient`."""

    _connections = httpx.AsyncClient
    _loop = staticmethod(asyncio.get_running_loop)

    async def call(self, verb: str, /, **given: Any) -> dict[str, Any]:
        """The answer of a verb by its name."""
        steps = self._steps(operation_of(verb, TEAM_OPERATIONS), given)
        got: _Got = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as done:
                return dict(done.value)
            try:
                if isinstance(step, httpx.Request):
                    got = await self._http.send(step)
                else:
                    await asyncio.sleep(step)
            except httpx.TransportError as error:
                got = error

    async def pages(self, verb: str, /, **given: Any) -> AsyncIterator[dict[str, Any]]:
        """The answers of a verb that lists, page by page."""
        while True:
            answer = await self.call(verb, **given)
            yield answer
            if not answer.get("next_cursor"):
                return
            given["cursor"] = answer["next_cursor"]

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


def _refusal(response: httpx.Response) -> ApiError:
    try:
        found = response.json()
        return ApiError(response.status_code, str(found["type"]), str(found["detail"]))
    except (ValueError, KeyError, TypeError):
        # What stands between here and the server may answer in its own way.
        told = f"{response.url} answers {response.reason_phrase}, not as Harken does."
        return ApiError(response.status_code, "about:blank", told)


def required_of(operation: AnyOperation) -> list[str]:
    """The arguments that have to be given, in their order: a method takes them by place as well."""
    return [each.name for each in arguments_of(operation.arguments) if each.default is MISSING]


def _method(operation: AnyOperation) -> Callable[..., Any]:
    names = required_of(operation)

    def method(client: Any, *values: Any, **given: Any) -> Any:
        if len(values) > len(names) or given.keys() & set(names[: len(values)]):
            raise TypeError(f"{operation.name} takes by place: {', '.join(names) or 'nothing'}")
        return client.call(operation.name, **dict(zip(names, values, strict=False)), **given)

    method.__name__ = operation.name
    method.__doc__ = operation.summary
    return method


for _each in TEAM_OPERATIONS.values():
    for _kind in (HarkenClient, AsyncHarkenClient):
        setattr(_kind, _each.name, _method(_each))
