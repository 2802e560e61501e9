"""The port to embedding models, the space that each one spans, and what must be known of a model beside its weights."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from harken.errors import HarkenError, ModelFileError, ProviderError
from harken.providers.options import EmbedderOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# Numpy is imported with the first vector: whoever only asks which model there is pays nothing for it.
Vectors: TypeAlias = "NDArray[np.float32]"
CARD_FILE = "harken.json"
# English words make 4 to 6 characters a token; 16 leaves room for rows of blanks and of dashes.
_CHARACTERS_A_TOKEN = 16
_GROWTH_BYTES = 8 * 2**20
# Vectors of queries that are kept: a premortem always asks the same two hundred.
_QUERIES = 256
# A row of such a length is left as it is, to the last bit.
_AS_GOOD_AS_ONE = 1e-5


def presentable(text: str, max_tokens: int) -> str:
    """The text without halves of surrogate pairs, and without what lies far behind the model's limit.

    A tokenizer reads a whole text before it cuts: one pasted log of a megabyte would hold up a batch for a second.
    """
    return text[: max_tokens * _CHARACTERS_A_TOKEN].encode("utf-8", errors="replace").decode("utf-8")


def clip_bytes(text: str, max_tokens: int) -> str:
    """The text cut to about `max_tokens` tokens of a tokenizer that nobody here knows.

    Three bytes of UTF-8 are seldom less than a token, whatever the vocabulary: 4 letters of English make one, 2 of
    Russian, one character of Chinese. An estimate by one vocabulary would be too hopeful for a smaller one.
    """
    raw = text[: max_tokens * 3].encode("utf-8", errors="replace")
    return raw[: max_tokens * 3].decode("utf-8", errors="ignore")


@dataclass(frozen=True, slots=True)
class Space:
    """One embedding model at one dimension.

    Attributes:
        id: stable name of model, quantization and dimension, e.g. `bge-small-en-v1.5/int8/384`.
        max_tokens: longer texts are cut by the model.
        query_prefix: put before a query; `passage_prefix` before a text to be found.
        threshold: calibrated cosine similarity below which a text is not about the query, -1 to 1.
        latin_only: the model knows no other script: whatever is written in one, all of it looks alike.
    """

    id: str
    dims: int
    max_tokens: int
    query_prefix: str = ""
    passage_prefix: str = ""
    threshold: float = 0.5
    latin_only: bool = False


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def space(self) -> Space:
        """The space its vectors live in."""

    def embed_query(self, text: str) -> Vectors:
        """The query's vector, prefix added: `(dims,)` float32, unit length."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors, prefix added: `(len(texts), dims)` float32, unit length, in order.

        Empty or blank texts are the caller's mistake. No texts give `(0, dims)`.

        Raises:
            ProviderError: the model failed; nothing of the batch is usable.
        """


@runtime_checkable
class Resting(Protocol):
    """An embedder that holds more memory while it works than it has to when there is nothing to do."""

    def rest(self) -> None:
        """Give back what nothing needs at present; called again and again while there is no work."""


def trim_heap() -> None:
    """Give memory that is free but kept back to the system; glibc alone can."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class HeapTrimmer:
    """Has free memory given back whenever a process has grown, for most of that is free: 33 MB after 1,500 prompts.

    glibc gives back what is free at its heap's end, and of what lies between nothing. A trim takes 1 ms.
    """

    def __init__(self) -> None:
        self._least_bytes = sys.maxsize

    def look(self) -> None:
        """Trim the heap if the process has grown since it last was; no-op where the system is not Linux."""
        with suppress(OSError):
            if _held_bytes() > self._least_bytes + _GROWTH_BYTES:
                trim_heap()
                self._least_bytes = _held_bytes()
            self._least_bytes = min(self._least_bytes, _held_bytes())


def _held_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class QueryVectors:
    """The vectors of the last queries by one model; who asks for one that is being made waits for it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: OrderedDict[str, Future[Vectors]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, text: str) -> Vectors:
        """The query's vector, read-only; what fails is tried again."""
        with self._lock:
            found = self._known.get(text)
            is_new = found is None
            if found is None:
                found = self._known[text] = Future()
                if len(self._known) > _QUERIES:
                    self._known.popitem(last=False)
            self._known.move_to_end(text)
        if is_new:
            vector: Vectors
            try:
                vector = unit_rows([self._embedder.embed_query(text)])[0]
                vector.flags.writeable = False
                found.set_result(vector)
            except Exception as error:
                # A model of one's own may raise anything.
                name = type(error).__name__
                raise error if isinstance(error, HarkenError) else ProviderError(f"its model raised {name}") from error
            finally:
                # Those who wait fail as well, and the next one tries again.
                if not found.done():
                    with self._lock:
                        self._known.pop(text, None)
                    found.set_exception(ProviderError("the embedding model failed"))
        return found.result()


class CallMeter(Protocol):
    """Books each call of an endpoint before it is sent."""

    def begin(self, tokens: int) -> str:
        """Book a call of about so many tokens; its id.

        Raises:
            SpendLimitError: the day's money is spent; nothing is to be sent.
        """

    def answered(self, uid: str, tokens: int) -> None:
        """Book that the call was answered, and took so many tokens."""

    def failed(self, uid: str, error: BaseException) -> None:
        """Book that the call failed."""


class Reranker(Protocol):
    """Judges a query and a text together; slower and sharper than comparing vectors."""

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """A relevance per text, `(len(texts),)`, 0 to 1 after the model's sigmoid, in order."""


def unit_rows(rows: ArrayLike) -> Vectors:
    """The rows scaled to length one: `(n, dims)` float32.

    Raises:
        ValueError: a row is zero or not finite, so it points nowhere; or they are no rows of numbers.
    """
    import numpy as np

    matrix = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths)) or np.any(lengths == 0):
        raise ValueError("a vector is zero or not finite")
    if np.all(np.abs(lengths - 1) < _AS_GOOD_AS_ONE):
        return matrix
    return np.asarray(matrix / lengths, dtype=np.float32)


_COUNT = ((int,), lambda value: value > 0, "must be a whole number above 0")
_TEXT = ((str,), lambda value: True, "must be a text")
_RULES: dict[str, tuple[tuple[type, ...], Callable[[Any], bool], str]] = {
    "dims": _COUNT,
    "max_tokens": _COUNT,
    "pooling": ((str,), lambda value: value in ("cls", "mean"), "must be cls or mean"),
    "query_prefix": _TEXT,
    "passage_prefix": _TEXT,
    "threshold": ((int, float), lambda value: -1 <= value <= 1, "must be a number from -1 to 1"),
    "latin_only": ((bool,), lambda value: True, "must be true or false"),
}


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The usage of a sentence model; the defaults suit most of those that are published, 0.5 is no calibration.

    Attributes:
        dims: length of a vector; None is read from the model.
        pooling: `cls` takes the first token's state for the text's, `mean` the average of all.
    """

    dims: int | None = None
    max_tokens: int = 512
    pooling: str = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    threshold: float = 0.5
    latin_only: bool = False

    def adjusted(self, options: EmbedderOptions) -> ModelCard:
        """The card with what the options set in its place; `max_tokens` only goes down."""
        names = ("dims", "query_prefix", "passage_prefix", "threshold")
        changes: dict[str, Any] = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
        if options.max_tokens is not None:
            changes["max_tokens"] = min(options.max_tokens, self.max_tokens)
        return replace(self, **changes)

    def space(self, model: str, variant: str, dims: int) -> Space:
        """The space that a model with this card spans.

        Its name is stable: models that place the same text elsewhere get different ones. The variant is what decides
        that beside the model's name: quantization, a file's hash, pooling. A prefix of passages changes every stored
        vector, so it is part of the name; a query's prefix changes none.
        """
        mark = hashlib.sha256(self.passage_prefix.encode()).hexdigest()[:6] if self.passage_prefix else ""
        shared = {item.name: getattr(self, item.name) for item in fields(Space) if item.name not in ("id", "dims")}
        return Space("/".join(filter(None, (model, variant, str(dims), mark))), dims, **shared)


def read_card(folder: Path) -> ModelCard | None:
    """The card that a model's folder holds as `harken.json`; None where it holds none.

    Raises:
        ModelFileError: the card cannot be read, or says something that cannot be meant.
    """
    path = folder / CARD_FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read as JSON ({type(error).__name__})") from error
    if not isinstance(facts, dict):
        raise ModelFileError(f"{path} must hold one JSON object")
    for key, value in facts.items():
        if key not in _RULES:
            raise ModelFileError(f"{path}: '{key}' is not known; known: {', '.join(_RULES)}")
        kinds, accepts, rule = _RULES[key]
        is_kind = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        if not is_kind or not accepts(value):
            raise ModelFileError(f"{path}: '{key}' {rule}")
    return ModelCard(**facts)


class PrefixingEmbedder(ABC):
    """An embedder whose card says what stands before queries and before passages."""

    _card: ModelCard

    @property
    @abstractmethod
    def space(self) -> Space:
        """The space its vectors live in."""

    def embed_query(self, text: str) -> Vectors:
        """The query's vector, prefix added: `(dims,)` float32, unit length.

        Raises:
            ProviderError: the model failed.
        """
        vector: Vectors = self._embed([self._card.query_prefix + text], is_query=True)[0]
        return vector

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The texts' vectors, prefix added: `(len(texts), dims)` float32, unit length, in order.

        Raises:
            ProviderError: the model failed.
        """
        if not texts:
            import numpy as np

            return np.empty((0, self.space.dims), dtype=np.float32)
        return self._embed([self._card.passage_prefix + text for text in texts], is_query=False)

    @abstractmethod
    def _embed(self, texts: Sequence[str], is_query: bool) -> Vectors:
        """The vectors of texts whose prefix is added."""
