from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harken.errors import ConfigError, ModelFileError
from harken.providers.embedders.onnx import OnnxEmbedder
from harken.providers.options import EmbedderOptions

Linked = Callable[[Path, Path], Path]

TEXTS = [
    "Anna: My daughter broke her arm at football and is in hospital.",
    "Ben: The quarterly report is due on Friday.",
    "ok",
    "Anna: " + "We walked along the river for hours and talked about everything. " * 30,
    "Ben: Let us paint the kitchen yellow.",
]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> OnnxEmbedder:
    return OnnxEmbedder(EmbedderOptions(home=tmp_path_factory.mktemp("home")))


def test_the_default_space_is_that_of_bge_small(embedder: OnnxEmbedder) -> None:
    space = embedder.space
    assert (space.id, space.dims, space.max_tokens) == ("bge-small-en-v1.5/int8/384", 384, 512)
    assert -1 < space.threshold < 1


def test_other_dims_than_the_models_are_refused_before_anything_is_embedded(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"embedding\.dims is 100: bge-small-en-v1\.5 makes vectors of 384\."):
        OnnxEmbedder(EmbedderOptions(home=home, dims=100))
    assert OnnxEmbedder(EmbedderOptions(home=home, dims=384)).space.dims == 384


def test_vectors_are_unit_length_float32_and_one_a_text(embedder: OnnxEmbedder) -> None:
    vectors = embedder.embed_passages(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 384), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    query = embedder.embed_query("football")
    assert (query.shape, query.dtype) == ((384,), np.float32)
    assert np.isclose(np.linalg.norm(query), 1, atol=1e-5)


def test_what_long_texts_have_needed_is_given_back_and_vectors_stay_the_same(embedder: OnnxEmbedder) -> None:
    before = embedder.embed_passages(TEXTS)
    held = _anonymous_mb()
    embedder.embed_passages(["word " * 600])
    embedder.rest()
    assert _anonymous_mb() < held + 12
    np.testing.assert_array_equal(embedder.embed_passages(TEXTS), before)


def _anonymous_mb() -> int:
    """What this process holds; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon")), 0)


def test_a_question_is_nearest_to_its_answer_though_they_share_no_word(embedder: OnnxEmbedder) -> None:
    similarities = embedder.embed_passages(TEXTS) @ embedder.embed_query("Did a child get injured?")
    assert int(np.argmax(similarities)) == 0


def test_a_question_passes_the_threshold_with_its_answer_and_not_with_the_rest(embedder: OnnxEmbedder) -> None:
    similarities = embedder.embed_passages(TEXTS) @ embedder.embed_query("Which colour shall the kitchen have?")
    assert list(np.flatnonzero(similarities >= embedder.space.threshold)) == [4]


def test_vectors_come_in_the_order_of_their_texts(embedder: OnnxEmbedder) -> None:
    together = embedder.embed_passages(TEXTS)
    alone = np.vstack([embedder.embed_passages([text]) for text in TEXTS])
    assert [int(row) for row in np.argmax(together @ alone.T, axis=1)] == list(range(len(TEXTS)))


def test_a_texts_vector_hardly_moves_with_its_company(embedder: OnnxEmbedder) -> None:
    together = embedder.embed_passages(TEXTS)
    alone = np.vstack([embedder.embed_passages([text]) for text in TEXTS])
    assert np.min(np.sum(together * alone, axis=1)) > 0.97


def test_no_texts_give_no_vectors(embedder: OnnxEmbedder) -> None:
    assert embedder.embed_passages([]).shape == (0, 384)


@pytest.mark.parametrize("text", ["", "   ", "\n", "\ud83d", "x" * 1_000_000])
def test_odd_texts_have_vectors_too(embedder: OnnxEmbedder, text: str) -> None:
    assert np.all(np.isfinite(embedder.embed_passages([text])))


def test_threads_may_share_an_embedder(home: Path) -> None:
    shared = OnnxEmbedder(EmbedderOptions(home=home, threads=1))
    with ThreadPoolExecutor(8) as pool:
        results = list(
            pool.map(lambda number: shared.embed_passages(TEXTS[number % 5 :] + TEXTS[: number % 5]), range(8))
        )
    for number, vectors in enumerate(results):
        turned = np.roll(vectors, number % 5, axis=0)
        assert np.min(np.sum(turned * results[0], axis=1)) > 0.97


def test_a_batch_size_bounds_rows_not_results(home: Path) -> None:
    single = OnnxEmbedder(EmbedderOptions(home=home, batch_size=1))
    assert single.embed_passages(TEXTS).shape == (len(TEXTS), 384)


def test_a_prefix_for_passages_makes_another_space(embedder: OnnxEmbedder, home: Path) -> None:
    options = EmbedderOptions(
        home=home, passage_prefix="passage: ", query_prefix="query: ", threshold=0.7, max_tokens=64
    )
    space = OnnxEmbedder(options).space
    assert space.id.startswith(embedder.space.id + "/")
    assert (space.passage_prefix, space.query_prefix, space.threshold) == ("passage: ", "query: ", 0.7)
    assert space.max_tokens == 64


def test_a_prefix_for_queries_leaves_the_space(embedder: OnnxEmbedder, home: Path) -> None:
    options = EmbedderOptions(home=home, query_prefix="Represent this sentence for searching relevant passages: ")
    prefixed = OnnxEmbedder(options)
    assert prefixed.space.id == embedder.space.id
    assert float(prefixed.embed_query("football") @ embedder.embed_query("football")) < 0.97


def test_more_tokens_than_the_model_takes_are_not_promised(home: Path) -> None:
    assert OnnxEmbedder(EmbedderOptions(home=home, max_tokens=4096)).space.max_tokens == 512


class TestOwnFolder:
    """A model folder of the user's."""

    @staticmethod
    def _card(folder: Path, **facts: object) -> None:
        (folder / "harken.json").write_text(json.dumps(facts))

    def test_pinned_weights_anywhere_span_the_same_space(
        self, embedder: OnnxEmbedder, home: Path, tmp_path: Path, bge_folder: Path, linked: Linked
    ) -> None:
        folder = linked(bge_folder, tmp_path / "elsewhere")
        assert OnnxEmbedder(EmbedderOptions(home=home, path=folder)).space == embedder.space

    def test_its_card_says_how_it_is_used(
        self, embedder: OnnxEmbedder, home: Path, tmp_path: Path, bge_folder: Path, linked: Linked
    ) -> None:
        folder = linked(bge_folder, tmp_path / "my-e5")
        self._card(
            folder, pooling="cls", query_prefix="query: ", passage_prefix="passage: ", threshold=0.8, max_tokens=128
        )
        mine = OnnxEmbedder(EmbedderOptions(home=home, path=folder))
        space = mine.space
        assert space.id.startswith("my-e5/68807e3f-cls/384/")
        assert (space.dims, space.max_tokens, space.threshold) == (384, 128, 0.8)
        assert (space.query_prefix, space.passage_prefix) == ("query: ", "passage: ")
        similarity = float(mine.embed_passages(TEXTS[:1])[0] @ embedder.embed_passages(TEXTS[:1])[0])
        assert similarity < 0.97

    def test_options_win_over_its_card(self, home: Path, tmp_path: Path, bge_folder: Path, linked: Linked) -> None:
        folder = linked(bge_folder, tmp_path / "mine")
        self._card(folder, query_prefix="query: ", threshold=0.8)
        options = EmbedderOptions(home=home, path=folder, query_prefix="", threshold=0.3)
        space = OnnxEmbedder(options).space
        assert (space.query_prefix, space.threshold) == ("", 0.3)

    @pytest.mark.parametrize(
        ("card", "problem"),
        [
            ("[]", "must hold one JSON object"),
            ("{", "cannot be read as JSON"),
            ('{"pooling": "max"}', "'pooling' must be cls or mean"),
            ('{"dims": 0}', "'dims' must be a whole number above 0"),
            ('{"dims": true}', "'dims' must be"),
            ('{"threshold": 3}', "'threshold' must be a number from -1 to 1"),
            ('{"query_prefix": 1}', "'query_prefix' must be a text"),
            ('{"prefix": ""}', "'prefix' is not known; known: dims"),
        ],
    )
    def test_a_card_that_cannot_be_meant_is_refused(
        self, home: Path, tmp_path: Path, bge_folder: Path, linked: Linked, card: str, problem: str
    ) -> None:
        folder = linked(bge_folder, tmp_path / "mine")
        (folder / "harken.json").write_text(card)
        with pytest.raises(ModelFileError, match=r"harken\.json") as caught:
            OnnxEmbedder(EmbedderOptions(home=home, path=folder))
        assert problem in str(caught.value)

    def test_dims_that_the_model_does_not_have_are_told(
        self, home: Path, tmp_path: Path, bge_folder: Path, linked: Linked
    ) -> None:
        folder = linked(bge_folder, tmp_path / "mine")
        self._card(folder, dims=768)
        with pytest.raises(ModelFileError, match="not 768 numbers a text"):
            OnnxEmbedder(EmbedderOptions(home=home, path=folder)).embed_query("hello")

    def test_a_model_that_gives_a_vector_itself_needs_no_pooling(
        self, home: Path, tmp_path: Path, reranker_folder: Path, linked: Linked
    ) -> None:
        # The cross-encoder stands in for such a model: one number a text, so of length one when it is scaled.
        folder = linked(reranker_folder, tmp_path / "tiny")
        mine = OnnxEmbedder(EmbedderOptions(home=home, path=folder))
        assert mine.space.dims == 1
        assert np.allclose(np.abs(mine.embed_passages(TEXTS)), 1)


def test_a_space_is_opened_again_from_its_spec(embedder: OnnxEmbedder, home: Path) -> None:
    options = replace(EmbedderOptions(home=home), query_prefix="query: ")
    again = EmbedderOptions.from_spec(json.loads(json.dumps(options.to_spec())), home)
    assert OnnxEmbedder(again).space == OnnxEmbedder(options).space
