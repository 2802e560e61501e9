"""A cross-encoder in ONNX: ms-marco-MiniLM-L12 by default, or a folder of the user's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harken.errors import ModelFileError
from harken.providers.model_files import MARCO_RERANKER, find_model
from harken.providers.onnx_session import OnnxModel
from harken.providers.options import RerankerOptions


class OnnxReranker:
    """Judges pairs of query and text on this machine's CPU, loaded at the first pair; threads may share it.

    Raises:
        ModelFileError: the model's files are missing or not the pinned ones.
    """

    def __init__(self, options: RerankerOptions) -> None:
        files = find_model(MARCO_RERANKER, options.home, options.model, options.path)
        self._model = OnnxModel(files, options.max_tokens, options.threads)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.files.name

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """A relevance per text, `(len(texts),)` float32, 0 to 1 after the model's sigmoid, in order.

        The longer of query and text is cut first where both together pass the limit.

        Raises:
            ProviderError: the model failed.
        """
        scores = np.empty(len(texts), dtype=np.float32)
        pairs = [self._model.tokens(query, text) for text in texts]
        for batch, output in self._model.run_all(pairs):
            values = output.values
            if values.size != len(batch):
                raise ModelFileError(f"{self._model.files.model} gives {values.shape}, not one number a pair")
            # Clipped, since the exponential of a far-off logit overflows; float32 is 0 or 1 there anyway.
            scores[batch] = 1 / (1 + np.exp(-np.clip(values.reshape(len(batch)), -30, 30)))
        return scores
