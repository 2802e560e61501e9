from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.errors import ConfigError, UsageError
from harken.storage.state import set_setting


def open_home(home: Path, **env: str) -> Harken:
    return Harken(home, env={"HARKEN_EMBEDDER": "none", **env})


@pytest.fixture
def harken(tmp_path: Path) -> Iterator[Harken]:
    with open_home(tmp_path / "home") as harken:
        yield harken


def test_a_value_holds_at_once_and_in_the_next_process(harken: Harken, tmp_path: Path) -> None:
    kept = harken.run_time.set("auto_rag.top_k", "5")
    assert (kept.key, kept.value, kept.origin) == ("auto_rag.top_k", 5, "run time")
    assert harken.settings.auto_rag.top_k == 5
    harken.close()
    with open_home(tmp_path / "home") as again:
        assert again.settings.auto_rag.top_k == 5
        assert again.run_time.get("auto_rag.top_k").origin == "run time"


@pytest.mark.parametrize("name", ["gpt-5", "openai:", "tapestry:gpt"])
def test_a_language_model_that_cannot_be_is_refused_where_it_is_set(harken: Harken, name: str) -> None:
    with pytest.raises(ConfigError, match=r"llm\.model"):
        harken.run_time.set("llm.model", name)
    assert harken.settings.llm.model is None
    assert harken.run_time.set("llm.model", "openai:gpt-5").value == "openai:gpt-5"


def test_what_another_process_sets_is_followed_when_asked_for(harken: Harken, tmp_path: Path) -> None:
    with open_home(tmp_path / "home") as other:
        assert not harken.run_time.refresh()
        other.run_time.set("search.limit", 3)
        assert harken.run_time.get("search.limit").value == 3
        assert harken.settings.search.limit != 3
        assert harken.run_time.refresh()
        assert harken.settings.search.limit == 3
        assert not harken.run_time.refresh()
        other.run_time.unset("search.limit")
        assert harken.run_time.refresh()
        assert harken.run_time.get("search.limit").origin == "default"


def test_it_stands_above_the_environment_and_below_an_argument(tmp_path: Path) -> None:
    with open_home(tmp_path, HARKEN_SEARCH__LIMIT="7") as harken:
        assert harken.run_time.set("search.limit", 9).value == 9
    with Harken(tmp_path, env={"HARKEN_EMBEDDER": "none"}, settings={"search.limit": 2}) as harken:
        assert harken.settings.search.limit == 2


def test_searches_follow_a_change_at_once(harken: Harken) -> None:
    for number in range(3):
        harken.record_message("talk", "user", f"zebra number {number}")
    harken.run_time.set("search.limit", 1)
    assert len(harken.search("zebra").hits) == 1
    harken.run_time.unset("search.limit")
    assert len(harken.search("zebra").hits) == 3


def test_a_value_taken_back_leaves_what_the_environment_says(tmp_path: Path) -> None:
    with open_home(tmp_path, HARKEN_AUTO_RAG__TOP_K="4") as harken:
        harken.run_time.set("auto_rag.top_k", 5)
        now = harken.run_time.unset("auto_rag.top_k")
    assert (now.value, now.origin) == (4, "HARKEN_AUTO_RAG__TOP_K")


def test_a_value_out_of_range_is_refused_and_not_kept(harken: Harken) -> None:
    with pytest.raises(ConfigError, match=r"top_k must be > 0, got 0 \(from run time\)"):
        harken.run_time.set("auto_rag.top_k", 0)
    assert harken.run_time.get("auto_rag.top_k").origin == "default"


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("home", "HARKEN_HOME or --home"),
        ("store", "the settings file or the environment"),
        ("embedding.api_key", "the settings file or the environment"),
        ("llm.api_key", "the settings file or the environment"),
        ("oidc.client_secret", "the settings file or the environment"),
        ("oidc.issuer", "the settings file or the environment"),
        ("serve.rate", "the settings file or the environment"),
        ("redaction.patterns", "the settings file"),
        ("hooks.deadline_seconds", "HARKEN_HOOKS__DEADLINE_SECONDS"),
    ],
)
def test_what_cannot_lie_in_the_store_is_refused_with_where_it_is_set(harken: Harken, key: str, where: str) -> None:
    with pytest.raises(UsageError, match=rf"{key} cannot be set at run time. Set it by {where}\.$"):
        harken.run_time.set(key, "2")


def test_a_key_that_names_nothing_is_refused(harken: Harken) -> None:
    for call in (lambda: harken.run_time.set("auto_rag.topk", 1), lambda: harken.run_time.unset("nothing")):
        with pytest.raises(UsageError, match="There is no setting"):
            call()
    with pytest.raises(UsageError, match=r"List them: harken config --all$"):
        harken.run_time.unset("nothing")
    with pytest.raises(UsageError, match=r"Did you mean auto_rag\.top_k\?"):
        harken.run_time.set("auto_rag.topk", 1)
    with pytest.raises(UsageError, match=r"List them: harken config --all$"):
        harken.run_time.unset("nothing")
    with pytest.raises(UsageError, match="needs a value"):
        harken.run_time.set("search.limit", None)


def test_a_kept_value_that_means_nothing_any_more_stops_nobody_and_can_be_taken_back(
    harken: Harken, tmp_path: Path
) -> None:
    harken.run_time.set("search.limit", 3)
    with harken.store.writing() as tx:
        set_setting(tx, "setting:search.of_another_version", 1)
        set_setting(tx, "setting:auto_rag.top_k", 0)
    harken.close()
    with open_home(tmp_path / "home") as again:
        assert (again.settings.search.limit, again.settings.auto_rag.top_k) == (3, 4)
        again.run_time.unset("search.of_another_version")
        again.run_time.set("auto_rag.top_k", 2)
    with open_home(tmp_path / "home") as again:
        assert again.settings.auto_rag.top_k == 2


def test_no_password_of_a_url_becomes_a_row_or_is_shown(harken: Harken, tmp_path: Path) -> None:
    url = "http://bob:hunter2-Violet@host/v1"
    with pytest.raises(UsageError, match="cannot be set at run time"):
        harken.run_time.set("llm.url", url)
    with open_home(tmp_path / "other", HARKEN_LLM__URL=url) as other:
        assert other.run_time.get("llm.url").value == "http://bob:***@host/v1"
        assert other.settings.llm.url == url
