"""Embedding rate through Harken beside the bare model, and the batch sizes behind it.

    python benchmarks/embedding.py [--texts 200] [--rounds 4]

The texts are of mixed length (`real.py`). The bare model is onnxruntime alone, on the same texts, tokenized and padded
beforehand in batches of its own best size; Harken's side includes tokenizing, pooling and putting back in order. Rounds
take turns, and the median of their ratios counts, so that a busy machine does not decide. Prints tables and writes
benchmarks/results/embedding-….json.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

import real
from harken.providers.model_files import BGE_SMALL, ModelFiles, find_model
from harken.providers.onnx_session import TOKEN_AREA, OnnxModel, length_batches
from harken.providers.options import EmbedderOptions
from harken.providers.registry import open_embedder
from report import keep, show

AREAS = (128, 256, 512, 1024, 2048, 4096, 8192)
# Batches of the bare model, which on two threads gains by larger ones than Harken's, each on one.
BARE_AREA = 512
CALL = 100
# Rounds of the comparison for one of the sweep: a ratio near one needs more of them.
PAIRED = 4

Feed = dict[str, NDArray[np.int64]]


def feeds(model: OnnxModel, texts: Sequence[str], area: int) -> list[Feed]:
    """The batches that Harken would make of these texts in calls of a hundred, ready for the session."""
    ready = []
    for start in range(0, len(texts), CALL):
        rows = [model.tokens(text) for text in texts[start : start + CALL]]
        for batch in length_batches([len(row.ids) for row in rows], area):
            longest = max(len(rows[place].ids) for place in batch)
            ids = np.zeros((len(batch), longest), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, place in enumerate(batch):
                ids[row, : len(rows[place].ids)] = rows[place].ids
                mask[row, : len(rows[place].ids)] = 1
            ready.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    return ready


def padding(files: ModelFiles, texts: Sequence[str]) -> dict[str, float]:
    """What part of all that the model reads is padding, by the tokens of a batch, and in batches as texts come."""
    tokens = OnnxModel(files, 512)
    shares = {}
    for area in AREAS:
        cells, read = (sum(int(of(feed)) for feed in feeds(tokens, texts, area)) for of in (_cells, _read))
        shares[f"{area}"] = round(1 - read / cells, 3)
    lengths = [len(tokens.tokens(text).ids) for text in texts]
    groups = [lengths[start : start + 32] for start in range(0, len(lengths), 32)]
    shares["unsorted, by 32"] = round(1 - sum(lengths) / sum(len(group) * max(group) for group in groups), 3)
    return shares


def _cells(feed: Feed) -> int:
    return feed["attention_mask"].size


def _read(feed: Feed) -> int:
    return int(feed["attention_mask"].sum())


def bare_session(files: ModelFiles, threads: int, spinning: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    return onnxruntime.InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def run_all(session: onnxruntime.InferenceSession, ready: Sequence[Feed]) -> None:
    for feed in ready:
        session.run(None, feed)


def against_bare(files: ModelFiles, texts: Sequence[str], threads: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        embedder = open_embedder(EmbedderOptions(home=Path(home), threads=threads))
    session = bare_session(files, threads, spinning=False)
    tokens = OnnxModel(files, 512)
    calls = [texts[start : start + CALL] for start in range(0, len(texts), CALL)]
    ready = [feeds(tokens, call, BARE_AREA) for call in calls]
    embedder.embed_passages(calls[0])
    run_all(session, ready[0])
    bare, ours = [], []
    for _ in range(rounds):
        # Call by call in turn, so that both sides meet the same neighbours on the machine.
        for call, feed in zip(calls, ready, strict=True):
            bare.append(seconds(partial(run_all, session, feed)))
            ours.append(seconds(partial(embedder.embed_passages, call)))
    wall, cpu = ((np.array(bare) / np.array(ours)).T[side] for side in (0, 1))
    return {
        "threads": threads,
        "bare_texts_per_second": round(CALL / float(np.median([taken for taken, _ in bare])), 1),
        "harken_texts_per_second": round(CALL / float(np.median([taken for taken, _ in ours])), 1),
        "ratio": round(float(np.median(wall)), 3),
        "ratio_p25": round(float(np.percentile(wall, 25)), 3),
        "ratio_p75": round(float(np.percentile(wall, 75)), 3),
        "ratio_of_cpu_seconds": round(float(np.median(cpu)), 3),
    }


def sweep(files: ModelFiles, texts: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    tokens = OnnxModel(files, 512)
    batches = {area: feeds(tokens, texts, area) for area in AREAS}
    ways = [(1, False), (2, True), (2, False)]
    sessions = {way: bare_session(files, *way) for way in ways}
    taken: dict[tuple[int, bool, int], list[tuple[float, float]]] = {}
    for number in range(rounds + 1):
        for area in AREAS:
            for way in ways:
                measured = seconds(partial(run_all, sessions[way], batches[area]))
                # The first round warms up.
                if number:
                    taken.setdefault((*way, area), []).append(measured)
    rows = []
    for way in ways:
        row: dict[str, Any] = {"threads": way[0], "spinning": way[1]}
        for area in AREAS:
            row[f"{area}"] = round(len(texts) / float(np.median([wall for wall, _ in taken[*way, area]])), 1)
        cpu = float(np.median([spent for _, spent in taken[*way, TOKEN_AREA]]))
        row[f"cpu_ms_per_text_at_{TOKEN_AREA}"] = round(1000 * cpu / len(texts), 2)
        rows.append(row)
    return rows


_MEMORY = """
import sys, resource, numpy, onnxruntime
options = onnxruntime.SessionOptions(); options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
ids = numpy.full((int(sys.argv[2]), int(sys.argv[3])), 2000, dtype=numpy.int64)
for _ in range(3):
    session.run(None, {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform != "darwin" else 1024 * 1024))
"""


def peak_memory(files: ModelFiles) -> list[dict[str, int]]:
    rows = []
    for count, length in ((1, 16), (16, 32), (2, 256), (1, 512), (2, 512), (8, 512), (32, 256)):
        command = [sys.executable, "-c", _MEMORY, str(files.model), str(count), str(length)]
        peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows.append({"texts": count, "tokens": length, "area": count * length, "process_peak_mb": int(peak)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    texts = real.texts(arguments.texts)
    with tempfile.TemporaryDirectory() as home:
        files = find_model(BGE_SMALL, Path(home))
    # First, since a child's peak is never below what its parent held when it was made.
    memory = peak_memory(files)
    result = {
        "texts": len(texts),
        "of": real.name(),
        "padding": padding(files, texts),
        "rounds": arguments.rounds,
        "against_bare": [against_bare(files, texts, threads, PAIRED * arguments.rounds) for threads in (1, 2)],
        "texts_per_second_by_token_area": sweep(files, texts, arguments.rounds),
        "peak_memory": memory,
    }
    show("Through Harken, beside the bare model", result["against_bare"])
    show(
        "The bare model, texts a second by tokens per batch (padding included)",
        result["texts_per_second_by_token_area"],
    )
    show("Share of padding by tokens per batch", [result["padding"]])
    show("Peak memory of a process that ran batches of one shape", result["peak_memory"])
    keep("embedding-bge-small-en-v1.5-int8", result)


if __name__ == "__main__":
    main()
