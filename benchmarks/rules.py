"""Are standing rules, and corrections of what was said before, told from sentences of the same words that are neither?

    python benchmarks/rules.py [--misses] [--embedded] [--no-keep]

The sentences of benchmarks/rules_held_out*.toml, each by itself: what the patterns of `harken.text.rules` take for a
rule, and which statements `harken.search.newest` takes for a correction of an earlier one. Words alone decide. Both
were changed with those of the first list in view (`UNSEEN`: what was reached before). Those of the second were written
before the patterns of the same day, those of the third and the fourth after them: they hold the ways of asking that no
pattern knows. What vectors tell of these prints `train_kinds.py`; `--embedded` counts what a store has found, patterns
and vectors together, once everything is embedded, and also in small talk and in short messages that are no rules.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harken.engine import Harken
from harken.search.newest import corrects
from harken.text.rules import rules_in
from report import keep, show

HERE = Path(__file__).parent
LISTS = sorted(HERE.glob("rules_held_out*.toml"))
# Recall and precision on 25 November 2026, before anything was changed since: of the first list, and of the second.
UNSEEN = {"rules": [[0.441, 1.0], [0.034, 0.5]], "corrections": [[0.733, 0.629], [0.438, 1.0]]}
_RESAMPLED, _WITHIN = 2_000, (2.5, 97.5)


def measured(found: Sequence[bool], wrong: Sequence[bool], what: str) -> dict[str, Any]:
    """Precision and recall, with intervals by resampling, from what was found of right ones and of wrong ones."""
    right, false = np.array(found, dtype=np.float64), np.array(wrong, dtype=np.float64)
    random = np.random.default_rng(16)
    of_right = random.choice(right, (_RESAMPLED, len(right)))
    of_false = random.choice(false, (_RESAMPLED, len(false)))
    recall = of_right.mean(axis=1)
    precision = of_right.sum(axis=1) / np.maximum(1.0, of_right.sum(axis=1) + of_false.sum(axis=1))
    return {
        "what": what,
        "right": len(found),
        "wrong": len(wrong),
        "recall": round(float(right.mean()), 3),
        "recall_95": [round(float(each), 3) for each in np.percentile(recall, _WITHIN)],
        "precision": round(float(right.sum() / max(1.0, right.sum() + false.sum())), 3),
        "precision_95": [round(float(each), 3) for each in np.percentile(precision, _WITHIN)],
    }


def rules(data: Mapping[str, Any], misses: bool) -> list[dict[str, Any]]:
    """A row for all languages, and one for each."""
    found = {language: [bool(rules_in(text)) for text in texts] for language, texts in data["rules"].items()}
    wrong = {language: [bool(rules_in(text)) for text in texts] for language, texts in data["not_rules"].items()}
    if misses:
        for name, marks, is_right in (("rules", found, True), ("not_rules", wrong, False)):
            for language, each in marks.items():
                for text, mark in zip(data[name][language], each, strict=True):
                    if mark is not is_right:
                        print(f"{name}, {language}: {text}")
    rows = [measured(list(chain(*found.values())), list(chain(*wrong.values())), "rules")]
    return rows + [measured(found[language], wrong[language], f"rules, {language}") for language in found]


def corrections(data: Mapping[str, Any], misses: bool) -> list[dict[str, Any]]:
    """One row for all pairs, if there are any."""
    if "corrections" not in data:
        return []
    marks = {
        name: [corrects(new, old) for old, new in data[name]["pairs"]] for name in ("corrections", "not_corrections")
    }
    if misses:
        for name, is_right in (("corrections", True), ("not_corrections", False)):
            for (old, new), mark in zip(data[name]["pairs"], marks[name], strict=True):
                if mark is not is_right:
                    print(f"{name}: {old} | {new}")
    return [measured(marks["corrections"], marks["not_corrections"], "corrections")]


def embedded() -> list[dict[str, Any]]:
    """Messages with a rule in a store of each list, before and after it was embedded."""
    lists = {
        f"{path.stem}, {part}": list(chain(*texts.values()))
        for path in sorted(HERE.glob("*.toml"))
        if path in LISTS or path.stem.startswith(("unasked_held_out", "short_messages"))
        for part, texts in tomllib.loads(path.read_text("utf-8")).items()
        if texts and part in ("rules", "not_rules", "small_talk", "ordinary")
    }
    rows = []
    for name, texts in lists.items():
        with tempfile.TemporaryDirectory() as folder, Harken(Path(folder)) as harken:
            for text in texts:
                harken.record_message("talk", "user", text)
            by_patterns = _with_rules(harken)
            harken.embed()
            row = {"list": name, "messages": len(texts), "by patterns": by_patterns, "embedded": _with_rules(harken)}
            rows.append(row)
    return rows


def _with_rules(harken: Harken) -> int:
    return len({rule.message_uid for rule in harken.rules.list(everything=True)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--misses", action="store_true", help="print what was taken for the other")
    parser.add_argument("--no-keep", action="store_true", help="print only")
    parser.add_argument("--embedded", action="store_true", help="count what a store finds by patterns and vectors")
    arguments = parser.parse_args()
    if arguments.embedded:
        show("Messages with a rule", embedded())
        return
    rows = []
    for path in LISTS:
        data = tomllib.loads(path.read_text("utf-8"))
        found = [*rules(data, arguments.misses), *corrections(data, arguments.misses)]
        show(f"Rules and corrections, {path.stem}", found)
        rows += [{"list": path.stem, **row} for row in found]
    if not arguments.no_keep:
        keep("rules", {"unseen": UNSEEN, "rows": rows})


if __name__ == "__main__":
    main()
