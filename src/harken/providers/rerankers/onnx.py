"""A cross-encoder in ONNX: ms-marco-MiniLM-L12 by default, or a folder of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from harken.errors import ModelFileError
from harken.providers.model_files import MARCO_RERANKER, ModelFiles, ModelRequest, find_model
from harken.providers.onnx_session import OnnxModel
from harken.providers.options import RerankerOptions


class OnnxReranker:
    """Judges pairs of query and text on this machine's CPU; threads may share it.

    Args:
        files: the model; one number per pair.
        options: what is set beside it.
    """

    def __init__(self, files: ModelFiles, options: RerankerOptions) -> None:
        self._model = OnnxModel(files, options.max_tokens, options.threads)

    @classmethod
    def open(cls, options: RerankerOptions) -> Self:
        """Find the model that the options ask for; it is loaded at the first pair.

        Raises:
            ModelFileError: the model's files are missing or not the pinned ones.
        """
        request = ModelRequest(
            home=options.home,
            known=MARCO_RERANKER,
            path_setting="the reranker's path",
            name=options.model,
            path=options.path,
        )
        return cls(find_model(request), options)

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
