"""The table and the plot of `peers.py`, as Markdown and SVG beside the JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

# Wall time over CPU time, of a loop that waits for nothing, from which on others were at work on the machine.
BUSY = 1.25
NOTES = {
    "fitted": "The weights of its learned fusion were fitted on these conversations, among others: what it reaches on "
    "talk that it has not seen is in docs/adr/0020-learned-fusion.md, and the row `convex` has no such weights.",
    "convex": "`search.fusion = convex`: words and meaning added, without learned weights.",
    "words": "Messages are found by words as soon as they are imported, and vectors follow.",
    "no words": "It stores nothing without vectors.",
    "reranks": "With the cross-encoder ms-marco-MiniLM-L12 (int8), for each system that takes one.",
    "files": "A file for each conversation, which finds more than one file with namespaces: it filters after the cut.",
    "potion": "Its own model, potion-base-8M, comes from a hub and no package carries it; MiniLM stands in. "
    "potion embeds far faster, and earlier measurements found dense recall alike (0.463 and 0.455).",
    "engram": "Its models, bge-large and bge-reranker-v2-m3, come from a hub; MiniLM, which it names too, stands in, "
    "and ms-marco-MiniLM-L12 for the reranker.",
    "fused": "Without its reranker, as are the others in this table.",
    "some": "Of some of the questions alone, in no order of theirs: so many were answered within the time limit.",
    "busy": "While it was measured others were at work on the machine: its speeds stand too low, and fewer questions "
    "were answered in time.",
    "pads": "Its embedder pads every text to 256 tokens: embed + store and queries are of that; LoCoMo's questions are "
    "asked with the same weights unpadded, which give the same vectors.",
    "mem0": "`infer=False`, embedded Qdrant, fastembed's BM25 with a list of stop words from elsewhere; spaCy's model "
    "for lemmas comes from a hub, so it goes without. It takes an embedder of its user's; MiniLM is one.",
    "mempalace": 'Drawers put in by batches; `candidate_strategy="union"`, so that words bring candidates too, and '
    '`lang="en"` for its stop words.',
}
_COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("embedded", "embed + store /s", lambda value: f"{value:,.0f}"),
    ("stored_words", "store /s, words", lambda value: f"{value:,.0f}"),
    ("stored_given", "store /s, vectors given", lambda value: f"{value:,.0f}"),
    ("p50", "query p50 ms", lambda value: f"{value:,.0f}"),
    ("p95", "p95 ms", lambda value: f"{value:,.0f}"),
    ("first", "first answer s", lambda value: f"{value:.1f}"),
    ("mb_storing", "peak MB storing", lambda value: f"{value:,.0f}"),
    ("mb_searching", "peak MB asking", lambda value: f"{value:,.0f}"),
    ("mb_installed", "MB installed", lambda value: f"{value:,.0f}"),
    ("recall", "recall@10", lambda value: f"{value:.3f}"),
    ("mrr", "MRR", lambda value: f"{value:.3f}"),
)
# What each panel shows, whether its scale is logarithmic, and how a bar is labelled.
_PANELS = (
    ("recall", "recall@10, LoCoMo development, by turns (more is better)", False),
    ("p50", "query with own embedding, p50 ms (less is better; logarithmic)", True),
    ("embedded", "embed + store, turns a second (more is better; logarithmic)", True),
    ("mb_searching", "peak memory while asking, MB (less is better; logarithmic)", True),
)
_WIDTH, _LABEL, _BAR, _ROW, _PANEL_GAP = 860, 190, 560, 22, 44
_OURS, _OTHERS = "#c2410c", "#64748b"


def write_report(result: Mapping[str, Any], target: Path) -> None:
    """Write `NAME.md` and `NAME.svg` beside `NAME.json`."""
    plot_file = target.with_suffix(".svg")
    plot_file.write_text(plot(result["rows"], result["date"]), encoding="utf-8")
    target.with_suffix(".md").write_text(table(result, plot_file.name), encoding="utf-8")
    print(f"{target.with_suffix('.md')}\n{plot_file}")


def table(result: Mapping[str, Any], plot_name: str) -> str:
    """The result as a page: what was measured, a table by each one's own model, one by the same model, the notes."""
    rows = result["rows"]
    marks = _marks(rows)
    busy = max(result["wall_over_cpu"].values())
    parts = [
        "# Harken beside other memories",
        f"{result['date']}, commit {result['commit']}, {result['machine']}"
        + (f"; the machine was busy: wall time was {busy:.1f} times CPU time" if busy > BUSY else "")
        + ". Repeat it: `make bench-peers`.",
        f"embed + store: {result['sample']:,} turns; store, queries, first answer of a new process: {result['size']:,} "
        f"turns, the query embedded by the system's own model; quality: {result['turns']:,} turns of LoCoMo's "
        f"development conversations, {result['questions']:,} questions of categories 1 to 4, each asked in its "
        "conversation, found by single turns, without a language model: recall of evidence, no score of LoCoMo. "
        "MB installed: packages and the model's file. –: it cannot, or was not measured.",
        f"![Plot]({plot_name})",
        "## Each with its own model, or the nearest at hand",
        _markdown([row for row in rows if not row["same_model"]], _COLUMNS, marks),
    ]
    same = [row for row in rows if row["same_model"] or row["system"] == "Harken"]
    if any(row["same_model"] for row in same):
        parts += ["## All with bge-small, as Harken", _markdown(same, _COLUMNS[-2:], marks)]
    parts += ["\n".join(f"{number}. {text}" for text, number in marks.items())]
    return "\n\n".join(part for part in parts if part) + "\n"


def plot(rows: Sequence[Mapping[str, Any]], date: str) -> str:
    """Bars, a panel for each of four figures, as SVG; a row without the figure is left out."""
    drawn, height = [], 40
    for name, title, is_log in _PANELS:
        shown = [row for row in rows if row[name] is not None]
        if not shown:
            continue
        drawn.append(_text(10, height + 14, title, weight="bold"))
        height += 24
        most, least = max(row[name] for row in shown), min(row[name] for row in shown)
        for row in shown:
            length = _BAR * _share(row[name], least, most, is_log)
            label = row["system"] + (" (bge-small)" if row["same_model"] else "")
            colour = _OURS if row["system"].startswith("Harken") else _OTHERS
            drawn.append(_text(_LABEL, height + 14, label, anchor="end"))
            drawn.append(f'<rect x="{_LABEL + 8}" y="{height + 2}" width="{length:.1f}" height="15" fill="{colour}"/>')
            value = f"{row[name]:.3f}" if name == "recall" else f"{row[name]:,.0f}"
            drawn.append(_text(_LABEL + 14 + length, height + 14, value))
            height += _ROW
        height += _PANEL_GAP - _ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">'
    )
    ground = f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    title = _text(10, 24, f"Harken beside other memories, {date}", size=16, weight="bold")
    return "\n".join([head, ground, title, *drawn, "</svg>\n"])


def _share(value: float, least: float, most: float, is_log: bool) -> float:
    """A bar's part of the longest; on a logarithmic scale the shortest is a tenth of a decade."""
    if not is_log or least <= 0:
        return value / most if most else 0.0
    span = math.log10(most / least) + 0.1
    return (math.log10(value / least) + 0.1) / span


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 12, weight: str = "normal") -> str:
    style = f'font-family="sans-serif" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style} fill="#0f172a">{escape(words)}</text>'


def _marks(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The footnotes in the order of the rows that have them, numbered."""
    texts = [text for row in rows for text in _noted(row)]
    return {text: number for number, text in enumerate(dict.fromkeys(texts), start=1)}


def _noted(row: Mapping[str, Any]) -> list[str]:
    texts = [NOTES[name] for name in row["notes"]]
    if row["error"]:
        texts.append(f"{row['system']}: {row['error']}")
    return texts


def _markdown(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[tuple[str, str, Callable[[float], str]]],
    marks: Mapping[str, int],
) -> str:
    lines = ["| system | model | " + " | ".join(title for _, title, _ in columns) + " |"]
    lines.append("|---|---|" + "---:|" * len(columns))
    for row in rows:
        numbers = ", ".join(str(marks[text]) for text in _noted(row))
        name = " ".join(filter(None, (row["system"], row["version"], f"({numbers})" if numbers else "")))
        values = ["–" if row[key] is None else show(row[key]) for key, _, show in columns]
        lines.append(f"| {name} | {row['model']} | " + " | ".join(values) + " |")
    return "\n".join(lines)
