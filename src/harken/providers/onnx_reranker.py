"""A cross-encoder in ONNX: ms-marco-MiniLM-L12."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harken.providers.model_files import MARCO_RERANKER, find_model
from harken.providers.onnx_session import OnnxModel

# Of query and text together: all that the model takes.
_MAX_TOKENS = 512


class OnnxReranker:
    """Judges pairs of query and text on this machine's CPU, loaded at the first pair; threads may share it.

    Raises:
        ModelFileError: the model's files are missing or not the pinned ones.
    """

    def __init__(self, home: Path, threads: int) -> None:
        self._model = OnnxModel(find_model(MARCO_RERANKER, home), _MAX_TOKENS, threads)

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """A relevance per text, `(len(texts),)` float32, 0 to 1 after the model's sigmoid, in order.

        The longer of query and text is cut first where both together pass the limit.

        Raises:
            ProviderError: the model failed.
        """
        scores = np.empty(len(texts), dtype=np.float32)
        pairs = [self._model.tokens(query, text) for text in texts]
        for batch, output in self._model.run_all(pairs):
            # Clipped, since the exponential of a far-off logit overflows; float32 is 0 or 1 there anyway.
            scores[batch] = 1 / (1 + np.exp(-np.clip(output.values.reshape(len(batch)), -30, 30)))
        return scores
