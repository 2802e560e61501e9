"""Quotations in a context: fenced, dated, marked as data; and Markdown that no item can break out of."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from harken.model.conversations import ContextItem, CoreFact, Entry, Trust
from harken.search.past import PastConversation, PastExchange
from harken.text import tokens
from harken.text.fence import AS_DATA
from harken.text.shown import one_line

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$")
# What would begin a heading, a rule, a block of code, or HTML, which goes on to wherever it ends; in lists as well.
_STRUCTURE = re.compile(
    r"^((?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(#{1,6}(?:\s|$)|=+\s*$|-+\s*$|`{3}|~{3}|(?:_\s*){3,}$|<[A-Za-z!?/])"
)
_LOCATED = ("code", "document")
_NAMED = ("experience", "conversation")
_SHOWN_CHARS = 200


def document(title: str, sections: Mapping[str, Sequence[ContextItem]], notes: Sequence[str], last_line: str) -> str:
    """The whole context: items by heading, headings without items left out, notes before the last line."""
    parts = [f"# {title}"]
    parts += [f"## {name}\n" + "\n\n".join(item.content for item in items) for name, items in sections.items() if items]
    ending = [f"*{line}*" for line in (*notes, last_line)]
    return "\n\n".join([*parts, "---\n" + "\n\n".join(ending)])


def contained(item: ContextItem) -> ContextItem:
    """The item without what would reach beyond it: headings, rules and HTML of its text, and a fence left open."""
    lines = item.content.split("\n")
    inside = _fenced(lines)
    shown = [line if at in inside else _STRUCTURE.sub(r"\1\\\2", line) for at, line in enumerate(lines)]
    return replace(item, content="\n".join(shown).strip("\n"))


def shortened(item: ContextItem, most_tokens: int) -> ContextItem:
    """The item, or its beginning and a note of where all of it is, together no longer than so many tokens.

    Source: SPEC-002-18, "Per-Item Cap and Truncation".
    """
    if tokens.fits(item.content, most_tokens):
        return item
    note = f"\n\n*({_note(item)})*"
    room = most_tokens - tokens.estimate(f"...{note}")
    while True:
        body = tokens.clip(item.content, max(1, room), marker="").rstrip()
        cut = _closed(f"{body}...") + note
        if tokens.fits(cut, most_tokens) or room <= 1:
            return replace(item, content=cut)
        room -= 1 + room // 50


def _note(item: ContextItem) -> str:
    facts = item.metadata
    if item.source in _LOCATED and "file_path" in facts:
        return f"truncated, see full at {facts['file_path']}:{facts['start_line']}"
    if item.source in _NAMED and "id" in facts:
        return f"truncated, full {item.source} ID: {facts['id']}"
    return "truncated"


def _closed(text: str) -> str:
    """The text with what its end has cut open closed again."""
    opened = _open_fence(text.split("\n"))
    if opened:
        return f"{text}\n{opened}"
    last = text.rpartition("\n")[2].removeprefix("- ")
    closing = "`" if last.count("`") % 2 else ""
    bold = last.count("**") % 2
    italic = (last.replace("**", "").count("*")) % 2
    return text + closing + "*" * italic + "**" * bold


def _fenced(lines: Sequence[str]) -> set[int]:
    """The places of lines in blocks of code that are closed, with their marks; an indented one may be a list's."""
    inside: set[int] = set()
    begin, mark = 0, ""
    for at, line in enumerate(lines):
        found = _FENCE.match(line)
        if found is None:
            continue
        if mark and _closes(found, mark):
            inside.update(range(begin, at + 1))
            mark = ""
        elif not mark and not line.startswith(" ") and "`" not in found[2]:
            begin, mark = at, found[1]
    return inside


def _open_fence(lines: Sequence[str]) -> str:
    """The mark of a fence that nothing closes; empty where none is open."""
    mark = ""
    for line in lines:
        found = _FENCE.match(line)
        if found is not None and not mark:
            mark = found[1]
        elif found is not None and _closes(found, mark):
            mark = ""
    return mark


def _closes(found: re.Match[str], mark: str) -> bool:
    return found[1][0] == mark[0] and len(found[1]) >= len(mark) and not found[2].strip()


_LESS = "[<\u2039\u2329\u27e8\u3008\ufe64\uff1c]|&lt;|&#0*60;|&#x0*3c;"
_UNSEEN = "[\\s\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff]*"
_DASH = "[-\u2010-\u2015\u2212\ufe58\ufe63\uff0d_]"
# Letters of other alphabets that look the same to a reader, and to a model.
_ALIKE = {
    "a": "\u0430\u03b1",
    "e": "\u0435",
    "k": "\u043a\u03ba",
    "h": "\u04bb",
    "c": "\u0441",
    "s": "\u0455",
    "y": "\u0443",
}


def _letter(letter: str) -> str:
    if letter == "-":
        return _DASH
    wide = chr(ord(letter) + 0xFEE0)
    return f"[{letter}{wide}{chr(ord(wide) - 32)}{_ALIKE.get(letter, '')}]"


# Our own mark, and those between which agents hand over what a hook told them; each as anybody might write it.
_MARKS = ("harken-recall", "system-reminder", "hook-context", "hook-prompt", "additional-context")
_WRITTEN_MARKS = "|".join(_UNSEEN.join(map(_letter, mark)) for mark in _MARKS)
_MARK = re.compile(
    f"(?:{_LESS})(?={_UNSEEN}(?:[/\uff0f\u2044\u2215]{_UNSEEN})?(?:{_WRITTEN_MARKS}))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quote:
    """Something remembered, with where it comes from.

    Attributes:
        source: `message`, `summary`…
        speaker: who said it: a name, else a role.
        trust: a `Trust`; what is not to be trusted says so.
        whole: ids of what else it tells whole, which need not be told again.
    """

    text: str
    source: str
    uid: str
    speaker: str
    at: datetime
    trust: str
    whole: tuple[str, ...] = ()


def fenced(quote: Quote) -> str:
    """The quotation between marks that nothing in it can close."""
    facts = {
        "source": quote.source,
        "from": quote.speaker,
        "date": minute(quote.at),
        "trust": Trust(quote.trust).label,
        "id": quote.uid,
    }
    attributes = " ".join(f'{name}="{html.escape(one_line(value))}"' for name, value in facts.items() if value)
    text = harmless(quote.text.strip())
    return f"<harken-recall {attributes}>\n{text}\n</harken-recall>"


def minute(at: datetime) -> str:
    """A moment to the minute, of UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def harmless(text: str) -> str:
    """The text with the first sign of every mark in it turned, that would end the quotation or begin another."""
    return _MARK.sub("‹", text)


def quoted(entry: Entry, text: str) -> str:
    """An entry's text as it is recalled."""
    speaker = entry.author or entry.role or ""
    return fenced(Quote(text, entry.source, entry.ref_uid, speaker, entry.created_at, entry.trust.value))


def block(heading: str, quotations: Sequence[str]) -> str:
    """Quotations under a heading, and a word about what they are."""
    return "\n".join([heading, AS_DATA, *quotations])


def core_block(facts: Sequence[CoreFact]) -> str:
    """Core memory by section, a line for each."""
    lines = ["Core memory, always known:"]
    for section in dict.fromkeys(fact.section for fact in facts):
        lines.append(f"{section}:")
        lines.extend(core_line(fact) for fact in facts if fact.section == section)
    return "\n".join(lines)


def core_line(fact: CoreFact) -> str:
    """One fact as one line."""
    return harmless(f"- {fact.key}: {one_line(fact.value or '')}")


def past_quotes(conversations: Sequence[PastConversation]) -> list[Quote]:
    """A quotation for each conversation, followed by one for each of its exchanges; best first."""
    return [
        quote for each in conversations for quote in (_conversation_quote(each), *map(_exchange_quote, each.exchanges))
    ]


def _conversation_quote(found: PastConversation) -> Quote:
    similarity = "" if found.similarity is None else f"similarity {found.similarity:.2f}, "
    count = "1 exchange" if found.exchange_count == 1 else f"{found.exchange_count} exchanges"
    lines = [f'Conversation "{one_line(found.title) or "untitled"}" ({similarity}{count})']
    if found.summary:
        lines.append(f"Summary: {one_line(found.summary)}")
    return Quote("\n".join(lines), "conversation", found.uid, "", found.at, found.trust.value)


def _exchange_quote(found: PastExchange) -> Quote:
    lines = ["Exchange" if found.similarity is None else f"Exchange (similarity {found.similarity:.2f})"]
    lines.extend(f"{name}: {text}" for name, text in speakers(found))
    return Quote("\n".join(lines), "exchange", found.uid, "", found.at, found.trust.value)


def speakers(exchange: PastExchange) -> list[tuple[str, str]]:
    """The speakers of an exchange and their words, cut short."""
    said = ("User", exchange.user), ("Assistant", exchange.assistant)
    return [(name, one_line(text, _SHOWN_CHARS)) for name, text in said if text]
