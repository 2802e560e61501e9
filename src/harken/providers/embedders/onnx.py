"""Sentence models in ONNX, run here: bge-small-en-v1.5 by default, or a folder of the user's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harken.errors import ConfigError, ModelFileError, ProviderError
from harken.providers.embedder import ModelCard, PrefixingEmbedder, Space, Vectors, read_card, unit_rows
from harken.providers.model_files import BGE_SMALL, find_model
from harken.providers.onnx_session import OnnxModel, Output
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


# The variants of the known model by hash. The hub's copy is another quantization: the same card, uncalibrated, and a
# space of its own.
_VARIANTS = {BGE_SMALL.carried.model: "int8", **({BGE_SMALL.hub.pin.model: "int8-hub"} if BGE_SMALL.hub else {})}


class OnnxEmbedder(PrefixingEmbedder):
    """A sentence model on this machine's CPU, loaded at the first text; threads may share it.

    An int8 model's vectors move by up to 0.01 cosine with the texts that share their batch.

    Raises:
        ConfigError: the options do not fit together.
        ModelFileError: the model's files are missing or not the pinned ones, or their card cannot be used.
    """

    def __init__(self, options: EmbedderOptions) -> None:
        files = find_model(BGE_SMALL, options.home, options.model, options.path, options)
        own = read_card(files.folder)
        variant = _VARIANTS.get(files.sha256) if own is None else None
        card = own or (ModelCard() if variant is None else _BGE_CARD)
        self._name = files.name if variant is None else BGE_SMALL.name
        self._variant = variant or f"{files.sha256[:8]}-{card.pooling}"
        self._card = card.adjusted(options)
        if variant is not None and self._card.dims != card.dims:
            fix = "Take that back: harken config unset embedding.dims"
            raise ConfigError(f"embedding.dims is {options.dims}: {self._name} makes vectors of {card.dims}. {fix}")
        self._model = OnnxModel(files, self._card.max_tokens, options.threads)
        self._max_rows = options.batch_size
        self._space: Space | None = None

    @property
    def space(self) -> Space:
        """The space its vectors live in; a model whose card does not say its dims is loaded for it."""
        if self._space is None:
            dims = self._card.dims or self._model.output_dims()
            if dims is None:
                raise ModelFileError(f"{self._model.files.folder} needs a harken.json that says its dims")
            self._space = self._card.space(self._name, self._variant, dims)
        return self._space

    def rest(self) -> None:
        """Give back what only work needs."""
        self._model.rest()

    def _embed(self, texts: Sequence[str], is_query: bool) -> Vectors:
        rows = [self._model.tokens(text) for text in texts]
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
