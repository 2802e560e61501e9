"""`harken context`, `harken core`, and `harken config set`."""

from __future__ import annotations

import pytest

from command_line import CommandLine


class TestContext:
    def test_it_prints_each_layer_and_why_what_is_recalled_is_there(self, filled: CommandLine) -> None:
        filled("core", "set", "user", "name", "Ada")
        filled("config", "set", "context.sliding_window", "1")
        printed = filled("context", "--conversation", "garden", "which tomato seedlings did I ask about planting?").out
        lines = printed.splitlines()
        assert lines[0].endswith("of 8000 tokens")
        for layer in ("core", "auto_rag", "window", "pending"):
            assert any(line.startswith(f"{layer}  ") and "tokens" in line for line in lines), printed
        assert "rare words" in printed
        assert "name" not in lines[0]

    def test_its_json_is_the_contract(self, filled: CommandLine) -> None:
        told = filled("context", "--conversation", "garden", "and the frost?", "--json").json()
        assert {"messages", "layers"} <= told.keys()
        assert told["messages"][-1] == {"role": "user", "content": "and the frost?"}
        assert [layer["name"] for layer in told["layers"]] == ["window", "pending"]
        assert all({"name", "tokens", "items"} <= layer.keys() for layer in told["layers"])
        assert told["tokens"] == sum(layer["tokens"] for layer in told["layers"])
        assert told["layers"][0]["items"][0]["id"]

    def test_without_a_conversation_it_is_the_one_that_was_active_last(self, filled: CommandLine) -> None:
        told = filled("context", "hm", "--json").json()
        assert "heater" in told["messages"][0]["content"]

    def test_a_budget_may_be_given(self, filled: CommandLine) -> None:
        told = filled("context", "--conversation", "garden", "--budget", "40", "and the frost?", "--json").json()
        assert told["tokens"] <= told["budget_tokens"] == 40

    def test_what_is_not_there_is_said(self, cli: CommandLine, filled: CommandLine) -> None:
        assert "no conversation nowhere" in filled.fails("context", "--conversation", "nowhere", "hm")

    def test_an_empty_store_has_none(self, cli: CommandLine) -> None:
        said = cli.fails("context", "hm")
        assert said == "There is no conversation yet. Import some: harken import; or begin one: harken chat"


class TestCore:
    def test_an_empty_one_says_how_something_gets_there(self, cli: CommandLine) -> None:
        assert cli("core", "list").out == "Nothing is kept. Keep something: harken core set user KEY VALUE\n"
        assert cli("core", "list", "--json").json() == []

    def test_a_value_is_set_shown_and_forgotten(self, cli: CommandLine) -> None:
        assert cli("core", "set", "user", "name", "Maya", "Lin").out == "user name: Maya Lin\n"
        assert cli("core", "get", "user", "name").out == "Maya Lin\n"
        named = {"section": "user", "key": "name", "value": "Maya Lin"}
        assert cli("core", "get", "user", "name", "--json").json() == named
        toned = cli("core", "set", "agent", "tone", "short", "--json").json()
        assert toned == {"section": "agent", "key": "tone", "value": "short", "updated_at": toned["updated_at"]}
        assert cli("core", "list").out == "user name: Maya Lin\nagent tone: short\n"
        assert [fact["key"] for fact in cli("core", "list", "agent", "--json").json()] == ["tone"]
        gone = cli("core", "delete", "user", "name", "--json").json()
        assert gone == {"forgotten": {"section": "user", "key": "name"}}
        assert "no 'name' in user" in cli.fails("core", "get", "user", "name")

    def test_it_comes_back_from_the_journal(self, cli: CommandLine) -> None:
        cli("core", "set", "user", "name", "Maya")
        for file in cli.home.glob("harken.db*"):
            file.unlink()
        cli("reindex", "--from-journal")
        assert cli("core", "get", "user", "name").out == "Maya\n"
        assert cli("doctor").code == 0

    def test_another_section_is_refused(self, cli: CommandLine) -> None:
        cli.fails("core", "set", "team", "a", "b", code=2)


class TestConfig:
    def test_a_limit_that_is_taken_away_is_shown_as_none(self, cli: CommandLine) -> None:
        assert cli("config", "set", "llm.max_usd_per_day", "none").out.split()[3:5] == ["llm.max_usd_per_day", "none"]

    def test_a_value_set_at_run_time_is_shown_with_its_origin_until_it_is_taken_back(self, cli: CommandLine) -> None:
        told = cli("config", "set", "auto_rag.top_k", "5", "--json").json()
        assert told == [{"key": "auto_rag.top_k", "value": 5, "origin": "run time"}]
        [shown] = [v for v in cli("config", "--json").json() if v["key"] == "auto_rag.top_k"]
        assert shown == told[0]
        [now] = cli("config", "unset", "auto_rag.top_k", "--json").json()
        assert (now["value"], now["origin"]) == (4, "default")

    def test_no_part_of_a_key_or_a_value_is_left_out(self, cli: CommandLine) -> None:
        key, value = "worker.min_exchanges_for_conversation_summary", f"https://models.example/{'a' * 60}/v1"
        cli("config", "set", key, "3")
        cli("config", "set", "embedding.url", value)
        shown = cli("config").out
        assert f"\n{key} " in shown
        assert value in shown.replace("config set, kept", "").replace(" ", "").replace("\n", "")
        assert "…" not in shown

    def test_a_value_out_of_range_is_refused(self, cli: CommandLine) -> None:
        assert "top_k must be > 0, got 0 (from run time)" in cli.fails("config", "set", "auto_rag.top_k", "0")
        assert "There is no setting" in cli.fails("config", "set", "auto_rag.nothing", "0", code=2)

    @pytest.mark.no_home
    def test_looking_makes_no_store(self, cli: CommandLine) -> None:
        cli("config")
        assert not (cli.home / "harken.db").exists()
