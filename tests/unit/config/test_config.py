from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harken import Harken
from harken.config.settings import LoadedSettings, default_home, environment, load_settings
from harken.errors import ConfigError
from harken.journal.journal import JOURNAL_NAME


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def load(home: Path, env: dict[str, str] | None = None, **overrides: Any) -> LoadedSettings:
    return load_settings(home, env or {}, overrides)


class TestLayers:
    def test_without_anything_the_defaults_hold(self, home: Path) -> None:
        settings = load(home).settings
        assert (settings.home, settings.embedder, settings.store) == (home, "onnx", None)
        assert (settings.search.limit, settings.embedding.min_message_tokens, settings.redaction.enabled) == (
            10,
            10,
            True,
        )

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("harken.toml", "[search]\nlimit = 7\n"),
            ("harken.yaml", "search:\n  limit: 7\n"),
            ("harken.yml", "search: {limit: 7}\n"),
            ("harken.yaml", "search:\n  limit: '7'\n"),
        ],
    )
    def test_a_file_stands_above_the_defaults(self, home: Path, name: str, content: str) -> None:
        (home / name).write_text(content)
        loaded = load(home)
        assert loaded.settings.search.limit == 7
        assert loaded.origins["search.limit"] == name

    def test_an_empty_home_is_none(self, home: Path) -> None:
        """The folder in which a program was started got a database."""
        assert load_settings("", {"HARKEN_HOME": str(home)}).settings.home == home

    def test_a_variable_stands_above_the_file(self, home: Path) -> None:
        (home / "harken.toml").write_text("[search]\nlimit = 7\n")
        loaded = load(home, {"HARKEN_SEARCH__LIMIT": "8", "PATH": "/bin"})
        assert loaded.settings.search.limit == 8
        assert loaded.origins["search.limit"] == "HARKEN_SEARCH__LIMIT"

    def test_a_setting_of_a_section_within_a_section_is_set_in_every_way(self, home: Path, tmp_path: Path) -> None:
        assert load(home, {"HARKEN_ASSEMBLE__WEIGHTS__CODE": "3"}).settings.assemble.weights.code == 3.0
        with Harken(home, env={}) as harken:
            assert harken.run_time.set("assemble.tiers.bronze", "0.5").value == 0.5
        seeds = tmp_path / "engine.json"
        seeds.write_text('{"assemble": {"weights": {"commits": 4}}, "other": {"port": 1}}')
        loaded = load(home, {"HARKEN_CONFIG": str(seeds)})
        assert (loaded.settings.assemble.weights.commits, loaded.passed_over) == (4.0, ("other.port",))

    @pytest.mark.parametrize("overrides", [{"search.limit": 9}, {"search": {"limit": 9}}])
    def test_an_argument_stands_above_everything(self, home: Path, overrides: dict[str, Any]) -> None:
        loaded = load(home, {"HARKEN_SEARCH__LIMIT": "8"}, **overrides)
        assert loaded.settings.search.limit == 9
        assert loaded.origins["search.limit"] == "argument"

    def test_camel_case_keys_of_a_file_are_understood(self, home: Path) -> None:
        (home / "harken.yaml").write_text("search:\n  relevanceThreshold: 0.4\n  rerankTop: 5\n")
        settings = load(home).settings
        assert (settings.search.relevance_threshold, settings.search.rerank_top) == (0.4, 5)

    def test_the_kinds_of_redaction_are_the_users_own_names(self, home: Path) -> None:
        (home / "harken.toml").write_text('[redaction.patterns]\nticket = "T-[0-9]+"\n')
        assert load(home).settings.redaction.patterns == {"ticket": "T-[0-9]+"}

    def test_a_hooks_deadline_in_a_file_is_told_to_be_read_by_nothing(self, home: Path) -> None:
        (home / "harken.toml").write_text("[hooks]\ndeadline_seconds = 9\n")
        loaded = load(home)
        assert (loaded.settings.hooks.deadline_seconds, loaded.passed_over) == (1.5, ("hooks.deadline_seconds",))
        assert load(home, {"HARKEN_HOOKS__DEADLINE_SECONDS": "9"}).settings.hooks.deadline_seconds == 9.0

    def test_an_empty_file_says_nothing(self, home: Path) -> None:
        (home / "harken.yaml").write_text("# nothing yet\n")
        assert load(home).settings == load_settings(home, {}).settings

    def test_a_folder_in_place_of_the_file_is_named(self, home: Path) -> None:
        (home / "harken.toml").mkdir()
        with pytest.raises(ConfigError, match=r"harken.toml cannot be read: .*Is a directory"):
            load(home)

    def test_of_two_files_none_is_read_in_silence(self, home: Path) -> None:
        (home / "harken.toml").write_text('embedder = "none"\n')
        (home / "harken.yaml").write_text("search:\n  limit: 7\n")
        with pytest.raises(ConfigError, match=r"harken.toml and .*harken.yaml. Put all settings into one"):
            load(home)
        assert load(home, {"HARKEN_CONFIG": str(home / "harken.yaml")}).settings.search.limit == 7

    def test_an_empty_store_is_none_and_leaves_the_embedded_file_with_its_journal(self, home: Path) -> None:
        assert load(home, {"HARKEN_STORE": ""}).settings.store is None
        with Harken(home, env={"HARKEN_STORE": "", "HARKEN_EMBEDDER": "none"}) as harken:
            harken.record_message("talk", "user", "The ferry leaves at seven.")
        assert any(path.is_file() for path in (home / JOURNAL_NAME).rglob("*"))

    def test_a_file_may_be_named_by_a_variable(self, home: Path, tmp_path: Path) -> None:
        elsewhere = tmp_path / "settings.yaml"
        elsewhere.write_text("embedder: none\n")
        assert load(home, {"HARKEN_CONFIG": str(elsewhere)}).settings.embedder == "none"
        with pytest.raises(ConfigError, match="not a file"):
            load(home, {"HARKEN_CONFIG": str(tmp_path / "nothing.yaml")})


class TestHome:
    def test_an_argument_stands_above_the_variable(self, home: Path, tmp_path: Path) -> None:
        env = {"HARKEN_HOME": str(tmp_path / "other")}
        assert load(home, env).settings.home == home
        loaded = load_settings(None, env)
        assert (loaded.settings.home, loaded.origins["home"]) == (tmp_path / "other", "HARKEN_HOME")

    def test_without_either_it_is_the_platforms_place(self) -> None:
        assert default_home({}).name == "harken"
        assert load_settings(None, {}).origins["home"] == "default"

    def test_one_that_is_named_where_it_is_not_read_is_refused(self, home: Path, tmp_path: Path) -> None:
        assert load_settings(home, {}, {"home": str(home)}).settings.home == home
        with pytest.raises(ConfigError, match=r"by HARKEN_HOME, --home or Harken\(FOLDER\) alone \(from argument\)"):
            load_settings(home, {}, {"home": str(tmp_path / "other")})
        (home / "harken.toml").write_text('home = "/another"\n')
        with pytest.raises(ConfigError, match=r"home: named by .*\(from harken\.toml\)"):
            load(home)

    def test_it_is_always_a_whole_path(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        assert load_settings("here", {}).settings.home == tmp_path / "here"

    def test_the_environment_is_the_processs_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HARKEN_HOME", "/somewhere")
        assert environment()["HARKEN_HOME"] == "/somewhere"


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("[search]\nlimt = 7\n", r"search\.limt: there is no such setting \(from harken\.toml\)"),
            ("[search]\nlimit = 0\n", r"search\.limit: limit must be >= 1, got 0 .*harken\.toml"),
            ("[search]\nfusion = 'magic'\n", r"search\.fusion: .*'learned', 'convex' or 'rrf'"),
            ("[worker]\nbatch_size = 500\n", r"worker\.batch_size: batch_size must be <= 100, got 500"),
            ("search = 7\n", r"search: search is a section, which holds settings of its own \(from harken\.toml\)"),
            ("[auto_rag]\ntopk = 7\n", r"auto_rag\.topk: .*\(from harken\.toml\), did you mean auto_rag\.top_k\?"),
            ("rag_min_similarity = 0.5\n", r"did you mean rag\.min_similarity\?"),
            ("quite_another = 1\n", r"quite_another: there is no such setting \(from harken\.toml\)$"),
            ("[search\n", r"harken\.toml cannot be read"),
        ],
    )
    def test_a_value_that_cannot_be_meant_is_named_with_its_range_and_origin(
        self, home: Path, content: str, words: str
    ) -> None:
        (home / "harken.toml").write_text(content)
        with pytest.raises(ConfigError, match=words):
            load(home)

    @pytest.mark.parametrize(
        ("key", "given", "kept"),
        [
            ("search.rerank", "Off", False),
            ("search.rerank", 1, True),
            ("search.limit", " 7 ", 7),
            ("search.limit", 7.0, 7),
            ("search.relevance_threshold", "0.25", 0.25),
            ("search.relevance_threshold", "none", None),
            ("embedding.model", "none", "none"),
            ("embedding.model", "", None),
            ("embedding.path", "", None),
            ("embedding.api_key", "", None),
            ("embedding.query_prefix", "", ""),
            ("llm.max_usd_per_day", 2.5, Decimal("2.5")),
            ("llm.max_usd_per_day", "None", None),
            ("serve.roots", ["~/work"], (Path("~/work"),)),
        ],
    )
    def test_a_value_is_taken_as_files_and_variables_can_write_it(
        self, home: Path, key: str, given: object, kept: object
    ) -> None:
        section, name = key.split(".")
        found = getattr(getattr(load(home, **{key: given}).settings, section), name)
        assert (found, type(found)) == (kept, type(kept))

    @pytest.mark.parametrize(
        ("key", "given", "words"),
        [
            ("search.rerank", "perhaps", "rerank must be true or false"),
            ("search.limit", "many", "limit must be a whole number"),
            (
                "embedder",
                "ollama",
                "embedder must be 'onnx', 'openai-compatible', 'fastembed', 'multilingual' or 'none'",
            ),
            ("search.limit", 7.5, "limit must be a whole number"),
            ("search.vector_weight", float("nan"), "vector_weight must be >= 0, got nan"),
            ("search.vector_weight", None, "vector_weight must be a number"),
            ("llm.max_usd_per_day", "inf", "max_usd_per_day must be a number"),
            ("llm.model", 7, "model must be a text"),
            ("serve.hosts", "one", "hosts must be a list"),
            ("redaction.patterns", "one", "patterns must be a table"),
            ("tenant", "a b", "tenant must match"),
        ],
    )
    def test_a_value_of_another_kind_is_refused(self, home: Path, key: str, given: object, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            load(home, **{key: given})

    def test_all_mistakes_are_named_at_once(self, home: Path) -> None:
        with pytest.raises(ConfigError, match=r"embedding\.threads.*; .*search\.limit"):
            load(home, **{"search.limit": 0, "embedding.threads": 0})

    def test_a_variable_that_names_nothing_is_told_how_sections_are_written(self, home: Path) -> None:
        with pytest.raises(ConfigError, match=r"HARKEN_SEARCH_LIMIT names no setting.*two underscores"):
            load(home, {"HARKEN_SEARCH_LIMIT": "7"})
        with pytest.raises(ConfigError, match="as in HARKEN_AUTO_RAG__TOP_K"):
            load(home, {"HARKEN_AUTORAG__TOP_K": "7"})

    def test_a_key_cannot_be_a_value_and_a_section(self, home: Path) -> None:
        with pytest.raises(ConfigError, match="a value and a section at once"):
            load(home, **{"search": 7, "search.limit": 7})

    @pytest.mark.parametrize("content", ["- a\n- b\n", "just words\n", "7\n"])
    def test_a_file_of_something_else_is_refused(self, home: Path, content: str) -> None:
        (home / "harken.yaml").write_text(content)
        with pytest.raises(ConfigError, match="must hold key-value pairs"):
            load(home)

    def test_a_file_that_is_no_text_is_refused(self, home: Path) -> None:
        (home / "harken.yaml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigError, match="cannot be read"):
            load(home)

    def test_settings_do_not_change(self, home: Path) -> None:
        with pytest.raises(AttributeError, match="frozen"):
            load(home).settings.search.limit = 3  # type: ignore[misc]


class TestShowing:
    def test_every_setting_is_shown_with_its_origin(self, home: Path) -> None:
        shown = {value.key: value for value in load(home, {"HARKEN_EMBEDDER": "none"}).values()}
        assert (shown["embedder"].value, shown["embedder"].origin) == ("none", "HARKEN_EMBEDDER")
        assert (shown["search.limit"].value, shown["search.limit"].origin) == (10, "default")

    def test_a_key_is_never_shown(self, home: Path) -> None:
        loaded = load(home, {"HARKEN_EMBEDDING__API_KEY": "sk-secret"})
        assert loaded.settings.embedding.api_key is not None
        assert loaded.settings.embedding.api_key.get_secret_value() == "sk-secret"
        assert "sk-secret" not in repr(loaded)
        assert all("sk-secret" not in str(value.value) for value in loaded.values())

    def test_ones_own_patterns_are_shown_with_where_they_come_from(self, home: Path) -> None:
        assert ("redaction.patterns", {}, "default") in [(v.key, v.value, v.origin) for v in load(home).values()]
        (home / "harken.toml").write_text('[redaction.patterns]\nticket = "T-[0-9]+"\n')
        shown = [(value.key, value.value) for value in load(home).values() if value.origin == "harken.toml"]
        assert shown == [("redaction.patterns", {"ticket": "T-[0-9]+"})]
