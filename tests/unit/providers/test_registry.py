from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harken.errors import ConfigError, MissingExtraError
from harken.providers.options import EmbedderOptions
from harken.providers.registry import open_embedder, open_reranker


def test_the_default_embedder_is_the_local_one(home: Path) -> None:
    assert open_embedder(EmbedderOptions(home=home)).space.id == "bge-small-en-v1.5/int8/384"


def test_an_unknown_embedder_is_answered_with_those_that_there_are(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(ConfigError) as caught:
        open_embedder(EmbedderOptions(home=home, name="foo"))
    assert str(caught.value) == (
        "no embedder 'foo'; there are: onnx, openai-compatible, fastembed (not installed), multilingual. "
        "Set embedder = 'onnx'"
    )


@pytest.mark.parametrize("module", ["onnxruntime", "tokenizers"])
def test_without_its_libraries_the_local_embedder_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"Searching by meaning .* pip install 'harken\[local\]'"):
        open_embedder(EmbedderOptions(home=home))
    with pytest.raises(MissingExtraError, match=r"Reranking .* pip install 'harken\[local\]'"):
        open_reranker(home, threads=1)


def test_without_fastembed_its_embedder_says_what_to_install(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'harken\[fastembed\]'"):
        open_embedder(EmbedderOptions(home=home, name="fastembed"))


def _imported(code: str) -> set[str]:
    report = f"{code}\nimport sys; print(*(set(sys.modules) & {{'onnxruntime', 'tokenizers', 'httpx', 'fastembed'}}))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_registry_imports_no_models_library() -> None:
    assert _imported("import harken.providers.registry") == set()


def test_opening_the_local_embedder_loads_nothing_until_the_first_text(home: Path) -> None:
    opened = (
        "from pathlib import Path\n"
        "from harken.providers.options import EmbedderOptions\n"
        "from harken.providers.registry import open_embedder\n"
        f"embedder = open_embedder(EmbedderOptions(home=Path({str(home)!r})))\n"
        "embedder.space"
    )
    assert _imported(opened) == set()
    assert _imported(opened + "\nembedder.embed_query('hello')") == {"onnxruntime", "tokenizers"}
