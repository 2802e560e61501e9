"""`harken list` and `harken show`: conversations looked through, by numbers, short ids, pages and outlines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine
from harken.engine import Harken
from harken.model.conversations import Role
from harken.record.recorder import Batch, NewConversation, NewMessage
from repositories import new_repository
from terminals import WITHOUT_TERMINALS, terminal

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]
LATELY, TAXES, GARDEN = (
    "The tomato harvest was heavy",
    "Does the tax office want the receipt of the tomato heater?",
    "Tomatoes",
)


def titles(cli: CommandLine, *arguments: str) -> list[str]:
    return [each["title"] for each in cli("list", *arguments, "--json").json()["conversations"]]


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ((), [LATELY, TAXES, GARDEN]),
        (("--project", "greenhouse"), [GARDEN]),
        (("--agent", "jsonl", "--until", "July 2026"), [TAXES, GARDEN]),
        (("--since", "2026-06-20", "--until", "2026-06-20"), [TAXES]),
        (("--limit", "1", "--page", "2"), [TAXES]),
    ],
)
def test_each_filter_leaves_what_it_names_newest_first(
    stocked: CommandLine, filters: tuple[str, ...], left: list[str]
) -> None:
    assert titles(stocked, *filters) == left


def test_those_of_subagents_are_listed_by_as_much_of_an_id_as_lists_print(cli: CommandLine) -> None:
    heads = [NewConversation("codex", "asked"), NewConversation("codex", "helper", parent_external_id="asked")]
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        harken.recorder.record([Batch(head, [NewMessage(Role.USER, "Find the zebra.")]) for head in heads])
    for name in (heads[0].uid, heads[0].uid[:8], "asked"):
        found = cli("list", "--parent", name, "--json").json()["conversations"]
        assert [each["id"] for each in found] == [heads[1].uid]
    assert "There is no conversation nowhere" in cli.fails("list", "--parent", "nowhere")


def test_scripts_get_each_conversation_with_its_size_and_where_the_list_goes_on(stocked: CommandLine) -> None:
    page = stocked("list", "--limit", "2", "--json").json()
    assert (page["total"], page["next_offset"]) == (3, 2)
    taxes = page["conversations"][1]
    assert (taxes["channel"], taxes["project"], taxes["messages"]) == ("jsonl", "name:bookkeeping", 2)
    assert taxes["chars"] == 101
    assert taxes["updated_at"] == "2026-06-20T10:00:30+00:00"


def test_how_a_list_goes_on_keeps_what_was_asked_for(stocked: CommandLine) -> None:
    asked = ("list", "--until", "July 2026", "--limit", "1")
    told = stocked(*asked).err
    assert told == "1 of 2; the next: the same with --page 2\n"
    assert "Tomatoes" in stocked(*asked, *told.split()[-2:]).out


def test_people_see_days_then_title_agent_project_size_age_and_a_short_id(stocked: CommandLine) -> None:
    lines = stocked("list", "--until", "July 2026").out.splitlines()
    assert lines[0] == "Saturday, 2026-06-20"
    assert lines[1] == f"   1  10:00  {TAXES}"
    assert re.fullmatch(r"      jsonl · bookkeeping · 2 messages, 101 B · \S.* · [0-9a-f]{8}", lines[2])
    assert lines[4] == "Friday, 2026-05-08"
    assert lines[5] == "   2  09:02  Tomatoes"


def test_projects_and_agents_group_as_days_do(stocked: CommandLine) -> None:
    lines = stocked("list", "--by", "project").out.splitlines()
    assert [line for line in lines if line and line[0] != " "] == ["no project", "bookkeeping", "greenhouse"]
    assert stocked("list", "--by", "agent").out.splitlines()[0] == "jsonl"


def test_a_conversation_of_which_all_was_forgotten_is_listed_no_more(filled: CommandLine, write: Write) -> None:
    filled("import", "jsonl", write("more.jsonl", [{"conversation": "lately", "role": "user", "content": LATELY}]))
    assert titles(filled) == [LATELY, TAXES, GARDEN]
    filled("forget", "--query", "tomato harvest", "--yes")
    page = filled("list", "--json").json()
    assert ([each["title"] for each in page["conversations"]], page["total"]) == ([TAXES, GARDEN], 2)


def test_an_agent_that_nobody_recorded_is_one_line_with_those_there_are(stocked: CommandLine) -> None:
    assert stocked.fails("list", "--agent", "klaude") == "Nothing of an agent klaude is recorded. There is: jsonl."


def test_an_empty_home_says_how_to_fill_it(cli: CommandLine) -> None:
    assert cli("list").out == "No such conversation is recorded. Bring in what there is: harken import\n"


def test_a_page_behind_the_last_one_is_told_from_an_empty_home(filled: CommandLine) -> None:
    assert filled("list", "--page", "9").out == "There is no page 9 of 2 conversations.\n"


def test_the_number_and_the_short_id_of_a_line_are_shown_by_show(filled: CommandLine) -> None:
    lines = filled("list").out.splitlines()
    short = lines[2].split(" · ")[-1]
    by_number = filled("show", "1").out
    assert by_number == filled("show", short).out
    assert "Yes, keep the heater receipt" in by_number
    assert filled.fails("show", "3") == "The last list had 2 lines, so no number 3. Try: harken list"


def test_the_number_of_a_hit_is_the_hit_that_stands_there(filled: CommandLine) -> None:
    printed = filled("search", "tomato").out.splitlines()
    place = next(place for place, line in enumerate(printed) if line.strip().startswith("2. "))
    words = printed[place + 1].strip()
    assert words in filled("show", "2", "--around", "0").out
    assert filled("show", "2", "--around", "0", "--json").json()["messages"][0]["text"] == words


def test_a_number_means_nothing_to_a_program_and_nothing_was_listed_yet(cli: CommandLine) -> None:
    nothing = "The last list had 0 lines, so no number 1. Try: harken"
    assert cli.fails("show", "1") == f"{nothing} list"
    assert cli.fails("rules", "confirm", "1") == cli.fails("rules", "drop", "1") == f"{nothing} rules"
    assert cli.fails("rag", "wrong", "1") == f"{nothing} rag recalls"


def test_a_conversation_is_read_page_by_page(filled: CommandLine) -> None:
    garden = filled("list", "--project", "greenhouse", "--json").json()["conversations"][0]["id"]
    page = filled("show", garden, "--limit", "3", "--page", "2", "--json").json()
    assert [message["text"] for message in page["messages"]] == ["No frost over the tomato bed for seven days"]
    assert (page["before"], page["after"]) == (3, 0)
    assert "… 1 later messages" in filled("show", garden, "--limit", "3", "--page", "1").out
    assert filled.fails("show", garden, "--limit", "3", "--page", "3", code=2) == (
        "There is no page 3: 2 pages of 3 messages."
    )


def test_an_outline_has_a_line_for_each_question_and_its_numbers_are_shown(cli: CommandLine, write: Write) -> None:
    lines = [
        {"conversation": "c", "role": role, "content": f"{role} on subject {number}"}
        for number in range(1, 4)
        for role in ("user", "assistant")
    ]
    cli("import", "jsonl", write("c.jsonl", lines))
    cli("list")
    outline = cli("show", "1", "--outline").out.splitlines()
    assert [line.split("  ")[-1] for line in outline[1::2]] == [f"user on subject {number}" for number in range(1, 4)]
    second = cli("show", "2", "--json").json()["messages"]
    assert [message["text"] for message in second] == ["user on subject 2", "assistant on subject 2"]
    # A message's outline is that of its conversation.
    told = cli("show", second[0]["id"], "--outline", "--json").json()
    assert (told["exchanges"][0]["text"], told["exchanges"][0]["messages"]) == ("user on subject 1", 2)


def test_a_folder_below_a_repository_names_its_project(
    cli: CommandLine, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "shop" / "src" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "shop" / ".git").mkdir()
    (tmp_path / "shop" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    asked = {"role": "user", "content": "Where does the marmalade live?"}
    head = {"type": "user", "sessionId": "s", "uuid": "u", "parentUuid": None, "cwd": str(tmp_path / "shop")}
    cli("import", "claude-code", write("s.jsonl", [{**head, "timestamp": "2026-05-08T09:00:00Z", "message": asked}]))
    for folder, named in ((deep, "."), (deep, str(deep)), (tmp_path, "./shop/src"), (tmp_path, "shop")):
        monkeypatch.chdir(folder)
        assert titles(cli, "--project", named) == ["Where does the marmalade live?"]
        assert cli.search("marmalade", "--project", named)
    assert "There is no project path:" in cli.fails("list", "--project", "..")


def test_a_folder_names_its_project_for_all_that_is_kept_of_it_and_after_it_got_a_remote(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = new_repository(tmp_path / "shop")
    shop.write("docs/jam.md", "# Jam\n\nThe marmalade lives in the cellar.\n")
    shop.write("jam.py", 'def jam():\n    """The marmalade lives in the cellar."""\n')
    shop.commit("Put the marmalade into the cellar")
    cli("index", "all", shop.root, "--no-embed")
    monkeypatch.chdir(shop.root / "docs")
    cli("memory", "add", "The marmalade lives in the cellar")
    kept = [("memory", "list"), ("memory", "search", "marmalade"), ("search", "marmalade")]
    kept += [(kind, "search", "marmalade") for kind in ("documents", "commits", "code")]
    kept += [("code", "similar", "jam marmalade"), ("assemble", "marmalade")]
    for _ in range(2):
        for command in kept:
            assert "marmalade" in cli(*command, "--project", ".").out
        assert "No experiences" in cli("experience", "list", "--project", ".").out
        shop.git("config", "remote.origin.url", "https://github.com/acme/shop.git")


def test_what_was_said_in_a_worktree_is_listed_with_its_repository(cli: CommandLine, write: Write) -> None:
    def session(name: str, folder: str) -> Mapping[str, Any]:
        asked = {"role": "user", "content": f"Where does the {name} marmalade live?"}
        at = {"timestamp": "2026-05-08T09:00:00Z", "cwd": folder}
        return {"type": "user", "sessionId": name, "uuid": f"u-{name}", "parentUuid": None, **at, "message": asked}

    for name, folder in (("main", "/nowhere/shop"), ("side", "/nowhere/shop/.worktrees/streaming/src")):
        cli("import", "claude-code", write(f"{name}.jsonl", [session(name, folder)]))
    assert set(titles(cli, "--project", "shop")) == {
        "Where does the main marmalade live?",
        "Where does the side marmalade live?",
    }


@pytest.mark.skipif(WITHOUT_TERMINALS, reason="there are no pseudo-terminals")
def test_what_is_longer_than_the_terminal_goes_through_the_pager_and_what_is_not_does_not(
    cli: CommandLine, write: Write
) -> None:
    long = [{"conversation": "c", "role": "user", "content": f"Line {number}"} for number in range(30)]
    cli("import", "jsonl", write("c.jsonl", [*long, {"conversation": "d", "role": "user", "content": "Short"}]))
    paging = CommandLine(cli.home, cli.person, {**cli.settings, "PAGER": "sed s/^/paged:/"})
    cli("list", "--by", "agent")
    for number, expected in (("1", False), ("2", True)):
        with terminal(paging, number, command="show") as shown:
            code, seen = shown.ends()
        assert code == 0
        assert ("paged:" in seen) is expected, seen
