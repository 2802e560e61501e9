"""Markdown as a library for Markdown reads it."""

from __future__ import annotations

from dataclasses import dataclass, field

from markdown_it import MarkdownIt


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
        if token.type == "heading_open":
            level = int(token.tag[1])
        elif token.type == "heading_close":
            level = 0
        elif token.type == "fence":
            page.code.append((token.info.strip(), token.content))
        elif token.type == "hr":
            page.rules += 1
        elif token.type == "html_block":
            page.html.append(token.content)
        elif token.type == "inline":
            text = "".join(child.content or "\n" * child.type.endswith("break") for child in token.children or [])
            page.headings += [(level, text)] if level else []
            page.words.append(text)
            open_marks: list[str] = []
            for child in token.children or []:
                if child.type in ("strong_open", "em_open"):
                    open_marks.append(child.type)
                    {"strong_open": page.strong, "em_open": page.emphasized}[child.type].append("")
                elif child.type in ("strong_close", "em_close"):
                    open_marks.remove(child.type.replace("close", "open"))
                elif child.content:
                    for mark in open_marks:
                        {"strong_open": page.strong, "em_open": page.emphasized}[mark][-1] += child.content
    return page
