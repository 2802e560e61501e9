"""Words: where they are in a text, which of them say nothing, and what stands for them in scripts without spaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

WORD = re.compile(r"\w+(?:['’]\w+)*")
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")


@cache
def word_lists(name: str) -> Mapping[str, frozenset[str]]:
    """The words of a file in `text/data`, by section; read once.

    Args:
        name: of the file, without `.txt`. A line is a comment (`#`), the name of a section in brackets, or words.
    """
    lists: dict[str, frozenset[str]] = {}
    section = ""
    for line in resources.files(__package__).joinpath(f"data/{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#"):
            lists[section] = lists.get(section, frozenset()).union(line.split())
    return lists


def words_of(name: str) -> frozenset[str]:
    """The words of all sections of a file in `text/data`."""
    return frozenset().union(*word_lists(name).values())


STOP_WORDS = words_of("stop_words")


def content_terms(text: str) -> list[str]:
    """The words of a text that say something, lower case, in order and as often as they stand there."""
    words = (word.lower() for word in WORD.findall(text))
    return [term for word in words if word not in STOP_WORDS for term in split_unspaced(word)]


def split_unspaced(word: str) -> list[str]:
    """Pairs of characters for scripts without spaces, the word itself for the others."""
    runs = UNSPACED_RUN.findall(word)
    if not runs:
        return [word]
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    rest = [part for part in UNSPACED_RUN.split(word) if part]
    return [*pairs, *rest]
