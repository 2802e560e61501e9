"""Settings that are changed while Harken runs, kept in the store and shared by every process that opens it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harken.config.settings import LoadedSettings, SettingValue, known_keys, like_it, typed_value, without_password
from harken.errors import ConfigError, UsageError
from harken.log import Log
from harken.storage.ports import Store
from harken.storage.state import all_settings, set_setting

_PREFIX = "setting:"
_PLACES = "the settings file or the environment"
_DAEMON = ("serve.idle_seconds", "serve.roots", "serve.hosts")
# What opens the store, or a team's server, cannot lie in it; secrets are no rows; no table can be typed.
_ELSEWHERE = dict.fromkeys(("store", "tenant", "embedding.api_key", "llm.api_key"), _PLACES) | {
    **{key: _PLACES for key in known_keys() if key.startswith(("oidc.", "serve.")) and key not in _DAEMON},
    "home": "HARKEN_HOME or --home",
    "redaction.patterns": "the settings file",
    "hooks.deadline_seconds": "HARKEN_HOOKS__DEADLINE_SECONDS",
}

_log = Log(__name__)


@dataclass(eq=False, repr=False)
class RunTimeSettings:
    """Values above the settings file and the environment; reached as `Harken.run_time`.

    `loader` loads the settings with such values above the rest; `changed` gets the new ones after each change.
    """

    store: Store
    loader: Callable[[Mapping[str, Any]], LoadedSettings]
    changed: Callable[[LoadedSettings], None]
    _seen: dict[str, Any] = field(default_factory=dict, init=False)

    def load(self) -> LoadedSettings:
        """The settings with what is kept; a kept value that this Harken refuses is passed over, and logged."""
        self._seen = self._kept()
        return self._understood(dict(self._seen))

    def refresh(self) -> bool:
        """Follow what another process has set or taken back since; whether it had. For processes that live long."""
        if self._kept() == self._seen:
            return False
        self.changed(self.load())
        return True

    def get(self, key: str) -> SettingValue:
        """The value in force, and where it comes from.

        Raises:
            UsageError: there is no such setting.
        """
        self._check(key)
        return next(value for value in self._understood(self._kept()).values() if value.key == key)

    def set(self, key: str, value: Any) -> SettingValue:
        """Keep a value; what is searched and assembled by it follows at once, the rest with the next opening.

        Raises:
            UsageError: there is no such setting, or it cannot be set at run time.
            ConfigError: the value is outside its range, or names a model that cannot be.
        """
        self._check(key)
        if key in _ELSEWHERE or without_password(str(value)) != str(value):
            raise UsageError(f"{key} cannot be set at run time. Set it by {_ELSEWHERE.get(key, _PLACES)}.")
        if value is None:
            raise UsageError(f"{key} needs a value. To take a value back: harken config unset {key}")
        value = typed_value(key, value)
        loaded = self.loader({**self._kept(), key: value})
        if key == "llm.model":
            from harken.providers.options import ChatOptions

            ChatOptions.of(loaded.settings.llm, {})
        return self._keep(key, value)

    def unset(self, key: str) -> SettingValue:
        """Take a value back; what the file, the environment or the default says holds again.

        Raises:
            UsageError: there is no such setting.
        """
        if key not in self._kept():
            self._check(key)
        return self._keep(key, None)

    def _keep(self, key: str, value: Any) -> SettingValue:
        with self.store.writing() as tx:
            set_setting(tx, _PREFIX + key, value)
        loaded = self.load()
        self.changed(loaded)
        return next((found for found in loaded.values() if found.key == key), SettingValue(key, None, "default"))

    def _understood(self, kept: dict[str, Any]) -> LoadedSettings:
        while True:
            try:
                return self.loader(kept)
            except ConfigError:
                refused = next((key for key in kept if not self._is_accepted(key, kept[key])), None)
                if refused is None:
                    raise
                _log.warning("run_time_setting_refused", key=refused)
                del kept[refused]

    def _kept(self) -> dict[str, Any]:
        with self.store.reading() as tx:
            found = all_settings(tx)
        return {key.removeprefix(_PREFIX): value for key, value in found.items() if key.startswith(_PREFIX)}

    def _is_accepted(self, key: str, value: Any) -> bool:
        try:
            self.loader({key: value})
        except ConfigError:
            return False
        return True

    def _check(self, key: str) -> None:
        if key not in known_keys():
            meant = like_it(key)
            hint = f"Did you mean {meant}?" if meant else "List them: harken config --all"
            raise UsageError(f"There is no setting '{key}'. {hint}")
