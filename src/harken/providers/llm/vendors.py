"""The clients of the vendors, each told everything itself: none reads keys or addresses from the environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx2
from pydantic_ai.models import Model

from harken.errors import ConfigError
from harken.providers.options import LOOPBACK, ChatOptions, check_key, checked_endpoint

_CONNECT_SECONDS = 10.0
# Endpoints on one's own machine ask for no key; the clients insist on one.
_NO_KEY = "no-key"
_OPENAI = "https://api.openai.com/v1"
_ANTHROPIC = "https://api.anthropic.com"
_GOOGLE = "https://generativelanguage.googleapis.com"
_THINKS = re.compile(r"(o\d|gpt-[5-9])\b")
_OLLAMA = "http://localhost:11434/v1"


def open_client(options: ChatOptions) -> tuple[Model, httpx2.AsyncClient]:
    """The vendor's model, and the connections it uses, which the caller closes. Nothing is sent yet.

    Raises:
        ConfigError: the URL or the key cannot be used.
    """
    url = options.url or (_OLLAMA if options.vendor == "ollama" else None)
    local: bool = checked_endpoint(httpx2, url or _OPENAI, "llm").host in LOOPBACK
    if not options.api_key and options.url is None and options.vendor != "ollama":
        raise ConfigError(f"{options.vendor}:{options.model} needs an API key: set {options.key_hint}")
    check_key(options.api_key, "llm")
    timeout = httpx2.Timeout(options.timeout_seconds, connect=min(_CONNECT_SECONDS, options.timeout_seconds))
    # A proxy for the world outside has no way to an endpoint on this machine, and one that has no certificate need not
    # cost the 30 ms of reading all authorities'.
    verified = not (local and httpx2.URL(url or "").scheme == "http")
    connections = httpx2.AsyncClient(timeout=timeout, trust_env=not local, verify=verified)
    return _VENDORS[options.vendor](options, connections), connections


def _openai(options: ChatOptions, connections: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    class Streamed(OpenAIStreamedResponse):
        """Takes what begins by an id and a name for a call of its own: Ollama numbers all of an answer 0."""

        def _map_tool_call_delta(self, choice: Any) -> Iterable[Any]:
            begun = vars(self).setdefault("_begun", {})
            for call in choice.delta.tool_calls or ():
                uid, name = begun.get(call.index, (call.index, None))
                if name and call.function and call.function.name == name and call.id in (uid, "", None):
                    # Named anew with each piece of its arguments, as MiniMax's are.
                    call.function.name = None
                elif call.id and call.function and call.function.name:
                    uid = call.id
                    begun[call.index] = uid, call.function.name
                call.index = uid
            return super()._map_tool_call_delta(choice)

    class Compatible(OpenAIChatModel):
        _streamed_response_cls = Streamed

    key, url = options.api_key or _NO_KEY, options.url or (_OLLAMA if options.vendor == "ollama" else _OPENAI)
    client = AsyncOpenAI(api_key=key, base_url=url, organization="", project="", http_client=connections, max_retries=0)
    if url == _OPENAI:
        return OpenAIChatModel(options.model, provider=OpenAIProvider(openai_client=client))
    # OpenAI's models that think are behind Azure and gateways too; the template of Qwen takes one system message.
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=bool(_THINKS.match(options.model)),
        openai_chat_supports_multiple_system_messages=False,
        # In no answer: the library knows thoughts in a stream only where each tag comes as a piece of its own.
        thinking_tags=("\0", "\0"),
    )
    provider = OpenAICompatibleProvider("openai-compatible", openai_client=client, profile=profile)
    return Compatible(options.model, provider=provider)


def _anthropic(options: ChatOptions, connections: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=options.api_key or _NO_KEY, base_url=options.url or _ANTHROPIC, http_client=connections, max_retries=0
    )
    return AnthropicModel(options.model, provider=AnthropicProvider(anthropic_client=client))


def _google(options: ChatOptions, connections: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        api_key=options.api_key or _NO_KEY, http_client=connections, base_url=options.url or _GOOGLE
    )
    return GoogleModel(options.model, provider=provider)


_VENDORS: Mapping[str, Callable[[ChatOptions, httpx2.AsyncClient], Model]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "ollama": _openai,
}
