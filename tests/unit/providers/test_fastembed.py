from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harken.errors import ConfigError, ModelFileError, ProviderError
from harken.providers.embedder import Embedder
from harken.providers.options import EmbedderOptions
from harken.providers.registry import open_embedder

# The package is an extra that the tests do not install: this stands in for it with the calls that 0.4 to 0.9 have.
STAND_IN = """
import numpy as np

class TextEmbedding:
    @classmethod
    def list_supported_models(cls):
        return [{"model": "BAAI/bge-small-en-v1.5", "dim": 384}, {"model": "acme/tiny", "dim": 4}]

    def __init__(self, model_name, cache_dir, threads, local_files_only):
        if local_files_only:
            raise ValueError(f"Could not load model {model_name} from any source.")

    def query_embed(self, query):
        yield from self.passage_embed([query])

    def passage_embed(self, texts, batch_size=256):
        for text in texts:
            if "break" in text:
                raise RuntimeError("out of luck")
            yield np.array([len(text), 1, 0, 0], dtype=np.float64)
"""


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "site" / "fastembed"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(STAND_IN)
    monkeypatch.delitem(sys.modules, "fastembed", raising=False)
    monkeypatch.syspath_prepend(folder.parent)
    yield
    sys.modules.pop("fastembed", None)


def _open(home: Path, model: str | None = "acme/tiny", allow_download: bool = True) -> Embedder:
    return open_embedder(EmbedderOptions(home=home, name="fastembed", model=model, allow_download=allow_download))


def test_its_space_is_known_before_the_model_is_loaded(home: Path) -> None:
    assert _open(home, model=None, allow_download=False).space.id == "fastembed/BAAI/bge-small-en-v1.5/384"


def test_vectors_are_unit_length_and_in_order(home: Path) -> None:
    vectors = _open(home).embed_passages(["a", "bbb"])
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, np.array([[1, 1, 0, 0], [3, 1, 0, 0]]) / np.sqrt([[2], [10]]))
    assert np.allclose(_open(home).embed_query("a"), vectors[0])


def test_no_texts_give_no_vectors(home: Path) -> None:
    assert _open(home).embed_passages([]).shape == (0, 4)


def test_an_unknown_model_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="acme/huge"):
        _open(home, model="acme/huge")


def test_a_model_that_is_not_there_is_fetched_only_when_allowed(home: Path) -> None:
    with pytest.raises(ModelFileError, match=r"embedding\.allow_download = true"):
        _open(home, allow_download=False).embed_query("hello")


def test_a_model_that_fails_is_a_provider_error(home: Path) -> None:
    with pytest.raises(ProviderError, match=r"acme/tiny failed \(RuntimeError\)"):
        _open(home).embed_passages(["fine", "break"])
