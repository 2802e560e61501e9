"""`harken mcp`: MCP on stdin and stdout, for as long as there is a client."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

import anyio
from mcp.server.stdio import stdio_server

from harken.errors import HarkenError
from harken.serve import parent
from harken.serve.mcp.asking import Asking
from harken.serve.mcp.server import make_server
from harken.serve.mcp.unreadable import answering_unreadable

_LOOK_SECONDS = 1.0
_END_SECONDS = 5.0


def serve_stdio(asking: Asking) -> None:
    """Serve the client that started this process; returns when it closes stdin.

    Where it goes without that, killed or with the pipe held open by another process, this process ends by itself.
    """
    threading.Thread(target=_watch, name="harken-parent", daemon=True).start()
    # A reader that hangs in a thread hears no exception.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        anyio.run(_run, asking)
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    finally:
        # What is still being done in a thread is a transaction, whole or not at all.
        threading.Thread(target=_leave_after, args=(_END_SECONDS,), name="harken-end", daemon=True).start()
        asking.close()


async def _run(asking: Asking) -> None:
    # Also starts the daemon where there is none, so that it is there when the first question comes.
    try:
        await asking.is_served()
    except HarkenError as error:
        # Each call answers so, too.
        sys.stderr.write(f"harken: {error}\n")
    server: Any = make_server(asking.answer)
    async with stdio_server() as (incoming, outgoing), answering_unreadable(incoming, outgoing) as messages:
        await server.run(messages, outgoing, server.create_initialization_options())


def _watch() -> None:
    while not parent.is_gone():
        time.sleep(_LOOK_SECONDS)
    os._exit(0)


def _leave_after(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(0)
