from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.errors import ConfigError
from harken.providers.options import EmbedderOptions

OPTIONS = EmbedderOptions(
    home=Path("/home/harken"),
    name="openai-compatible",
    model="nomic-embed-text",
    path=Path("/models/mine"),
    url="http://localhost:11434/v1",
    api_key="sk-very-secret",
    dims=768,
    threshold=0.4,
)


def test_a_spec_survives_json() -> None:
    spec = json.loads(json.dumps(OPTIONS.to_spec()))
    assert EmbedderOptions.from_spec(spec, OPTIONS.home, OPTIONS.api_key) == OPTIONS


def test_a_spec_holds_neither_key_nor_home() -> None:
    written = json.dumps(OPTIONS.to_spec())
    assert "sk-very-secret" not in written
    assert "/home/harken" not in written


def test_the_key_is_not_shown() -> None:
    assert "sk-very-secret" not in repr(OPTIONS)


@pytest.mark.parametrize("key", ["home", "api_key", "colour"])
def test_a_spec_of_another_version_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        EmbedderOptions.from_spec({"name": "onnx", key: "x"}, OPTIONS.home)
