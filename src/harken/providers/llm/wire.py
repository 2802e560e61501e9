"""Our messages and answers in the client library's terms, and back; its errors as ours.

An error says what happened, where, and what to do; never the words of a prompt or an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

import httpx2
from pydantic_ai import exceptions as failures
from pydantic_ai import messages as parts
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from harken import errors
from harken.model.conversations import Role
from harken.providers.chat_model import ChatMessage, Finish, TokenUsage, ToolCall, ToolSpec
from harken.providers.options import ChatOptions

_FINISHES: Mapping[str | None, Finish] = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_call": Finish.TOOL_CALLS,
    "content_filter": Finish.REFUSED,
    None: Finish.STOP,
}


def to_wire(messages: Sequence[ChatMessage], instructions: str) -> list[parts.ModelMessage]:
    """The prompt; what stands between two answers goes as one request.

    The instructions go as the first message: the library's own way puts them behind other system messages.

    Raises:
        UsageError: there is no message, or the last one is an answer.
    """
    if not messages or messages[-1].role is Role.ASSISTANT:
        raise errors.UsageError("A prompt needs a last message that is to be answered.")
    found: list[parts.ModelMessage] = []
    waiting: list[parts.ModelRequestPart] = [parts.SystemPromptPart(instructions)] if instructions else []
    for message in messages:
        if message.role is Role.ASSISTANT:
            if waiting:
                found.append(parts.ModelRequest(parts=waiting))
                waiting = []
            found.append(parts.ModelResponse(parts=_answer_parts(message)))
        else:
            waiting.append(_request_part(message))
    return [*found, parts.ModelRequest(parts=waiting)]


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


def text_of(event: parts.ModelResponseStreamEvent) -> str:
    """The text that an event of a stream adds; empty for most events."""
    if isinstance(event, parts.PartStartEvent) and isinstance(event.part, parts.TextPart):
        return event.part.content
    if isinstance(event, parts.PartDeltaEvent) and isinstance(event.delta, parts.TextPartDelta):
        return event.delta.content_delta
    return ""


def tool_calls(response: parts.ModelResponse) -> tuple[ToolCall, ...]:
    """The calls that an answer asks for, in order."""
    return tuple(_tool_call(part) for part in response.parts if isinstance(part, parts.ToolCallPart))


def finish(response: parts.ModelResponse) -> Finish:
    """The reason for which the model stopped: calls, where the answer has any, whatever the endpoint says."""
    if any(isinstance(part, parts.ToolCallPart) for part in response.parts):
        return Finish.TOOL_CALLS
    return _FINISHES.get(response.finish_reason, Finish.OTHER)


def usage(response: parts.ModelResponse) -> TokenUsage:
    """The tokens that the endpoint counted."""
    counted = response.usage
    return TokenUsage(counted.input_tokens, counted.output_tokens, counted.cache_read_tokens)


def _request_part(message: ChatMessage) -> parts.ModelRequestPart:
    if message.role is Role.TOOL:
        return parts.ToolReturnPart(tool_name=message.tool_name, content=message.text, tool_call_id=message.call_id)
    if message.role is Role.SYSTEM:
        return parts.SystemPromptPart(message.text)
    return parts.UserPromptPart(message.text)


def _answer_parts(message: ChatMessage) -> list[parts.ModelResponsePart]:
    texts = [parts.TextPart(message.text)] if message.text else []
    calls = (parts.ToolCallPart(call.name, dict(call.arguments), tool_call_id=call.id) for call in message.tool_calls)
    return [*texts, *calls]


def _tool_call(part: parts.ToolCallPart) -> ToolCall:
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


CLIENT_ERRORS = (
    failures.ModelAPIError,
    failures.UnexpectedModelBehavior,
    failures.UserError,
    CancelledError,
    httpx2.HTTPError,
)
_NO_ANSWER = "answers with something that is no chat completion"


def translated(error: BaseException, options: ChatOptions) -> errors.HarkenError:
    """The error of our tree that says the same, to be raised without its cause.

    A cause is printed with it, and a vendor's message quotes the endpoint's answer, which may quote the prompt.
    """
    place = f"{options.vendor}:{options.model}" + (f" at {options.url}" if options.url else "")
    if isinstance(error, failures.ModelRequestTimeout | failures.ModelTimeoutError):
        return errors.EndpointTimeoutError(
            f"{place} did not answer within {options.timeout_seconds:g} s: raise llm.timeout_seconds"
        )
    if isinstance(error, failures.ModelConnectionError):
        cause = type(error.__cause__ or error).__name__
        return errors.EndpointError(f"{place} cannot be reached ({cause}): check llm.url, and that the endpoint runs")
    if isinstance(error, failures.ModelAPIError):
        return _refused(error, place, options)
    if isinstance(error, httpx2.HTTPError):
        return errors.EndpointError(f"{place} cannot be reached ({type(error).__name__}): check llm.url")
    if isinstance(error, CancelledError):
        return errors.EndpointError(f"{place} was closed during the call")
    if isinstance(error, failures.UserError):
        return errors.PromptError(f"{place} cannot be asked this")
    return errors.EndpointError(f"{place} {_NO_ANSWER} ({type(error).__name__})")


def _refused(error: failures.ModelAPIError, place: str, options: ChatOptions) -> errors.HarkenError:
    status = f" with status {error.status_code}" if isinstance(error, failures.ModelHTTPError) else ""
    if isinstance(error, failures.ModelQuotaExceededError):
        return errors.CredentialError(f"{place} refuses{status}: the account has no credit left")
    if isinstance(error, failures.ModelRateLimitError):
        wait = "" if error.retry_after is None else f", for {error.retry_after:g} s"
        return errors.RateLimitError(f"{place} wants fewer requests{wait}{status}", error.retry_after)
    if isinstance(error, failures.ModelAuthenticationError):
        return errors.CredentialError(f"{place} does not accept the API key{status}: set {options.key_hint}")
    if isinstance(error, failures.ModelNotFoundError):
        return errors.UnknownModelError(f"{place} has no such model{status}: check llm.model and llm.url")
    if isinstance(error, failures.ModelContextWindowExceededError):
        return errors.PromptError(f"{place} finds the prompt too long{status}: lower llm.max_input_tokens")
    if isinstance(error, failures.ModelHTTPError):
        return _by_status(error, place)
    if isinstance(error, failures.ModelRequestRejectedError):
        return errors.PromptError(f"{place} rejects the request")
    return errors.EndpointError(f"{place} {_NO_ANSWER}")


def _by_status(error: failures.ModelHTTPError, place: str) -> errors.HarkenError:
    """Errors that the client has not told apart: small servers answer in their own ways."""
    status = error.status_code
    if status in (401, 403):
        return errors.CredentialError(f"{place} refuses with status {status}: set llm.api_key")
    if status == 404:
        return errors.UnknownModelError(f"{place} answers with status 404: check llm.model, and llm.url up to /v1")
    if status in (400, 413, 422):
        return errors.PromptError(f"{place} rejects the request with status {status}")
    return errors.EndpointError(f"{place} answers with status {status}")
