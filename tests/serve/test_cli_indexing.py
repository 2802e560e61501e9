"""`harken index`, `code`, `commits` and `documents`, by the real command line."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import TIMEOUT_SECONDS, CommandLine, rows
from harken.testing import EmbeddingServer
from repositories import Repository, new_repository

BUDGET = (
    'def divide_budget(total: int) -> int:\n    """Divide the token budget between sources."""\n    return total // 2\n'
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = new_repository(tmp_path / "shop")
    made.commit("Divide the budget between sources", budget_py=BUDGET, guide_md="# Guide\n\nFeed the zebra.\n")
    return made


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=64) as running:
        yield running


def test_a_repository_is_indexed_searched_and_indexed_again(
    cli: CommandLine, repository: Repository, server: EmbeddingServer
) -> None:
    model = {"HARKEN_EMBEDDER": "openai-compatible", "HARKEN_EMBEDDING__URL": server.url}
    harken = replace(cli, settings={**model, "HARKEN_EMBEDDING__MODEL": "words"})
    facts = harken("index", "all", repository.root, "--json").json()
    assert (facts["code"]["added"], facts["commits"]["added"], facts["documents"]["added"]) == (2, 1, 1)
    # Two units, what a commit says and what it brought, a passage.
    assert facts["embedded"] == 5
    query = ("where", "is", "the", "token", "budget", "divided", "between", "sources")
    hit = harken("code", "search", *query, "--language", "python", "--json").json()["hits"][0]
    assert hit["metadata"] == {
        "file_path": "budget.py",
        "start_line": 1,
        "end_line": 3,
        "language": "python",
        "qualified_name": "budget.divide_budget",
    }
    assert hit["markdown"].startswith("**function** `divide_budget` in `budget.py:1`\n```python\n")
    assert harken("commits", "search", *query, "--json").json()["hits"][0]["metadata"]["files_changed"] == [
        "budget.py",
        "guide.md",
    ]
    assert "Feed the zebra." in harken("documents", "search", "zebra").out
    again = harken("index", "all", repository.root, "--json").json()
    assert [again[name]["added"] for name in ("code", "commits", "documents")] == [0, 0, 0]
    assert again["embedded"] == 0


def test_each_kind_has_its_own_command_and_says_what_it_did(cli: CommandLine, repository: Repository) -> None:
    (repository.root / "blob.md").write_bytes(b"\0\1")
    out = cli("index", "docs", repository.root).out
    assert "documents: 1 file read, 0 unchanged, 0 gone (1 new parts, 0 changed, 0 removed)." in out
    assert "documents: passed over: 1 binary." in out
    assert "code: 1 file read" in cli("index", "code", repository.root / "budget.py").out
    assert "commits: 1 new commit, 0 known already" in cli("index", "commits", repository.root, "--limit", "5").out


def test_all_of_a_folder_without_git_is_its_code_and_documents(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "budget.py").write_text(BUDGET)
    (folder / "guide.md").write_text("# Guide\n\nFeed the zebra.\n")
    done = cli("index", "all", folder)
    assert "code: 1 file read" in done.out
    assert "documents: 1 file read" in done.out
    assert "in no git repository, or git is missing or refuses it: no commits" in done.err
    assert set(cli("index", "all", folder, "--json").json()) == {"code", "documents", "embedded"}


def test_of_a_partial_clone_all_but_commits_is_indexed_and_what_brings_those_is_told(
    cli: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.commit("second", budget_py="x = 1\n")
    clone = tmp_path / "part"
    repository.git("clone", "-q", "--filter=blob:none", f"file://{repository.root}", str(clone))
    refused = cli("index", "all", clone, "--no-embed", code=1).err
    assert "is a partial clone" in refused
    assert "git fetch --refetch --no-filter" in refused
    assert "Feed the zebra." in cli("documents", "search", "zebra").out
    Repository(clone).git("fetch", "-q", "--refetch", "--no-filter")
    assert "2 new commits" in cli("index", "all", clone, "--no-embed").out


def test_a_folder_that_is_gone_leaves_the_index_when_it_is_named(
    cli: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    cli("index", "all", repository.root)
    moved = repository.root.rename(tmp_path / "moved")
    done = cli("index", "all", repository.root)
    assert "code: 0 files read, 0 unchanged, 1 gone" in done.out
    assert "1 on no branch any more" in done.out
    assert "is gone: what was indexed of it is taken out" in done.err
    cli("index", "all", repository.root)
    cli("index", "all", moved)
    for kind, words in (("code", "budget"), ("commits", "budget"), ("documents", "zebra")):
        before = [hit["id"] for hit in cli(kind, "search", words, "--json").json()["hits"]]
        assert len(before) == len(set(before))
    assert len(cli("commits", "search", "budget", "--json").json()["hits"]) == 1
    moved.rename(repository.root)
    assert "1 new commit" in cli("index", "all", repository.root).out
    assert "does not exist" in cli.fails("index", "all", tmp_path / "never", code=2)


def test_what_is_on_the_disk_is_taken_out_of_the_index_when_that_is_asked_for(
    cli: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    (repository.root / "deep").mkdir()
    (repository.root / "deep" / "guide.md").write_text("# Okapi\n\nFeed the okapi.\n")
    cli("index", "all", repository.root)
    assert "documents: 0 files read, 0 unchanged, 1 gone" in cli("index", "all", "--drop", repository.root / "deep").out
    assert "whole repository" in cli.fails("index", "commits", "--drop", repository.root / "deep", code=2)
    assert cli("documents", "search", "okapi", "--json").json()["hits"] == []
    assert cli("commits", "search", "budget", "--json").json()["hits"]
    done = cli("index", "all", "--drop", repository.root)
    assert done.err == ""
    for kind, words in (("code", "budget"), ("commits", "budget"), ("documents", "zebra")):
        assert cli(kind, "search", words, "--json").json()["hits"] == []
    assert "1 new commit" in cli("index", "all", repository.root).out
    assert "Feed the okapi." in cli("documents", "search", "okapi").out
    assert "Nothing was indexed of" in cli.fails("index", "all", "--drop", tmp_path)


def test_a_clone_that_is_gone_leaves_the_index_of_its_other_clone(
    cli: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    remote = '[remote "origin"]\n\turl = https://example.org/ann/herd.git\n'
    config = repository.root / ".git" / "config"
    config.write_text(config.read_text() + remote)
    cli("index", "code", repository.root)
    moved = repository.root.rename(tmp_path / "moved")
    cli("index", "code", moved)
    assert "does not exist" in cli.fails("index", "code", repository.root, code=2)
    assert cli("code", "search", "budget", "--json").json()["hits"]


def test_code_like_what_stands_on_standard_input(cli: CommandLine, repository: Repository) -> None:
    cli("index", "code", repository.root)
    assert "`divide_budget`" in cli("code", "similar", "-", stdin="def divide_budget(all): return all / 2").out
    assert "Nothing was found." in cli("code", "search", "giraffe").out


def test_history_churn_and_authors(cli: CommandLine, repository: Repository) -> None:
    sha = repository.commit("Say more", "Bo <bo@example.org>", budget_py=BUDGET + "x = 1\n")
    place = repository.root
    assert "are not indexed. Try: harken index commits" in cli.fails("commits", "churn", "--in", place)
    cli("index", "commits", place)
    history = cli("commits", "history", place / "budget.py", "--json").json()["commits"]
    assert [commit["author"] for commit in history] == ["Bo", "Ann Lee"]
    assert history[0]["sha"] == sha
    files = cli("commits", "churn", "--in", place, "--days", "36500", "--json").json()["files"]
    assert (files[0]["path"], files[0]["changes"], files[0]["authors"]) == ("budget.py", 2, 2)
    assert "Bo <bo@example.org>" in cli("commits", "authors", place / "budget.py").out
    people = cli("commits", "authors", place, "--json").json()["authors"]
    assert {one["author"]: one["commits"] for one in people} == {"Ann Lee": 1, "Bo": 1}
    found = cli("commits", "search", "budget", "say", "--author", "bo", "--json").json()["hits"]
    assert [hit["metadata"]["sha"] for hit in found] == [sha]


def test_what_cannot_be_meant_is_said_in_one_line(cli: CommandLine, tmp_path: Path) -> None:
    assert "does not exist" in cli.fails("index", "code", tmp_path / "nowhere", code=2)
    assert "in no git repository" in cli.fails("index", "commits", tmp_path, code=2)
    assert "Nothing changed" not in cli.fails("commits", "history", tmp_path / "a.py", code=2)


def test_a_search_without_sources_does_not_bring_code(cli: CommandLine, repository: Repository) -> None:
    cli("index", "all", repository.root)
    assert cli.search("budget") == []
    assert {hit["source"] for hit in cli.search("budget", "--source", "code", "--source", "commit")} == {
        "code",
        "commit",
    }


@pytest.mark.parametrize("kind", ["code", "commits", "documents"])
def test_a_search_of_what_was_never_indexed_says_how_to_index_it(cli: CommandLine, kind: str) -> None:
    cli("memory", "add", "The zebra crosses at dawn.")
    hint = "Nothing of this kind is indexed yet. Bring in what there is: harken index all"
    assert cli(kind, "search", "zebra").err == f"{hint}\n"
    assert cli(kind, "search", "zebra", "--json").json() == {"hits": [], "notes": [hint]}
    assert cli("search", "zebra", "--source", kind.rstrip("s")).err == f"{hint}\n"


@pytest.mark.parametrize(
    ("source", "words", "shown"),
    [
        ("code", "divide", "**function** `divide_budget` in `budget.py:1`"),
        ("commit", "budget", "Divide the budget between sources"),
        ("document", "zebra", "Feed the zebra."),
    ],
)
def test_what_a_search_of_a_source_lists_is_shown_by_its_number_and_its_id(
    cli: CommandLine, repository: Repository, source: str, words: str, shown: str
) -> None:
    cli("index", "all", repository.root)
    cli("search", words, "--source", source)
    assert shown in cli("show", "1").out
    uid = cli("search", words, "--source", source, "--json").json()["hits"][0]["id"]
    item = cli("show", uid[:8], "--json").json()
    assert (item["source"], shown in item["content"]) == (source, True)
    assert "names nothing" in cli.fails("show", "0" * 12)


def test_a_run_that_was_stopped_is_gone_on_with(cli: CommandLine, repository: Repository) -> None:
    files = 100
    for number in range(files):
        repository.write(f"m{number}.py", "".join(f"def f{number}_{one}(): ...\n" for one in range(20)))
    with cli.running("index", "code", str(repository.root)) as process:
        while process.poll() is None and not rows(cli.home, "entries"):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.wait(TIMEOUT_SECONDS)
    report = cli("index", "code", repository.root, "--json").json()["code"]
    assert report["files"] == report["indexed"] + report["unchanged"] == files + 1
    assert cli.status()["entries"] == files * 21 + 2


def test_ctrl_c_while_embedding_keeps_what_is_embedded_and_the_next_run_goes_on(
    cli: CommandLine, repository: Repository, tmp_path: Path
) -> None:
    # In small steps, so that it is caught at one of the first.
    harken = replace(cli, settings={"HARKEN_WORKER__BATCH_SIZE": "4", "HARKEN_WORKER__GENTLE": "false"})
    said = " ".join(f"It has to be said {number} times." for number in range(6))
    for number in range(8):
        units = (f'def f{number}_{one}():\n    """{said}"""\n' for one in range(10))
        repository.write(f"m{number}.py", "".join(units))
    told = tmp_path / "told"
    index = ("index", "code", str(repository.root))
    with told.open("w") as err, harken.running(*index, stderr=err) as process:
        while process.poll() is None and not rows(harken.home, "vectors"):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 130, told.read_text()
    before = harken.status()
    assert 0 < before["embedded"] < before["entries"]
    report = harken("index", "code", repository.root, "--json").json()
    assert report["code"]["indexed"] == 0
    assert report["embedded"] == before["entries"] - before["embedded"]
    assert harken.status()["queue"] == 0


def test_a_context_may_be_of_one_project_alone(cli: CommandLine, repository: Repository, tmp_path: Path) -> None:
    other = new_repository(tmp_path / "bank")
    other.commit("Divide the budget by accounts", accounts_py=BUDGET, notes_md="# Notes\n\nThe zebra has a budget.\n")
    for each in (repository, other):
        cli("index", "all", each.root)
    cli("memory", "add", "The zebra's budget is divided on Mondays.", "--category", "fact")
    # Asked from a third one, where only what is much nearer would come.
    cli("config", "set", "rag.scope", "all")
    query = ("assemble", "how", "is", "the", "zebra", "budget", "divided", "--json")
    both = {item["metadata"].get("file_path") for item in cli(*query).json()["items"]}
    assert {"budget.py", "accounts.py"} <= both
    one = cli(*query, "--project", "bank").json()
    assert {item["source"] for item in one["items"]} == {"memory", "code", "commit", "document"}
    assert "budget.py" not in one["markdown"]
    assert "Feed the zebra" not in one["markdown"]
    assert "Divide the budget between sources" not in one["markdown"]
    assert "barn" in cli.fails(*query, "--project", "barn")
