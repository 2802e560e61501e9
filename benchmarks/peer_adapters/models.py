"""Sentence models and a cross-encoder for peers that take an embedder of their user's; numpy and onnxruntime alone."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DIMS = 384
# As Harken batches: see benchmarks/embedding.py.
_TOKEN_AREA = 512


def embedder(model: str, paths: Mapping[str, str]) -> SentenceModel | GivenVectors:
    """The embedder that an adapter is asked to take; never called for `own` and `none`."""
    return GivenVectors() if model == "given" else SentenceModel(paths[model], 512 if model == "bge-small" else 256)


class GivenVectors:
    """Unit vectors out of a hat, the same for the same text: what storing costs where embedding costs nothing."""

    def __init__(self) -> None:
        self._hat = np.random.default_rng(0).standard_normal((2048, DIMS)).astype(np.float32)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors, `(n, 384)`."""
        marks = np.array([zlib.crc32(text.encode()) for text in texts])
        mixed = self._hat[marks % 2048] + 0.5 * self._hat[(marks >> 11) % 2048]
        return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


class _Transformer:
    """A tokenizer and a session, texts of like length in one batch."""

    def __init__(self, folder: str, max_tokens: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(str(Path(folder) / "model.onnx"), providers=providers)
        self._takes = {each.name for each in self._session.get_inputs()}

    def _run(self, texts: Sequence[Any]) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
        rows = self._tokenizer.encode_batch(list(texts))
        batch: list[int] = []
        for place in sorted(range(len(rows)), key=lambda place: len(rows[place].ids)):
            if batch and (len(batch) + 1) * len(rows[place].ids) > _TOKEN_AREA:
                yield self._batch(rows, batch)
                batch = []
            batch.append(place)
        if batch:
            yield self._batch(rows, batch)

    def _batch(self, rows: Sequence[Any], batch: list[int]) -> tuple[list[int], np.ndarray, np.ndarray]:
        ids = np.zeros((len(batch), max(len(rows[place].ids) for place in batch)), dtype=np.int64)
        mask, types = np.zeros_like(ids), np.zeros_like(ids)
        for row, place in enumerate(batch):
            end = len(rows[place].ids)
            ids[row, :end], mask[row, :end], types[row, :end] = rows[place].ids, 1, rows[place].type_ids
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return batch, self._session.run(None, {name: feed[name] for name in self._takes})[0], mask


class SentenceModel(_Transformer):
    """Mean of the tokens, unit length, without a prefix."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors, `(n, 384)`."""
        vectors = np.empty((len(texts), DIMS), dtype=np.float32)
        for batch, output, mask in self._run(texts):
            summed = np.einsum("btd,bt->bd", output, mask.astype(np.float32))
            vectors[batch] = summed / np.linalg.norm(summed, axis=1, keepdims=True)
        return vectors


class CrossEncoder(_Transformer):
    """Judges a query and a text together."""

    def scores(self, query: str, texts: Sequence[str]) -> np.ndarray:
        """A score a text, higher is better."""
        scores = np.empty(len(texts), dtype=np.float32)
        for batch, output, _ in self._run([(query, text) for text in texts]):
            scores[batch] = output.reshape(len(batch))
        return scores
