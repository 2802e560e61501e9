"""Each source written, found and shown by the real command line, on both engines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, as_variables
from harken import Harken
from harken.testing import EmbeddingServer
from learning import go_through
from quotations import unmarked
from rendered import rendered
from repositories import new_repository

THEME = "stale price cache entry of the storefront keyed without version"
STORY = (
    *("--domain", "debugging", "--strategy", "systematic-elimination"),
    *("--goal", f"Find out why the {THEME} stays", "--hypothesis", f"The {THEME} is never purged by the edge"),
    *("--action", "Purged the edge and asked again", "--prediction", f"The {THEME} is gone"),
)
ENDING = (
    *("falsified", "--result", "It stayed", "--surprise", "The edge had nothing to do with it"),
    *(
        "--cause",
        "wrong-assumption",
        "--cause-description",
        "The key lacks the price version",
        "--worked",
        "Printing keys",
    ),
)
CODE = f'def purge_cache(key: str) -> None:\n    """Purge the {THEME}."""\n'
EXPECTED = {
    "memory": {"category": "decision", "importance": 0.9},
    "code": {
        "file_path": "cache.py", "start_line": 1, "end_line": 2, "language": "python",
        "qualified_name": "cache.purge_cache",
    },
    "experience": {
        "domain": "debugging", "strategy": "systematic-elimination", "outcome_status": "falsified",
        "confidence_tier": "silver", "iteration_count": 1,
    },
    "value": {"axis": "full"},
    "commit": {"author": "Ann Lee", "files_changed": ["cache.py", "guide.md"], "insertions": 5, "deletions": 0},
    "document": {"file_path": "guide.md"},
    "conversation": {"exchange_count": 1},
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=256) as running:
        yield running


@pytest.fixture
def tool(cli: CommandLine, store_settings: dict[str, Any], server: EmbeddingServer) -> CommandLine:
    """The command line on each engine, with an embedding model."""
    model = {
        "HARKEN_EMBEDDER": "openai-compatible",
        "HARKEN_EMBEDDING__URL": server.url,
        "HARKEN_EMBEDDING__MODEL": "words",
    }
    return replace(cli, settings={**model, **as_variables(store_settings)})


def learn(tool: CommandLine, count: int) -> None:
    """Experiences of three themes, so many of each, which make three clusters."""
    with Harken(tool.home, env={**tool.settings, "HARKEN_EMBEDDER": "none"}) as harken:
        for number in range(count):
            for words in (THEME, "deadlock of rows locked in another order", "invoice dated one day early by its zone"):
                texts = story(words, number)
                go_through(harken, **texts, status="confirmed", result=f"The {words} agreed")


def story(words: str, number: int) -> dict[str, str]:
    """What an experience of a theme says."""
    return {
        "goal": f"Repair the {words}",
        "hypothesis": f"The {words} differs {number}",
        "action": f"Compared the {words}",
        "prediction": f"The {words} agree",
    }


@pytest.mark.usefixtures("engine_settings")
def test_what_each_source_was_told_through_the_cli_is_assembled_with_every_field(
    tool: CommandLine, tmp_path: Path
) -> None:
    """Testing 2: one round trip per source through a real store, written by us and rendered by us."""
    repository = new_repository(tmp_path / "shop")
    repository.commit(f"Purge the {THEME}", cache_py=CODE, guide_md=f"# Guide\n\nThe {THEME} is purged nightly.\n")
    tool("index", "all", repository.root)
    tool("memory", "add", f"The {THEME} must be purged on deploy", "--category", "decision", "--importance", "0.9")
    tool("experience", "start", *STORY)
    tool("experience", "resolve", *ENDING)
    learn(tool, 8)
    lines = [
        {"conversation": "talk", "role": role, "content": words, "ts": f"2026-05-04T10:0{n}:00Z"}
        for n, (role, words) in enumerate(
            [("user", f"What of the {THEME}?"), ("assistant", f"The {THEME} was purged.")]
        )
    ]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    tool("import", "jsonl", tmp_path / "talk.jsonl")
    tool("worker", "run", "--until-idle")
    [axis] = tool("values", "clusters", "--axis", "full", "--json").json()
    members = {one["id"]: tool("values", "members", one["id"]).out for one in axis["clusters"]}
    [cluster] = [uid for uid, shown in members.items() if THEME in shown]
    # The same words in another order: near to its cluster, and no copy of any of its experiences.
    value = " ".join(sorted(" ".join([f"confirmed The {THEME} agreed", *story(THEME, 1).values()]).split()))
    tool("values", "add", cluster, value)

    context = tool("assemble", "purge", THEME, "--max-tokens", "4000", "--json").json()
    assert set(context["sources_used"]) == set(EXPECTED)
    assert sum(context["sources_used"].values()) == len(context["items"])
    found: dict[str, list[dict[str, Any]]] = {}
    for item in context["items"]:
        found.setdefault(item["source"], []).append(item["metadata"])
        assert item["content"] in context["markdown"]
    for source, facts in EXPECTED.items():
        matching = [each for each in found[source] if facts.items() <= each.items()]
        assert matching, (source, found[source])
        assert all(field not in (None, "") for each in matching for field in each.values())
    assert found["value"][0]["cluster_id"] == cluster
    markdown = tool("assemble", "purge", THEME, "--max-tokens", "4000").out.rstrip("\n")
    assert rendered(markdown).headings == rendered(context["markdown"]).headings
    assert f"**Value** (full, cluster size: {found['value'][0]['cluster_size']}):\n{value}" in markdown

    warning = tool("premortem", "debugging", "--strategy", "systematic-elimination").out
    assert unmarked(warning).startswith(
        "# Premortem: debugging with systematic-elimination\n\n## Common Failures\n<harken-recall>\n\n**Experience**"
    )
    assert "- **Surprise**: The edge had nothing to do with it" in warning
    assert "- **Root cause**: wrong-assumption - The key lacks the price version" in warning
    assert value in warning
    facts = tool("premortem", "debugging", "--limit", "2", "--json").json()
    assert facts["items"][0].keys() == {"source", "content", "relevance", "metadata"}


def test_the_last_item_of_a_source_is_relevant_as_well(cli: CommandLine) -> None:
    """A script that leaves out what has no relevance loses nothing that is on topic."""
    for words in ("The price cache is purged on deploy", "The price cache has a key", "A cache of prices is on disk"):
        cli("memory", "add", words)
    items = cli("assemble", "price cache purged", "--types", "memories", "--json").json()["items"]
    assert len(items) == 3
    assert all(item["relevance"] > 0.1 for item in items)


@pytest.mark.parametrize("status", ["confirmed", "abandoned"])
def test_what_surprised_is_told_however_it_ended(cli: CommandLine, status: str) -> None:
    cli("experience", "start", *STORY)
    cause = ("--cause", "oversight", "--cause-description", "Nobody reads the edge's manual")
    cli("experience", "resolve", status, "--result", "It went", "--surprise", "The edge keeps two copies", *cause)
    said = cli("premortem", "debugging").out
    _, surprises, causes = said.partition("## Unexpected Outcomes")[2].partition("## Root Causes to Watch")
    assert surprises
    assert said.count("- **Surprise**: The edge keeps two copies") == 1
    assert "- **Root cause**: oversight - Nobody reads the edge's manual" in causes


def test_nothing_is_said_on_stdout_where_nothing_is_known(cli: CommandLine) -> None:
    outcome = cli("assemble", "anything", "--types", "memories")
    assert (outcome.out, outcome.err) == ("", "Nothing was found.\n")
    assert cli("premortem", "debugging", "--json").json() == {
        "markdown": "",
        "items": [],
        "token_count": 0,
        "sources_used": {},
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("assemble", "x", "--types", "memories,rumours"), "There is no context type 'rumours'. Types: memories, code"),
        (("assemble", "x", "--types", ","), "Name at least one context type"),
        (("assemble", "x", "--limit", "51"), "--limit"),
        (("premortem", "gardening"), "gardening"),
        (("premortem", "debugging", "--strategy", "praying"), "praying"),
    ],
)
def test_what_cannot_be_meant_is_said_in_one_line(cli: CommandLine, arguments: tuple[str, ...], words: str) -> None:
    assert words in cli.fails(*arguments, code=2)
