"""Every example of the README, of docs/ and of the plugin runs, with stand-ins for what is elsewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import httpx
import pytest

from coding_agent import answering, end
from command_line import TIMEOUT_SECONDS, CommandLine
from documented import PAGES, ROOT, Shell, blocks, every_block, follow, named_commands, steps
from harken.config.settings import load_settings
from harken.serve.daemon.paths import DaemonPaths
from postgres_server import PostgresServer
from team_server import listening, serving_team

LOCAL = find_spec("onnxruntime") is not None
# Their commands say the same without an embedding model.
BY_WORDS = {"docs/coding-agents.md", "docs/indexing.md", "docs/memories.md"}
# Settled below or in a test of the page, block by block; blocks of other languages are found by themselves.
EXAMPLES = {
    ("README.md", "python"): 3,
    ("README.md", "toml"): 3,
    ("docs/architecture.md", "text"): 1,
    ("docs/chat.md", "text"): 1,
    ("docs/getting-started.md", "python"): 1,
    ("docs/how-memory-works.md", "text"): 1,
    ("docs/how-memory-works.md", "toml"): 1,
    ("docs/http-api.md", "json"): 1,
    ("docs/http-api.md", "python"): 1,
    ("docs/measuring.md", "text"): 1,
    ("docs/mcp.md", "json"): 1,
    ("docs/mcp.md", "toml"): 2,
    ("docs/operating.md", "text"): 2,
    ("docs/webhooks.md", "json"): 1,
    ("docs/teams.md", "python"): 1,
    ("plugins/claude-code/README.md", ""): 1,
}
_INSTALLING = re.compile(r"(?:pip|uv tool|pipx) install '?(?:harken|\.)(?:\[([\w,]+)\])?'?")


def test_no_example_is_of_a_kind_that_nobody_tries() -> None:
    found = Counter((page, language) for page, language, _ in every_block())
    assert {each: count for each, count in found.items() if each[1] not in ("console", "sh", "indented")} == EXAMPLES


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if blocks(text, "console")])
def test_the_commands_of_a_page_print_what_they_are_said_to_print(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    if page not in BY_WORDS and not LOCAL:
        pytest.skip("needs harken[local]")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    told = cli if page in BY_WORDS else replace(cli, settings={})
    assert follow(told, steps(PAGES[page]), tmp_path / "bin")


def test_every_extra_that_is_to_be_installed_is_one_that_there_is() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {extra for text in PAGES.values() for each in _INSTALLING.findall(text) for extra in each.split(",")}
    assert {"all", "local", "mcp", "clusters"} <= named - {""} <= known.keys()


def test_who_has_nothing_yet_installs_from_a_clone_and_is_told_what_all_leaves_out() -> None:
    """No index of packages has Harken: by its name alone pip only adds extras to one that is there."""
    assert not [page for page, text in PAGES.items() if "harken[local" in text]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    [everything] = extras["all"]
    missing = extras.keys() - {"all"} - set(re.findall(r"\w+", everything))
    [told] = re.findall(r"everything below but the extras (.*?), and", PAGES["README.md"])
    assert set(re.findall(r"`(\w+)`", told)) == missing


@pytest.mark.no_home
def test_every_command_that_is_named_has_these_words_and_options(cli: CommandLine) -> None:
    named = sorted(set(named_commands()))
    assert len(named) > 60
    for words in named:
        choices = [word.split("|") for word in shlex.split(re.sub(r"[\[\]]", " ", words))]
        for command in product(*choices):
            # Help comes before missing values are missed, and after unknown commands and options are refused.
            assert "Usage: harken" in cli(*command, "--help").out


def _is_run(line: str) -> bool:
    return not line.startswith(("pip ", "uv ", "make ", "claude ", "Authorization: "))


@pytest.mark.parametrize(("page", "block"), [(page, block) for page, _, block in every_block("sh", "indented")])
def test_the_shell_examples_do_what_they_say(
    request: pytest.FixtureRequest,
    cli: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    block: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = block.splitlines()
    for target in re.findall(r"^make (\w+)", block, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    script = "\n".join(filter(_is_run, lines))
    shell = Shell(cli, tmp_path / "bin")
    if page == "docs/http-api.md":
        _ask_a_team(request.getfixturevalue("shared_database"), tmp_path, script)
    elif page == "docs/teams.md":
        _make_a_team(request.getfixturevalue("postgres"), cli, lines)
    elif "db.example" in script:
        _run_on_a_server(request.getfixturevalue("postgres"), cli, lines)
    elif "team.example" in script:
        _begin_a_team(request.getfixturevalue("postgres"), cli, lines)
    elif "curl" in script:
        _ask_the_daemon(cli, shell, script)
    elif script == "harken view":
        _open_the_pages(cli, script)
    elif "serve --tcp" not in script and script:
        (tmp_path / "report.sh").write_text("#!/bin/sh\necho 'Three issues were closed.'\n")
        (tmp_path / "report.sh").chmod(0o755)
        printed = shell.run(script)
        assert "report" not in script or "Three issues were closed." in printed


def _run_on_a_server(postgres: PostgresServer, cli: CommandLine, lines: Sequence[str]) -> None:
    """The lines of a shell, one after the other; the worker, which does not end, until nothing is left."""
    transcript = cli.person / ".claude" / "projects" / "harbour" / "one.jsonl"
    transcript.parent.mkdir(parents=True)
    said = {"role": "user", "content": "The walrus pump stands at the third quay"}
    moment = "2026-05-04T10:00:00.000Z"
    line = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "one", "timestamp": moment, "message": said}
    transcript.write_text(json.dumps({**line, "cwd": str(cli.person)}) + "\n")
    try:
        said, ann = _followed_on_a_server(postgres, cli, lines)
        assert said.startswith("Summarized ")
        assert len(cli.search("walrus pump", settings=ann)) == 1
        assert cli.search("walrus pump", settings={**ann, "HARKEN_TENANT": "bob"}) == []
    finally:
        postgres.execute("DROP DATABASE IF EXISTS team WITH (FORCE)")
        postgres.execute("DROP ROLE IF EXISTS harken_app")


def _begin_a_team(postgres: PostgresServer, cli: CommandLine, lines: Sequence[str]) -> None:
    """The commands of a new team, as somebody types them: both members are answered, each by their own memory."""
    installing, beginning, serving, working = (shlex.split(line) for line in lines)
    assert installing[:2] == ["pip", "install"]
    postgres.execute("CREATE DATABASE begun")
    store = postgres.of("begun").render_as_string(hide_password=False)
    words = [store if "team.example" in word else word for word in beginning[1:]]
    try:
        keys = cli(*words, "--json").json()["keys"]
        with (
            cli.running(*serving[1:], "--port", "0", stderr=subprocess.PIPE) as server,
            cli.running(*working[1:], stderr=subprocess.PIPE) as worker,
        ):
            assert server.stderr is not None
            assert worker.stderr is not None
            url = server.stderr.readline().split()[-1]
            assert "Working" in worker.stderr.readline()
            for name, key in keys.items():
                headers = {"authorization": f"Bearer {key}"}
                ask = {"headers": headers, "timeout": TIMEOUT_SECONDS}
                saved = httpx.post(f"{url}/v1/remember", json={"content": f"The boat is called {name}"}, **ask)
                assert saved.status_code == 200
                found = httpx.post(f"{url}/v1/search", json={"query": "boat"}, **ask).json()["hits"]
                assert [hit["text"] for hit in found] == [f"The boat is called {name}"]
        assert list(keys) == ["ann", "bob"]
    finally:
        postgres.execute("DROP DATABASE IF EXISTS begun WITH (FORCE)")
        postgres.execute("DROP ROLE IF EXISTS harken_app")


def _followed_on_a_server(
    postgres: PostgresServer, cli: CommandLine, lines: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """Run the lines one after the other on the tests' server; what the last one printed, and its environment."""
    settings: dict[str, str] = {}
    printed = ""
    for command in lines:
        program, *words = shlex.split(command, comments=True)
        if program == "createuser":
            postgres.execute(f"CREATE ROLE {words[0]} LOGIN")
        elif program == "createdb":
            postgres.execute(f"CREATE DATABASE {words[0]}")
        elif program == "export":
            settings |= dict(word.split("=", 1) for word in words)
            if found := re.findall(r"//(\w+)@db.example/(\w+)", settings["HARKEN_STORE"]):
                url = postgres.of(found[0][1], None if found[0][0] == "owner" else found[0][0])
                settings["HARKEN_STORE"] = url.render_as_string(hide_password=False)
        elif program == "harken":
            words += ["--until-idle"] if words == ["worker", "run"] else []
            printed = cli(*words, settings=settings).out
    return printed, settings


def _make_a_team(postgres: PostgresServer, cli: CommandLine, lines: Sequence[str]) -> None:
    try:
        key, settings = _followed_on_a_server(postgres, cli, lines)
        bob = {**settings, "HARKEN_KEY": key.strip()}
        assert cli("whoami", "--json", settings=bob).json()["principal"]["name"] == "bob"
        assert [one["name"] for one in cli("principal", "list", "--json", settings=settings).json()] == ["ann", "bob"]
        cli("space", "create", "farm", settings=settings)
        cli("space", "grant", "farm", "bob", "write", settings=settings)
        [program] = blocks(PAGES["docs/teams.md"], "python")
        program = program.replace("postgresql://harken_app@db.example/crew", settings["HARKEN_STORE"])
        program = program.replace("hk_…", bob["HARKEN_KEY"])
        done = subprocess.run([sys.executable, "-c", program], env=cli.environment(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(cli.search("pump well", settings=bob)) == 2
    finally:
        postgres.execute("DROP DATABASE IF EXISTS crew WITH (FORCE)")
        postgres.execute("DROP ROLE IF EXISTS harken_app")


def _ask_a_team(store: str, folder: Path, script: str) -> None:
    """A shell and a program ask a team's server as its page says, and are told what is not there."""
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    page = PAGES["docs/http-api.md"]
    [program], [problem] = blocks(page, "python"), map(json.loads, blocks(page, "json"))
    with serving_team(folder, store, "documented") as served, listening(served.app) as address:
        here = [
            script.replace("https://memory.example.org", address),
            program.replace("https://memory.example.org", address),
        ]
        key = served.keys["ann"]
        served.team.create_space(served.team.speaker(key), "release-notes")
        done = subprocess.run(
            [sys.executable, "-c", f"key = {key!r}\n{here[1]}\nassert 'make ship' in text"], check=False
        )
        assert done.returncode == 0
        # What a conversation was told is not told to it again.
        elsewhere = here[0].replace("run-42", "run-43")
        asked = subprocess.run(
            ["sh", "-ec", elsewhere], env={**os.environ, "HARKEN_KEY": key}, capture_output=True, check=True
        )
        assert "make ship" in json.loads(asked.stdout)["text"]
        told = served.verb("ann", "memory_confirm", {"id": "4f9c2f0e"}).json()
    assert told == problem


def _ask_the_daemon(cli: CommandLine, shell: Shell, script: str) -> None:
    if not all(map(shutil.which, ("curl", "jq"))):
        pytest.skip("needs curl and jq")
    cli("memory", "add", "The harbour opens at six", "--category", "fact", "--everywhere")
    place = DaemonPaths(str(cli.home))
    daemon = cli.start("serve", "--quiet")
    try:
        answering(cli, place)
        [hit] = json.loads(shell.run(script))["hits"]
        assert hit["text"] == "The harbour opens at six"
    finally:
        daemon.kill()
        daemon.wait(TIMEOUT_SECONDS)
        end(place)


def _open_the_pages(cli: CommandLine, script: str) -> None:
    """The command ends once a browser has the page, for which we open its link."""
    try:
        with cli.running(*shlex.split(script)[1:], stdout=subprocess.PIPE) as viewing:
            assert viewing.stdout is not None
            link = viewing.stdout.readline().strip()
            assert httpx.get(link, timeout=TIMEOUT_SECONDS, follow_redirects=True).status_code == 200
            assert viewing.wait(TIMEOUT_SECONDS) == 0
    finally:
        end(DaemonPaths(str(cli.home)))


def test_the_entries_of_mcp_are_those_that_install_makes(cli: CommandLine, tmp_path: Path) -> None:
    codex, limits = map(tomllib.loads, blocks(PAGES["docs/mcp.md"], "toml"))
    [cursor] = map(json.loads, blocks(PAGES["docs/mcp.md"], "json"))
    cli("install", "codex", "--scope", "user")
    cli("install", "cursor", "--scope", "user")
    made = tomllib.loads((cli.person / ".codex" / "config.toml").read_text(encoding="utf-8"))
    assert made["mcp_servers"]["harken"]["args"][-1:] == codex["mcp_servers"]["harken"]["args"] == ["mcp"]
    made = json.loads((cli.person / ".cursor" / "mcp.json").read_text(encoding="utf-8"))
    assert made["mcpServers"]["harken"]["args"][-1:] == cursor["mcpServers"]["harken"]["args"] == ["mcp"]
    (tmp_path / "harken.toml").write_text(blocks(PAGES["docs/mcp.md"], "toml")[1], encoding="utf-8")
    assert [str(root) for root in load_settings(tmp_path, env={}).settings.serve.roots] == limits["serve"]["roots"]


def _without_mark(quoted: str) -> str:
    """A quotation with `…` for the mark in its fences, where they have one: it is another in each context."""
    mark = re.search(r"<harken-recall-(\w+)", quoted)
    return quoted.replace(mark[1], "…") if mark else quoted


def test_the_quotation_is_of_the_form_that_is_shown(cli: CommandLine) -> None:
    [shown] = map(_without_mark, blocks(PAGES["docs/how-memory-works.md"], "text"))
    cli("import", ROOT / "examples" / "conversations.jsonl", "--no-embed")
    cli("config", "set", "context.sliding_window", "2")
    asked = ("context", "--conversation", "lisbon", "where do we stay four days in Lisbon in May", "--json")
    recalled = next(each["content"] for each in cli(*asked).json()["messages"] if each["role"] == "system")
    assert _without_mark(recalled).splitlines()[:2] == shown.splitlines()[:2]
    for name, value in re.findall(r'(\w+)="([^"…]*)', shown):
        assert f'{name}="{value}' in recalled


def test_the_plugin_that_is_named_is_the_one_that_lies_there() -> None:
    folder = ROOT / "plugins" / "claude-code" / ".claude-plugin"
    market = json.loads((folder / "marketplace.json").read_text(encoding="utf-8"))
    [plugin] = market["plugins"]
    assert f"/plugin install {plugin['name']}@{market['name']}\n" in PAGES["plugins/claude-code/README.md"]
