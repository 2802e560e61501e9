"""A long transcript that is made up the same way every time, and what must be in the store after it."""

from __future__ import annotations

import json
import random
from pathlib import Path

from sqlalchemy import select

from harken.engine import Harken
from harken.storage.tables import messages

_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "ledge")


def write_long_talk(path: Path, count: int, conversations: int, words: int = 12) -> dict[str, str]:
    """Write a Claude Code transcript of short messages, question and answer by turns; their texts by their ids."""
    rng = random.Random(7)
    said = {}
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            text = f"Number {number}: {' '.join(rng.choices(_WORDS, k=words))}"
            role = "assistant" if (number // conversations) % 2 else "user"
            uuid = f"00000000-0000-4000-8000-{number:012d}"
            line = {
                "type": role,
                "uuid": uuid,
                "sessionId": f"session-{number % conversations}",
                "timestamp": f"2026-05-{1 + number * 20 // count:02d}T09:00:00.{number % 1000:03d}Z",
                "message": {"role": role, "content": text},
            }
            file.write(json.dumps(line) + "\n")
            said[uuid] = text
    return said


def texts_in_rows(harken: Harken) -> list[tuple[str, str]]:
    """(external id, text) of every message of the database."""
    with harken.store.reading() as tx:
        return [tuple(row) for row in tx.connection.execute(select(messages.c.external_id, messages.c.text))]


def texts_in_journal(home: Path) -> list[tuple[str, str]]:
    """The same of the journal, read as plain JSON."""
    found = []
    for path in sorted((home / "conversations").glob("*/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "message":
                found.append((event["external_id"], event.get("text", "")))
    return found
