"""Conversations that are made up, the same for the same number: as a transcript to import, and what to ask of them."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

PLACES = ("garden", "kitchen", "harbour", "library", "workshop", "orchard", "attic", "station", "mill", "quay")
DONE = ("painted the walls", "repaired the door", "met old friends", "found three letters", "planted roses")
PEOPLE = ("Priya", "Ilya", "Sue", "Marta", "Tom", "Aiko")


def write_talk(path: Path, exchanges: int) -> Path:
    """Conversations of four messages an exchange, thirty exchanges each; no two messages are the same."""
    said = list(product(PLACES, DONE))
    with path.open("w", encoding="utf-8") as file:
        for number in range(exchanges):
            place, done = said[number % len(said)]
            person = PEOPLE[number % len(PEOPLE)]
            day = f"20{20 + number // 360 % 6}-{1 + number // 30 % 12:02}-{1 + number % 28:02}"
            texts = (
                f"Hi Mel! What did you do in the {place} in week {number}?",
                f"I {done} in the {place} with {person}, ticket T-{number}, and it rained.",
                f"How long did {person} stay there in week {number}?",
                f"It took {number % 7 + 2} hours, and the {PLACES[(number + 3) % 10]} comes next after week {number}.",
            )
            for minute, text in enumerate(texts):
                role, author = (("user", "Ada"), ("assistant", "Mel"))[minute % 2]
                line = {"conversation": f"talk-{number // 30}", "role": role, "author": author, "content": text}
                file.write(json.dumps({**line, "ts": f"{day}T10:{minute:02}:{number % 60:02}Z"}) + "\n")
    return path


def questions(count: int) -> list[str]:
    """So many different questions."""
    made = []
    for number in range(count):
        place, done = PLACES[number % len(PLACES)], DONE[number // 3 % len(DONE)]
        person = PEOPLE[number // 7 % len(PEOPLE)]
        made.append(
            (
                f"When did Mel go to the {place} with {person}, week {number}?",
                f"Who {done} in the {place} {number}?",
                f"how many hours did the {place} take, ticket T-{number}",
            )[number % 3]
        )
    return made
