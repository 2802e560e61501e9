"""Our messages and answers in the client library's terms, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from harken.errors import UsageError
from harken.model.conversations import Role
from harken.providers.chat_model import ChatMessage, Finish, TokenUsage, ToolCall, ToolSpec

_FINISHES: Mapping[str | None, Finish] = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_call": Finish.TOOL_CALLS,
    "content_filter": Finish.REFUSED,
    None: Finish.STOP,
}


def to_wire(messages: Sequence[ChatMessage], instructions: str) -> list[ModelMessage]:
    """The prompt; what stands between two answers goes as one request.

    The instructions go as the first message: the library's own way puts them behind other system messages.

    Raises:
        UsageError: there is no message, or the last one is an answer.
    """
    if not messages or messages[-1].role is Role.ASSISTANT:
        raise UsageError("A prompt needs a last message that is to be answered.")
    found: list[ModelMessage] = []
    waiting: list[ModelRequestPart] = [SystemPromptPart(instructions)] if instructions else []
    for message in messages:
        if message.role is Role.ASSISTANT:
            if waiting:
                found.append(ModelRequest(parts=waiting))
                waiting = []
            found.append(ModelResponse(parts=_answer_parts(message)))
        else:
            waiting.append(_request_part(message))
    return [*found, ModelRequest(parts=waiting)]


def to_parameters(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    """The tools."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters), strict=False
            )
            for tool in tools
        ]
    )


def text_of(event: ModelResponseStreamEvent) -> str:
    """What an event of a stream adds to the text; empty for most events."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def tool_calls(response: ModelResponse) -> tuple[ToolCall, ...]:
    """The calls that an answer asks for, in order."""
    return tuple(_tool_call(part) for part in response.parts if isinstance(part, ToolCallPart))


def finish(response: ModelResponse) -> Finish:
    """Why the model stopped; an answer with calls counts as one whatever the endpoint says."""
    if any(isinstance(part, ToolCallPart) for part in response.parts):
        return Finish.TOOL_CALLS
    return _FINISHES.get(response.finish_reason, Finish.OTHER)


def usage(response: ModelResponse) -> TokenUsage:
    """The tokens that the endpoint counted."""
    counted = response.usage
    return TokenUsage(counted.input_tokens, counted.output_tokens, counted.cache_read_tokens)


def _request_part(message: ChatMessage) -> ModelRequestPart:
    if message.role is Role.TOOL:
        return ToolReturnPart(tool_name=message.tool_name, content=message.text, tool_call_id=message.call_id)
    if message.role is Role.SYSTEM:
        return SystemPromptPart(message.text)
    return UserPromptPart(message.text)


def _answer_parts(message: ChatMessage) -> list[ModelResponsePart]:
    parts: list[ModelResponsePart] = [TextPart(message.text)] if message.text else []
    parts += [ToolCallPart(call.name, dict(call.arguments), tool_call_id=call.id) for call in message.tool_calls]
    return parts


def _tool_call(part: ToolCallPart) -> ToolCall:
    given: Any = part.args
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.strip() else {}
        except ValueError:
            return ToolCall(part.tool_call_id, part.tool_name, problem="the arguments are not JSON")
    if given is None:
        given = {}
    if not isinstance(given, dict):
        return ToolCall(part.tool_call_id, part.tool_name, problem="the arguments are no JSON object")
    return ToolCall(part.tool_call_id, part.tool_name, given)
