"""How far an import is, is told as it goes on."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harken.importers.chatgpt import CHATGPT
from harken.importers.importer import Importer, Progress
from harken.importers.jsonl import Jsonl
from harken.importers.parsed import TranscriptFormat
from recorded import RecordedHome, in_small_steps

TALKS = 300
TEXT = "The walrus pump at the third quay needs a new seal before the November floods. " * 100


def as_lines(folder: Path) -> Path:
    file = folder / "talks.jsonl"
    lines = ({"conversation": f"c{n}", "role": "user", "content": TEXT} for n in range(TALKS))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def as_document(folder: Path) -> Path:
    file = folder / "conversations.json"
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [TEXT]}}
    node = {"parent": None, "message": message}
    file.write_text(json.dumps([{"id": f"c{n}", "create_time": 1.5, "mapping": {"q": node}} for n in range(TALKS)]))
    return file


def as_download(folder: Path) -> Path:
    file = folder / "export.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(as_document(folder), "conversations.json")
    return file


@pytest.mark.parametrize(
    ("transcripts", "written"), [(Jsonl(), as_lines), (CHATGPT, as_document), (CHATGPT, as_download)]
)
def test_a_bar_is_not_full_before_the_end(
    place: RecordedHome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    transcripts: TranscriptFormat,
    written: Callable[[Path], Path],
) -> None:
    in_small_steps(monkeypatch, 30)
    file = written(tmp_path)
    seen: list[Progress] = []
    Importer(place.recorder, seen.append).run(transcripts, [file])
    shares = [at.bytes_done / at.bytes for at in seen]
    assert len(shares) >= TALKS // 30
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert any(0.2 < share < 0.8 for share in shares)
    assert shares[-1] == 1
    assert seen[-1].added == TALKS
