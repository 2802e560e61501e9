"""Both engines find the same: of the best ten hits nine are the same, by learned fusion too."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from sqlalchemy import URL

from harken.engine import Harken
from harken.testing import HashingEmbedder

PLACES = ("garden", "kitchen", "harbour", "library", "workshop", "orchard", "attic", "station")
DONE = ("painted the walls", "repaired the door", "met old friends", "found three letters", "planted roses")


def talk(folder: Path) -> Path:
    """Two people over several places, with questions, answers, dates and small talk."""
    lines = []
    for number, (place, done) in enumerate(product(PLACES, DONE)):
        day = f"2024-{1 + number % 12:02}-{1 + number % 28:02}"
        said = (
            ("Ada", f"Hi Mel! What did you do in the {place} last week?"),
            ("Mel", f"I {done} in the {place} with {('Priya', 'Ilya', 'Sue')[number % 3]} on day {number}, finally."),
            ("Ada", "That sounds wonderful, tell me more!"),
            ("Mel", f"It took {number % 7 + 2} hours, and the {PLACES[(number + 3) % 8]} comes next."),
        )
        for minute, (author, text) in enumerate(said):
            role = "user" if author == "Ada" else "assistant"
            at = f"{day}T10:{minute:02}:00Z"
            lines.append({"conversation": place, "role": role, "author": author, "content": text, "ts": at})
    path = folder / "talk.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_nine_of_the_best_ten_are_the_same_on_both_engines(tmp_path: Path, server_url: URL) -> None:
    asked = [
        *(f"When did Mel go to the {place}?" for place in PLACES),
        *(f"Who {done}?" for done in DONE),
        "how many hours did the orchard take",
        "what happened in the attic in May",
    ]
    best: list[list[list[str]]] = []
    for name, store in (("file", ""), ("server", server_url.render_as_string(hide_password=False))):
        settings = {"store": store} if store else {}
        with Harken(tmp_path / name, env={}, settings=settings, embedder=HashingEmbedder(512, threshold=0.2)) as harken:
            harken.import_transcripts("jsonl", [talk(tmp_path)])
            harken.embed()
            found = [harken.search(query).hits for query in asked]
        assert all(any(reason.is_added for reason in hits[0].reasons) for hits in found)
        best.append([[f"{hit.entry.conversation_uid} {hit.entry.text}" for hit in hits] for hits in found])
    shared = [len(set(one) & set(other)) / len(one) for one, other in zip(*best, strict=True)]
    assert {len(hits) for hits in best[0]} == {10}
    assert sum(shared) / len(shared) >= 0.9, shared
