"""What was said and saved is shown on a terminal, and never obeyed by it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from command_line import CommandLine
from harken.text.characters import printable, printable_json
from harken.text.console import PlainConsole
from terminals import COLUMNS, WITHOUT_TERMINALS, terminal

# Colours, the window's title, the clipboard, a cleared screen, one-byte introducers, letters in another order.
EVIL = (
    "Zebra \x1b[31mred \x1b]0;title\x07 \x1b]52;c;cm0gLXJm\x07 \x1b[2J \x9b31m \x9d0;t\x9c \x08 \x7f "
    "\u202egnp.exe\u202c \u2066x\u2069"
)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


LONG = "The pump of the **third quay** is repaired by `walrus_pump` before the tide comes in again. "
TALK = f"""## What to do
{LONG * 3}
- {LONG * 2}
```
{"x = pump(1) # " * 12}
# no heading
```
"""


@pytest.fixture
def told(cli: CommandLine, tmp_path: Path) -> CommandLine:
    """A home whose every kind of record holds it."""
    head = {"conversation": f"c {EVIL}", "title": f"About {EVIL}", "project": f"p {EVIL}", "author": f"Ada {EVIL}"}
    lines = [{**head, "role": role, "content": f"{role} {EVIL}"} for role in ("user", "assistant", "tool")]
    file = tmp_path / "told.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("import", "jsonl", file)
    cli("memory", "add", EVIL.replace("\x00", ""), "--category", "fact")
    cli("core", "set", "user", "name", EVIL)
    parts = [word for name in ("goal", "hypothesis", "action", "prediction") for word in (f"--{name}", EVIL)]
    cli("experience", "start", "--domain", "debugging", "--strategy", "read-the-error", *parts)
    return cli


@pytest.mark.skipif(WITHOUT_TERMINALS, reason="there are no pseudo-terminals")
def test_lines_break_between_words_and_go_on_where_they_began(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "talk.jsonl").write_text(json.dumps({"conversation": "c", "role": "user", "content": TALK}))
    cli("import", "jsonl", tmp_path / "talk.jsonl")
    [hit] = cli.search("walrus")
    with terminal(cli, hit["conversation_id"], command="show") as person:
        code, shown = person.ends()
    assert code == 0
    lines = [line.rstrip() for line in shown.splitlines()]
    assert hit["id"] not in shown
    begin = hit["id"][:18]
    assert any(line.endswith(begin) for line in lines)
    assert cli("show", begin).out == cli("show", hit["id"]).out
    said = lines[lines.index("## What to do") + 1 :]
    listed = next(number for number, line in enumerate(said) if line.startswith("- "))
    fence = said.index("```")
    plain = LONG.replace("**", "")
    assert " ".join(said[:listed]) == (plain * 3).strip()
    assert " ".join(line[2:] for line in said[listed:fence]) == (plain * 2).strip()
    assert {line[:2] for line in said[listed + 1 : fence]} == {"  "}
    assert max(map(len, said[:fence])) <= COLUMNS
    with terminal(cli, "walrus", "--limit", "1", command="search") as person:
        _, *excerpt = person.ends()[1].rstrip().splitlines()[1:]
    assert excerpt[0].startswith("    What to do The pump of the third quay is repaired")
    assert all(line.startswith("    ") and len(line.rstrip()) <= COLUMNS for line in excerpt)


@pytest.mark.skipif(WITHOUT_TERMINALS, reason="there are no pseudo-terminals")
def test_an_error_breaks_between_words_on_a_terminal_and_is_one_line_elsewhere(cli: CommandLine) -> None:
    line = cli.fails("show", "0123456789", code=1)
    narrow = replace(cli, settings={**cli.settings, "COLUMNS": "50"})
    with terminal(narrow, "0123456789", command="show") as person:
        code, shown = person.ends()
    lines = shown.splitlines()
    assert code == 1
    assert len(lines) > 1
    assert max(map(len, lines)) <= 50
    assert " ".join(each.strip() for each in lines) == f"harken: {line}"


@pytest.mark.skipif(WITHOUT_TERMINALS, reason="there are no pseudo-terminals")
def test_a_command_to_be_typed_is_never_broken(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "talk.jsonl").write_text(json.dumps({"conversation": "c", "role": "user", "content": "walrus " * 12}))
    cli("import", "jsonl", tmp_path / "talk.jsonl")
    narrow = replace(cli, settings={"COLUMNS": "66"})
    with terminal(narrow, "walrus", command="search") as person:
        noted = person.ends()[1].splitlines()
    assert noted[:2] == ["Searched by words alone: nothing is embedded yet. Go on:", "harken worker run --until-idle"]
    narrow = replace(cli, settings={"COLUMNS": "60"})
    with terminal(narrow, "members", "foo_1", command="values") as person:
        said = person.ends()[1].splitlines()
    assert said == ["harken: There is no cluster 'foo_1'. Find them:", "  harken values clusters"]


def test_what_is_emphasized_is_lit_up_where_colours_are_wanted_and_stays_as_it_is_elsewhere(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "talk.jsonl").write_text(json.dumps({"conversation": "c", "role": "user", "content": TALK}))
    cli("import", "jsonl", tmp_path / "talk.jsonl")
    [hit] = cli.search("walrus")
    assert TALK in cli("show", hit["id"]).out
    lit = cli("show", hit["id"], settings={"FORCE_COLOR": "1"}).out
    assert "\x1b[1m## What to do\x1b[0m\n" in lit
    assert "The pump of the \x1b[1mthird quay\x1b[0m is repaired by \x1b[36m`walrus_pump`\x1b[0m before" in lit
    assert "\n# no heading\n```\n" in lit


def test_no_command_hands_a_terminal_what_it_would_obey(told: CommandLine) -> None:
    found = told.search("zebra")[0]
    for words in (
        ["search", "zebra", "--explain"],
        ["show", found["id"]],
        ["show", found["conversation_id"]],
        ["context", "What about the red zebra and its title?"],
        ["rag", "test", "What about the red zebra and its title?"],
        ["assemble", "zebra", "--types", "memories,experiences"],
        ["memory", "list"],
        ["memory", "search", "zebra"],
        ["core", "list"],
        ["core", "get", "user", "name"],
        ["experience", "active"],
        ["experience", "list"],
        ["status"],
    ):
        shown = told(*words)
        assert OBEYED.search(shown.out + shown.err) is None, words
    assert OBEYED.search(told.fails("show", f"no {EVIL}")) is None
    assert OBEYED.search(told("search", "zebra", "--json").out) is None


def test_json_says_what_was_said(told: CommandLine) -> None:
    assert {hit["text"] for hit in told.search("zebra")} >= {f"{role} {EVIL}" for role in ("user", "assistant", "tool")}
    assert json.loads(printable_json(json.dumps({EVIL: EVIL}, ensure_ascii=False))) == {EVIL: EVIL}


def test_line_ends_tabs_and_every_script_stay() -> None:
    text = "one\n\ttwo \u05e9\u05dc\u05d5\u05dd \u200f\u0645 \u4f60\u597d \U0001f469\u200d\U0001f680 e\u0301"
    assert printable(text) == text


def test_own_colours_stay_and_those_of_a_text_go() -> None:
    console = PlainConsole(file=io.StringIO(), force_terminal=True, color_system="standard", width=200)
    table = Table(f"head {EVIL}")
    table.add_row(f"cell {EVIL}")
    for shown in (Text(f"words {EVIL}", "bold"), table, f"plain {EVIL}"):
        console.print(shown, markup=False)
    assert isinstance(console.file, io.StringIO)
    assert isinstance(console, Console)
    out = console.file.getvalue()
    assert "\x1b[1m" in out
    assert OBEYED.search(re.sub(r"\x1b\[[0-9;]*m", "", out)) is None
    assert not any(evil in out for evil in ("\x1b[31m", "\x1b]", "\x1b[2J"))


@pytest.mark.parametrize(
    "text", ["pip install 'harken[pdf]'", "[bold]quay[/bold] [/] [link=x]", "f(a[0])[red]", ":smile: a:on:b"]
)
def test_brackets_and_colons_are_printed_as_they_stand(text: str) -> None:
    file = io.StringIO()
    table = Table(show_header=False, box=None)
    table.add_row(text)
    for shown in (text, Text(text), table):
        PlainConsole(file=file, highlight=False, soft_wrap=True, width=80).print(shown)
    assert [line.strip() for line in file.getvalue().splitlines()] == [text] * 3
