"""From the clients' errors to ours: what happened, where, and what to do. Never the words of a prompt or an answer."""

from __future__ import annotations

from concurrent.futures import CancelledError

import httpx2
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError,
)

from harken.errors import (
    CredentialError,
    EndpointError,
    EndpointTimeoutError,
    HarkenError,
    PromptError,
    RateLimitError,
    UnknownModelError,
)
from harken.providers.options import ChatOptions

CLIENT_ERRORS = (ModelAPIError, UnexpectedModelBehavior, UserError, CancelledError, httpx2.HTTPError)
_NO_ANSWER = "answers with something that is no chat completion"


def translated(error: BaseException, options: ChatOptions) -> HarkenError:
    """The error of our tree that says the same, to be raised without its cause.

    A cause is printed with it, and a vendor's message quotes the endpoint's answer, which may quote the prompt.
    """
    place = f"{options.vendor}:{options.model}" + (f" at {options.url}" if options.url else "")
    if isinstance(error, ModelRequestTimeout | ModelTimeoutError):
        return EndpointTimeoutError(
            f"{place} did not answer within {options.timeout_seconds:g} s: raise llm.timeout_seconds"
        )
    if isinstance(error, ModelConnectionError):
        cause = type(error.__cause__ or error).__name__
        return EndpointError(f"{place} cannot be reached ({cause}): check llm.url, and that the endpoint runs")
    if isinstance(error, ModelAPIError):
        return _refused(error, place, options)
    if isinstance(error, httpx2.HTTPError):
        return EndpointError(f"{place} cannot be reached ({type(error).__name__}): check llm.url")
    if isinstance(error, CancelledError):
        return EndpointError(f"{place} was closed during the call")
    if isinstance(error, UserError):
        return PromptError(f"{place} cannot be asked this")
    return EndpointError(f"{place} {_NO_ANSWER} ({type(error).__name__})")


def _refused(error: ModelAPIError, place: str, options: ChatOptions) -> HarkenError:
    status = f" with status {error.status_code}" if isinstance(error, ModelHTTPError) else ""
    if isinstance(error, ModelQuotaExceededError):
        return CredentialError(f"{place} refuses{status}: the account has no credit left")
    if isinstance(error, ModelRateLimitError):
        wait = "" if error.retry_after is None else f", for {error.retry_after:g} s"
        return RateLimitError(f"{place} wants fewer requests{wait}{status}", error.retry_after)
    if isinstance(error, ModelAuthenticationError):
        return CredentialError(f"{place} does not accept the API key{status}: set {options.key_hint}")
    if isinstance(error, ModelNotFoundError):
        return UnknownModelError(f"{place} has no such model{status}: check llm.model and llm.url")
    if isinstance(error, ModelContextWindowExceededError):
        return PromptError(f"{place} finds the prompt too long{status}: lower llm.max_input_tokens")
    if isinstance(error, ModelHTTPError):
        return _by_status(error, place)
    if isinstance(error, ModelRequestRejectedError):
        return PromptError(f"{place} rejects the request")
    return EndpointError(f"{place} {_NO_ANSWER}")


def _by_status(error: ModelHTTPError, place: str) -> HarkenError:
    """What the client has not told apart: small servers answer in their own ways."""
    status = error.status_code
    if status in (401, 403):
        return CredentialError(f"{place} refuses with status {status}: set llm.api_key")
    if status == 404:
        return UnknownModelError(f"{place} answers with status 404: check llm.model, and llm.url up to /v1")
    if status in (400, 413, 422):
        return PromptError(f"{place} rejects the request with status {status}")
    return EndpointError(f"{place} answers with status {status}")
