"""A transformer in ONNX: its tokenizer, its session, and batches that neither memory nor padding suffers from."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from harken.errors import ModelFileError, ProviderError
from harken.providers.embedder import presentable, trim_heap
from harken.providers.model_files import ModelFiles
from harken.providers.priority import pace_here, side_by_side

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Tokens of one batch, padding included. With bge-small int8, batches of 128, 256 and 512 take the same processor time
# on messages of mixed length (9.6, 9.5 and 9.8 s for 200; 0.4, 1 and 3 % padding), and a query gets past small ones
# sooner; 4096 has at most 0.8 of their rate and 8192 at most 0.65, for a process of 570 and 620 MB instead of 175. See
# benchmarks/embedding.py.
TOKEN_AREA = 256

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text, or a pair of texts, as the model reads it."""

    ids: list[int]
    type_ids: list[int]


@dataclass(frozen=True, slots=True)
class Output:
    """The model's first output for a batch, and a mask: 1 where a token is, 0 where padding is, `(rows, longest)`."""

    values: NDArray[np.float32]
    mask: Int64


def length_batches(
    lengths: Sequence[int], token_area: int = TOKEN_AREA, max_rows: int | None = None
) -> Iterator[list[int]]:
    """Positions grouped so that texts of like length, in tokens, go together, shortest first.

    Rows times the longest row of a batch stay within the area; a longer text goes alone.
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        full = (len(batch) + 1) * lengths[position] > token_area or len(batch) == max_rows
        if batch and full:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _even_area(lengths: Sequence[int], threads: int) -> int:
    """The area of batches of which somebody waits for all: one for each thread, where none is too large for that.

    Three batches on two threads take as long as four.
    """
    least = max(*lengths, -(-sum(lengths) // threads)) if len(lengths) > 1 else TOKEN_AREA
    even = (area for area in range(least, 2 * TOKEN_AREA, 16) if len(list(length_batches(lengths, area))) <= threads)
    return next(even, TOKEN_AREA)


class OnnxModel:
    """Runs a model; loaded at first use, then shared by threads.

    Args:
        files: where it is.
        max_tokens: longer texts are cut.
        threads: how many batches run at once, each on one thread of the processor.
    """

    def __init__(self, files: ModelFiles, max_tokens: int, threads: int = 2) -> None:
        self.files = files
        self.max_tokens = max_tokens
        self._threads = threads
        self._session: _Session | None = None
        self._has_grown = False

    def tokens(self, text: str, second: str | None = None) -> Tokens:
        """A text as tokens, special ones included, cut to the limit; with a second text, the pair.

        Raises:
            ModelFileError: its tokenizer is none.
        """
        tokenizer, _ = self._tokenizer
        # One by one on purpose: batches go to a thread pool as wide as the machine, which also breaks forks; the
        # difference is 40 µs a text, 1 % of what the model takes.
        pair = None if second is None else presentable(second, self.max_tokens)
        encoding = tokenizer.encode(presentable(text, self.max_tokens), pair)
        return Tokens(encoding.ids, encoding.type_ids)

    def run(self, batch: Sequence[Tokens], is_last: bool = False) -> Output:
        """Run one batch, padded to its longest row, in this thread; after a last one, let go what runs have needed.

        Raises:
            ProviderError: the model refuses.
        """
        loaded = self._load()
        shape = (len(batch), max(len(tokens.ids) for tokens in batch))
        ids = np.full(shape, self._tokenizer[1], dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for row, tokens in enumerate(batch):
            length = len(tokens.ids)
            ids[row, :length] = tokens.ids
            types[row, :length] = tokens.type_ids
            mask[row, :length] = 1
        self._has_grown |= shape[1] > TOKEN_AREA
        feed = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
        try:
            inputs = {name: feed[name] for name in loaded.inputs}
            values = loaded.session.run(loaded.outputs, inputs, loaded.last if is_last else None)[0]
        except loaded.errors as error:
            raise ProviderError(
                f"the model {self.files.name} failed on {shape} tokens ({type(error).__name__})"
            ) from error
        return Output(np.asarray(values, dtype=np.float32), mask)

    def run_all(self, rows: Sequence[Tokens], max_rows: int | None = None) -> Iterator[tuple[list[int], Output]]:
        """Run any number of rows, those of like length together: positions of a batch, and its output.

        Two batches side by side, each on one thread, take a fifth less time than one after the other on two threads
        (13,200 tokens a second against 10,900); a question of a few words takes no longer on one. A long one would take
        less on all (200 tokens 0.8 of the time, 400 tokens 0.6), but a session of its own for that takes 41 MB.

        Raises:
            ProviderError: the model refuses.
        """
        lengths = [len(row.ids) for row in rows]
        area = TOKEN_AREA if pace_here() is not None else _even_area(lengths, self._threads)
        # The longest first, so that no thread is left with one while the other has nothing more to do.
        batches = list(length_batches(lengths, area, max_rows))[::-1]
        feeds = [[rows[position] for position in batch] for batch in batches]
        run = self.run if pace_here() is None else partial(_long_alone, self.run)
        yield from zip(batches, side_by_side(run, feeds, self._threads), strict=True)

    def rest(self) -> None:
        """Give back what runs of long texts have left, 24 MB after one of 512 tokens."""
        if self._session is not None and self._has_grown:
            self._has_grown = False
            self.run([self.tokens(".")], is_last=True)
            trim_heap()

    def output_dims(self) -> int | None:
        """Length of the output's last axis; None where the model leaves it open."""
        dims = self._load().session.get_outputs()[0].shape[-1]
        return dims if isinstance(dims, int) else None

    @cached_property
    def _tokenizer(self) -> tuple[Tokenizer, int]:
        """The tokenizer, and the id of its padding; two threads that come first may each read it."""
        from tokenizers import Tokenizer

        try:
            # From a buffer, since reading from a file raises bare Exception for whatever is wrong.
            tokenizer = Tokenizer.from_buffer(self.files.tokenizer.read_bytes())
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{self.files.tokenizer} is no tokenizer ({type(error).__name__})") from error
        known = (tokenizer.token_to_id(name) for name in ("[PAD]", "<pad>"))
        pad_id = tokenizer.padding["pad_id"] if tokenizer.padding else next((id for id in known if id is not None), 0)
        # Set once and for all, since threads share it; padding is done by hand, batch by batch.
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens)
        return tokenizer, int(pad_id)

    def _load(self) -> _Session:
        if self._session is None:
            # A process that was forked has one of its own: what threads of the other one held stays held.
            key = (os.getpid(), str(self.files.model), self.files.sha256)
            with _loading:
                session = _sessions.get(key)
                if session is None:
                    session = _sessions[key] = _load(self.files)
            self._session = session
        return self._session


def _long_alone(run: Callable[[Sequence[Tokens]], Output], batch: Sequence[Tokens]) -> Output:
    """Run a batch, and no two with long texts at once.

    What a run needs grows with the square of its longest text, and is kept for the next one: with two of 512 tokens
    side by side a daemon held 30 MB more for good.
    """
    is_long = max(len(tokens.ids) for tokens in batch) > TOKEN_AREA
    with _long_runs if is_long else nullcontext():
        return run(batch)


_long_runs = threading.Lock()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Session:
    session: Any
    inputs: tuple[str, ...]
    outputs: list[str]
    errors: tuple[type[Exception], ...]
    last: Any


# One of each in a process, for as long as anybody uses it: a process may have many stores open, or one again and again.
_sessions: WeakValueDictionary[tuple[int, str, str], _Session] = WeakValueDictionary()
_loading = threading.Lock()


def vendor_errors() -> tuple[type[Exception], ...]:
    """The exceptions of onnxruntime, which have no common root but Exception."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = [value for value in vars(state).values() if isinstance(value, type) and issubclass(value, Exception)]
    return (*own, RuntimeError, ValueError)


def _load(files: ModelFiles) -> _Session:
    import onnxruntime

    errors = vendor_errors()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # A plan of memory for each shape of a batch, of which hardly two are alike: 20 to 37 MB, and no time saved.
    options.enable_mem_pattern = False
    # Fatal only: every error is raised, and stderr belongs to the caller.
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
    except errors as error:
        raise ModelFileError(f"{files.model} is no model that onnxruntime can load ({type(error).__name__})") from error
    # What reading the file took, 25 MB.
    trim_heap()
    inputs = tuple(item.name for item in session.get_inputs())
    unknown = sorted(set(inputs) - {"input_ids", "token_type_ids", "attention_mask"})
    if unknown:
        raise ModelFileError(f"{files.model} wants inputs that no text gives: {', '.join(unknown)}")
    last = onnxruntime.RunOptions()
    last.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return _Session(session, inputs, [session.get_outputs()[0].name], errors, last)
