"""Whether both engines find the same: LoCoMo on an embedded store and on a PostgreSQL server, question by question.

    python benchmarks/engines.py postgresql://USER@HOST/EMPTY_DATABASE [PATH] [--conversations conv-26,conv-41]

Prints recall@10 and MRR on each engine, and how many of each question's ten best are the same, by way of search. The
database must have Harken's schema (`harken migrate`) and nothing in it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean

import locomo
from harken.bench.measures import reciprocal_rank
from harken.engine import Harken
from harken.model.conversations import SearchScope
from harken.record.ids import conversation_uid
from report import keep, show

MODES = ("hybrid", "keyword", "semantic")
BEST = 10
EVERYWHERE = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="URL of an empty database on a server")
    parser.add_argument("path", nargs="?", type=Path, default=locomo.default_path())
    parser.add_argument("--conversations", help="ids, comma separated; default all")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    data = locomo.load(arguments.path)
    if arguments.conversations:
        data = [sample for sample in data if sample["sample_id"] in arguments.conversations.split(",")]
    asked = [question for question in locomo.questions(data) if question.category != 5]
    with tempfile.TemporaryDirectory() as folder:
        locomo.write_jsonl(data, Path(folder))
        stores = {"embedded": None, "server": arguments.store}
        found = {name: answers(Path(folder), name, store, asked) for name, store in stores.items()}
    rows = []
    for mode in MODES:
        for where in ("in its conversation", "everywhere"):
            embedded, server = ({q: found[name][mode, where, q] for q in asked[: _count(where)]} for name in stores)
            row = {"search": mode, "where": where, "questions": len(embedded)}
            for name, ranked in (("embedded", embedded), ("server", server)):
                row |= {f"r@10 {name}": round(recall(ranked), 4), f"MRR {name}": round(reciprocal(ranked), 4)}
            same = mean(len(set(embedded[q]) & set(server[q])) / max(1, len(embedded[q])) for q in embedded)
            rows.append(row | {"same of ten": round(same, 3)})
    show("Engines", rows)
    keep("engines", {"figures": rows}, arguments.out)


def answers(
    folder: Path, name: str, store: str | None, asked: list[locomo.Question]
) -> dict[tuple[str, str, locomo.Question], list[tuple[str, str]]]:
    """The ten best turns of every question, by way of search and place."""
    settings = {} if store is None else {"store": store}
    found = {}
    with Harken(folder / name, settings=settings) as harken:
        harken.import_transcripts("jsonl", sorted(folder.glob("*.jsonl")))
        harken.embed()
        for mode in MODES:
            for number, question in enumerate(asked):
                scope = SearchScope(conversation=conversation_uid("jsonl", question.conversation))
                found[mode, "in its conversation", question] = _turns(harken, question, mode, scope)
                if number < EVERYWHERE:
                    found[mode, "everywhere", question] = _turns(harken, question, mode, None)
    return found


def recall(ranked: dict[locomo.Question, list[tuple[str, str]]]) -> float:
    """The share of the evidence that is among the ten best."""
    return mean(
        len({(question.conversation, turn) for turn in question.evidence} & set(turns)) / len(question.evidence)
        for question, turns in ranked.items()
    )


def reciprocal(ranked: dict[locomo.Question, list[tuple[str, str]]]) -> float:
    """Mean reciprocal rank of the first evidence."""
    return mean(
        reciprocal_rank(turns, {(question.conversation, turn) for turn in question.evidence})
        for question, turns in ranked.items()
    )


_SHOWN: dict[str, tuple[str, str]] = {}


def _turns(harken: Harken, question: locomo.Question, mode: str, scope: SearchScope | None) -> list[tuple[str, str]]:
    found = []
    for hit in harken.search(question.text, scope=scope, limit=BEST, mode=mode).hits:
        if hit.entry.ref_uid not in _SHOWN:
            shown = harken.show(hit.entry.ref_uid, 0)
            assert shown.message is not None
            _SHOWN[hit.entry.ref_uid] = (shown.conversation.external_id, shown.message.external_id)
        found.append(_SHOWN[hit.entry.ref_uid])
    return found


def _count(where: str) -> int | None:
    return EVERYWHERE if where == "everywhere" else None


if __name__ == "__main__":
    main()
