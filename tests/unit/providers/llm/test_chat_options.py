from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harken.config.sections import LlmConfig
from harken.config.settings import load_settings
from harken.engine import Harken
from harken.errors import ConfigError, MissingExtraError
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model

KEYS = {"OPENAI_API_KEY": "sk-openai", "GEMINI_API_KEY": "sk-gemini"}


def _options(env: dict[str, str] | None = None, **values: Any) -> ChatOptions | None:
    return ChatOptions.of(LlmConfig(**values), env or {})


def test_without_a_model_in_the_settings_there_is_none(tmp_path: Path) -> None:
    assert ChatOptions.of(load_settings(tmp_path, KEYS).settings.llm, KEYS) is None


def test_the_settings_say_everything(tmp_path: Path) -> None:
    (tmp_path / "harken.toml").write_text('[llm]\nmodel = "ollama:qwen3:8b"\nmaxUsdPerDay = 0.01\n')
    env = {"HARKEN_LLM__URL": "http://box:11434/v1", "HARKEN_LLM__TIMEOUT_SECONDS": "5", "HARKEN_LLM__API_KEY": "k"}
    wanted = load_settings(tmp_path, env).settings.llm
    assert ChatOptions.of(wanted, env) == ChatOptions("ollama", "qwen3:8b", "http://box:11434/v1", "k", 5.0)
    assert wanted.max_usd_per_day == Decimal("0.01")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"model": "openai:gpt-5-mini"}, "sk-openai"),
        ({"model": "google:gemini-2.5-flash"}, "sk-gemini"),
        ({"model": "anthropic:claude-haiku-4-5"}, None),
        ({"model": "openai:gpt-5-mini", "api_key": "own"}, "own"),
        ({"model": "openai:gpt-5-mini", "url": "http://elsewhere/v1"}, None),
    ],
)
def test_a_vendors_own_key_goes_to_that_vendor_alone(values: dict[str, Any], key: str | None) -> None:
    options = _options(KEYS, **values)
    assert options is not None
    assert options.api_key == key


@pytest.mark.parametrize("model", ["gpt-5-mini", "openai:", ":gpt-5-mini", " : "])
def test_a_model_without_its_vendor_is_refused(model: str) -> None:
    with pytest.raises(ConfigError, match=r"not vendor:model, e\.g\. 'openai:gpt-5-mini'"):
        _options(model=model)


def test_both_prices_are_set_or_neither_one_after_the_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"harken config set llm\.output_usd_per_million PRICE"):
        _options(model="ollama:x", input_usd_per_million=1)
    with Harken(tmp_path) as harken:
        for key in ("llm.input_usd_per_million", "llm.output_usd_per_million"):
            assert float(harken.run_time.set(key, "0.5").value) == 0.5
    options = _options(model="ollama:x", input_usd_per_million=0, output_usd_per_million="0.5")
    assert options is not None
    assert options.prices == (Decimal(0), Decimal("0.5"))


def test_a_key_is_never_shown() -> None:
    assert "sk-openai" not in repr(_options(KEYS, model="openai:gpt-5-mini"))


@pytest.mark.parametrize("module", ["pydantic_ai", "genai_prices", "openai", "anthropic"])
def test_without_its_libraries_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"'openai:gpt-5-mini' needs .* pip install 'harken\[llm\]'"):
        open_chat_model(ChatOptions("openai", "gpt-5-mini", api_key="k"))


def test_nothing_of_it_is_imported_before_a_model_is_opened() -> None:
    code = "import harken, harken.engine, harken.providers.registry, sys; print('pydantic_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
