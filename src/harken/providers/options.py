"""The options that embedders and language models are opened with, and what calls with them cost.

Prices are those of the settings, else of the list that ships with `genai-prices`, which is never fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from harken.config.sections import EmbeddingConfig, LlmConfig
from harken.errors import ConfigError
from harken.providers.chat_model import TokenUsage

# None belongs in the store: a home moves with its files, a key is nobody's business there, and a price changes.
_OUTSIDE_SPEC = frozenset({"home", "api_key", "usd_per_million"})
# An endpoint of one's own machine; what has no price there costs nothing.
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class EmbedderOptions:
    """The options of an embedder; None leaves a choice to the model.

    Attributes:
        home: where `models/` and `cache/` are.
        name: of an embedder that `registry.open_embedder` knows.
        path: a folder with `model.onnx` and `tokenizer.json`.
        url: an endpoint's base, up to and including `/v1`.
        max_tokens: texts are cut there; never above what the model takes.
        threshold: in place of the model's calibrated one, cosine similarity.
        allow_download: weights that are nowhere on this machine may be fetched.
        download_url: fetch from here: a mirror of the hub's folder, or, with `download_sha256`, any folder that
            holds `model.onnx` and `tokenizer.json`.
        download_sha256: the SHA-256 that this `model.onnx` must have.
        usd_per_million: price of a million tokens at an endpoint, in place of the list's.
    """

    home: Path
    name: str = "onnx"
    model: str | None = None
    path: Path | None = None
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    dims: int | None = None
    max_tokens: int | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    threshold: float | None = None
    threads: int = 2
    timeout_seconds: float = 30.0
    batch_size: int | None = None
    allow_download: bool = False
    download_url: str | None = None
    download_sha256: str | None = None
    usd_per_million: Decimal | None = None

    @classmethod
    def configured(cls, home: Path, name: str, wanted: EmbeddingConfig) -> EmbedderOptions:
        """The options of an embedder that the settings ask for."""
        shared = {item.name for item in fields(cls)} & EmbeddingConfig.hints().keys()
        values: dict[str, Any] = {key: getattr(wanted, key) for key in shared - {"api_key"}}
        return cls(home, name, api_key=wanted.api_key.get_secret_value() if wanted.api_key else None, **values)

    def to_spec(self) -> dict[str, Any]:
        """The options that open the same space again, ready for JSON; without the home and the API key."""
        spec: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in _OUTSIDE_SPEC and value is not None:
                spec[item.name] = str(value) if isinstance(value, Path) else value
        return spec

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], home: Path, api_key: str | None = None) -> Self:
        """The options that `to_spec` wrote down.

        Raises:
            ConfigError: the spec has a key that this version does not know.
        """
        unknown = sorted(spec.keys() - ({item.name for item in fields(cls)} - _OUTSIDE_SPEC))
        if unknown:
            raise ConfigError(f"the stored description of an embedding space has unknown keys: {', '.join(unknown)}")
        values = dict(spec)
        if values.get("path") is not None:
            values["path"] = Path(values["path"])
        return cls(home=home, api_key=api_key, **values)

    def price(self, tokens: int) -> Decimal | None:
        """USD for embedding so many tokens: nothing on this machine; None where no price of the model is known.

        The list is asked by the endpoint's URL: a model's name alone does not say who serves it.
        """
        if self.name != "openai-compatible":
            return Decimal(0)
        if self.usd_per_million is not None:
            return self.usd_per_million * tokens / _MILLION
        if is_loopback(self.url):
            return Decimal(0)
        if self.model is None or self.url is None:
            return None
        return _listed_price(self.model, TokenUsage(tokens), self.url)


# Where people keep a vendor's key for all their programs.
_KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of a language model.

    Attributes:
        vendor: `openai`, `anthropic`, `google` or `ollama`.
        url: an endpoint's base in place of the vendor's own.
        max_tokens: longest answer where a call does not say.
        prices: USD for a million tokens of input and of output, in place of the list's.
    """

    vendor: str
    model: str
    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 60.0
    max_tokens: int = 2048
    prices: tuple[Decimal, Decimal] | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError where there is no such vendor."""
        vendors = (*_KEY_VARIABLES, "ollama")
        if self.vendor not in vendors:
            raise ConfigError(
                f"llm.model: no vendor '{self.vendor}'; there are: {', '.join(vendors)}. "
                "Anything that speaks OpenAI's protocol: openai:MODEL with llm.url"
            )

    @classmethod
    def of(cls, wanted: LlmConfig, env: Mapping[str, str]) -> Self | None:
        """The options that the settings ask for; None where they name no model.

        A vendor's own key is never sent to an endpoint of another: with a URL, only `llm.api_key` is.

        Raises:
            ConfigError: the model is not written as `vendor:model`, there is no such vendor, or a price is missing.
        """
        if not wanted.model:
            return None
        vendor, _, model = wanted.model.partition(":")
        if not vendor.strip() or not model.strip():
            raise ConfigError(f"llm.model is '{wanted.model}', not vendor:model, e.g. 'openai:gpt-5-mini'")
        key = wanted.api_key.get_secret_value() if wanted.api_key else None
        if not key and not wanted.url:
            key = next((env[name] for name in _KEY_VARIABLES.get(vendor, ()) if env.get(name)), None)
        into, out = wanted.input_usd_per_million, wanted.output_usd_per_million
        if (into is None) != (out is None):
            missing = "input" if into is None else "output"
            raise ConfigError(f"One price alone is set: harken config set llm.{missing}_usd_per_million PRICE")
        prices = None if into is None or out is None else (into, out)
        return cls(vendor, model, wanted.url, key, wanted.timeout_seconds, wanted.max_tokens, prices)

    def price(self, usage: TokenUsage) -> Decimal | None:
        """USD for a call of so many tokens; None where no price of the model is known.

        A model behind another URL is looked up by that URL, then among the vendor's own, never among everybody's: a
        Llama of one's own does not cost what it does at a vendor's. What the list does not know costs nothing on this
        machine.
        """
        if self.prices is not None:
            into, out = self.prices
            return (into * usage.input_tokens + out * usage.output_tokens) / _MILLION
        listed = None if self.url is None else _listed_price(self.model, usage, self.url)
        if listed is None:
            listed = _listed_price(self.model, usage, None, self.vendor)
        is_local = is_loopback(self.url) if self.url else self.vendor == "ollama"
        return Decimal(0) if listed is None and is_local else listed

    @property
    def key_hint(self) -> str:
        """The settings of the key, for the message of an error."""
        variables = () if self.url else _KEY_VARIABLES.get(self.vendor, ())
        return " or ".join(("llm.api_key", "HARKEN_LLM__API_KEY", *variables[:1]))


def _listed_price(model: str, usage: TokenUsage, url: str | None, vendor: str = "") -> Decimal | None:
    """The price in the list, by the endpoint's URL or else the vendor; None where it is not known or not installed."""
    try:
        # Imported here: it costs 100 ms that what asks for no price need not pay.
        from genai_prices import Usage, calc_price

        counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        counted = Usage(**counts, cache_read_tokens=usage.cached_tokens)
        if url is not None:
            return calc_price(counted, model, provider_api_url=url).total_price
        return calc_price(counted, model, provider_id=vendor).total_price
    except (ImportError, LookupError, ValueError):
        return None


def is_loopback(url: str | None) -> bool:
    """True for a URL that leads to this machine."""
    try:
        return urlsplit(url or "").hostname in LOOPBACK
    except ValueError:
        return False


def checked_endpoint(client: Any, text: str, section: str) -> Any:
    """The URL of a section of the settings, as a client (httpx or httpx2) parses it, if a call can be sent to it.

    Raises:
        ConfigError: it is none, or has another scheme, no host, a key or a query, or a proxy that cannot be used.
    """
    try:
        url = client.URL(text)
    except client.InvalidURL as error:
        raise ConfigError(f"{section}.url is no URL") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{section}.url must begin with http:// or https:// and name a host")
    if url.userinfo or url.query:
        key = f"put a key into {section}.api_key"
        raise ConfigError(f"{section}.url must hold no key and no '?': {key}; Azure's /openai/v1 needs no api-version")
    try:
        client.Client(trust_env=url.host not in LOOPBACK, verify=False).close()
    except (ImportError, ValueError) as error:
        how = "for SOCKS, begin it with socks5:// and pip install socksio"
        raise ConfigError(f"the proxy that ALL_PROXY or the like names cannot be used for {section}: {how}") from error
    return url


def check_key(key: str | None, section: str) -> None:
    """Hold an API key, where there is one, to what a header can carry.

    Raises:
        ConfigError: it holds other characters.
    """
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"{section}.api_key holds characters that no header can carry")
