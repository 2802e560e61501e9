from __future__ import annotations

import gc
import multiprocessing
import sys
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import ModelFileError, ProviderError
from harken.providers.model_files import ModelFiles
from harken.providers.onnx_session import TOKEN_AREA, OnnxModel, Tokens, length_batches

lengths = st.lists(st.integers(min_value=1, max_value=600), max_size=80)


@given(lengths, st.integers(min_value=1, max_value=5000))
def test_every_text_is_in_one_batch(lengths: list[int], area: int) -> None:
    positions = [position for batch in length_batches(lengths, area) for position in batch]
    assert sorted(positions) == list(range(len(lengths)))


@given(lengths, st.integers(min_value=1, max_value=5000))
def test_no_batch_passes_the_area_unless_one_text_does(lengths: list[int], area: int) -> None:
    for batch in length_batches(lengths, area):
        assert len(batch) == 1 or len(batch) * max(lengths[position] for position in batch) <= area


@given(lengths, st.integers(min_value=1, max_value=9))
def test_no_batch_has_more_rows_than_allowed(lengths: list[int], rows: int) -> None:
    assert all(len(batch) <= rows for batch in length_batches(lengths, max_rows=rows))


@given(lengths)
def test_batches_go_from_short_to_long(lengths: list[int]) -> None:
    ordered = [lengths[position] for batch in length_batches(lengths) for position in batch]
    assert ordered == sorted(lengths)


def test_thirty_two_texts_of_256_tokens_never_meet_in_one_batch() -> None:
    assert max(len(batch) for batch in length_batches([256] * 32)) == TOKEN_AREA // 256


@pytest.fixture
def model(bge_folder: Path) -> OnnxModel:
    return OnnxModel(ModelFiles("bge", bge_folder, ""), max_tokens=64)


def test_long_texts_are_cut_to_the_limit(model: OnnxModel) -> None:
    assert len(model.tokens("word " * 1000).ids) == 64


def test_the_second_text_of_a_pair_is_marked(model: OnnxModel) -> None:
    tokens = model.tokens("a question", "an answer")
    assert set(tokens.type_ids) == {0, 1}
    assert len(tokens.type_ids) == len(tokens.ids)


def test_half_of_a_surrogate_pair_is_no_failure(model: OnnxModel) -> None:
    assert len(model.tokens("torn \ud83d emoji").ids) > 3


def test_tokens_that_the_model_does_not_know_are_a_provider_error(model: OnnxModel) -> None:
    with pytest.raises(ProviderError, match=r"the model bge failed on \(1, 1\) tokens"):
        model.run([Tokens([10**9], [0])])


def test_a_file_that_is_no_model_is_named(tmp_path: Path, bge_folder: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    (tmp_path / "tokenizer.json").write_bytes((bge_folder / "tokenizer.json").read_bytes())
    model = OnnxModel(ModelFiles("mine", tmp_path, ""), max_tokens=64)
    with pytest.raises(ModelFileError, match=r"model\.onnx is no model"):
        model.run([model.tokens("hello")])


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, bge_folder: Path) -> None:
    (tmp_path / "model.onnx").symlink_to(bge_folder / "model.onnx")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"tokenizer\.json is no tokenizer"):
        OnnxModel(ModelFiles("mine", tmp_path, ""), max_tokens=64).tokens("hello")


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_come_back_once_each_with_their_own_output(bge_folder: Path, threads: int) -> None:
    model = OnnxModel(ModelFiles("bge", bge_folder, ""), max_tokens=64, threads=threads)
    rows = [model.tokens("word " * (1 + number % 40)) for number in range(60)]
    seen = {
        position: len(row)
        for batch, output in model.run_all(rows)
        for position, row in zip(batch, output.values, strict=True)
    }
    assert sorted(seen) == list(range(60))
    assert list(model.run_all([])) == []


@pytest.mark.parametrize(
    ("texts", "batches"), [([30] * 12, 2), ([64] * 11, 2), ([5, 60], 2), ([60], 1), ([64] * 40, 10)]
)
def test_what_somebody_waits_for_is_one_batch_a_thread_where_that_is_not_too_large(
    bge_folder: Path, texts: list[int], batches: int
) -> None:
    model = OnnxModel(ModelFiles("bge", bge_folder, ""), max_tokens=64)
    rows = [model.tokens("word " * (length - 2)) for length in texts]
    assert [len(row.ids) for row in rows] == texts
    seen = [batch for batch, _ in model.run_all(rows)]
    assert len(seen) == batches
    assert sorted(position for batch in seen for position in batch) == list(range(len(texts)))


def test_a_batch_that_fails_beside_others_is_a_provider_error(bge_folder: Path) -> None:
    model = OnnxModel(ModelFiles("bge", bge_folder, ""), max_tokens=64)
    rows = [model.tokens("word " * 60)] * 40 + [Tokens([10**9], [0])]
    with pytest.raises(ProviderError, match="the model bge failed"):
        list(model.run_all(rows))


def test_a_model_is_loaded_once_however_many_use_it(bge_folder: Path) -> None:
    files = ModelFiles("bge", bge_folder, "of the pinned file")
    one, other = OnnxModel(files, max_tokens=64), OnnxModel(files, max_tokens=8)
    row = one.tokens("Who renewed the certificate?")
    one.run([row])
    loaded = one._load()
    np.testing.assert_array_equal(other.run([row]).values, one.run([row]).values)
    assert other._load() is loaded
    assert len(other.tokens("a text of more than eight tokens, or so it seems").ids) == 8
    gone = weakref.ref(loaded)
    del one, other, loaded
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(sys.platform == "win32", reason="no forks")
def test_a_forked_process_embeds_as_well(bge_folder: Path) -> None:
    model = OnnxModel(ModelFiles("bge", bge_folder, "of the pinned file"), max_tokens=512)
    ((_, here),) = model.run_all([model.tokens("Who renewed the certificate? " * 30)])
    forking = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        # Python warns of forks beside threads, which is what this is about.
        warnings.simplefilter("ignore")
        with forking.Pool(1) as pool:
            there = pool.apply_async(_embedded, (bge_folder,)).get(120)
    np.testing.assert_allclose(there, here.values, atol=1e-4)


def _embedded(folder: Path) -> Any:
    model = OnnxModel(ModelFiles("bge", folder, "of the pinned file"), max_tokens=512)
    ((_, output),) = model.run_all([model.tokens("Who renewed the certificate? " * 30)])
    return output.values
