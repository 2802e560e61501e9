"""Which embedding model fills the store, and which one answers meanwhile."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harken.config.settings import Settings
from harken.errors import ConfigError, MissingExtraError, ProviderError
from harken.providers.embedder import Embedder
from harken.providers.options import EmbedderOptions
from harken.providers.registry import has_multilingual, open_embedder
from harken.storage.ports import Store, StoredSpace
from harken.storage.vectors import answering_space, ensure_second, ensure_space, is_second, spaces_question

if TYPE_CHECKING:
    from harken.jobs.spend import SpendBook


@dataclass(frozen=True, slots=True)
class OpenSpace:
    """A space of the store together with the model that embeds into it."""

    space: StoredSpace
    embedder: Embedder


@dataclass(slots=True, eq=False, repr=False)
class Spaces:
    """The store's spaces and their models, opened when first needed and once.

    Args:
        configured: opens the model that the settings name; None where they name none.
        spec: opens that model again; kept with its space.
        from_spec: opens the model of an older space.
        price: USD for embedding so many tokens; None where that is not known.
        second: opens the model for other languages than English.
        multilingual: whether it is wanted; None leaves that to what is installed, and to the configured model.
    """

    store: Store
    configured: Callable[[], Embedder] | None
    spec: dict[str, Any]
    from_spec: Callable[[dict[str, Any]], Embedder]
    price: Callable[[int], Decimal | None] = lambda _tokens: Decimal(0)
    second: Callable[[], Embedder] | None = None
    multilingual: bool | None = None
    _second: Embedder | None = field(default=None, init=False)
    _opened: tuple[int, Embedder] | None = field(default=None, init=False)
    _older: dict[str, Embedder] = field(default_factory=dict, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def of_store(self, store: Store) -> Spaces:
        """Those of another store, filled and asked by the same models."""

        def first() -> Embedder:
            if (embedder := self.embedder()) is None:
                raise ConfigError("The settings name no embedding model.")
            return embedder

        def second() -> Embedder:
            if (embedder := self.second_embedder()) is None:
                raise ConfigError("No model for other languages is wanted.")
            return embedder

        models = first if self.configured else None, self.spec, self.older
        return Spaces(store, *models, self.price, second if self.second else None, self.multilingual)

    def older(self, spec: dict[str, Any]) -> Embedder:
        """The model of an older space, opened once."""
        key = json.dumps(spec, sort_keys=True, default=str)
        with self._lock:
            if key not in self._older:
                self._older[key] = self.from_spec(spec)
            return self._older[key]

    @property
    def is_configured(self) -> bool:
        """True where the settings name a model; it need not be one that can be opened."""
        return self.configured is not None

    def embedder(self) -> Embedder | None:
        """The configured model; None where the settings name none.

        Raises:
            ProviderError: it cannot be opened.
            MissingExtraError: what it needs is not installed.
        """
        with self._lock:
            # In a process that was forked anew: two would read each other's answers from an endpoint's connections.
            if self.configured is not None and (self._opened is None or self._opened[0] != os.getpid()):
                self._opened = os.getpid(), self.configured()
            return self._opened[1] if self._opened else None

    def filled(self) -> OpenSpace | None:
        """The space that new vectors go into, made if it is new; None where the settings name no model."""
        embedder = self.embedder()
        if embedder is None:
            return None
        described = embedder.space
        with self.store.writing() as tx:
            space = ensure_space(tx, described.id, described.dims, described.threshold, self.spec)
        return OpenSpace(space, embedder)

    def second_embedder(self) -> Embedder | None:
        """The model for other languages than English; None where none is wanted.

        Raises:
            MissingExtraError: it is not installed.
            ModelFileError: its files are not the pinned ones.
        """
        if self.second is None or self.configured is None or self.multilingual is False:
            return None
        with self._lock:
            if self._second is None:
                # A model that was made for more than English needs none beside it.
                first = self.embedder() if self.multilingual is None and has_multilingual() else None
                if self.multilingual or (first is not None and first.space.latin_only):
                    self._second = self.second()
            return self._second

    def languages(self) -> str:
        """What finds other languages than English, in words for a person; empty where the first model does, or none."""
        try:
            first, second = self.embedder(), self.second_embedder()
        except (ProviderError, MissingExtraError) as error:
            return str(error)
        if second is not None or first is None or self.multilingual is False or not first.space.latin_only:
            return second.space.id if second is not None else ""
        return "words alone; by meaning: pip install 'harken[multilingual]'"

    def second_filled(self) -> tuple[dict[str, StoredSpace], Embedder] | None:
        """The spaces of the model for other languages, made if they are new; None where none is wanted.

        Raises:
            MissingExtraError, ModelFileError: as `second_embedder`.
        """
        embedder = self.second_embedder()
        if embedder is None:
            return None
        space = embedder.space
        with self.store.writing() as tx:
            made = ensure_second(tx, space.id, space.dims, space.threshold, {"name": "multilingual"})
        return made, embedder

    def here(self) -> StoredSpace | None:
        """The space that new vectors go into, as `filled`; None also where its model cannot be opened."""
        with suppress(ProviderError, MissingExtraError):
            return filled.space if (filled := self.filled()) else None
        return None

    def answering(self) -> OpenSpace | None:
        """The space that queries are asked of; None while nothing is embedded, or nothing may embed a query."""
        with self.store.reading() as tx:
            tx.dialect.end_with(tx.connection, spaces_question(tx))
            active = answering_space(tx)
        embedder = None if active is None else self.embedder_of(active)
        return None if active is None or embedder is None else OpenSpace(active, embedder)

    def embedder_of(self, space: StoredSpace) -> Embedder | None:
        """The model of a space, whether the settings still name it or not; None where they name none at all.

        Raises:
            ProviderError: it cannot be opened.
            MissingExtraError: what it needs is not installed.
        """
        if self.configured is None:
            return None
        if is_second(space):
            second = self.second_embedder()
            return second if second is not None and space.name.startswith(f"{second.space.id}/") else None
        # The old space answers on where the configured model cannot be opened.
        with suppress(ProviderError, MissingExtraError):
            embedder = self.embedder()
            if embedder is not None and embedder.space.id == space.name:
                return embedder
        return self.older(space.spec)


def open_spaces(
    store: Store, settings: Settings, book: Callable[[], SpendBook], given: Embedder | None = None
) -> Spaces:
    """The store's spaces with the models that the settings name; `given` stands in place of the configured one."""
    languages, wanted = EmbedderOptions(settings.home, "multilingual"), settings.embedding.multilingual
    if wanted is None and given is None and settings.embedder == "openai-compatible":
        # Which languages its model knows nobody can tell, and to ask for its space would be a call.
        wanted = False
    second: dict[str, Any] = {"second": lambda: open_embedder(languages), "multilingual": wanted}
    if given is not None:
        return Spaces(store, lambda: given, {"name": "given"}, lambda _spec: given, **second)
    key, url = settings.embedding.api_key, settings.embedding.url

    def opened(options: EmbedderOptions) -> Embedder:
        # Whoever searches by words alone opens none.
        from harken.jobs.spend import EmbeddingMeter

        meter = EmbeddingMeter(book, f"{options.name}:{options.model}", options.price)
        return open_embedder(options, meter)

    def from_spec(spec: dict[str, Any]) -> Embedder:
        # The key that is set is for the endpoint that is set, and no other vendor's business.
        is_its = key is not None and (url is None or urlsplit(url).hostname == urlsplit(spec.get("url", "")).hostname)
        return opened(
            EmbedderOptions.from_spec(spec, settings.home, key.get_secret_value() if is_its and key else None)
        )

    if settings.embedder == "none":
        return Spaces(store, None, {}, from_spec)
    options = EmbedderOptions.configured(settings.home, settings.embedder, settings.embedding)
    return Spaces(store, lambda: opened(options), options.to_spec(), from_spec, options.price, **second)
