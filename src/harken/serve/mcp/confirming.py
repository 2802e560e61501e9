"""Asking the user before something is forgotten, where the client can: in both eras of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import is_version_at_least

from harken.errors import NotFoundError
from harken.serve.operations.operation import AnyOperation
from harken.serve.operations.registry import OPERATIONS

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

Answer = dict[str, Any]


def can_ask(context: Any) -> bool:
    """Whether the client can ask its user, and be asked to on this connection."""
    capabilities = context.session.client_capabilities
    offered = capabilities.elicitation if capabilities is not None else None
    # The first clients that could named no form.
    if offered is None or (offered.form is None and offered.url is not None):
        return False
    return _is_called_again(context) or bool(context.session.can_send_request)


async def confirmed(
    ask: Callable[[AnyOperation, Mapping[str, Any]], Awaitable[Answer]],
    operation: AnyOperation,
    context: Any,
    params: CallToolRequestParams,
) -> Answer | InputRequiredResult:
    """Do what destroys when the user agrees; whatever the model has put into `confirm`.

    Args:
        ask: answers an operation.
        operation: that destroys; it takes `confirm`.
        context: MCP's, of the request.
        params: of the call.
    Returns:
        What was done, or would have been; or the question, with which the client calls again.
    """
    given = params.arguments or {}
    preview = await ask(operation, {**given, "confirm": False})
    said: object
    if not _is_called_again(context):
        said = await _asked_now(context, await _question(ask, given, preview))
    elif params.input_responses is None:
        wanted = ElicitRequestFormParams(message=await _question(ask, given, preview), requested_schema=_SCHEMA)
        return InputRequiredResult(input_requests={_KEY: ElicitRequest(params=wanted)})
    else:
        said = params.input_responses.get(_KEY)
    if _agrees(said):
        return await ask(operation, {**given, "confirm": True})
    return {**preview, "note": "Nothing was forgotten: the user was asked, and did not agree."}


async def _question(
    ask: Callable[[AnyOperation, Mapping[str, Any]], Awaitable[Answer]], given: Mapping[str, Any], preview: Answer
) -> str:
    """What would go, in words that a person knows again."""
    ids, kind = preview["ids"], given.get("kind", "memory")
    lines = [f"Forget for good: {len(ids)} x {kind}?"]
    for uid in ids[:_MOST_QUOTED]:
        try:
            words = _words(await ask(OPERATIONS["show"], {"id": uid, "around": 0, "limit": 1}))
        except NotFoundError:
            # There is no showing a value.
            words = ""
        lines.append(f"- {uid} {words}".rstrip())
    if len(ids) > _MOST_QUOTED:
        lines.append(f"and {len(ids) - _MOST_QUOTED} more")
    if kind == "conversation":
        lines.append(f"With {preview['messages']} messages.")
    return "\n".join(lines)


def _words(shown: Answer) -> str:
    memory, experience, messages = shown["memory"], shown["experience"], shown["messages"]
    if memory or experience:
        text = memory["content"] if memory else experience["goal"]
    else:
        text = messages[0]["text"] if messages else ""
    return " ".join(text.split())[:_QUOTED_CHARS]


def _is_called_again(context: Any) -> bool:
    return is_version_at_least(context.protocol_version, _CALLED_AGAIN)


async def _asked_now(context: Any, question: str) -> ElicitResult | None:
    """What the user says; None where nobody does."""
    with anyio.move_on_after(_ASKING_SECONDS):
        try:
            said: ElicitResult = await context.session.elicit_form(question, _SCHEMA, context.request_id)
        except MCPError:
            return None
        return said
    return None


def _agrees(said: object) -> bool:
    """Nothing but an explicit yes is one."""
    return isinstance(said, ElicitResult) and said.action == "accept" and (said.content or {}).get(_FIELD) is True
