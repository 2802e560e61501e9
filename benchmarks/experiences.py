"""Two hundred experiences, made from hand-written attempts: each in two projects, with names and numbers of its own."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harken.engine import Harken
from harken.model.experiences import AXES, Experience, Lesson, RootCause

KEPT, ADDED = 200, 10
MATERIAL = Path(__file__).with_name("experience_material.txt")
PROJECTS = (
    {"service": "the payment service", "module": "the tariff module", "client": "the cashier's application",
     "store": "PostgreSQL", "queue": "the settlement queue", "suite": "test_settlement", "tool": "Python"},
    {"service": "the shop's backend", "module": "the catalogue", "client": "the storefront",
     "store": "MySQL", "queue": "the order stream", "suite": "the checkout suite", "tool": "Node"},
    {"service": "the fleet tracker", "module": "the route planner", "client": "the driver's app",
     "store": "Redis", "queue": "the position feed", "suite": "TestRoutes", "tool": "Go"},
    {"service": "the clinic's scheduler", "module": "the appointment book", "client": "the reception screen",
     "store": "the Oracle database", "queue": "the reminder queue", "suite": "AppointmentTest", "tool": "Gradle"},
    {"service": "the map server", "module": "the tile index", "client": "the map viewer",
     "store": "SQLite", "queue": "the render queue", "suite": "tests/tiles.rs", "tool": "Rust"},
    {"service": "the course platform", "module": "the grade book", "client": "the pupils' page",
     "store": "MongoDB", "queue": "the submission inbox", "suite": "grading_spec", "tool": "Ruby"},
    {"service": "the newsroom archive", "module": "the article editor", "client": "the editors' desk",
     "store": "Elasticsearch", "queue": "the wire feed", "suite": "ArchiveTests", "tool": ".NET"},
)  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """One experience of the corpus; empty texts are not there."""

    theme: str
    domain: str
    goal: str
    status: str
    strategy: str
    hypothesis: str
    action: str
    prediction: str
    result: str
    surprise: str
    category: str
    description: str
    what_worked: str


def corpus(count: int | None = 200, seed: int = 7) -> list[Attempt]:
    """The experiences in an order that mixes their themes; the same for the same seed.

    Args:
        count: how many; None gives all, which is some more than two hundred.
        seed: of the order.
    """
    written = list(_written())
    made = [_set_in(attempt, number, turn) for turn in (0, 1) for number, attempt in enumerate(written)]
    random.Random(seed).shuffle(made)
    return made[:count]


def _set_in(attempt: Attempt, number: int, turn: int) -> Attempt:
    """The attempt in one of the projects, with numbers of its own."""
    project = PROJECTS[(number // 2 + turn * 3) % len(PROJECTS)]
    drawn = random.Random(number * 2 + turn)
    words = {**project, "n": str(drawn.choice((3, 4, 6, 7, 9, 12, 14, 18, 25, 40))), "ms": str(drawn.randint(30, 900))}
    texts = ("goal", "hypothesis", "action", "prediction", "result", "surprise", "description", "what_worked")
    filled = {name: getattr(attempt, name).format(**words) for name in texts}
    return replace(attempt, **{name: text[:1].upper() + text[1:] for name, text in filled.items()})


def _written() -> Iterator[Attempt]:
    theme = domain = goal = ""
    for line in MATERIAL.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            theme, domain = (part.strip() for part in line[2:].split("|"))
        elif line.startswith("> "):
            goal = line[2:]
        elif line and not line.startswith("#"):
            parts = [part.strip() for part in line.split("|")]
            parts += [""] * (9 - len(parts))
            status, strategy, hypothesis, action, prediction, result, surprise, cause, worked = parts
            category, _, description = cause.partition(": ")
            yield Attempt(
                theme, domain, goal, status, strategy, hypothesis, action, prediction, result, surprise,
                category, description, worked,
            )  # fmt: skip


def main() -> None:
    """Keep the corpus with the configured model, find its clusters, add ten experiences, find them again."""
    with tempfile.TemporaryDirectory() as home, Harken(home) as harken:
        every = corpus(None)
        for one in every[:KEPT]:
            keep(harken, one)
        harken.embed()
        before = _clusters(harken)
        for one in every[KEPT : KEPT + ADDED]:
            keep(harken, one)
        harken.embed()
        after = _clusters(harken)
    tiers = Counter(one.tier for one in before[1])
    print(f"{KEPT} experiences: " + ", ".join(f"{count} {tier}" for tier, count in tiers.most_common()))
    for axis in AXES:
        old, new = before[0][axis], after[0][axis]
        same = [len(old[uid] & new[uid]) / len(old[uid] | new[uid]) for uid in old.keys() & new.keys()]
        alike = sum(same) / len(same) if same else 0.0
        print(
            f"{axis}: {len(old)} clusters, {len(new)} with {ADDED} more; {len(same)} kept their ids, "
            f"mean overlap of members {alike:.2f}"
        )


def keep(harken: Harken, one: Attempt) -> None:
    """Go through an experience of the corpus."""
    begun = harken.experiences.start(one.domain, one.strategy, one.goal, one.hypothesis, one.action, one.prediction)
    harken.experiences.resolve(
        one.status,
        one.result,
        surprise=one.surprise,
        root_cause=RootCause(one.category, one.description) if one.category else None,
        lesson=Lesson(one.what_worked) if one.what_worked else None,
        uid=begun.uid,
    )


def _clusters(harken: Harken) -> tuple[dict[str, dict[str, frozenset[str]]], Sequence[Experience]]:
    found = {
        each.axis: {one.uid: frozenset(uid for uid, _ in one.members) for one in each.clusters}
        for each in harken.values.clusters()
    }
    return found, harken.experiences.list(500)


if __name__ == "__main__":
    main()
