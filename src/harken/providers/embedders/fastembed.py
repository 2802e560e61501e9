"""Models that the package `fastembed` knows; an extra of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from harken.errors import ConfigError, ModelFileError, ProviderError
from harken.providers.embedder import ModelCard, PrefixingEmbedder, Space, Vectors, presentable, unit_rows
from harken.providers.onnx_session import vendor_errors
from harken.providers.options import EmbedderOptions

_DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
_MAX_TOKENS = 512
_BATCH_SIZE = 16


class FastembedEmbedder(PrefixingEmbedder):
    """A model that fastembed runs on this machine, loaded at the first text; threads may share it.

    It goes by one of fastembed's names, and is fetched only with `allow_download`.

    Raises:
        ConfigError: fastembed knows no such model.
    """

    def __init__(self, options: EmbedderOptions) -> None:
        from fastembed import TextEmbedding

        self._options = options
        self._model = options.model or _DEFAULT_MODEL
        known = {str(entry["model"]).lower(): int(entry["dim"]) for entry in TextEmbedding.list_supported_models()}
        if self._model.lower() not in known:
            raise ConfigError(
                f"fastembed knows no model '{self._model}'; its list: TextEmbedding.list_supported_models()"
            )
        self._dims = known[self._model.lower()]
        self._card = ModelCard(max_tokens=options.max_tokens or _MAX_TOKENS).adjusted(options)
        self._lock = threading.Lock()
        self._loaded: Any = None

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        return self._card.space("fastembed", self._model, self._dims)

    def _embed(self, texts: Sequence[str], is_query: bool) -> Vectors:
        ready = [presentable(text, self._card.max_tokens) for text in texts]
        model = self._load()
        size = self._options.batch_size or _BATCH_SIZE
        rows = model.query_embed(ready) if is_query else model.passage_embed(ready, batch_size=size)
        try:
            return unit_rows(np.asarray(list(rows), dtype=np.float32))
        except vendor_errors() as error:
            raise ProviderError(f"fastembed's {self._model} failed ({type(error).__name__})") from error

    def _load(self) -> Any:
        from fastembed import TextEmbedding

        with self._lock:
            if self._loaded is None:
                errors: tuple[type[Exception], ...] = (OSError, *vendor_errors())
                try:
                    self._loaded = TextEmbedding(
                        model_name=self._model,
                        cache_dir=str(self._options.home / "models" / "fastembed"),
                        threads=self._options.threads,
                        local_files_only=not self._options.allow_download,
                    )
                except errors as error:
                    raise ModelFileError(
                        f"fastembed cannot load {self._model} ({type(error).__name__}). Where it was never fetched, "
                        "set embedding.allow_download = true"
                    ) from error
            return self._loaded
