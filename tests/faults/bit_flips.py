"""A home in which single bits are turned over, and what its journal and its database say of every message."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SAID = """SELECT c.uid, m.uid, m.role, m.text, m.position FROM messages m JOIN conversations c
    ON c.id = m.conversation_id ORDER BY c.uid, m.position, m.id"""
_SEEN = """SELECT c.uid, e.ref_uid, e.role, e.text, e.position FROM entries e JOIN conversations c
    ON c.id = e.conversation_id WHERE e.source = 'message' ORDER BY c.uid, e.position, e.id"""
Said = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Sides:
    """Every message, in its order: as the journal has it, as the rows have it, and as search sees it.

    None where a side cannot be read.
    """

    journal: Said | None
    rows: Said | None
    seen: Said | None


def read_sides(home: Path) -> Sides:
    """Read a home without Harken."""
    return Sides(_of_journal(home), _of_rows(home, _SAID), _of_rows(home, _SEEN))


def _of_journal(home: Path) -> Said | None:
    found = []
    for path in sorted((home / "conversations").glob("*/*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                event = json.loads(line)
                if event["event"] == "message":
                    named = (event["conversation"], event["id"], event["role"], event["text"], event["position"])
                    found.append(named)
            except (ValueError, KeyError, TypeError):
                return None
    return sorted(found, key=lambda message: (message[0], message[4]))


def _of_rows(home: Path, query: str) -> Said | None:
    try:
        with closing(sqlite3.connect(f"file:{home / 'harken.db'}?mode=ro", uri=True)) as database:
            return database.execute(query).fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return None


def flip(rng: random.Random, home: Path, of_journal: bool) -> str:
    """Turn one bit of the journal or of the database over; where that is."""
    files = sorted((home / "conversations").glob("*/*.jsonl")) if of_journal else [home / "harken.db"]
    sizes = [file.stat().st_size for file in files]
    file = rng.choices(files, sizes)[0]
    offset, bit = rng.randrange(file.stat().st_size), rng.randrange(8)
    with file.open("r+b") as stream:
        stream.seek(offset)
        before = stream.read(1)[0]
        stream.seek(offset)
        stream.write(bytes([before ^ 1 << bit]))
    return f"bit {bit} of byte {offset} of {file.parent.name}/{file.name}, which was {before:#04x}"
