"""Renew `src/harken/redact/data/published_prefixes.toml`: how the tokens of vendors begin, as gitleaks publishes it.

    python tools/vendor_prefixes.py RULES

RULES is the `config/gitleaks.toml` of a release of gitleaks (MIT), or its program, which carries that file inside. What
is taken are facts, not patterns: a token's first characters, the characters after them, and the fewest of these. A rule
that needs a vendor's name beside the token has no such beginning and is left out.

Source: docs/adr/0002-redaction-rules.md.
"""

from __future__ import annotations

import argparse
import re
import re._constants as constants
import re._parser as parser
import string
import tomllib
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src/harken/redact/data/published_prefixes.toml"
HEAD = """\
# Made by tools/vendor_prefixes.py from the rules of gitleaks (MIT, Copyright (c) 2019 Zachary Rice): do not edit.
# The characters after the prefix, the fewest of them, and the prefixes.
tokens = [
"""
_START, _END = b"# This file has been auto-generated", b"\x00"
_RANGES = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
_BODY = frozenset(string.ascii_letters + string.digits + "_.+/=~-")
_MOST_FORMS = 200
# A place with as few characters makes as many prefixes.
_FEW = 4
# A shorter prefix begins ordinary words; a word or a path may begin with a longer one as well.
_MIN_PREFIX, _MIN_BODY, _MIN_BODY_OF_WORD, _MIN_PREFIX_OF_PATH = 3, 12, 32, 5

Atom = tuple[frozenset[str], int]


def main() -> None:
    """Read the rules, write the file, say how many prefixes it has."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rules", type=Path)
    arguments.add_argument("--out", type=Path, default=TARGET)
    chosen = arguments.parse_args()
    rows: dict[tuple[str, int], set[str]] = {}
    for prefix, body, least in published(rules_of(chosen.rules.read_bytes())):
        rows.setdefault((body, least), set()).add(prefix)
    lines = [f"  ['{body}', {least}, '{' '.join(sorted(rows[body, least]))}'],\n" for body, least in sorted(rows)]
    chosen.out.write_text(f"{HEAD}{''.join(lines)}]\n", encoding="utf-8")
    print(f"{sum(map(len, rows.values()))} prefixes in {chosen.out.name}")


def rules_of(content: bytes) -> list[str]:
    """The regular expressions of a rule set, which stands alone or inside of a program."""
    start = content.find(_START)
    if start < 0:
        raise SystemExit("This holds no rules of gitleaks. Try: config/gitleaks.toml of its release, or its program")
    end = content.find(_END, start)
    rules = tomllib.loads(content[start : end if end >= 0 else None].decode())["rules"]
    return [rule["regex"] for rule in rules if "regex" in rule]


def published(patterns: Iterable[str]) -> Iterator[tuple[str, str, int]]:
    """Each prefix, the class of the characters after it, and the fewest of these."""
    for pattern in patterns:
        plain = re.sub(r"\(\?i\)", "", pattern).replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")
        any_case = "(?i" in pattern
        for form in forms(parser.parse(plain)):
            count = next((at for at, (chars, _) in enumerate(form) if len(chars) > _FEW), len(form))
            chars, least = frozenset().union(*(one for one, _ in form[count:])), sum(least for _, least in form[count:])
            if any_case:
                chars = chars.union(map(str.upper, chars), map(str.lower, chars))
            for parts in product(*(sorted(one) for one, least in form[:count] for _ in range(least))):
                if is_telling("".join(parts), chars, least):
                    yield "".join(parts), written(chars), least


def is_telling(prefix: str, chars: frozenset[str], least: int) -> bool:
    """True where nothing but a token begins and goes on like this."""
    floor = _MIN_BODY_OF_WORD if prefix.isalpha() and not prefix.isupper() else _MIN_BODY
    length = _MIN_PREFIX_OF_PATH if chars >= {".", "/"} else _MIN_PREFIX
    return len(prefix) >= length and least >= floor and chars | {*prefix} <= _BODY


def forms(tree: Iterable[tuple[Any, Any]]) -> list[list[Atom]]:
    """The sequences of characters that a pattern stands for; an end, a border or what looks around is none."""
    found: list[list[Atom]] = [[]]
    for kind, value in tree:
        found = [left + right for left in found for right in forms_of(kind, value)][:_MOST_FORMS]
    return found


def forms_of(kind: Any, value: Any) -> list[list[Atom]]:
    """The same of one part of a pattern."""
    if kind is constants.LITERAL:
        return [[(frozenset(chr(value)), 1)]]
    if kind is constants.IN:
        return [[(characters(value), 1)]]
    if kind is constants.SUBPATTERN:
        return forms(value[3])
    if kind is constants.BRANCH:
        ends = any(item[0] is constants.AT for branch in value[1] for item in branch)
        return [[]] if ends else [form for branch in value[1] for form in forms(branch)]
    if kind in {constants.MAX_REPEAT, constants.MIN_REPEAT}:
        least, _, inner = value
        return [
            [(frozenset().union(*(one for one, _ in form)), least * sum(n for _, n in form))] for form in forms(inner)
        ]
    return [[]] if kind in {constants.AT, constants.ASSERT, constants.ASSERT_NOT} else [[(frozenset(" "), 1)]]


def characters(items: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """The characters of a class; a negated one holds a blank, which no token does."""
    found: set[str] = set()
    for kind, value in items:
        if kind is constants.LITERAL:
            found.add(chr(value))
        elif kind is constants.RANGE:
            found |= set(map(chr, range(value[0], value[1] + 1)))
        elif kind is constants.CATEGORY and value is constants.CATEGORY_WORD:
            found |= {*string.ascii_letters, *string.digits, "_"}
        elif kind is constants.CATEGORY and value is constants.CATEGORY_DIGIT:
            found |= set(string.digits)
        else:
            found.add(" ")
    return frozenset(found)


def written(chars: frozenset[str]) -> str:
    """The inside of a class; a range of which a part is missing is taken whole."""
    ranges = [f"{each[0]}-{each[-1]}" for each in _RANGES if not chars.isdisjoint(each)]
    if chars & {*string.ascii_letters} <= {*"abcdefABCDEF"}:
        ranges = [one[:-1] + ("f" if one == "a-z" else "F" if one == "A-Z" else "9") for one in ranges]
    return "".join(ranges) + "".join(sorted(chars - {*string.ascii_letters, *string.digits}, key="_.+/=~-".index))


if __name__ == "__main__":
    main()
