"""Google's universal sentence encoder for sixteen languages, in numpy: for what is not English, or asked in English."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harken.errors import ModelFileError
from harken.providers.embedder import ModelCard, PrefixingEmbedder, Space, Vectors, presentable, unit_rows
from harken.providers.model_files import USE_MULTILINGUAL, ModelFiles, find_model
from harken.providers.options import EmbedderOptions
from harken.providers.priority import side_by_side

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController
    from tokenizers import Tokenizer

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

Floats = NDArray[np.float32]


class SentenceEncoder(PrefixingEmbedder):
    """The encoder on this machine's CPU, loaded at the first text and then shared by all of a process.

    Raises:
        ModelFileError: its files are missing or not the pinned ones.
    """

    def __init__(self, options: EmbedderOptions) -> None:
        self._files = find_model(USE_MULTILINGUAL, options.home, options.model, options.path)
        self._card = _CARD.adjusted(options)
        self._threads = options.threads

    @property
    def space(self) -> Space:
        """The space its vectors live in."""
        return self._card.space(USE_MULTILINGUAL.name, "int6", 512)

    def _embed(self, texts: Sequence[str], is_query: bool) -> Vectors:
        with _loading:
            network = _load(self._files)
        batches = list(_batches([network.tokens(text, self._card.max_tokens) for text in texts]))
        # One thread of BLAS: waking another one costs a query ten times what it takes (34 ms of CPU against 3).
        with network.threads.limit(limits=1):
            return unit_rows(np.concatenate(list(side_by_side(network.run, batches, self._threads))))


_loading = threading.Lock()


@lru_cache(maxsize=1)
def _load(files: ModelFiles) -> _Network:
    try:
        with np.load(files.model, allow_pickle=False) as kept:
            weights = {name: kept[name] for name in kept.files}
        network = _Network(weights, files.tokenizer.read_bytes())
        network.run([network.tokens("", 1)])
    except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
        raise ModelFileError(f"{files.folder} holds no encoder ({type(error).__name__})") from error
    return network


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

    weights: dict[str, NDArray[Any]]
    pieces: bytes

    def __post_init__(self) -> None:
        parts = sum(name.startswith("q") for name in self.weights)
        # A word's row stands in the part that its number divided by their count leaves.
        rows = np.stack([self.weights.pop(f"q{part}") for part in range(1, parts + 1)], axis=1)
        self._words: NDArray[np.uint8] = rows.reshape(-1, rows.shape[2])
        self._parts = parts
        self._first, self._first_bias, self._gain, self._shift = (
            np.concatenate([self.weights[f"{name}{width}"] for width, _ in _WINDOWS], axis=-1)
            for name in ("proj", "proj_b", "ln_g", "ln_b")
        )

    @cached_property
    def threads(self) -> ThreadpoolController:
        """The threads of the process's BLAS."""
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController()

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

        pieces, rules = _read_pieces(self.pieces)
        tokenizer = Tokenizer(models.Unigram(pieces, 0))
        blanks = normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")
        tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(rules), *blanks])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        self.pieces = b""
        return tokenizer

    def tokens(self, text: str, most: int) -> list[int]:
        """A text as numbers of words, between start and end, cut to the limit."""
        return [_START, *self._tokenizer.encode(presentable(text, most)).ids[:most], _END]

    def run(self, rows: Sequence[Sequence[int]]) -> Floats:
        """The vectors of texts, `(len(rows), 512)`; their words are one matrix, so that weights are read once."""
        w = self.weights
        lengths = np.array([len(row) for row in rows])
        ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
        part = ids % self._parts
        words = self._words[ids] * w["scale"][part, None] + w["lo"][part, None]
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
        narrow = words @ self._first + self._first_bias
        narrow -= narrow.mean(axis=1, keepdims=True)
        narrow *= self._scale(np.einsum("nd,nd->n", narrow, narrow) / narrow.shape[1])[:, None]
        narrow = narrow * self._gain + self._shift
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


def _read_pieces(model: bytes) -> tuple[list[tuple[str, float]], bytes]:
    """The pieces of words with their scores, and the rules that make characters alike, of a SentencePiece model.

    It is a message of Protocol Buffers: pieces (a text, a float, and for some a kind), settings of its training, and
    of its normalizer: a name, and the rules.
    """
    pieces, place = [], 0
    while model[place] == 0x0A:
        size, length = model[place + 1], model[place + 3]
        begin, end = place + 4, place + 4 + length
        is_scored = end < place + 2 + size and model[end] == 0x15
        score = struct.unpack_from("<f", model, end + 1)[0] if is_scored else 0.0
        pieces.append((model[begin:end].decode(), score))
        place += 2 + size
    size, place = _number(model, place + 1)
    _, place = _number(model, place + size + 1)
    size, place = _number(model, place + 2 + model[place + 1] + 1)
    return pieces, model[place : place + size]


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A whole number, seven bits a byte, the lowest first, and where it ends."""
    end = next(at for at in range(place, len(data)) if data[at] < 0x80) + 1
    return sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data[place:end])), end
