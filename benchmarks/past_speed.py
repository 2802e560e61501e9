"""How long it takes until past conversations come back, the query's embedding included.

    python benchmarks/past_speed.py [--exchanges 10000] [--queries 150] [--rounds 2] [--home PATH]

A store of so many summarized exchanges with made-up vectors near those of real texts is asked by the product's own
path, warm: with the model's own threshold, which not everything passes, and with one that everything passes, which is
as much work as there can be.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

from harken.engine import Harken
from measuring import Figure, Times
from past_pipeline import remember, some_talks
from report import keep, show
from synthetic import Talks

P95_MS = 30.0
_EVERYTHING_PASSES = 0.3
_WARM_UP = 30


def measure(home: Path, exchanges: int, queries: list[str]) -> list[Figure]:
    """Both thresholds, one after the other in one open store each."""
    figures = []
    for label, settings in (
        ("the model's own threshold", {}),
        ("a threshold that everything passes", {"rag.min_similarity": _EVERYTHING_PASSES}),
    ):
        with Harken(home, settings=settings) as harken:
            session = harken.chats.session("now", "library")
            for query in queries[:_WARM_UP]:
                harken.chats.past(query, session)
            # Each for the first time: what a process keeps of what it read must not flatter.
            times = Times()
            asked = [times.take(partial(harken.chats.past, query, session)) for query in queries[_WARM_UP:]]
            found = [len(past.conversations) for past in asked]
            note = f"{sum(found) / len(found):.1f} conversations came back"
            figures.append(times.figure(f"past conversations, {label}", exchanges, P95_MS, note))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--home", type=Path, help="keep the store here, and use the one that is there")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = given.home or Path(folder) / "home"
        if not home.exists():
            remember(home, given.exchanges)
        texts = [text for talk in some_talks(1, given.exchanges)[:200] for text in talk.texts]
        queries = Talks(32).queries(texts, _WARM_UP + given.queries)
        figures = [figure for _ in range(given.rounds) for figure in measure(home, given.exchanges, queries)]
    rows = [figure.row() for figure in figures]
    show("Past conversations", rows)
    keep("past-speed", {"rows": rows}, given.out)


if __name__ == "__main__":
    main()
