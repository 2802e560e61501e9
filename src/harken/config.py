"""Settings: defaults, then the settings file, then `HARKEN_*`, then values set at run time; each with its origin.

This is the only module that reads the environment.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import platformdirs
import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from harken.errors import ConfigError

SETTINGS_FILES = ("harken.toml", "harken.yaml", "harken.yml")
ENVIRONMENT_PREFIX = "HARKEN_"
_NOT_SETTINGS = {"HARKEN_HOME", "HARKEN_CONFIG"}

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Cosine = Annotated[float, Field(ge=-1.0, le=1.0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EmbeddingConfig(_Part):
    """How texts become vectors; which model is `Settings.embedder`'s matter.

    Attributes:
        model: the model's name; `openai-compatible` needs one.
        path: a folder with `model.onnx` and `tokenizer.json`, for the embedder `onnx`.
        url: base URL of an OpenAI-compatible endpoint, up to and including `/v1`.
        threshold: stands in place of the model's calibrated one; `search.relevance_threshold` stands above it.
        threads: CPU threads for a local model.
        allow_download: whether a local model that is nowhere on this machine may be fetched.
    """

    model: str | None = None
    path: Path | None = None
    url: str | None = None
    api_key: SecretStr | None = None
    dims: Annotated[int, Field(ge=1, le=8192)] | None = None
    max_tokens: Annotated[int, Field(ge=16, le=32768)] | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None
    threshold: Cosine | None = None
    threads: Annotated[int, Field(ge=1, le=64)] = 2
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    allow_download: bool = False
    download_url: str | None = None
    download_sha256: str | None = None
    min_message_tokens: Annotated[int, Field(ge=0, le=1000)] = 10


class SearchConfig(_Part):
    """How a search weighs what it finds.

    Attributes:
        vector_weight: share of similarity in the convex fusion; the rest is the keyword score's.
        candidates: how many of each list are fused.
        relevance_threshold: cosine similarity that a hit without a matching word needs; None takes the
            embedding model's own calibration.
        author_lift: what a message gains, as a factor over 1, when the query names its author.
        recency_half_life_days: age at which a message counts half; None ignores age.
    """

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    fusion: Literal["convex", "rrf"] = "convex"
    vector_weight: Ratio = 0.5
    rrf_k: Annotated[int, Field(ge=1, le=1000)] = 60
    candidates: Annotated[int, Field(ge=10, le=5000)] = 200
    relevance_threshold: Cosine | None = None
    min_query_tokens: Annotated[int, Field(ge=0, le=100)] = 1
    author_lift: Annotated[float, Field(ge=0.0, le=2.0)] = 0.15
    recency_half_life_days: Annotated[float, Field(gt=0)] | None = None
    context_window: bool = True
    rerank: bool = False
    rerank_top: Annotated[int, Field(ge=2, le=100)] = 10
    rerank_blend: Ratio = 0.5


class LlmConfig(_Part):
    """The language model, if any; without `model` none is ever called.

    Attributes:
        model: vendor and model: `openai:…`, `anthropic:…`, `google:…`, `ollama:…`.
        url: base URL of another endpoint that speaks the vendor's protocol, for OpenAI's up to and including `/v1`.
        api_key: None takes the vendor's own variable, e.g. OPENAI_API_KEY, unless `url` is set.
        max_tokens: longest answer.
        max_input_tokens: longer material is clipped from its middle.
        max_usd_per_day: background work stops there until the next day (UTC); None sets no limit.
        input_usd_per_million: price of a million tokens, in place of the list's; both prices or neither.
    """

    model: str | None = None
    url: str | None = None
    api_key: SecretStr | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    max_tokens: Annotated[int, Field(ge=16, le=200_000)] = 2048
    max_input_tokens: Annotated[int, Field(ge=256, le=2_000_000)] = 8000
    max_usd_per_day: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)] | None = None
    input_usd_per_million: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)] | None = None
    output_usd_per_million: Annotated[Decimal, Field(ge=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _both_prices(self) -> Self:
        if (self.input_usd_per_million is None) != (self.output_usd_per_million is None):
            raise ValueError("input_usd_per_million and output_usd_per_million must be set together")
        return self


class RedactionConfig(_Part):
    """What is taken out before anything touches a disk.

    Attributes:
        patterns: further rules, kind to regular expression.
    """

    enabled: bool = True
    patterns: dict[str, str] = Field(default_factory=dict)


class WorkerConfig(_Part):
    """How background work runs."""

    batch_size: Annotated[int, Field(ge=1, le=100)] = 64
    poll_seconds: Annotated[float, Field(gt=0, le=3600)] = 5.0
    lease_seconds: Annotated[float, Field(ge=5, le=3600)] = 120.0


class RecordConfig(_Part):
    """How messages are kept.

    Attributes:
        tool_text_chars: tool calls and results are searched by this much of their text; all of it is kept.
        fsync: force every journal line to the disk before it is acknowledged; survives power loss, costs speed.
    """

    tool_text_chars: Annotated[int, Field(ge=0, le=100_000)] = 2000
    fsync: bool = False


class Settings(_Part):
    """Everything that can be set, validated.

    Attributes:
        home: where the journal, the database, models and caches live.
        store: URL of the database; None is the embedded file under the home.
        tenant: whose part of a server's store this is; the embedded store has one, `local`.
        embedder: `onnx`, `openai-compatible`, `fastembed`, or `none` for keyword search alone.
    """

    home: Path
    store: str | None = None
    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,63}$")] = "local"
    embedder: str = "onnx"
    embedding: EmbeddingConfig = Field(default_factory=EmbeddingConfig)
    search: SearchConfig = Field(default_factory=SearchConfig)
    llm: LlmConfig = Field(default_factory=LlmConfig)
    redaction: RedactionConfig = Field(default_factory=RedactionConfig)
    worker: WorkerConfig = Field(default_factory=WorkerConfig)
    record: RecordConfig = Field(default_factory=RecordConfig)


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting as it stands, and where it came from (`default`, a file, a variable, `run time`)."""

    key: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Validated settings with the origin of each value."""

    settings: Settings
    origins: Mapping[str, str]

    def values(self) -> list[SettingValue]:
        """Every setting in the order of the classes above, secrets masked."""
        flat = _flatten(self.settings.model_dump(mode="json"))
        if self.settings.store is not None:
            flat["store"] = re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", self.settings.store)
        return [SettingValue(key, value, self.origins.get(key, "default")) for key, value in flat.items()]


def environment() -> Mapping[str, str]:
    """The process's environment variables."""
    return os.environ


def default_home(env: Mapping[str, str]) -> Path:
    """`HARKEN_HOME`, else the platform's data directory for Harken."""
    configured = env.get("HARKEN_HOME")
    return Path(configured).expanduser() if configured else Path(platformdirs.user_data_dir("harken", appauthor=False))


def load_settings(
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Settings from every layer, later ones winning.

    Args:
        home: stands above `HARKEN_HOME`.
        env: the environment; None reads the process's own.
        overrides: values given in code or on the command line; dotted keys or nested.
    Raises:
        ConfigError: a file cannot be parsed, a key is unknown, or a value is outside its range.
    """
    env = environment() if env is None else env
    place = Path(home).expanduser() if home is not None else default_home(env)
    place = place.absolute()
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in _layers(place, env, overrides or {}):
        for key, value in layer.items():
            merged[key] = value
            origins[key] = origin(key) if callable(origin) else origin
    merged["home"] = str(place)
    origins["home"] = "argument" if home is not None else ("HARKEN_HOME" if "HARKEN_HOME" in env else "default")
    return LoadedSettings(_validate(_nest(merged), origins), origins)


def _layers(home: Path, env: Mapping[str, str], overrides: Mapping[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    layers: list[tuple[Any, dict[str, Any]]] = []
    file = _settings_file(home, env)
    if file is not None:
        layers.append((file.name, _flatten(_snake_keys(_read_file(file)), stop=_free_tables())))
    layers.append((_variable, _from_environment(env)))
    layers.append(("argument", _flatten(dict(overrides), stop=_free_tables())))
    return layers


def _settings_file(home: Path, env: Mapping[str, str]) -> Path | None:
    named = env.get("HARKEN_CONFIG")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(f"HARKEN_CONFIG names {path}, which is not a file.")
        return path
    return next((home / name for name in SETTINGS_FILES if (home / name).is_file()), None)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        place = " ".join(str(error).split())
        raise ConfigError(f"{path} cannot be read: {place}") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold key-value pairs, not a {type(data).__name__}.")
    return data


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    known = _known_keys()
    found: dict[str, Any] = {}
    for name, value in env.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name in _NOT_SETTINGS or name.startswith("HARKEN_TEST_"):
            continue
        key = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
        if key not in known:
            raise ConfigError(
                f"{name} names no setting. Sections are joined by two underscores, as in HARKEN_SEARCH__LIMIT."
            )
        found[key] = value
    return found


def _variable(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "__")


def _known_keys() -> set[str]:
    keys: set[str] = set()
    for name, info in Settings.model_fields.items():
        part = info.annotation
        if isinstance(part, type) and issubclass(part, _Part):
            keys.update(f"{name}.{inner}" for inner in part.model_fields)
        else:
            keys.add(name)
    return keys


def _free_tables() -> frozenset[str]:
    return frozenset({"redaction.patterns"})


def _flatten(data: Mapping[str, Any], prefix: str = "", stop: frozenset[str] = frozenset()) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in data.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and dotted not in stop:
            flat.update(_flatten(value, f"{dotted}.", stop))
        else:
            flat[dotted] = value
    return flat


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for dotted, value in flat.items():
        *sections, leaf = dotted.split(".")
        place = nested
        for section in sections:
            inner = place.setdefault(section, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{section} is a value and a section at once.")
            place = inner
        place[leaf] = value
    return nested


_Data = TypeVar("_Data")


def _snake_keys(data: _Data) -> _Data | dict[str, Any]:
    if not isinstance(data, dict):
        return data
    return {
        re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower(): _snake_keys(value) for key, value in data.items()
    }


def _validate(data: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_url=False, include_input=False):
            key = ".".join(str(part) for part in problem["loc"])
            origin = origins.get(key) or next((o for k, o in origins.items() if k.startswith(key)), "default")
            reason = "there is no such setting" if problem["type"] == "extra_forbidden" else problem["msg"]
            lines.append(f"{key}: {reason[:1].lower()}{reason[1:]} (from {origin})")
        raise ConfigError("; ".join(lines)) from error
