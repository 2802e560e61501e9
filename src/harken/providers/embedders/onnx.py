"""Sentence models in ONNX, run here: bge-small-en-v1.5 by default, or a folder of the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from harken.errors import ModelFileError, ProviderError
from harken.providers.embedder import Space, Vectors, unit_rows
from harken.providers.model_card import ModelCard, read_card
from harken.providers.model_files import BGE_SMALL, ModelFiles, ModelRequest, find_model
from harken.providers.onnx_session import OnnxModel, Output, Tokens
from harken.providers.options import EmbedderOptions

# Published for the state of the first token (`cls`), with an instruction before queries. With this int8 quantization
# the average of all tokens finds more (LoCoMo, vectors alone: recall@10 0.679 against 0.654, MRR 0.472 against 0.446)
# and keeps questions further from what is off-topic; the instruction then adds ten tokens a query and nothing else
# (0.669, 0.479). At the threshold, 80 % of questions keep a turn that answers them, and 5 % of off-topic prompts meet
# any turn of a whole conversation. All from benchmarks/calibrate.py:
# benchmarks/results/calibration-bge-small-en-v1.5-int8.json.
# Texts are cut at 512, all that the model takes: at 256, what stands in a long text's second half is found much less
# (sentences of READMEs: MRR 0.39 against 0.57), for 2.5 times the speed on such texts.
_BGE_CARD = ModelCard(dims=384, max_tokens=512, pooling="mean", threshold=0.60, latin_only=True)


@dataclass(frozen=True, slots=True)
class _Known:
    model: str
    variant: str
    card: ModelCard


# The hub's copy is another quantization: the same card, uncalibrated, and a space of its own.
_KNOWN: Mapping[str, _Known] = {
    BGE_SMALL.carried.model: _Known(BGE_SMALL.name, "int8", _BGE_CARD),
    **({BGE_SMALL.hub.pin.model: _Known(BGE_SMALL.name, "int8-hub", _BGE_CARD)} if BGE_SMALL.hub else {}),
}


class OnnxEmbedder:
    """A sentence model on this machine's CPU; threads may share it.

    An int8 model's vectors move by up to 0.01 cosine with the texts that share their batch.

    Args:
        files: the model.
        options: what is set beside it.
    Raises:
        ModelFileError: the folder's card cannot be used.
    """

    def __init__(self, files: ModelFiles, options: EmbedderOptions) -> None:
        own = read_card(files.folder)
        known = _KNOWN.get(files.sha256) if own is None else None
        card = known.card if known else own or ModelCard()
        self._card = card.adjusted(options)
        self._model = OnnxModel(files, self._card.max_tokens, options.threads)
        self._max_rows = options.batch_size
        self._space: Space | None = None
        self._name = known.model if known else files.name
        self._variant = known.variant if known else f"{files.sha256[:8]}-{card.pooling}"

    @classmethod
    def open(cls, options: EmbedderOptions) -> Self:
        """Find the model that the options ask for; it is loaded at the first text.

        Raises:
            ConfigError: the options do not fit together.
            ModelFileError: the model's files are missing or not the pinned ones.
        """
        request = ModelRequest(
            home=options.home,
            known=BGE_SMALL,
            path_setting="embedding.path",
            name=options.model,
            path=options.path,
            allow_download=options.allow_download,
            download_url=options.download_url,
            download_sha256=options.download_sha256,
            timeout_seconds=options.timeout_seconds,
        )
        return cls(find_model(request), options)

    @property
    def space(self) -> Space:
        """The space its vectors live in; a model whose card does not say its dims is loaded for it."""
        if self._space is None:
            card = self._card
            dims = card.dims or self._model.output_dims()
            if dims is None:
                raise ModelFileError(f"{self._model.files.folder} needs a harken.json that says its dims")
            self._space = card.space(self._name, self._variant, dims)
        return self._space

    def embed_query(self, text: str) -> Vectors:
        """The query's vector, prefix added: `(dims,)` float32, unit length."""
        vector: Vectors = self._embed([self._model.tokens(self._card.query_prefix + text)])[0]
        return vector

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors, prefix added: `(len(texts), dims)` float32, unit length, in order.

        Raises:
            ProviderError: the model failed.
        """
        return self._embed([self._model.tokens(self._card.passage_prefix + text) for text in texts])

    def _embed(self, rows: Sequence[Tokens]) -> Vectors:
        vectors = np.empty((len(rows), self.space.dims), dtype=np.float32)
        for batch, output in self._model.run_all(rows, self._max_rows):
            vectors[batch] = self._pooled(output)
        return vectors

    def _pooled(self, output: Output) -> Vectors:
        values = output.values
        if values.ndim == 3 and self._card.pooling == "cls":
            values = values[:, 0]
        elif values.ndim == 3:
            # Length is scaled away below, so the sum does for the average.
            values = np.einsum("btd,bt->bd", values, output.mask.astype(np.float32))
        if values.ndim != 2 or values.shape[1] != self.space.dims:
            raise ModelFileError(
                f"{self._model.files.model} gives an output of shape {output.values.shape}, not {self.space.dims} "
                "numbers a text; set embedding.dims, or the dims in its harken.json, right"
            )
        try:
            return unit_rows(values)
        except ValueError as error:
            raise ProviderError(f"the model {self._name} failed: {error}") from error
