"""The commands of a team: set up in a few lines, used by keys, and taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from command_line import CommandLine
from crews import crew
from harken.errors import StoreBusyError
from postgres_server import PostgresServer


@pytest.fixture
def server(shared_database: str, tenant: str) -> dict[str, str]:
    """The environment of whoever has the database."""
    return {"HARKEN_STORE": shared_database, "HARKEN_TENANT": tenant, "HARKEN_EMBEDDER": "none"}


def test_a_team_of_two_is_made_by_two_commands(cli: CommandLine, server: dict[str, str], tmp_path: Path) -> None:
    said = cli("principal", "create", "alice", "--admin", settings=server)
    alice = {**server, "HARKEN_KEY": said.out.strip()}
    assert "only time" in said.err
    bob = {**server, "HARKEN_KEY": cli("principal", "create", "bob", settings=alice).out.strip()}

    view = cli("whoami", "--json", settings={**bob, "HARKEN_KEY": f" {bob['HARKEN_KEY']}\n"}).json()
    assert view["principal"]["name"] == "bob"
    assert "not valid" in cli.fails("whoami", settings={**server, "HARKEN_KEY": " "})
    assert [space["name"] for space in view["spaces"]] == ["bob", "common"]
    assert "bob of team" in cli("whoami", settings=bob).out
    cli("memory", "add", "The boiler is serviced in May.", settings=bob)
    cli("--space", "common", "memory", "add", "The attic has a leak.", settings=bob)
    assert cli.search("boiler", settings=alice) == []
    [hit] = cli.search("attic leak", settings=alice)
    assert hit["origin"] == {"space": "common", "by": "bob", "shared_by": None, "shared_on": None}
    assert "space common, said by bob" in cli("search", "attic leak", settings=alice).out
    [own] = cli.search("boiler", settings=bob)
    assert own["origin"] is None

    copy = cli("share", own["id"], "--to", "common", "--json", settings=bob).json()["id"]
    [shared] = cli.search("boiler", settings=alice)
    assert shared["id"] == copy
    assert shared["origin"]["shared_by"] == "bob"
    assert "shared by bob" in cli("show", copy, settings=alice).out
    told = tmp_path / "talk.jsonl"
    told.write_text(
        '{"conversation": "c", "role": "user", "content": "The heron nests by the weir."}\n', encoding="utf-8"
    )
    cli("import", told, settings=bob)
    cli("--space", "common", "import", told, settings=bob)
    past = cli("rag", "test", "heron nests by the weir", settings=alice).out
    assert "space common, said by bob)" in past
    assert "- bob: The heron nests" in past
    [message] = cli.search("heron", settings=bob)
    assert "In a team its worker sees to it" in cli("forget", message["id"], "--yes", settings=bob).err
    assert "the team's worker has yet to come" in cli("doctor", code=1, settings=bob).out
    assert cli("unshare", own["id"], "--from", "common", "--json", settings=bob).json() == {"ids": [copy]}
    again = cli("share", own["id"], "--to", "common", settings=bob).out
    assert f"Take it back: harken unshare {own['id']}" in again
    assert "1 record" in cli("unshare", own["id"], settings=bob).out
    assert cli.search("boiler", settings=alice) == []


def test_the_state_of_the_workers_says_of_which_space_it_is(cli: CommandLine, server: dict[str, str]) -> None:
    ann = {**server, "HARKEN_KEY": cli("principal", "create", "ann", settings=server).out.strip()}
    for options, of in (((), "space ann"), (("--space", "common"), "space common")):
        told = " ".join(cli(*options, "worker", "status", settings=ann).err.split())
        assert told.startswith(f"Of {of} alone. Of another space of a team: harken --space NAME worker status")
    assert f"Of '{server['HARKEN_TENANT']}' alone." in cli("worker", "status", settings=server).err
    assert cli("worker", "status", "--json", settings=ann).err == ""


def test_the_common_space_is_not_said_to_go_with_an_owner(cli: CommandLine, server: dict[str, str]) -> None:
    cli("principal", "create", "alice", settings=server)
    told = cli("space", "delete", "common", "--yes", code=2, settings=server).err
    assert "harken --space common forget" in told
    assert "erase" not in told


def test_a_hit_of_a_shared_space_has_the_title_that_its_conversation_has_there(
    cli: CommandLine, server: dict[str, str], tmp_path: Path
) -> None:
    alice = {**server, "HARKEN_KEY": cli("principal", "create", "alice", settings=server).out.strip()}
    for space, title, said in ((), "My diary", "The heron nests."), (("--space", "common"), "Crew", "Herons eat fish."):
        told = tmp_path / f"{title}.jsonl"
        told.write_text(f'{{"conversation": "c", "role": "user", "content": "{said}"}}\n', encoding="utf-8")
        cli(*space, "import", told, settings=alice)
        cli(*space, "conversations", "title", title, "--on", "c", settings=alice)
    shown = cli("search", "heron", settings=alice).out.split("\n\n")
    found = {block.splitlines()[0]: block for block in shown if block.strip()}
    assert "The heron nests." in found["My diary"]
    assert "Herons eat fish." in found["Crew"]


def test_what_is_indexed_in_a_shared_space_alone_is_found_without_a_word_of_ones_own(
    cli: CommandLine, server: dict[str, str], tmp_path: Path
) -> None:
    alice = {**server, "HARKEN_KEY": cli("principal", "create", "alice", settings=server).out.strip()}
    (tmp_path / "birds.md").write_text("# Birds\n\nThe heron nests by the weir.\n", encoding="utf-8")
    cli("--space", "common", "index", "docs", tmp_path / "birds.md", settings=alice)
    found = cli("search", "heron", "--source", "document", settings=alice)
    assert "weir" in found.out
    assert "indexed yet" not in found.err
    assert "indexed yet" in cli("search", "heron", "--source", "code", settings=alice).err


def test_a_rule_in_a_shared_space_says_where_it_stands_and_whose_it_is(
    cli: CommandLine, server: dict[str, str], tmp_path: Path
) -> None:
    names = ("alice", "bob")
    alice, bob = (
        {**server, "HARKEN_KEY": cli("principal", "create", one, settings=server).out.strip()} for one in names
    )
    told = tmp_path / "rule.jsonl"
    told.write_text('{"conversation": "c", "role": "user", "content": "Always answer in Latin."}\n', encoding="utf-8")
    cli("--space", "common", "import", told, settings=bob)
    [own] = cli("rules", "--json", settings=bob).json()
    cli("--space", "common", "rules", "confirm", own["id"], settings=bob)
    [own], [seen] = (cli("rules", "--json", settings=who).json() for who in (bob, alice))
    assert (own["holds"], seen["holds"]) == (True, False)
    assert own["origin"] == seen["origin"] == {"space": "common", "by": "bob", "shared_by": None, "shared_on": None}
    shown = cli("rules", settings=alice).out
    assert "space common, said by bob" in shown
    assert "to be confirmed" not in shown, "it is bob's to decide"
    assert "space common" in cli("rules", settings=bob).out
    cli("--space", "common", "rules", "drop", own["id"], settings=bob)


def test_spaces_are_made_granted_kept_and_deleted(cli: CommandLine, server: dict[str, str]) -> None:
    for name in ("alice", "bob"):
        cli("principal", "create", name, settings=server)
    cli("space", "create", "farm", "--keep", "30", settings=server)
    grown = cli("group", "set", "growers", "--add", "bob", "--add", "alice", "--json", settings=server).json()
    assert grown == {"growers": ["alice", "bob"]}
    cli("group", "set", "growers", "--remove", "alice", settings=server)
    assert "growers: bob" in cli("group", "list", settings=server).out
    cli("space", "grant", "farm", "growers", "write", settings=server)
    assert "growers (group): write" in cli("space", "show", "farm", settings=server).out
    assert "30 days" in cli("space", "show", "farm", settings=server).out
    cli("space", "keep", "farm", settings=server)
    cli("space", "revoke", "farm", "growers", settings=server)
    assert cli("space", "show", "farm", "--json", settings=server).json()["grants"] == []
    assert "Nothing was deleted" in cli("space", "delete", "farm", code=1, stdin="no\n", settings=server).err
    assert "Nothing was deleted, for nobody can" in cli("space", "delete", "farm", code=2, settings=server).err
    cli("space", "delete", "farm", "--yes", settings=server)
    assert "There is no space farm" in cli.fails("space", "show", "farm", settings=server)
    assert [row["name"] for row in cli("principal", "list", "--json", settings=server).json()] == ["alice", "bob"]


def test_a_key_that_may_only_read_changes_nothing_by_any_command(
    cli: CommandLine, server: dict[str, str], tmp_path: Path
) -> None:
    bob = {**server, "HARKEN_KEY": cli("principal", "create", "bob", settings=server).out.strip()}
    cli("core", "set", "user", "name", "Bob", settings=bob)
    reader = {**server, "HARKEN_KEY": cli("key", "create", "--scope", "read", settings=bob).out.strip()}
    told = tmp_path / "talk.jsonl"
    told.write_text('{"conversation": "c", "role": "user", "content": "The weir is shut."}\n', encoding="utf-8")
    for scope, *command in (
        ("record", "import", told),
        ("record", "new", "--conversation", "c"),
        ("record", "task", "run", "daily", "Look at the weir."),
        ("record", "chat", "Is the weir shut?"),
        ("index", "index", "docs", tmp_path),
        ("forget", "forget", "--query", "weir", "--yes"),
        ("remember", "core", "set", "user", "name", "Eve"),
        ("remember", "core", "delete", "user", "name"),
        ("admin", "config", "set", "rag.enabled", "false"),
        ("admin", "config", "unset", "rag.enabled"),
        ("admin", "rag", "off"),
        ("admin", "model", "ollama:llama3.2"),
        ("admin", "embeddings", "off"),
        ("admin", "embeddings", "rebuild", "--yes"),
        ("admin", "summarizer", "off"),
        ("admin", "summarizer", "backfill", "--yes"),
        ("admin", "worker", "retry"),
        ("admin", "reindex"),
        ("admin", "doctor", "--fix"),
        ("admin", "webhook", "add", "https://example.com/hook"),
        ("admin", "webhook", "resume", "0123"),
        ("forget", "webhook", "remove", "0123"),
    ):
        assert f"needs the scope '{scope}'" in cli.fails(*command, settings=reader), command
    assert "Bob" in cli("core", "list", settings=reader).out
    told = cli.fails("--space", "common", "embeddings", "off", settings=bob)
    assert "the right 'admin' in the space common" in told, "who writes there does not switch for everybody"


def test_keys_are_made_listed_rotated_and_revoked(cli: CommandLine, server: dict[str, str]) -> None:
    cli("principal", "create", "robot", "--kind", "agent", "--no-key", settings=server)
    made = ("key", "create", "--for", "robot", "--scope", "read", "--only", "common", "--days", "7", "--json")
    key = cli(*made, settings=server).json()
    robot = {**server, "HARKEN_KEY": key["key"]}
    assert cli("whoami", "--json", settings=robot).json()["scopes"] == ["read"]
    assert "lacks" not in cli("search", "anything", settings=robot).err
    assert "scope 'keys'" in cli.fails("key", "list", settings=robot)
    [line] = cli("key", "list", "--of", "robot", settings=server).out.splitlines()
    assert line.startswith(f"{key['prefix']}…")
    assert key["key"] not in line
    new = cli("key", "rotate", key["id"], "--json", settings=server).json()
    assert "not valid" in cli.fails("whoami", settings=robot)
    robot["HARKEN_KEY"] = new["key"]
    old, new = robot, cli("key", "rotate", new["id"], "--overlap-seconds", "60", "--json", settings=server).json()
    robot = {**server, "HARKEN_KEY": new["key"]}
    for key_of_both in (old, robot):
        assert cli("whoami", "--json", settings=key_of_both).json()["principal"]["name"] == "robot"
    cli("key", "revoke", new["prefix"], settings=server)
    assert "not valid" in cli.fails("search", "anything", settings=robot)


def test_erasing_asks_for_an_export_first(cli: CommandLine, server: dict[str, str], tmp_path: Path) -> None:
    cli("principal", "create", "alice", "--admin", settings=server)
    bob = {**server, "HARKEN_KEY": cli("principal", "create", "bob", settings=server).out.strip()}
    cli("memory", "add", "The boiler is serviced in May.", settings=bob)
    assert "--export FILE" in cli.fails("erase", "bob", "--yes", code=2, settings=server)
    target = tmp_path / "bob.jsonl"
    refused = cli("erase", "bob", "--export", target, code=2, settings=server).err
    assert "Nothing was erased, for nobody can answer here. To do it all the same, add --yes." in refused
    erased = cli("erase", "bob", "--export", target, "--yes", "--json", settings=server).json()
    assert erased["erased"] == "bob"
    assert "boiler" in target.read_text("utf-8")
    assert "not valid" in cli.fails("whoami", settings=bob)
    assert [row["name"] for row in cli("principal", "list", "--json", settings=server).json()] == ["alice"]
    assert cli("principal", "create", "carol", "--no-key", settings=server).out.startswith("Made carol, with a private")
    target = tmp_path / "carol.jsonl"
    told = cli("erase", "carol", "--export", target, stdin="yes\n", settings=server)
    assert f"Wrote everything of carol to {target}" in told.err
    assert told.out.startswith("Erased carol: 1 private space and 0 records in shared ones.")


def test_the_embedded_store_has_one_owner_and_no_team(cli: CommandLine) -> None:
    assert "one owner" in cli("whoami").out
    assert "needs a store on a server" in cli.fails("principal", "create", "alice")
    assert "needs a store on a server" in cli.fails("--space", "common", "search", "anything")


def test_a_key_is_taken_out_of_what_is_said(cli: CommandLine, server: dict[str, str]) -> None:
    secret = cli("principal", "create", "alice", settings=server).out.strip()
    cli("memory", "add", f"My key is {secret} and nothing else.", settings={**server, "HARKEN_KEY": secret})
    [memory] = cli("memory", "list", "--json", settings={**server, "HARKEN_KEY": secret}).json()
    assert secret not in memory["content"]
    assert "[redacted:harken-key]" in memory["content"]


def test_the_doctor_of_whoever_has_the_database_looks_at_every_space(
    cli: CommandLine, server: dict[str, str], tenant: str, postgres: PostgresServer
) -> None:
    bob = {**server, "HARKEN_KEY": cli("principal", "create", "bob", settings=server).out.strip()}
    cli("memory", "add", "The boiler is serviced in May.", settings=bob)
    assert "All agrees" in cli("doctor", settings=server).out
    database = make_url(server["HARKEN_STORE"]).database
    postgres.execute(f"DELETE FROM entry_words WHERE tenant LIKE '{tenant}/%'", database)
    found = cli("doctor", "--json", code=1, settings=server).json()["findings"]
    assert [each["problem"] for each in found] == ["bob: The full-text index differs from the rows."]
    assert "fixed: bob" in cli("doctor", "--fix", settings=server).out
    assert "All agrees" in cli("doctor", settings=server).out
    assert cli.search("boiler", settings=bob)


def test_a_space_whose_deletion_broke_off_is_said_to_be_deleted(
    cli: CommandLine, server: dict[str, str], tmp_path: Path
) -> None:
    with crew(tmp_path / "team", server["HARKEN_STORE"], server["HARKEN_TENANT"], "alice") as team:
        farm = team.team.create_space(team.speaker("alice"), "farm")
        with team.team.opened(farm).store.writing(), pytest.raises(StoreBusyError):
            team.team.delete_space(team.speaker("alice"), "farm")
        assert (
            "farm: being deleted. If nobody is at it: harken space" in cli("space", "show", "farm", settings=server).out
        )
        cli("space", "delete", "farm", "--yes", settings=server)
        assert "no space farm" in cli.fails("space", "show", "farm", settings=server)
