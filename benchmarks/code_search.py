"""How well questions find code and commits, and how long a whole index takes to make, and to look through unchanged.

Indexes this repository into a fresh home, and three open libraries into another, and asks `code_questions.toml`.

Usage: python benchmarks/code_search.py [--missed] [--keep]
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import report
from harken import Harken

HERE = Path(__file__).resolve().parent
LIBRARIES = ("click", "httpx", "starlette")
_DEPTH = 50
Answers = Mapping[str, Sequence[str]]
Ranked = Callable[[str], Sequence[str]]


def main() -> None:
    """Index, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missed", action="store_true", help="print what was found in place of an answer")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results")
    options = parser.parse_args()
    questions = tomllib.loads((HERE / "code_questions.toml").read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        libraries = _copied(Path(folder) / "libraries")
        with Harken(Path(folder) / "own") as harken:
            times = _indexed(harken, HERE.parent)
            for kind, ranked in (("code", _code(harken)), ("commits", _commits(harken))):
                for name in ("development", "held_out"):
                    rows.append(_figures(f"{kind}, {name}", questions[kind][name], ranked, options.missed))
        with Harken(Path(folder) / "foreign") as harken:
            harken.code.index(libraries)
            harken.embed()
            rows.append(_figures("code, libraries", questions["code"]["libraries"], _code(harken), options.missed))
    report.show("Indexing this repository, in seconds", [times])
    report.show("Questions answered", rows)
    if options.keep:
        report.keep("code_search", {"seconds": times, "questions": rows})


def _copied(target: Path) -> Path:
    """The libraries' files, away from the environment, which git ignores."""
    for name in LIBRARIES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def _indexed(harken: Harken, tree: Path) -> dict[str, Any]:
    """Seconds that reading, embedding and looking again took."""
    taken = {}
    count = 0
    for name in ("read", "embedded", "unchanged"):
        begin = time.perf_counter()
        if name == "embedded":
            count = harken.embed()
        else:
            harken.code.index(tree)
            harken.commits.index(tree)
            harken.documents.index(tree)
        taken[name] = f"{time.perf_counter() - begin:.2f}"
    return {**taken, "vectors": count}


def _code(harken: Harken) -> Ranked:
    return lambda text: [item.metadata["qualified_name"] for item in harken.code.search(text, limit=_DEPTH).items]


def _commits(harken: Harken) -> Ranked:
    # A commit is shown as its id, its message, its files.
    return lambda text: [item.content.split("\n")[1] for item in harken.commits.search(text, limit=_DEPTH).items]


def _figures(name: str, questions: Answers, ranked: Ranked, show_missed: bool) -> dict[str, Any]:
    ranks = []
    for text, answers in questions.items():
        found = ranked(text)
        rank = next((at for at, title in enumerate(found, 1) if _is_answer(title, answers)), None)
        ranks.append(rank)
        if show_missed and (rank is None or rank > 5):
            print(f"{name}: {rank or '-'}: {text}: {' | '.join(found[:5])}")
    return {
        "set": name,
        "questions": len(ranks),
        "recall@1": _share(rank == 1 for rank in ranks),
        "recall@5": _share(rank is not None and rank <= 5 for rank in ranks),
        "MRR": f"{sum(1 / rank for rank in ranks if rank) / len(ranks):.3f}",
        "rank of the first": ranks[0] or "-",
    }


def _is_answer(title: str, answers: Sequence[str]) -> bool:
    """Whether it is one of them, inside one of them, or a subject that begins like one."""
    return any(title == answer or title.startswith(answer if " " in answer else f"{answer}.") for answer in answers)


def _share(met: Any) -> str:
    each = list(met)
    return f"{sum(each) / len(each):.3f}"


if __name__ == "__main__":
    main()
