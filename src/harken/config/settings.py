"""Settings: defaults, then the settings file, then `HARKEN_*`, then values set at run time; each with its origin.

The environment is read here alone, but for a few places that say why (TID251).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

from harken.config import sections
from harken.config.section import DEFAULTS, UNKNOWN, Field, SettingsError, SettingsSection
from harken.errors import ConfigError

_FILES = ("harken.toml", "harken.yaml", "harken.yml")
_PREFIX = "HARKEN_"
RUN_TIME = "run time"
_KEY = "HARKEN_KEY"
_NOT_SETTINGS = {"HARKEN_HOME", "HARKEN_CONFIG", _KEY}
# Their keys are anybody's.
_FREE_TABLES = frozenset({"redaction.patterns"})
# What a distance of 1 or more becomes: the seeds let everything pass then that is found at all.
_ANY_LIKENESS = 1e-9


class Settings(SettingsSection):
    """Everything that can be set, validated.

    Attributes:
        home: where the journal, the database, models and caches live.
        store: URL of the database; None is the embedded file under the home.
        tenant: whose part of a server's store this is; the embedded store has one, `local`.
        embedder: `onnx`, `openai-compatible`, `fastembed`, `multilingual`, or `none` for keyword search alone.
    """

    home: Path
    store: str | None = None
    tenant: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,63}$")] = "local"
    embedder: Literal["onnx", "openai-compatible", "fastembed", "multilingual", "none"] = "onnx"
    embedding: sections.EmbeddingConfig = DEFAULTS
    search: sections.SearchConfig = DEFAULTS
    llm: sections.LlmConfig = DEFAULTS
    redaction: sections.RedactionConfig = DEFAULTS
    worker: sections.WorkerConfig = DEFAULTS
    record: sections.RecordConfig = DEFAULTS
    auto_rag: sections.AutoRagConfig = DEFAULTS
    context: sections.ContextConfig = DEFAULTS
    rag: sections.RagConfig = DEFAULTS
    hooks: sections.HooksConfig = DEFAULTS
    serve: sections.ServeConfig = DEFAULTS
    oidc: sections.OidcConfig = DEFAULTS
    webhooks: sections.WebhooksConfig = DEFAULTS
    chat: sections.ChatConfig = DEFAULTS
    assemble: sections.AssembleConfig = DEFAULTS


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting as it stands, and where it came from (`default`, a file, a variable, `run time`)."""

    key: str
    value: Any
    origin: str

    def view(self) -> dict[str, Any]:
        """Return the setting as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Validated settings with the origin of each value, and the keys of a settings file that nothing reads there."""

    settings: Settings
    origins: Mapping[str, str]
    passed_over: tuple[str, ...] = ()

    def values(self) -> list[SettingValue]:
        """Return every setting in the order of the classes above, secrets masked."""
        flat = _flatten(self.settings.model_dump(), stop=_FREE_TABLES)
        shown = {key: without_password(value) if isinstance(value, str) else value for key, value in flat.items()}
        return [SettingValue(key, value, self.origins.get(key, "default")) for key, value in shown.items()]


def without_password(url: str) -> str:
    """Return a URL with its password masked; any other text as it is."""
    return re.sub(r"([?&]\w*password=)[^&]*", r"\1***", re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", url))


def environment() -> Mapping[str, str]:
    """Return the process's environment variables."""
    return os.environ


def team_key() -> str | None:
    """Return the key by which a team's server knows who asks, `HARKEN_KEY`; None without one."""
    given = environment().get(_KEY) or None
    return given and (given.strip() or given)


def default_home(env: Mapping[str, str]) -> Path:
    """Return `HARKEN_HOME`, else the platform's data directory for Harken."""
    if configured := env.get("HARKEN_HOME"):
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("harken", appauthor=False))


def load_settings(
    home: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    stored: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Load the settings from every layer, later ones winning.

    Args:
        home: stands above `HARKEN_HOME`.
        env: the environment; None reads the process's own.
        overrides: values given in code or on the command line; dotted keys or nested.
        stored: values set at run time, which a store keeps; dotted keys.
    Raises:
        ConfigError: a file cannot be parsed, a key is unknown, or a value is outside its range.
    """
    env = environment() if env is None else env
    folder = (Path(home).expanduser() if home else default_home(env)).absolute()
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    layers, passed_over = _layers(folder, env, stored or {}, overrides or {})
    for origin, layer in layers:
        for key, value in layer.items():
            merged[key] = value
            origins[key] = origin(key) if callable(origin) else origin
    if (named := merged.get("home")) and Path(str(named)).expanduser().absolute() != folder:
        raise ConfigError(f"home: named by HARKEN_HOME, --home or Harken(FOLDER) alone (from {origins['home']})")
    merged["home"] = str(folder)
    origins["home"] = "argument" if home else ("HARKEN_HOME" if "HARKEN_HOME" in env else "default")
    return LoadedSettings(_validate(_nest(merged), origins), origins, passed_over)


def _layers(
    home: Path, env: Mapping[str, str], stored: Mapping[str, Any], overrides: Mapping[str, Any]
) -> tuple[list[tuple[Any, dict[str, Any]]], tuple[str, ...]]:
    """Each layer with its origin, and what a JSON file has that is no setting."""
    layers: list[tuple[Any, dict[str, Any]]] = []
    passed_over: tuple[str, ...] = ()
    if (file := _settings_file(home, env)) is not None:
        found = _flatten(_understood(_read_file(file), file), stop=_FREE_TABLES)
        # A hook's process reads no file.
        unread = found.keys() & {"hooks.deadline_seconds"}
        if file.suffix == ".json":
            # An old engine.json of the seeds: their parser is lenient, and most of its sections are another's matter.
            unread |= found.keys() - known_keys()
        passed_over = tuple(sorted(unread))
        layers.append((file.name, {key: value for key, value in found.items() if key not in unread}))
    layers += [(_variable, _from_environment(env)), (RUN_TIME, dict(stored))]
    layers.append(("argument", _flatten(overrides, stop=_FREE_TABLES)))
    for _, layer in layers:
        if "auto_rag.min_message_tokens" in layer:
            layer.setdefault("embedding.min_message_tokens", layer["auto_rag.min_message_tokens"])
    return layers, passed_over


def _settings_file(home: Path, env: Mapping[str, str]) -> Path | None:
    if named := env.get("HARKEN_CONFIG"):
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(f"HARKEN_CONFIG names {path}, which is not a file.")
        return path
    found = [home / name for name in _FILES if (home / name).exists()]
    if len(found) > 1:
        # Whichever was read, somebody would wonder why what the other one sets does nothing.
        names = " and ".join(map(str, found))
        raise ConfigError(f"There are {names}. Put all settings into one, and remove the other.")
    return found[0] if found else None


def _read_file(path: Path) -> dict[str, Any]:
    # Few homes have a file, and every command pays for what is imported above.
    import tomllib

    import yaml

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
    known = set(known_keys())
    found: dict[str, Any] = {}
    for name, value in env.items():
        if not name.startswith(_PREFIX) or name in _NOT_SETTINGS or name.startswith("HARKEN_TEST_"):
            continue
        key = name.removeprefix(_PREFIX).lower().replace("__", ".")
        if key not in known:
            raise ConfigError(
                f"{name} names no setting. Sections are joined by two underscores, as in "
                f"{_variable(like_it(key) or 'search.limit')}."
            )
        found[key] = typed_value(key, value)
    return found


def typed_value(key: str, value: Any) -> Any:
    """Return what somebody typed for a setting: lists, of names and paths, have no other form than commas between."""
    is_list = isinstance(value, str) and get_origin(_hints(Settings)[key]) is tuple
    return [each.strip() for each in value.split(",") if each.strip()] if is_list else value


def _variable(key: str) -> str:
    return _PREFIX + key.upper().replace(".", "__")


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
        *parts, leaf = dotted.split(".")
        place = nested
        for part in parts:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{part} is a value and a section at once.")
        place[leaf] = value
    return nested


def known_keys() -> list[str]:
    """Return every setting's dotted key, in alphabetical order."""
    return sorted(_hints(Settings))


def _hints(section: type[SettingsSection]) -> dict[str, Any]:
    """Return the annotation of each setting of a section, and of the sections in it, by its dotted key."""
    found: dict[str, Any] = {}
    for name, part in section.hints().items():
        is_section = isinstance(part, type) and issubclass(part, SettingsSection)
        found |= {f"{name}.{key}": hint for key, hint in _hints(part).items()} if is_section else {name: part}
    return found


def like_it(key: str) -> str:
    """Return the setting's key that comes nearest to one that there is none of; empty where none does."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, known_keys(), 1, 0.7)), "")


def _understood(data: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return a file's values under our own keys; the seeds' distance becomes a similarity."""
    section = data.get("autoRag", data.get("auto_rag"))
    if isinstance(section, dict) and "relevanceThreshold" in section:
        distance = section["relevanceThreshold"]
        if isinstance(distance, bool) or not isinstance(distance, int | float):
            raise ConfigError(f"autoRag.relevanceThreshold: must be a number, a cosine distance (from {file.name})")
        if not distance > 0:
            words = f"relevanceThreshold must be > 0, got {distance}"
            raise ConfigError(f"autoRag.relevanceThreshold: {words} (from {file.name})")
        rest = {key: value for key, value in section.items() if key != "relevanceThreshold"}
        named = "autoRag" if "autoRag" in data else "auto_rag"
        data = {**data, named: {**rest, "relevance_threshold": max(round(1 - distance, 9), _ANY_LIKENESS)}}
    return _snake_keys(data)


def _snake_keys(data: Mapping[str, Any]) -> dict[str, Any]:
    snake = {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower(): value for key, value in data.items()}
    return {key: _snake_keys(value) if isinstance(value, dict) else value for key, value in snake.items()}


def _validate(data: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        return Settings(**data)
    except SettingsError as error:
        lines = []
        for key, reason in error.problems:
            origin = origins.get(key) or next((o for k, o in origins.items() if k.startswith(key)), "default")
            meant = like_it(key) if reason == UNKNOWN else ""
            hint = f", did you mean {meant}?" if meant else ""
            lines.append(f"{key}: {reason} (from {origin}){hint}")
        raise ConfigError("; ".join(lines)) from error
