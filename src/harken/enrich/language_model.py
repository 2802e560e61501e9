"""The language model that the settings name, opened once for all who ask it, each call of it booked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from harken.config import LlmConfig, Settings
from harken.enrich.spend import MeteredModel, SpendBook
from harken.providers.chat_model import ChatModel
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model
from harken.storage.consent import drop_model, model_since, note_model
from harken.storage.store import Store


@dataclass(slots=True)
class LanguageModel:
    """Opens the configured model on first use, and another one when the settings name another.

    The moment at which a model is first seen is remembered: what was said before is never sent to it unasked.

    Args:
        settings: those in force; read anew each time.
        env: where vendors' keys are looked for.
    """

    store: Store
    settings: Callable[[], Settings]
    env: Mapping[str, str]
    now: Callable[[], datetime]
    _opened: tuple[ChatOptions, ChatModel] | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.note()

    def metered(self, kind: str, item_uid: str) -> MeteredModel | None:
        """The model, each call of which is booked for one record of one kind of work; None where none is configured.

        Raises:
            ConfigError: the settings name a model that cannot be.
            MissingExtraError: what it needs is not installed.
        """
        model = self.model()
        if model is None:
            return None
        return self.book().metered(model, kind, item_uid)

    def book(self) -> SpendBook:
        """The books, with the limit in force."""
        return SpendBook(self.store, self.settings().llm.max_usd_per_day, self.now)

    def since(self) -> datetime | None:
        """When the model was first seen: what was said from then on it may summarize; None where none is configured."""
        name = _identity(self.settings().llm)
        if not name:
            return None
        with self.store.reading() as tx:
            return model_since(tx, name)

    def note(self, before: LlmConfig | None = None) -> None:
        """Remember the moment at which the model is first seen.

        Args:
            before: what was set until now; a model that is set no more is forgotten, so that the moment at which it is
                set again counts.
        """
        name, old = _identity(self.settings().llm), _identity(before) if before else ""
        is_known = not name or self.since() is not None
        if is_known and old in ("", name):
            return
        with self.store.writing() as tx:
            if old and old != name:
                drop_model(tx, old)
            if name:
                note_model(tx, name, self.now())

    def model(self) -> ChatModel | None:
        """The model, its calls not booked; None where the settings name none.

        Raises:
            ConfigError: the settings name a model that cannot be.
            MissingExtraError: what it needs is not installed.
        """
        options = ChatOptions.of(self.settings().llm, self.env)
        if options is None:
            return None
        with self._lock:
            if self._opened is None or self._opened[0] != options:
                self._opened = (options, open_chat_model(options))
            return self._opened[1]

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened[1].close()


def _identity(wanted: LlmConfig) -> str:
    """The model and who serves it; empty where none is set."""
    return f"{wanted.model} {wanted.url or ''}".rstrip() if wanted.model else ""
