"""Markdown as a library for Markdown reads it."""

from __future__ import annotations

from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token


@dataclass
class Page:
    """What a reader sees.

    Attributes:
        headings: (level, words), in order.
        strong: words in bold.
        emphasized: words in italics.
        code: (language, text) of each block of code.
        words: all text outside of blocks of code, a line for each paragraph.
        html: raw HTML.
    """

    headings: list[tuple[int, str]] = field(default_factory=list)
    strong: list[str] = field(default_factory=list)
    emphasized: list[str] = field(default_factory=list)
    code: list[tuple[str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    rules: int = 0


def rendered(markdown: str) -> Page:
    """The page that a text makes."""
    page, level = Page(), 0
    for token in MarkdownIt("commonmark").parse(markdown):
        level = {"heading_open": int("0" + token.tag[1:2]) if token.type == "heading_open" else 0, "inline": level}.get(
            token.type, 0
        )
        if token.type == "fence":
            page.code.append((token.info.strip(), token.content))
        elif token.type == "html_block":
            page.html.append(token.content)
        elif token.type == "inline":
            _read_line(page, token.children or [], level)
        page.rules += token.type == "hr"
    return page


def _read_line(page: Page, parts: list[Token], level: int) -> None:
    text = "".join(part.content or "\n" * part.type.endswith("break") for part in parts)
    page.headings += [(level, text)] if level else []
    page.words.append(text)
    found = {"strong": page.strong, "em": page.emphasized}
    open_marks: list[str] = []
    for part in parts:
        mark, _, end = part.type.partition("_")
        if mark in found and end == "open":
            open_marks.append(mark)
            found[mark].append("")
        elif mark in found:
            open_marks.remove(mark)
        for each in open_marks:
            found[each][-1] += part.content
