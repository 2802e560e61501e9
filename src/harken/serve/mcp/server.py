"""The MCP server: what clients are offered, whoever answers it; before something is forgotten, the user is asked."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.from_thread
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from mcp_types.version import is_version_at_least

from harken import __version__
from harken.errors import AccessError, HarkenError, NotFoundError, sentence_of
from harken.log import Log
from harken.serve.mcp.listed import INSTRUCTIONS, brief, tool
from harken.serve.mcp.offers import Call, ResourcesAndPrompts
from harken.serve.operations.operation import AnyOperation, Effect
from harken.serve.operations.registry import OPERATIONS
from harken.text.characters import legible, sound_value

_log = Log(__name__)

_PROGRESS_SECONDS = 0.2
_KEY, _FIELD = "confirm", "forget"
_SCHEMA = {
    "type": "object",
    "properties": {_FIELD: {"type": "boolean", "title": "Forget for good"}},
    "required": [_FIELD],
}
# From here on a question is the answer of the first call, and what the user says comes with a second.
_CALLED_AGAIN = "2026-07-28"
# A person is asked, who may be away.
_ASKING_SECONDS = 600.0
_MOST_QUOTED, _QUOTED_CHARS = 5, 160

_Ask = Callable[[AnyOperation, Mapping[str, Any]], Awaitable[dict[str, Any]]]


def make_server(call: Call, tools: Callable[[Any], Sequence[AnyOperation]]) -> Server[Any]:
    """Make a server of the tools that a request's context offers.

    Args:
        call: answers a verb; raises a `HarkenError` with what the client is told.
        tools: those that are offered; the other verbs are not answered.
    """
    # Its messages may quote what a client sent; ours are on stderr, by names alone.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False

    async def told(asked: AnyOperation, given: Mapping[str, Any], context: Any, progress: Any) -> dict[str, Any]:
        # A model reads it.
        answer: dict[str, Any] = sound_value(await call(asked, given, context, progress), legible)
        return answer

    offers = ResourcesAndPrompts(told)

    async def list_tools(context: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool.model_validate(tool(each)) for each in _offered(tools, context)])

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        operation = _named(params.name, _offered(tools, context))
        progress = _progress(context)

        async def ask(asked: AnyOperation, given: Mapping[str, Any]) -> dict[str, Any]:
            return await told(asked, given, context, progress)

        try:
            if operation.effect is Effect.DESTROYS and _can_ask(context):
                answer = await _confirmed(ask, operation, context, params)
            else:
                answer = await ask(operation, params.arguments or {})
        except HarkenError as error:
            return _failed(sentence_of(error))
        except Exception as error:  # noqa: BLE001 - the serve boundary; its words may hold a message's
            _log.error("tool_failed", tool=operation.name, error_class=type(error).__name__)
            return _failed(f"unexpected {type(error).__name__}; please report it.")
        if isinstance(answer, InputRequiredResult):
            return answer
        shown = brief(answer)
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        return CallToolResult(content=[TextContent(text=text)], structured_content=shown)

    return Server(
        "harken",
        version=__version__,
        title="Harken",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=offers.list_resources,
        on_list_resource_templates=offers.list_templates,
        on_read_resource=offers.read_resource,
        on_list_prompts=offers.list_prompts,
        on_get_prompt=offers.get_prompt,
    )


def _offered(tools: Callable[[Any], Sequence[AnyOperation]], context: Any) -> Sequence[AnyOperation]:
    try:
        return tools(context)
    except HarkenError as error:
        raise MCPError(INVALID_PARAMS, sentence_of(error)) from error


def _named(name: str, offered: Sequence[AnyOperation]) -> AnyOperation:
    for each in offered:
        if each.name == name:
            return each
    where = f" Name it to have it: harken mcp --tools {name}" if name in OPERATIONS else ""
    names = ", ".join(each.name for each in offered)
    raise MCPError(INVALID_PARAMS, sentence_of(f"There is no tool '{name}' here. Tools: {names}.{where}"))


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _progress(context: Any) -> Callable[[int, int], None]:
    """Return what tells the client from a worker thread, now and then, and of the end; it ends what is cancelled."""
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        anyio.from_thread.check_cancelled()
        now = time.monotonic()
        if done >= total or now - last >= _PROGRESS_SECONDS:
            last = now
            anyio.from_thread.run(context.session.report_progress, done, total)

    return tell


def _can_ask(context: Any) -> bool:
    """Whether the client can ask its user, and be asked to on this connection."""
    capabilities = context.session.client_capabilities
    offered = capabilities.elicitation if capabilities is not None else None
    # The first clients that could named no form.
    if offered is None or (offered.form is None and offered.url is not None):
        return False
    return _is_called_again(context) or bool(context.session.can_send_request)


def _is_called_again(context: Any) -> bool:
    return is_version_at_least(context.protocol_version, _CALLED_AGAIN)


async def _confirmed(
    ask: _Ask, operation: AnyOperation, context: Any, params: CallToolRequestParams
) -> dict[str, Any] | InputRequiredResult:
    """Do what destroys when the user agrees; whatever the model has put into `confirm`.

    Returns:
        What was done, or would have been; or the question, with which the client calls again.
    """
    given = params.arguments or {}
    preview = await ask(operation, {**given, "confirm": False})
    if not preview["ids"]:
        # A query, which forgets nothing.
        return preview
    reply: object
    if not _is_called_again(context):
        reply = await _asked_now(context, await _question(ask, given, preview))
    elif params.input_responses is None:
        wanted = ElicitRequestFormParams(message=await _question(ask, given, preview), requested_schema=_SCHEMA)
        return InputRequiredResult(input_requests={_KEY: ElicitRequest(params=wanted)})
    else:
        reply = params.input_responses.get(_KEY)
    # Nothing but an explicit yes is one.
    if isinstance(reply, ElicitResult) and reply.action == "accept" and (reply.content or {}).get(_FIELD) is True:
        return await ask(operation, {**given, "confirm": True})
    return {**preview, "note": "Nothing was forgotten: the user was asked, and did not agree."}


async def _question(ask: _Ask, given: Mapping[str, Any], preview: dict[str, Any]) -> str:
    """Say what would go, in words that a person knows again."""
    ids, kind = preview["ids"], given.get("kind", "memory")
    lines = [f"Forget for good: {len(ids)} x {kind}?"]
    for uid in ids[:_MOST_QUOTED]:
        try:
            words = _words(await ask(OPERATIONS["show"], {"id": uid, "around": 0, "limit": 1}))
        except (AccessError, NotFoundError):
            # There is no showing a value, nor anything by a key that may not read.
            words = ""
        lines.append(f"- {uid} {words}".rstrip())
    if len(ids) > _MOST_QUOTED:
        lines.append(f"and {len(ids) - _MOST_QUOTED} more")
    if kind == "conversation":
        lines.append(f"With {preview['messages']} messages.")
    return "\n".join(lines)


def _words(shown: dict[str, Any]) -> str:
    memory, experience, messages = shown["memory"], shown["experience"], shown["messages"]
    if memory or experience:
        text = memory["content"] if memory else experience["goal"]
    else:
        text = messages[0]["text"] if messages else ""
    return " ".join(text.split())[:_QUOTED_CHARS]


async def _asked_now(context: Any, question: str) -> ElicitResult | None:
    """Return what the user says; None where nobody does."""
    with anyio.move_on_after(_ASKING_SECONDS):
        try:
            reply: ElicitResult = await context.session.elicit_form(question, _SCHEMA, context.request_id)
        except MCPError:
            return None
        return reply
    return None
