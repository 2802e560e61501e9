"""Any endpoint that speaks OpenAI's `/v1/embeddings`: OpenAI, Ollama, LM Studio, llama.cpp, vLLM."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np

from harken.errors import ConfigError, EndpointError, EndpointTimeoutError, RateLimitError
from harken.providers.embedder import CallMeter, ModelCard, PrefixingEmbedder, Space, Vectors, clip_bytes, unit_rows
from harken.providers.options import LOOPBACK, EmbedderOptions, check_key, checked_endpoint
from harken.text import tokens

# The smallest limit among the models that people run at home; larger ones are told so by embedding.max_tokens.
_MAX_TOKENS = 512
_BATCH_SIZE = 100
_PROBE = "How long is a vector?"
_HINTS = {
    401: ": set embedding.api_key",
    403: ": set embedding.api_key",
    404: ": check embedding.url, up to and including /v1, and embedding.model",
    413: ": lower embedding.max_tokens",
}


class OpenAICompatibleEmbedder(PrefixingEmbedder):
    """A remote model; threads may share it. Failures are raised at once: who calls, tries again.

    It needs a URL and a model. The meter books every call; dims are found out with the first answer where not set.

    Raises:
        ConfigError: the URL, the model or the key cannot be used.
    """

    def __init__(self, options: EmbedderOptions, meter: CallMeter | None = None) -> None:
        if not (options.model or "").strip():
            raise ConfigError("the embedder 'openai-compatible' needs embedding.model, e.g. 'nomic-embed-text'")
        self._options = options
        self._meter = meter
        self._model = str(options.model)
        self._endpoint = _endpoint(options.url)
        check_key(options.api_key, "embedding")
        self._dims = options.dims
        self._card = ModelCard(max_tokens=options.max_tokens or _MAX_TOKENS).adjusted(options)
        self._lock = threading.Lock()
        local = self._endpoint.host in LOOPBACK
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {options.api_key}"} if options.api_key else {},
            timeout=options.timeout_seconds,
            # A proxy for the world outside has no way to an endpoint on this machine.
            trust_env=not local,
            # Reading the certificates takes 75 ms, which an endpoint that has none need not cost.
            verify=not (local and self._endpoint.scheme == "http"),
        )
        weakref.finalize(self, self._client.close)

    @property
    def space(self) -> Space:
        """The space its vectors live in; asks the endpoint once where `dims` was not set.

        Raises:
            EndpointError: the endpoint had to be asked and did not answer.
            SpendLimitError: it had to be asked, and the day's money is spent.
        """
        return self._card.space("openai-compatible", self._model, self._dims or self._ask([_PROBE]).shape[1])

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _embed(self, texts: Sequence[str], is_query: bool) -> Vectors:
        size = self._options.batch_size or _BATCH_SIZE
        return np.concatenate([self._ask(texts[start : start + size]) for start in range(0, len(texts), size)])

    def _ask(self, texts: Sequence[str]) -> Vectors:
        ready = [clip_bytes(text, self._card.max_tokens) for text in texts]
        estimate = sum(map(tokens.estimate, ready))
        if self._meter is None:
            return self._post(ready, estimate)[0]
        booked = self._meter.begin(estimate)
        try:
            vectors, used = self._post(ready, estimate)
        except BaseException as error:
            self._meter.failed(booked, error)
            raise
        self._meter.answered(booked, used)
        return vectors

    def _post(self, ready: Sequence[str], estimate: int) -> tuple[Vectors, int]:
        """The vectors, and the tokens that they took: as the endpoint counted, else as estimated."""
        body: dict[str, Any] = {"model": self._model, "input": list(ready)}
        if self._options.dims is not None:
            body["dimensions"] = self._options.dims
        try:
            with self._client.stream("POST", self._endpoint, json=body) as sent:
                # Its limit holds for each read alone.
                until, content = time.monotonic() + self._options.timeout_seconds, b""
                for part in sent.iter_raw():
                    content += part
                    if time.monotonic() > until:
                        raise httpx.ReadTimeout("The answer does not end.")
            response = httpx.Response(sent.status_code, headers=sent.headers, content=content)
        except httpx.TimeoutException as error:
            late = f"did not answer within {self._options.timeout_seconds:g} s ({type(error).__name__})"
            raise EndpointTimeoutError(f"{self._endpoint} {late}", may_cost=True) from error
        except httpx.HTTPError as error:
            broke = isinstance(error, httpx.ReadError | httpx.RemoteProtocolError)
            raise EndpointError(f"{self._endpoint} cannot be reached ({type(error).__name__})", broke) from error
        if response.status_code != httpx.codes.OK:
            said = f"{self._endpoint} answers with status {response.status_code}{_HINTS.get(response.status_code, '')}"
            wait = response.headers.get("retry-after", "")
            raise RateLimitError(said, float(wait)) if wait.isdecimal() else EndpointError(said)
        return self._checked(_read(response, len(ready), str(self._endpoint))), _used(response, estimate)

    def _checked(self, vectors: Vectors) -> Vectors:
        dims = vectors.shape[1]
        with self._lock:
            self._dims = self._dims or dims
        if dims != self._dims:
            said = f"{self._endpoint} answers with vectors of {dims} dims, not {self._dims}"
            raise EndpointError(said, may_cost=True)
        return vectors


def _endpoint(url: str | None) -> httpx.URL:
    if not url:
        raise ConfigError("the embedder 'openai-compatible' needs embedding.url, e.g. 'http://localhost:11434/v1'")
    parsed: httpx.URL = checked_endpoint(httpx, url.rstrip("/") + "/embeddings", "embedding")
    return parsed


def _used(response: httpx.Response, estimate: int) -> int:
    usage = response.json().get("usage")
    found = usage.get("prompt_tokens") or usage.get("total_tokens") if isinstance(usage, dict) else None
    return found if isinstance(found, int) and 0 < found < 2**40 else estimate


def _read(response: httpx.Response, count: int, endpoint: str) -> Vectors:
    """The vectors of an answer in the order of the texts; the answer is not trusted to be what it should."""
    try:
        data = response.json()["data"]
        order = [item.get("index", position) for position, item in enumerate(data)]
        if sorted(order) != list(range(count)):
            raise ValueError("not one vector for each text")
        rows: list[Any] = [None] * count
        for position, item in zip(order, data, strict=True):
            rows[position] = item["embedding"]
        with np.errstate(over="ignore"):
            matrix = np.asarray(rows, dtype=np.float32)
        if matrix.ndim != 2 or matrix.shape[1] == 0:
            raise ValueError("the vectors have no common length")
        return unit_rows(matrix)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        said = f"{endpoint} answers with something that is not embeddings ({type(error).__name__})"
        raise EndpointError(said, may_cost=True) from error
