"""Which embedding model fills the store, which one answers meanwhile, and the queries that it was asked last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from harken.config.settings import Settings
from harken.errors import MissingExtraError, ProviderError
from harken.jobs.spend import EmbeddingMeter, SpendBook
from harken.providers.embedder import Embedder, Space, Vectors
from harken.providers.options import EmbedderOptions
from harken.providers.registry import embedding_price, open_embedder
from harken.storage.ports import Store, StoredSpace
from harken.storage.vectors import answering_space, ensure_space

# What is searched for one prompt, by several people at once; more would only be kept and never asked for.
_QUERIES = 4


class RecentQueries:
    """An embedder that remembers the vectors of the last few queries; threads may share it.

    One prompt is looked for among what was saved, in this conversation and in others, each by a search of its own.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._vector = lru_cache(_QUERIES)(self._made)

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        return self.embedder.space

    def embed_query(self, text: str) -> Vectors:
        """The query's vector, prefix added: `(dims,)` float32, unit length; shared, so it cannot be written."""
        return self._vector(text)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors; see `Embedder.embed_passages`."""
        return self.embedder.embed_passages(texts)

    def _made(self, text: str) -> Vectors:
        vector = self.embedder.embed_query(text)
        vector.flags.writeable = False
        return vector


@dataclass(frozen=True, slots=True)
class OpenSpace:
    """A space of the store together with the model that embeds into it."""

    space: StoredSpace
    embedder: Embedder


class Spaces:
    """The store's spaces and their models, opened when first needed and once.

    Args:
        store: keeps the spaces.
        configured: opens the model that the settings name; None where they name none.
        spec: opens that model again; kept with its space.
        from_spec: opens the model of an older space.
        price: USD for embedding so many tokens; None where that is not known.
    """

    def __init__(
        self,
        store: Store,
        configured: Callable[[], Embedder] | None,
        spec: dict[str, Any],
        from_spec: Callable[[dict[str, Any]], Embedder],
        price: Callable[[int], Decimal | None] = lambda _tokens: Decimal(0),
    ) -> None:
        self.price = price
        self._store = store
        self._configured = configured
        self._spec = spec
        self._from_spec = from_spec
        self._embedder: Embedder | None = None
        self._answering: dict[str, RecentQueries] = {}
        self._lock = threading.RLock()

    @property
    def is_configured(self) -> bool:
        """Whether the settings name a model; it need not be one that can be opened."""
        return self._configured is not None

    def embedder(self) -> Embedder | None:
        """The configured model; None where the settings name none.

        Raises:
            ProviderError: it cannot be opened.
            MissingExtraError: what it needs is not installed.
        """
        with self._lock:
            if self._embedder is None and self._configured is not None:
                self._embedder = self._configured()
            return self._embedder

    def filled(self) -> OpenSpace | None:
        """The space that new vectors go into, made if it is new; None where the settings name no model."""
        embedder = self.embedder()
        if embedder is None:
            return None
        described = embedder.space
        with self._store.writing() as tx:
            space = ensure_space(tx, described.id, described.dims, described.threshold, self._spec)
        return OpenSpace(space, embedder)

    def answering(self) -> OpenSpace | None:
        """The space that queries are asked of; None while nothing is embedded, or nothing may embed a query."""
        if self._configured is None:
            return None
        with self._store.reading() as tx:
            active = answering_space(tx)
        if active is None:
            return None
        with self._lock:
            if active.name not in self._answering:
                # The old space answers on where the configured model cannot be opened.
                with suppress(ProviderError, MissingExtraError):
                    embedder = self.embedder()
                    if embedder is not None and embedder.space.id == active.name:
                        self._answering[active.name] = RecentQueries(embedder)
            if active.name not in self._answering:
                self._answering[active.name] = RecentQueries(self._from_spec(active.spec))
            return OpenSpace(active, self._answering[active.name])


def open_spaces(
    store: Store, settings: Settings, book: Callable[[], SpendBook], given: Embedder | None = None
) -> Spaces:
    """The store's spaces with the models that the settings name; `given` stands in place of the configured one."""
    if given is not None:
        return Spaces(store, lambda: given, {"name": "given"}, lambda _spec: given)
    key = settings.embedding.api_key

    def opened(options: EmbedderOptions) -> Embedder:
        meter = EmbeddingMeter(book, f"{options.name}:{options.model}", partial(embedding_price, options))
        return open_embedder(options, meter)

    def from_spec(spec: dict[str, Any]) -> Embedder:
        return opened(EmbedderOptions.from_spec(spec, settings.home, key.get_secret_value() if key else None))

    if settings.embedder == "none":
        return Spaces(store, None, {}, from_spec)
    options = EmbedderOptions.configured(settings.home, settings.embedder, settings.embedding)
    return Spaces(store, lambda: opened(options), options.to_spec(), from_spec, partial(embedding_price, options))
