"""MCP at a path of the daemon; made when somebody first asks, for it takes a second to import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from starlette.types import Receive, Scope, Send

from harken.engine import Harken
from harken.errors import MissingExtraError
from harken.serve.http.guard import caller_of, error_response
from harken.serve.mcp.listed import DEFAULT_TOOLS, tools_of
from harken.serve.operations.operation import AnyOperation

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from harken.serve.mcp.offers import Call


def tools_named(context: Any) -> Sequence[AnyOperation]:
    """The tools that the address names: `/mcp?tools=NAME,…`."""
    return tools_of(context.request.query_params.get("tools", DEFAULT_TOOLS))


def answers_of(harken: Harken) -> Call:
    """Answers verbs from an open store, as HTTP does, for an agent's model."""

    async def answer(
        operation: AnyOperation, given: Mapping[str, Any], context: Any, progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        caller = caller_of(context.request.scope, is_agent=True, progress=progress)
        return await run_sync(operation.call, harken, given, caller)

    return answer


class Mount:
    """Answers MCP over streamable HTTP, by POST; no session is kept, so none has to be found again, or heard by GET.

    Args:
        answer: answers a verb.
        offered: the tools that a request's context offers.
    """

    def __init__(self, answer: Call, offered: Callable[[Any], Sequence[AnyOperation]] = tools_named) -> None:
        self._answer = answer
        self._offered = offered
        self._making = asyncio.Lock()
        self._ending = asyncio.Event()
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with self._making:
            if self._manager is None:
                try:
                    await self._start()
                except ModuleNotFoundError:
                    await error_response(503, str(MissingExtraError("MCP", "mcp")))(scope, receive, send)
                    return
        assert self._manager is not None  # noqa: S101 - made above
        await self._manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """End what is still being answered."""
        self._ending.set()
        if self._running is not None:
            await self._running

    async def _start(self) -> None:
        manager = await run_sync(self._make)
        ready = asyncio.Event()

        async def run() -> None:
            async with manager.run():
                ready.set()
                await self._ending.wait()

        self._running = asyncio.create_task(run())
        await ready.wait()
        self._manager = manager

    def _make(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from harken.serve.mcp.server import make_server

        # Hosts and origins were looked at before; on the socket there are none.
        return StreamableHTTPSessionManager(make_server(self._answer, self._offered), stateless=True)
