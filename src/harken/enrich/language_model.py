"""The language model that the settings name, opened once for all who ask it, each call of it booked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from harken.config import Settings
from harken.enrich.spend import MeteredModel, SpendBook
from harken.providers.chat_model import ChatModel
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model
from harken.storage.store import Store


@dataclass(slots=True)
class LanguageModel:
    """Opens the configured model on first use, and another one when the settings name another.

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

    def metered(self, kind: str, item_uid: str) -> MeteredModel | None:
        """The model, each call of which is booked for one record of one kind of work; None where none is configured.

        Raises:
            ConfigError: the settings name a model that cannot be.
            MissingExtraError: what it needs is not installed.
        """
        model = self.model()
        if model is None:
            return None
        book = SpendBook(self.store, self.settings().llm.max_usd_per_day, self.now)
        return book.metered(model, kind, item_uid)

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
