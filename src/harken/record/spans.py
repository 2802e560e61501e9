"""Stretches of a text that have to go, and putting something in their place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SURE = 0
"""The rank of a secret that its own shape gives away."""
NAMED = 1
"""The rank of a secret that only its name gives away."""

_MARKER = re.compile(r"\[redacted:[\w-]+\]")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The characters `start` to `end` (exclusive) of a text; of two kinds that overlap, the lower rank names both."""

    start: int
    end: int
    rank: int
    kind: str


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans that do not overlap, in order; what overlapped is one span of the surest kind."""
    result: list[Span] = []
    for span in sorted(spans):
        last = result[-1] if result else None
        if last is None or span.start >= last.end:
            result.append(span)
            continue
        surest = min(last, span, key=lambda one: one.rank)
        result[-1] = Span(last.start, max(last.end, span.end), surest.rank, surest.kind)
    return result


def replaced(text: str, spans: Iterable[Span]) -> tuple[str, Counter[str]]:
    """The text with `[redacted:kind]` for each span, and how many of each kind; markers that stand there stay."""
    pieces: list[str] = []
    counts: Counter[str] = Counter()
    at = 0
    for span in _outside_markers(text, merged(spans)):
        pieces += (text[at : span.start], f"[redacted:{span.kind}]")
        counts[span.kind] += 1
        at = span.end
    pieces.append(text[at:])
    return "".join(pieces), counts


def _outside_markers(text: str, spans: list[Span]) -> Iterator[Span]:
    if "[redacted:" not in text:
        yield from spans
        return
    markers = [found.span() for found in _MARKER.finditer(text)]
    first = 0
    for span in spans:
        start = span.start
        while first < len(markers) and markers[first][1] <= start:
            first += 1
        while first < len(markers) and markers[first][0] < span.end:
            left, right = markers[first]
            if left > start:
                yield Span(start, left, span.rank, span.kind)
            start = right
            if right > span.end:
                break
            first += 1
        if start < span.end:
            yield Span(start, span.end, span.rank, span.kind)
