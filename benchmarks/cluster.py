"""How much slower a search of one tenant is on a Citus cluster than on one plain server, asked in turn in one run.

    python tools/cluster.py build FOLDER_WITH_ARCHIVES
    python benchmarks/cluster.py [--sizes 1000 10000] [--questions 150] [--rounds 2]

Both are started for it, of one version of PostgreSQL, and asked as the application's role. A tenant of each size is
made on both through the product's own code, but for its vectors, which are made up near those of real texts; each
question is asked of both, who is first in turn, and it is counted how often the hits are the same in the same order.
Prints one table of medians, and writes JSON.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clustered import running_servers
from harken.engine import Harken
from measuring import Times
from report import keep, show
from speed_search import fill_vectors
from synthetic import Talks, write_jsonl

MODES = ("hybrid", "keyword", "semantic")
PLACES = ("cluster", "plain")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, running_servers() as servers:
        urls = (servers.cluster, servers.plain)
        for size in arguments.sizes:
            opened = [
                filled(Path(folder) / f"{place}-{size}", url, size) for place, url in zip(PLACES, urls, strict=True)
            ]
            try:
                rows += compared(opened, size, asked(size, arguments.questions), arguments.rounds)
            finally:
                for harken in opened:
                    harken.close()
    show("A cluster beside one server, medians in ms", rows)
    keep("cluster", {"questions": arguments.questions, "rounds": arguments.rounds, "figures": rows}, arguments.out)


def filled(home: Path, url: str, size: int) -> Harken:
    """A tenant of so many messages."""
    home.mkdir()
    harken = Harken(home, settings={"store": url, "tenant": f"tenant-{size}"}, env={})
    write_jsonl(home / "talk.jsonl", Talks(3).talks(size))
    harken.import_transcripts("jsonl", [home / "talk.jsonl"])
    fill_vectors(harken)
    # As whoever embeds does in the end.
    harken.store.nearest.build_index()
    return harken


def asked(size: int, count: int) -> Sequence[str]:
    """Questions that a tenant of such a size can answer."""
    return Talks(4).queries([text for talk in Talks(3).talks(size) for text in talk.texts], count)


def compared(opened: Sequence[Harken], size: int, questions: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """One row for each way of searching."""
    for harken in opened:
        for question in questions[:10]:
            harken.search(question)
    for mode in MODES:
        times = [Times() for _ in opened]
        same = 0
        for number in range(rounds * len(questions)):
            question = questions[number % len(questions)]
            found: dict[int, list[str]] = {}
            for place in sorted(range(len(opened)), reverse=bool(number % 2)):
                result = times[place].take(partial(opened[place].search, question, mode=mode))
                found[place] = [hit.entry.ref_uid for hit in result.hits]
            same += found[0] == found[1]
        (here, here_late), (there, there_late) = (np.percentile(each.wall, (50, 95)) for each in times)
        yield {
            "entries": f"{size:,}",
            "search": mode,
            **{f"{place} p50": f"{p50:.1f}" for place, p50 in zip(PLACES, (here, there), strict=True)},
            "p50 ratio": f"{here / there:.2f}",
            "p95 ratio": f"{here_late / there_late:.2f}",
            "same hits": f"{same} of {rounds * len(questions)}",
        }


if __name__ == "__main__":
    main()
