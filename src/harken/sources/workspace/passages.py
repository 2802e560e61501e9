"""From a document to passages: whole paragraphs under their headings, code fences never torn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harken.model.workspace import Passage
from harken.text import tokens

MIN_TOKENS, MAX_TOKENS = 256, 512
# A section this small goes on in the next one of its rank, instead of standing alone.
_SMALL_TOKENS = 64
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """Lines that stand together.

    Attributes:
        text: without the blank lines around it.
        first: its first line, counted from 1, or its page.
        level: of a heading, from 1; 0 for anything else.
        is_whole: never to be torn, however long.
    """

    text: str
    first: int
    last: int
    level: int = 0
    title: str = ""
    is_whole: bool = False


def split_markdown(text: str) -> list[Passage]:
    """The passages of a Markdown document, 256 to 512 tokens where its sections are long enough for that."""
    return _passages(_markdown_blocks(text.splitlines()))


def split_text(text: str) -> list[Passage]:
    """The passages of a plain text."""
    return _passages(_paragraphs(text.splitlines()))


def split_pages(pages: Iterable[str]) -> list[Passage]:
    """The passages of a document of pages; their lines are page numbers, from 1."""
    blocks = (
        MarkdownBlock(block.text, number, number)
        for number, page in enumerate(pages, start=1)
        for block in _paragraphs(page.splitlines())
    )
    return _passages(blocks)


def _markdown_blocks(lines: list[str]) -> Iterator[MarkdownBlock]:
    at = 0
    while at < len(lines):
        end = _fence_end(lines, at)
        if end is not None:
            yield MarkdownBlock("\n".join(lines[at:end]), at + 1, end, is_whole=True)
            at = end
            continue
        if heading := _HEADING.match(lines[at]):
            yield MarkdownBlock(lines[at].strip(), at + 1, at + 1, len(heading[1]), heading[2])
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].strip():
            if end > at and (_FENCE.match(lines[end]) or _HEADING.match(lines[end])):
                break
            end += 1
        yield from _paragraph(lines, at, end)
        at = max(end, at + 1)


def _paragraph(lines: list[str], at: int, end: int) -> Iterator[MarkdownBlock]:
    """A paragraph, or a heading where the last of its lines underlines the one before."""
    underline = _UNDERLINE.match(lines[end - 1]) if end - at == 2 else None
    if underline and lines[at].strip():
        title = lines[at].strip()
        yield MarkdownBlock(title, at + 1, end, 1 if underline[1][0] == "=" else 2, title)
    elif end > at:
        yield MarkdownBlock("\n".join(lines[at:end]).strip("\n"), at + 1, end)


def _fence_end(lines: list[str], at: int) -> int | None:
    """Behind the last line of the fence that opens here; None where none does. One that is never closed goes on."""
    opened = _FENCE.match(lines[at])
    if opened is None:
        return None
    closing = re.compile(rf" {{0,3}}{re.escape(opened[1][0])}{{{len(opened[1])},}}\s*$")
    return next((index + 1 for index in range(at + 1, len(lines)) if closing.match(lines[index])), len(lines))


def _paragraphs(lines: list[str]) -> Iterator[MarkdownBlock]:
    begin: int | None = None
    for index, line in enumerate([*lines, ""]):
        if line.strip():
            begin = index if begin is None else begin
        elif begin is not None:
            yield MarkdownBlock("\n".join(lines[begin:index]), begin + 1, index)
            begin = None


@dataclass(slots=True)
class _Gathering:
    """Passages in the making."""

    done: list[Passage] = field(default_factory=list)
    blocks: list[MarkdownBlock] = field(default_factory=list)
    size: int = 0
    path: tuple[tuple[int, str], ...] = ()
    under: tuple[tuple[int, str], ...] = ()

    def add(self, block: MarkdownBlock) -> None:
        size = tokens.estimate(block.text)
        if block.level:
            rank = self.under[-1][0] if self.under else 7
            if self.size >= MIN_TOKENS or (block.level <= rank and self.size >= _SMALL_TOKENS):
                self.flush()
            self.path = (*(part for part in self.path if part[0] < block.level), (block.level, block.title))
        elif self.size + size > MAX_TOKENS:
            self._flush_but_headings()
        if not self.blocks:
            self.under = self.path
        self.blocks.append(block)
        self.size += size

    def flush(self) -> None:
        if self.blocks:
            text = "\n\n".join(block.text for block in self.blocks)
            headings = tuple(title for _, title in self.under)
            first, last = self.blocks[0].first, self.blocks[-1].last
            self.done.append(Passage(len(self.done), headings, text, first, last))
        self.blocks, self.size = [], 0

    def _flush_but_headings(self) -> None:
        """Flush; headings at the end go with what follows them."""
        kept: list[MarkdownBlock] = []
        while self.blocks and self.blocks[-1].level:
            kept.insert(0, self.blocks.pop())
        self.flush()
        self.blocks, self.size = kept, sum(tokens.estimate(block.text) for block in kept)
        self.under = self.path


def _passages(blocks: Iterable[MarkdownBlock]) -> list[Passage]:
    gathering = _Gathering()
    for block in blocks:
        for piece in _fitting(block):
            gathering.add(piece)
    gathering.flush()
    return gathering.done


def _fitting(block: MarkdownBlock) -> Iterator[MarkdownBlock]:
    """The block, or, where it is too long for one passage and may be torn, its lines and sentences in pieces."""
    if block.is_whole or block.level or tokens.fits(block.text, MAX_TOKENS):
        yield block
        return
    lines = block.text.splitlines()
    step = (block.last - block.first + 1) == len(lines)
    piece: list[str] = []
    begin = 0
    for index, line in enumerate(lines):
        if piece and not tokens.fits("\n".join([*piece, line]), MAX_TOKENS):
            yield MarkdownBlock("\n".join(piece), block.first + begin * step, block.first + (index - 1) * step)
            piece, begin = [], index
        *whole, rest = _pieces(line)
        for part in whole:
            yield MarkdownBlock(part, block.first + index * step, block.first + index * step)
        piece.append(rest)
    yield MarkdownBlock("\n".join(piece), block.first + begin * step, block.last)


def _pieces(line: str) -> list[str]:
    """A line in pieces of at most so many tokens, between sentences where that is possible."""
    if tokens.fits(line, MAX_TOKENS):
        return [line]
    pieces: list[str] = [""]
    for sentence in _SENTENCE_END.split(line):
        rest = sentence
        joined = f"{pieces[-1]} {rest}".strip()
        if tokens.fits(joined, MAX_TOKENS):
            pieces[-1] = joined
            continue
        while not tokens.fits(rest, MAX_TOKENS):
            head = tokens.clip(rest, MAX_TOKENS, marker="")
            pieces.append(head)
            rest = rest[len(head) :]
        pieces.append(rest)
    return [piece for piece in pieces if piece]
