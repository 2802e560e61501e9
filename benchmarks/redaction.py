"""How fast redaction is, what it leaves alone, and what a maintained rule set knows that it does not.

    python benchmarks/redaction.py [--catalogue] [--out FILE]

The catalogue needs `pip install kingfisher-secret-scanner` (Apache-2.0, 488 rules; 45 MB, so no dependency): values are
made from each rule's pattern, and the rules whose values pass are listed. Most of those are words and numbers that only
a vendor's name beside them makes a secret.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import re
import re._constants as constants
import re._parser as parser
import string
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harken.redact.redactor import Redactor

MESSAGE = (
    "I was thinking about the trip we planned in June; the hotel near the lake looked nice, but maybe we should check "
    "the train times before we book it, ok?"
)
CODE = (
    "result = some_function(argument_one) in /usr/lib/python3.11/foo/bar.py; the key author passed tokens to the "
    "secretary"
)
HOSTILE = (
    "a",
    "eyJ",
    "password=",
    "password ",
    '"',
    "://a:",
    "sk-",
    "[redacted:x]",
    "<private",
    "api_key=abc123def456 ",
)
SAMPLES = 20


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--catalogue", action="store_true", help="compare with a maintained rule set")
    arguments.add_argument("--out", type=Path, help="write the figures as JSON")
    chosen = arguments.parse_args()
    redactor = Redactor()
    report: dict[str, Any] = {"speed": speed(redactor), "hostile_ms_per_MB": hostile(redactor)}
    report["untouched"] = untouched(redactor)
    if chosen.catalogue:
        report["catalogue"] = catalogue(redactor)
    for title, figures in report.items():
        print(f"\n{title}")
        for name, value in figures.items():
            print(f"  {name:<40} {value}")
    if chosen.out:
        chosen.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def best_seconds(run: Callable[[], object], repeat: int = 7, number: int = 1) -> float:
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        for _ in range(number):
            run()
        times.append((time.process_time() - begin) / number)
    return min(times)


def python_sources() -> list[str]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    return [file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.glob("*.py"))]


def speed(redactor: Redactor) -> dict[str, float]:
    """Microseconds for messages, milliseconds for 100,000 characters; the best of several runs."""
    secret = f"the db password is pa55w0rd!, {MESSAGE}"
    texts = {"us: prose, 150 characters": MESSAGE, "us: code, 120 characters": CODE, "us: prose with a secret": secret}
    figures = {
        name: round(best_seconds(lambda text=text: redactor.redact(text), number=2000) * 1e6, 1)
        for name, text in texts.items()
    }
    large = {"prose": MESSAGE * 700, "python": "\n".join(python_sources())}
    for name, text in large.items():
        figures[f"ms: 100 kB of {name}"] = round(
            best_seconds(lambda text=text: redactor.redact(text[:100_000])) * 1e3, 1
        )
    return figures


def hostile(redactor: Redactor) -> dict[str, float]:
    """Milliseconds for a million characters of one repeated piece."""
    return {
        repr(unit): round(best_seconds(lambda unit=unit: redactor.redact(unit * (1_000_000 // len(unit))), 1) * 1e3)
        for unit in HOSTILE
    }


def untouched(redactor: Redactor) -> dict[str, object]:
    """Lines of Python's library that redaction changes: nearly all of them by mistake, for it holds no secrets."""
    lines = [line for source in python_sources() for line in source.splitlines()]
    changed = [line.strip() for line in lines if redactor.redact(line).counts]
    return {"lines": len(lines), "changed": len(changed), "examples": changed[:5]}


def catalogue(redactor: Redactor) -> dict[str, object]:
    try:
        kingfisher = importlib.import_module("kingfisher_sdk")
    except ModuleNotFoundError:
        return {"left out": "kingfisher is not installed. Try: pip install kingfisher-secret-scanner"}
    rules = kingfisher.Rules(confidence="low", cache=False)
    passed: list[str] = []
    rows = [rules.detail(row["id"]) for row in rules.metadata() if row["visible"]]
    for rule in rows:
        made = list(samples(rule["detection_regex"]))
        hits = sum(secret not in redactor.redact(f"it is {text} here").text for text, secret in made)
        if hits < 0.9 * len(made):
            passed.append(rule["id"])
    return {"rules": len(rows), "found": len(rows) - len(passed), "passed": passed}


def samples(pattern: str) -> Iterable[tuple[str, str]]:
    """(text, secret) pairs that a rule of the catalogue would find, always the same ones."""
    source = random.Random(pattern)
    plain = re.sub(r"\(\?[isx]+\)", "", re.sub(r"\(\?-?[is]:", "(?:", pattern)).replace(r"\z", r"\Z")
    plain = plain.replace("[[:alnum:]]", "[A-Za-z0-9]").replace("[:alnum:]", "A-Za-z0-9")
    tree = parser.parse(plain, re.VERBOSE if "(?x)" in pattern else 0)
    for _ in range(SAMPLES):
        groups: dict[int, str] = {}
        text = _made(tree, source, groups)
        parts = [part for part in groups.values() if len(part) >= 8]
        yield text, min(parts, key=len, default=text).strip("\"'; ")


def _made(tree: Iterable[tuple[Any, Any]], source: random.Random, groups: dict[int, str]) -> str:
    makers: Mapping[Any, Callable[[Any], str]] = {
        constants.LITERAL: chr,
        constants.NOT_LITERAL: lambda _: "k",
        constants.ANY: lambda _: " ",
        constants.IN: lambda items: source.choice(_characters(items)),
        constants.BRANCH: lambda value: _made(source.choice(value[1]), source, groups),
    }
    text = ""
    for kind, value in tree:
        if kind in makers:
            text += makers[kind](value)
        elif kind is constants.SUBPATTERN:
            part = _made(value[3], source, groups)
            groups.update({value[0]: part} if value[0] else {})
            text += part
        elif kind in {constants.MAX_REPEAT, constants.MIN_REPEAT}:
            least, most, inner = value
            times = source.randint(least, min(most, least + (8 if least > 3 else 1 if least == 0 else 5)))
            text += "".join(_made(inner, source, groups) for _ in range(times))
    return text


def _characters(items: Iterable[tuple[Any, Any]]) -> list[str]:
    pattern = {constants.CATEGORY_DIGIT: r"\d", constants.CATEGORY_WORD: r"\w", constants.CATEGORY_SPACE: r"\s"}
    pattern |= {constants.CATEGORY_NOT_SPACE: r"\S", constants.CATEGORY_NOT_WORD: r"\W"}
    chosen: set[str] = set()
    negated = False
    for kind, value in items:
        if kind is constants.NEGATE:
            negated = True
        elif kind is constants.LITERAL:
            chosen.add(chr(value))
        elif kind is constants.RANGE:
            chosen |= {chr(code) for code in range(value[0], min(value[1], 126) + 1)}
        else:
            chosen |= {char for char in map(chr, range(32, 127)) if re.match(pattern.get(value, "."), char)}
    chosen = set(string.ascii_letters + string.digits) - chosen if negated else chosen
    letters = [char for char in chosen if char.isalnum()]
    return sorted(letters if len(letters) > 8 else chosen) or ["x"]


if __name__ == "__main__":
    main()
