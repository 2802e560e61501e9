"""A folder of transcripts is another program's, which clears up in it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from harken.importers.claude_ai import CLAUDE_AI
from harken.importers.claude_code import ClaudeCode
from harken.importers.jsonl import Jsonl
from harken.importers.parsed import TranscriptFormat


@pytest.mark.parametrize(
    ("transcripts", "name"),
    [(ClaudeCode(Path()), "one.jsonl"), (Jsonl(), "one.jsonl"), (CLAUDE_AI, "conversations.json")],
)
def test_a_file_that_is_removed_while_its_folder_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transcripts: TranscriptFormat, name: str
) -> None:
    kept, gone = tmp_path / name, tmp_path / "gone" / name
    gone.parent.mkdir()
    for file in (kept, gone):
        file.write_text('{"type": "user"}')
    stat = Path.stat

    def looked_at_once(self: Path, **named: Any) -> Any:
        found = stat(self, **named)
        if self == gone:
            self.unlink()
        return found

    monkeypatch.setattr(Path, "stat", looked_at_once)
    assert transcripts.files(tmp_path) == [kept]


def test_so_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {tmp_path / "a" / "one.jsonl", tmp_path / "b" / "two.jsonl"}
    for file in both:
        file.parent.mkdir()
        file.write_text('{"type": "user"}')
    stat = Path.stat

    def other_is_removed(self: Path, **named: Any) -> Any:
        for file in both - {self} if self in both else ():
            shutil.rmtree(file.parent, ignore_errors=True)
        return stat(self, **named)

    monkeypatch.setattr(Path, "stat", other_is_removed)
    [kept] = ClaudeCode(Path()).files(tmp_path)
    assert kept in both
