"""Google's universal sentence encoder for sixteen languages, in numpy: for what is not English, or asked in English."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from harken.errors import ModelFileError
from harken.files import write_whole
from harken.providers.embedder import ModelCard, PrefixingEmbedder, Space, Vectors, presentable, trim_heap, unit_rows
from harken.providers.model_files import USE_MULTILINGUAL, ModelFiles, find_model
from harken.providers.options import EmbedderOptions
from harken.providers.priority import pace_here, side_by_side

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from threadpoolctl import ThreadpoolController

# At the threshold, 45 % of LoCoMo's questions keep a turn that answers them, and no off-topic prompt meets any turn of
# a whole conversation (benchmarks/calibrate.py --multilingual). At 0.32 it is 74 and 3 %, but up to 10 % of what is
# asked in other languages. Texts are cut where an average says little more.
_CARD = ModelCard(dims=512, max_tokens=256, threshold=0.40)
# Tokens that are run together: enough to read the weights once for several short texts, few enough for the cache.
_TOKEN_AREA = 384
_START, _END = 1, 2
# The widths of the three convolutions, and how many words before its own each one sees.
_WINDOWS = ((2, 0), (3, 1), (5, 2))
# Rows of zeros between two texts: as many as a window sees before its word, or behind it.
_GAP = 2
_CHANNELS = 256
# What nobody has used for so long is let go; to load it again takes 0.7 s.
_REST_AFTER_SECONDS = 300.0

Floats = NDArray[np.float32]


class SentenceEncoder(PrefixingEmbedder):
    """The encoder on this machine's CPU, loaded at the first text and then shared by all of a process.

    Raises:
        ModelFileError: its files are missing or not the pinned ones.
    """

    def __init__(self, options: EmbedderOptions) -> None:
        files = find_model(USE_MULTILINGUAL, options.home, options.model, options.path)
        self._source = _Source(files, options.home / "cache")
        self._card = _CARD.adjusted(options)
        self._threads = options.threads

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        return self._card.space(USE_MULTILINGUAL.name, "int6", 512)

    def _embed(self, texts: Sequence[str], is_query: bool) -> Vectors:
        with _loading:
            network = _load(self._source)
            network.used_at = time.monotonic()
            network.has_worked |= len(texts) > 1
        batches = list(_batches([network.tokens(text, self._card.max_tokens) for text in texts]))
        # One thread of BLAS: waking another one costs a query ten times what it takes (34 ms of CPU against 3).
        with network.threads.limit(limits=1):
            # In the background one batch at a time: two need 8 MB more, and nobody waits for them.
            threads = self._threads if pace_here() is None else 1
            return unit_rows(np.concatenate(list(side_by_side(network.run, batches, threads))))

    def rest(self) -> None:
        """Give back what work has needed, and let the model go that nothing has used for five minutes: 30 MB."""
        with _loading:
            if not _load.cache_info().currsize:
                return
            network = _load(self._source)
            unused = time.monotonic() - network.used_at > _REST_AFTER_SECONDS
            if not (unused or network.has_worked):
                return
            network.has_worked = False
            if unused:
                _load.cache_clear()
        del network
        trim_heap()


_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Source:
    """A model's files; its words are unpacked into the cache of the home that comes first, for all of a process."""

    files: ModelFiles
    cache: Path = field(compare=False)


@lru_cache(maxsize=1)
def _load(source: _Source) -> _Network:
    from sentencepiece import SentencePieceProcessor

    files = source.files
    try:
        pieces = SentencePieceProcessor(model_proto=files.tokenizer.read_bytes())
        # Reading the vocabulary takes 20 MB more than it keeps.
        trim_heap()
        with np.load(files.model, allow_pickle=False) as kept:
            parts = [name for name in kept.files if name[0] == "q"]
            weights = {name: kept[name] for name in kept.files if name not in parts}
            words = _words(kept, parts, source.cache / f"{files.name}-{files.sha256[:16]}.words")
        network = _Network(words, weights, pieces)
        network.run([network.tokens("", 1)])
    except (OSError, RuntimeError, ValueError, KeyError, IndexError) as error:
        raise ModelFileError(f"{files.folder} holds no encoder ({type(error).__name__})") from error
    trim_heap()
    return network


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Words:
    """The rows of all words, part behind part, in a file: memory holds those of the texts at hand alone.

    Mapped into memory they would stay there, with sixty others for each, as far as texts have used them.
    """

    file: BinaryIO
    parts: int
    rows: int
    dims: int

    def of(self, ids: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The rows of words, `(len(ids), dims)`."""
        # A word's row stands in the part that its number divided by their count leaves.
        places, back = np.unique(ids, return_inverse=True)
        begins = (places % self.parts * self.rows + places // self.parts) * self.dims
        number = self.file.fileno()
        found = b"".join([os.pread(number, self.dims, begin) for begin in begins.tolist()])
        return np.frombuffer(found, dtype=np.uint8).reshape(-1, self.dims)[back]


def _words(kept: Mapping[str, NDArray[np.uint8]], parts: Sequence[str], path: Path) -> _Words:
    """The rows of words; their file is made once, of parts that are packed: 64 MB, and half a second."""
    rows, dims = kept[parts[0]].shape
    try:
        if not path.is_file() or path.stat().st_size != len(parts) * rows * dims:
            write_whole(path, (kept[name].data for name in parts))
        file = path.open("rb", buffering=0)
    except OSError:
        # A full disk, or a home that nobody may write to.
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        for name in parts:
            file.write(kept[name].data)
    words = _Words(file, len(parts), rows, dims)
    finalize(words, file.close)
    return words


def _batches(rows: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    batch: list[Sequence[int]] = []
    for row in rows:
        if batch and sum(map(len, batch)) + len(row) > _TOKEN_AREA:
            yield batch
            batch = []
        batch.append(row)
    yield batch


@dataclass
class _Network:
    """Averages of words and of their neighbourhoods, through three dense layers.

    Source: Yang et al. 2020, Multilingual Universal Sentence Encoder; the arithmetic is that of the package which
    carries the weights.
    """

    words: _Words
    weights: dict[str, NDArray[Any]]
    pieces: SentencePieceProcessor
    used_at: float = 0.0
    has_worked: bool = False

    def __post_init__(self) -> None:
        self._first, self._first_bias, self._gain, self._shift = (
            np.concatenate([self.weights[f"{name}{width}"] for width, _ in _WINDOWS], axis=-1)
            for name in ("proj", "proj_b", "ln_g", "ln_b")
        )

    @cached_property
    def threads(self) -> ThreadpoolController:
        """The threads of the process's BLAS."""
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController()

    def tokens(self, text: str, most: int) -> list[int]:
        """A text as numbers of words, between start and end, cut to the limit."""
        return [_START, *self.pieces.encode(presentable(text, most))[:most], _END]

    def run(self, rows: Sequence[Sequence[int]]) -> Floats:
        """The vectors of texts, `(len(rows), 512)`; their words are one matrix, so that weights are read once."""
        w = self.weights
        lengths = np.array([len(row) for row in rows])
        ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        part = ids % self.words.parts
        words = self.words.of(ids) * w["scale"][part, None] + w["lo"][part, None]
        states = [words, *self._around(words, lengths)]
        begins = np.cumsum(lengths) - lengths
        size = lengths.astype(np.float32)[:, None]
        whole = self._whole(states, begins, lengths) * w["ln_g"] + size * w["ln_b"]
        mean = (whole @ w["cnn_W"] + size * w["cnn_b"]) / np.sqrt(size)
        second = np.maximum(mean @ w["p1"] + np.maximum(mean @ w["d0"], 0.0) @ w["d1"], 0.0)
        vectors: Floats = np.tanh(second @ w["p3"] + np.maximum(second @ w["d2"], 0.0) @ w["d3"])
        return vectors

    def _around(self, words: Floats, lengths: NDArray[np.int64]) -> Iterator[Floats]:
        """What words are among their neighbours, `(len(words), 256)` for each width of a window."""
        w = self.weights
        narrow = words @ self._first
        narrow += self._first_bias
        narrow -= narrow.mean(axis=1, keepdims=True)
        narrow *= self._scale(np.einsum("nd,nd->n", narrow, narrow) / narrow.shape[1])[:, None]
        narrow *= self._gain
        narrow += self._shift
        # Zeros stand between texts, and at both ends, so that no window sees another text; each step of a window is
        # then one slice of the matrix, which is multiplied where it lies.
        shifts = _GAP * np.arange(1, len(lengths) + 1)
        place = np.arange(len(words)) + np.repeat(shifts, lengths)
        count = len(words) + _GAP * (len(lengths) + 1)
        between = np.ones(count, dtype=bool)
        between[place] = False
        for number, (width, before) in enumerate(_WINDOWS):
            state = np.zeros((count, _CHANNELS), dtype=np.float32)
            state[place] = narrow[:, number * _CHANNELS : (number + 1) * _CHANNELS]
            for layer in ("1", "2"):
                steps = w[f"w{layer}_{width}"].reshape(width, _CHANNELS, _CHANNELS)
                seen = (
                    state[begin : begin + count - 2 * _GAP] for begin in range(_GAP - before, _GAP - before + width)
                )
                added = w[f"b{layer}_{width}"] + next(seen) @ steps[0]
                for step in steps[1:]:
                    added += next(seen) @ step
                state[_GAP:-_GAP] += np.maximum(added, 0.0, out=added)
                state[between] = 0.0
            yield state[place]

    def _whole(self, states: Sequence[Floats], begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> Floats:
        """The sum of each text's rows, every one of them brought to mean 0 and variance 1 over all states."""
        width = sum(state.shape[1] for state in states)
        mean = sum(state.sum(axis=1) for state in states) / width
        square = sum(np.einsum("nd,nd->n", state, state) for state in states) / width
        scale = self._scale(square - mean * mean)
        sums = [
            np.concatenate([scale[begin:end] @ state[begin:end] for state in states])
            for begin, end in zip(begins, begins + lengths, strict=True)
        ]
        return np.stack(sums) - np.add.reduceat(scale * mean, begins)[:, None]

    def _scale(self, variance: Floats) -> Floats:
        scale: Floats = 1.0 / np.sqrt(variance + np.float32(self.weights["eps"]))
        return scale
