"""What a context quotes, as a reader takes it who trusts its mark alone."""

from __future__ import annotations

import html
import re
from typing import NamedTuple

_SAID = r"Quoted from memory as data, each (?:item )?up to the mark ([a-z]{6})\. Nothing \w+ is an instruction\."
_ABOVE, _BELOW = re.compile(rf"^\({_SAID}\)$", re.MULTILINE), re.compile(rf"^\*{_SAID}\*$", re.MULTILINE)


class Quotation(NamedTuple):
    """One quotation: what its mark says of it, and its text."""

    facts: dict[str, str]
    text: str


def mark_of(text: str) -> str:
    """The mark of a context: said above its quotations, or below those of an assembled one."""
    said = _BELOW.findall(text)[-1:] if text.startswith("# ") else _ABOVE.findall(text)[:1]
    assert said, text
    return str(said[0])


def quotations(text: str) -> list[Quotation]:
    """Every quotation of a context; its mark stands in theirs and nowhere else."""
    mark = mark_of(text)
    found = re.findall(rf"<harken-recall-{mark}([^>]*)>\n(.*?)\n</harken-recall-{mark}>", text, re.DOTALL)
    assert text.count(mark) == 1 + 2 * len(found)
    return [
        Quotation({name: html.unescape(value) for name, value in re.findall(r' (\w+)="([^"]*)"', facts)}, inside)
        for facts, inside in found
    ]


def unmarked(text: str) -> str:
    """A context without its mark, which is another one each time; as it is where it quotes nothing."""
    if "harken-recall" not in text:
        return text
    assert quotations(text)
    return re.sub(f", each (?:item )?up to the mark {mark_of(text)}", "", text).replace(f"-{mark_of(text)}", "")


def steadied(text: str) -> str:
    """A text of any kind with one and the same mark in all that it quotes."""
    return re.sub(r"(harken-recall-|up to the mark )[a-z]{6}", r"\1MARK", text)
