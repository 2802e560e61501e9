"""Writing transcripts and looking at what was read from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from harken.importers.parsed import ParsedItem
from harken.record.recorder import NewMessage

Write = Callable[..., Path]
Said = Callable[[Iterable[ParsedItem]], list[tuple[str, str, str]]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a JSONL file; texts and bytes are written as they are, everything else as JSON."""

    def writing(*lines: Any, name: str = "session.jsonl", end: bytes = b"\n") -> Path:
        raw = [
            line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
            for line in lines
        ]
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n".join(raw) + end)
        return path

    return writing


@pytest.fixture
def said() -> Said:
    """The messages among the items, as role, type and text."""

    def saying(items: Iterable[ParsedItem]) -> list[tuple[str, str, str]]:
        return [(item.role, item.type, item.text) for item in items if isinstance(item, NewMessage)]

    return saying
