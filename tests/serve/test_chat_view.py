"""What a terminal is shown of an answer, and what is kept of what was typed."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import pytest
from rich.console import Console

from harken.chat.rounds import TextPiece, ToolEnded, ToolStarted
from harken.serve.repl.showing import PlainAnswer, TerminalAnswer
from harken.serve.repl.terminal import TypedLines

ANSWER = "Look:\n\n```python\nfirst = 1\n\nsecond = 2\n```\n\nThat is all."


def shown(*pieces: str) -> str:
    """What a terminal has got in the end, movements of its cursor included."""
    screen = io.StringIO()
    with TerminalAnswer(Console(file=screen, force_terminal=True, width=60, height=20)) as view:
        for piece in pieces:
            view.listen(TextPiece(piece))
    return screen.getvalue()


@pytest.mark.parametrize("length", [1, 3, 100])
def test_however_it_is_cut_into_pieces_the_same_is_left_on_the_screen(length: int) -> None:
    pieces = [ANSWER[place : place + length] for place in range(0, len(ANSWER), length)]
    left = shown(*pieces)
    for line in ("Look:", "first", "second", "That is all."):
        assert line in left
    assert "```" not in left.rsplit("\x1b[2K", 1)[-1]


def test_a_terminal_obeys_nothing_that_a_model_or_a_tool_says() -> None:
    screen = io.StringIO()
    with TerminalAnswer(Console(file=screen, force_terminal=True, width=120, height=20)) as view:
        view.listen(TextPiece("before\x1b]0;title\x07 \x1b[31mred\x9b2J after"))
        view.listen(ToolStarted("look\x1b[2J", {"at": "\x1b[2J"}))
        view.listen(ToolEnded("look\x1b[2J", True, "bad \x1b[2J thing"))
    for order in ("\x1b]0;", "\x1b[31m", "\x9b", "\x1b[2J", "\x07"):
        assert order not in screen.getvalue()
    assert "failed: bad [2J thing" in screen.getvalue()


def test_plain_text_is_passed_on_as_it_is_with_one_line_end(capsys: pytest.CaptureFixture[str]) -> None:
    errors = io.StringIO()
    with PlainAnswer(Console(file=errors, soft_wrap=True)) as view:
        view.listen(TextPiece("I look it up."))
        view.listen(ToolStarted("search_history", {"query": "tap", "limit": 3}))
        view.listen(ToolEnded("search_history", False, "x" * 1200))
        view.listen(TextPiece("**Rubber**"))
        view.listen(TextPiece(".\n"))
    assert capsys.readouterr().out == "I look it up.\n**Rubber**.\n"
    assert errors.getvalue() == '· search_history(query="tap", limit=3) → 1,200 characters\n'


class TestTypedLines:
    def test_lines_come_back_in_their_order_and_only_their_owner_reads_them(self, tmp_path: Path) -> None:
        typed = TypedLines(tmp_path / "home" / "typed", lambda text: text)
        assert typed.load_history_strings()[::-1] == []
        for text in ("one", "two\nlines", "/rag"):
            typed.store_string(text)
        assert typed.load_history_strings()[::-1] == ["one", "two\nlines", "/rag"]
        assert stat.S_IMODE((tmp_path / "home" / "typed").stat().st_mode) == 0o600

    def test_a_line_with_a_secret_is_not_kept(self, tmp_path: Path) -> None:
        typed = TypedLines(tmp_path / "typed", lambda text: text.replace("secret", "[redacted]"))
        typed.store_string("my secret")
        assert not (tmp_path / "typed").exists()

    def test_only_the_newest_thousand_stay(self, tmp_path: Path) -> None:
        path = tmp_path / "typed"
        path.write_text("".join(f"{json.dumps(str(number))}\n" for number in range(2500)), encoding="utf-8")
        typed = TypedLines(path, lambda text: text)
        assert (typed.load_history_strings()[::-1][0], typed.load_history_strings()[::-1][-1]) == ("1500", "2499")
        assert path.read_text(encoding="utf-8").count("\n") == 1000

    def test_a_damaged_file_costs_its_damaged_lines_alone(self, tmp_path: Path) -> None:
        (tmp_path / "typed").write_bytes(b'"one"\n{broken\n[1]\n\xff\xfe\n"two"\n')
        assert TypedLines(tmp_path / "typed", lambda text: text).load_history_strings()[::-1] == ["one", "two"]

    def test_a_disk_that_refuses_costs_no_more_than_the_history(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        typed = TypedLines(tmp_path / "file" / "typed", lambda text: text)
        typed.store_string("one")
        assert typed.load_history_strings()[::-1] == []
