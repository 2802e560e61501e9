"""Talk in five languages: is it found across them, and does what asks for nothing stay without an answer?

    python benchmarks/languages.py [--without] [--misses] [--no-keep]

The talk and the questions of benchmarks/languages.toml. Every question is asked of all that was said, by `search`, and
by what comes back by itself: in the conversation that holds its answer, and from elsewhere, as past talk. The prompts
that ask for nothing are asked in each of the five conversations, and from elsewhere.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tomllib
from collections import defaultdict
from pathlib import Path
from statistics import mean, median
from typing import Any

from harken.engine import Harken
from harken.record.ids import conversation_uid
from report import keep, show

_BEST = 3
_MS = 1000


def load() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "languages.toml").read_text("utf-8"))


def write_jsonl(data: dict[str, Any], folder: Path) -> None:
    """A conversation a language, a message a text."""
    with (folder / "talk.jsonl").open("w", encoding="utf-8") as file:
        for language, texts in data["talk"].items():
            for number, text in enumerate(texts.values()):
                at = f"2026-03-{1 + number // 10:02d}T10:{number % 60:02d}:00Z"
                line = {"conversation": language, "role": "user", "content": text, "ts": at}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


def ask(harken: Harken, data: dict[str, Any], misses: bool) -> list[dict[str, Any]]:
    """How often the text that answers is among the best three, and comes back by itself."""
    texts = {name: text for talk in data["talk"].values() for name, text in talk.items()}
    found: dict[str, list[tuple[int, bool, bool, float]]] = defaultdict(list)
    for questions in data["questions"].values():
        for asked_in, of, gold, question in questions:
            started = time.perf_counter()
            hits = [hit.entry.text for hit in harken.search(question, limit=10).hits]
            took = (time.perf_counter() - started) * _MS
            rank = hits.index(texts[gold]) + 1 if texts[gold] in hits else 99
            session = harken.chats.find(conversation_uid("jsonl", of))
            recalled = any(item.text == texts[gold] for item in harken.auto_rag(session, question).items)
            past = harken.chats.past(question).conversations
            quoted = any(texts[gold] in (e.user, e.assistant) for talk in past for e in talk.exchanges)
            kind = asked_in if asked_in == of else f"{asked_in} -> {of}"
            found[kind].append((rank, recalled, quoted, took))
            if misses and rank > _BEST:
                print(f"{kind}: {gold} at {rank}: {question}\n    before it: {hits[0] if hits else '-'}")
    found["all"] = [row for rows in found.values() for row in rows]
    return [_row(kind, rows) for kind, rows in found.items()]


def _row(kind: str, rows: list[tuple[int, bool, bool, float]]) -> dict[str, Any]:
    ranks = [rank for rank, *_ in rows]
    return {
        "asked -> said in": kind,
        "questions": len(rows),
        "hit@1": round(mean(rank == 1 for rank in ranks), 3),
        "hit@3": round(mean(rank <= _BEST for rank in ranks), 3),
        "mrr": round(mean(1 / rank if rank <= 10 else 0.0 for rank in ranks), 3),
        "auto-RAG": round(mean(recalled for _, recalled, _, _ in rows), 3),
        "past talk": round(mean(quoted for _, _, quoted, _ in rows), 3),
        "search p50 ms": round(median(took for *_, took in rows), 1),
    }


def ask_nothing(harken: Harken, data: dict[str, Any], misses: bool) -> list[dict[str, Any]]:
    """How often something comes back for a prompt: in any of five conversations, and from elsewhere."""
    sessions = [harken.chats.find(conversation_uid("jsonl", language)) for language in data["talk"]]
    rows = []
    for kind in ("small_talk", "off_topic"):
        for language, prompts in data[kind].items():
            recalled = [(p, harken.auto_rag(session, p).items) for session in sessions for p in prompts]
            past = [(p, harken.chats.past(p).conversations) for p in prompts]
            if misses:
                for prompt, items in recalled:
                    for item in items:
                        print(f"{kind} {language}: {prompt} brings {item.text}\n    {item.hit.reasons}")
            count = [bool(items) for _, items in recalled], [bool(talks) for _, talks in past]
            rows.append(
                {
                    "prompts": f"{kind}, {language}",
                    "in a conversation": round(mean(count[0]), 3),
                    "from elsewhere": round(mean(count[1]), 3),
                    "n": [len(each) for each in count],
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", action="store_true", help="without the model for other languages")
    parser.add_argument("--misses", action="store_true", help="print what was missed, and what came back for nothing")
    parser.add_argument("--no-keep", action="store_true", help="print only")
    arguments = parser.parse_args()
    data = load()
    with tempfile.TemporaryDirectory() as folder:
        write_jsonl(data, Path(folder))
        settings = {"embedding.multilingual": not arguments.without}
        with Harken(Path(folder) / "home", settings=settings) as harken:
            harken.import_transcripts("jsonl", [Path(folder) / "talk.jsonl"])
            harken.embed()
            asked = ask(harken, data, arguments.misses)
            unasked = ask_nothing(harken, data, arguments.misses)
            spaces = harken.maintenance.status().view()
    show("Questions", asked)
    show("Prompts that ask for nothing", unasked)
    if not arguments.no_keep:
        name = "languages-without" if arguments.without else "languages"
        keep(name, {"spaces": spaces.get("languages") or spaces["space"], "questions": asked, "unasked": unasked})


if __name__ == "__main__":
    main()
