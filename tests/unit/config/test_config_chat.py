"""The settings of a chat's context: their names in every layer, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.config.sections import AutoRagConfig, ContextConfig
from harken.config.settings import load_settings
from harken.errors import ConfigError

SEED_YAML = """
autoRag:
  enabled: false
  topK: 5
  maxTokens: 600
  relevanceThreshold: 0.3
  minMessageTokens: 12
context:
  defaultBudgetTokens: 5000
  slidingWindow: 30
  subagentHistory: 7
"""


def test_the_defaults_are_the_seeds_but_for_one_message_more() -> None:
    config = AutoRagConfig()
    assert (config.enabled, config.top_k, config.max_tokens, config.min_message_tokens) == (True, 4, 400, 10)
    assert config.relevance_threshold is None
    assert (ContextConfig().sliding_window, ContextConfig().subagent_history) == (20, 5)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("top_k", 0, "top_k must be > 0, got 0"),
        ("max_tokens", 0, "max_tokens must be > 0, got 0"),
        ("relevance_threshold", 0.0, r"relevance_threshold must be > 0, got 0\.0"),
        ("relevance_threshold", 1.5, r"relevance_threshold must be <= 1, got 1\.5"),
        ("min_message_tokens", -3, "min_message_tokens must be > 0, got -3"),
    ],
)
def test_a_limit_of_auto_rag_that_is_none_is_refused(field: str, value: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        AutoRagConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["default_budget_tokens", "sliding_window", "subagent_history", "summary_tokens"])
def test_a_limit_of_the_context_that_is_none_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be > 0"):
        ContextConfig(**{field: 0})  # type: ignore[arg-type]


def test_the_seeds_yaml_is_understood_and_its_distance_becomes_a_similarity(tmp_path: Path) -> None:
    (tmp_path / "harken.yaml").write_text(SEED_YAML)
    settings = load_settings(tmp_path, {}).settings
    assert settings.auto_rag == AutoRagConfig(
        enabled=False, top_k=5, max_tokens=600, relevance_threshold=0.7, min_message_tokens=12
    )
    context = settings.context
    assert (context.default_budget_tokens, context.sliding_window, context.subagent_history) == (5000, 30, 7)
    assert settings.embedding.min_message_tokens == 12


def test_a_file_without_the_sections_takes_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "harken.yaml").write_text("embedder: none\n")
    settings = load_settings(tmp_path, {}).settings
    assert (settings.auto_rag, settings.context) == (AutoRagConfig(), ContextConfig())


def test_in_snake_case_the_threshold_is_a_similarity_already(tmp_path: Path) -> None:
    (tmp_path / "harken.toml").write_text("[auto_rag]\nrelevance_threshold = 0.3\n")
    assert load_settings(tmp_path, {}).settings.auto_rag.relevance_threshold == 0.3
    loaded = load_settings(tmp_path, {"HARKEN_AUTO_RAG__RELEVANCE_THRESHOLD": "0.4", "HARKEN_AUTO_RAG__TOP_K": "2"})
    assert (loaded.settings.auto_rag.relevance_threshold, loaded.settings.auto_rag.top_k) == (0.4, 2)
    assert loaded.origins["auto_rag.top_k"] == "HARKEN_AUTO_RAG__TOP_K"


@pytest.mark.parametrize(("distance", "words"), [("0", "> 0, got 0"), ("-0.5", "> 0, got -0.5"), ("x", "a")])
def test_a_distance_that_is_none_is_refused(tmp_path: Path, distance: str, words: str) -> None:
    (tmp_path / "harken.yaml").write_text(f"autoRag:\n  relevanceThreshold: {distance}\n")
    with pytest.raises(ConfigError, match=rf"autoRag\.relevanceThreshold: .*{words}.*harken\.yaml"):
        load_settings(tmp_path, {})


@pytest.mark.parametrize("distance", ["1", "1.2", "2.0", ".inf"])
def test_a_distance_that_lets_everything_pass_is_taken_as_the_seeds_take_it(tmp_path: Path, distance: str) -> None:
    (tmp_path / "harken.yaml").write_text(f"autoRag:\n  relevanceThreshold: {distance}\n")
    threshold = load_settings(tmp_path, {}).settings.auto_rag.relevance_threshold
    assert threshold is not None
    assert 0 < threshold < 0.001


def test_the_message_names_the_place_without_ceremony(tmp_path: Path) -> None:
    (tmp_path / "harken.toml").write_text("[auto_rag]\ntop_k = 0\n")
    with pytest.raises(ConfigError, match=r"^auto_rag\.top_k: top_k must be > 0, got 0 \(from harken\.toml\)$"):
        load_settings(tmp_path, {})


def test_the_shortest_embedded_message_is_one_setting_with_two_names(tmp_path: Path) -> None:
    env = {"HARKEN_AUTO_RAG__MIN_MESSAGE_TOKENS": "4"}
    assert load_settings(tmp_path, env).settings.embedding.min_message_tokens == 4
    both = {**env, "HARKEN_EMBEDDING__MIN_MESSAGE_TOKENS": "0"}
    assert load_settings(tmp_path, both).settings.embedding.min_message_tokens == 0
