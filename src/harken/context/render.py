"""Quotations in a context: fenced, dated, marked as data; and Markdown that no item can break out of."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from unicodedata import normalize

from harken.model.conversations import ContextItem, CoreFact, Entry, Trust
from harken.model.lookups import PastConversation, PastExchange
from harken.model.provenance import Provenance
from harken.search.newest import MARK
from harken.search.past import PastRecall
from harken.search.query import distinctive_terms, excerpt, parse_query
from harken.text import tokens
from harken.text.characters import legible
from harken.text.fence import RECALL_FENCE, as_data, new_mark
from harken.text.shown import one_line
from harken.text.words import split_sentences

_APART = re.compile(r"\W+")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$")
# What would begin a heading, a rule, a block of code, or HTML, which goes on to wherever it ends; in lists as well.
_STRUCTURE = re.compile(
    r"^((?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(#{1,6}(?:\s|$)|=+\s*$|-+\s*$|`{3}|~{3}|(?:_\s*){3,}$|<[A-Za-z!?/])"
)
_LOCATED = ("code", "document")
_NAMED = ("experience", "conversation")
_SHOWN_CHARS = 200
# The source of a quotation that says that the same was asked before.
ASKED = "asked_before"


def document(title: str, sections: Mapping[str, Sequence[ContextItem]], notes: Sequence[str], last_line: str) -> str:
    """The whole context: items by heading, headings without items left out, notes before the last line."""
    parts = [f"# {title}"]
    parts += [f"## {name}\n" + "\n\n".join(item.content for item in items) for name, items in sections.items() if items]
    ending = [f"*{line}*" for line in (*notes, last_line)]
    return "\n\n".join([*parts, "---\n" + "\n\n".join(ending)])


def contained(item: ContextItem) -> ContextItem:
    """The item without what would reach beyond it: headings, rules and HTML of its text, and a fence left open."""
    lines = harmless(item.content).split("\n")
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


# What may begin a mark: a sign, or what HTML and JSON make of one. Two patterns, each with one character to look for.
_SIGN = re.compile(
    "[<\u02c2\u2039\u227a\u226e\u2329\u276c\u276e\u2770\u27e8\u29fc\u2991\u3008\u300a\ufe64\uff1c\u1438]"
)
_ESCAPED = re.compile(r"&(?:amp;)*(?:[lL][tT]|#0*60|#[xX]0*3[cC]);|\\\\*u003[cC]")
# The letters of our own mark, and of those between which agents hand over what a hook told them.
_MARKS = ("harkenrecall", "systemreminder", "hookcontext", "hookprompt", "additionalcontext")
_MARK_CHARS = 60
_BEGINNINGS = frozenset(name[:2] for name in _MARKS)
_NO_LETTER = re.compile("[^a-z]+")
# Letters of other alphabets that look the same to a reader, and to a model; those in frames, which Unicode takes for
# symbols. What is only written in another font, Unicode itself leads back.
_ALIKE_LETTERS = (
    "a\u0430\u03b1\u1d00 c\u0441\u03f2\u1d04 d\u0501\u1d05 e\u0435\u03b5\u0454\u1d07 "
    "h\u04bb\u0570\u043d\u029c i\u0456\u03b9\u0131\u026a k\u043a\u03ba\u1d0b l\u04cf\u217c\u029f "
    "m\u043c\u1d0d n\u03b7\u0578\u043f\u0274 o\u043e\u03bf\u0585\u1d0f p\u0440\u03c1\u1d18 "
    "r\u0433\u0280 s\u0455\ua731 t\u0442\u03c4\u1d1b x\u0445\u03c7 y\u0443\u03b3\u028f "
)
_ALIKE = {ord(alike): each[0] for each in _ALIKE_LETTERS.split() for alike in each[1:]} | {
    first + at: chr(ord("a") + at) for first in (0x1F150, 0x1F170, 0x1F1E6) for at in range(26)
}


def _turned(found: re.Match[str]) -> str:
    letters = found.string[found.end() : found.end() + _MARK_CHARS].lower()
    beginning = letters.lstrip("/\\ ")[:2]
    # Of a page of HTML this is asked a thousand times.
    if beginning.isascii() and beginning[:1].isalpha() and beginning not in _BEGINNINGS:
        return found[0]
    if not letters.isascii():
        letters = normalize("NFKD", letters).casefold().translate(_ALIKE)
    return "(" if _NO_LETTER.sub("", letters).startswith(_MARKS) else found[0]


@dataclass(frozen=True, slots=True)
class Quote:
    """Something remembered, with where it comes from.

    Attributes:
        source: `message`, `summary`…
        speaker: who said it: a name, else a role.
        trust: a `Trust`; what is not to be trusted says so.
        whole: ids of what else it tells whole, which need not be told again.
        project: the name of the other project that it is of; empty where it is of the one at hand, or of none.
        why: the reason for which it is quoted, for people; never words of what is quoted.
        origin: where it stands and whose words it is, in a team; None where they are one's own.
    """

    text: str
    source: str
    uid: str
    speaker: str
    at: datetime
    trust: str
    whole: tuple[str, ...] = ()
    project: str = ""
    why: str = ""
    origin: Provenance | None = None

    @property
    def facts(self) -> dict[str, str]:
        """What a context tells of it besides its text."""
        named = {"project": self.project} if self.project else {}
        return {"source": self.source, "trust": self.trust, **named, **(self.origin.facts if self.origin else {})}


class Fence:
    """Quotes for one context, between marks that no quoted text can close: they are made anew for it.

    Attributes:
        mark: stands in each of them, and in nothing between them.
    """

    __slots__ = ("mark",)

    def __init__(self) -> None:
        self.mark = new_mark()

    def quoted(self, quote: Quote) -> str:
        """The quotation, with where it comes from in its first mark."""
        facts = {
            "source": quote.source,
            "project": quote.project,
            **(quote.origin.facts if quote.origin else {}),
            "from": quote.speaker,
            "date": minute(quote.at),
            "trust": Trust(quote.trust).label,
            "id": quote.uid,
        }
        attributes = (f' {name}="{html.escape(one_line(value))}"' for name, value in facts.items() if value)
        return self.around(harmless(quote.text.strip()), legible("".join(attributes)))

    def entry(self, entry: Entry, text: str) -> str:
        """An entry's text as it is recalled."""
        speaker = entry.author or entry.role or ""
        return self.quoted(Quote(text, entry.source, entry.ref_uid, speaker, entry.created_at, entry.trust.value))

    def item(self, item: ContextItem) -> ContextItem:
        """An item that is `contained`, between marks that Markdown does not show."""
        return replace(item, content=self.around(f"\n{item.content}\n"))

    def around(self, text: str, attributes: str = "") -> str:
        """A harmless text between marks."""
        name = f"{RECALL_FENCE}-{self.mark}"
        return f"<{name}{attributes}>\n{text.replace(self.mark, '')}\n</{name}>"

    def block(self, heading: str, quotations: Sequence[str]) -> str:
        """Quotations under a heading, and a word about what they are."""
        return "\n".join([heading, as_data(self.mark), *quotations])


_TOLD_WHOLE = "told by the summary above it"


def quotation_block(
    heading: str, quotes: Sequence[Quote], known: Collection[str], most_tokens: int, most_chars: int, before: str = ""
) -> tuple[str, dict[str, str]]:
    """As many of the quotations as fit under a heading, the most important first, less those that are known.

    Args:
        heading: stands above them.
        quotes: best first.
        known: the ids of what stands in the conversation's context already.
        most_tokens: the room of all.
        most_chars: likewise.
        before: stands above the heading, and counts.

    Returns:
        The text, and the ids of what it tells, each with why.
    """
    fence, text = Fence(), before
    given: dict[str, str] = {}
    quotations: list[str] = []
    for quote in quotes:
        if quote.uid in known:
            continue
        quotations.append(fence.quoted(quote))
        quoted = fence.block(heading, quotations)
        longer = f"{before}\n\n{quoted}" if before else quoted
        if len(longer) > most_chars or tokens.estimate(longer) > most_tokens:
            break
        given |= {quote.uid: quote.why, **dict.fromkeys(quote.whole, _TOLD_WHOLE)}
        text = longer
    return text, given


def minute(at: datetime) -> str:
    """A moment to the minute, in local time: by UTC what was said in the evening may be of tomorrow."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def harmless(text: str) -> str:
    """The text as its readers see it, with the first sign turned of whatever looks like the mark of a quotation."""
    return _ESCAPED.sub(_turned, _SIGN.sub(_turned, legible(text)))


def core_block(facts: Sequence[CoreFact]) -> str:
    """Core memory by section, a line for each."""
    lines = ["Core memory, always known:"]
    for section in dict.fromkeys(fact.section for fact in facts):
        lines.append(f"{section}:")
        lines.extend(
            harmless(f"- {fact.key}: {one_line(fact.value or '')}") for fact in facts if fact.section == section
        )
    return "\n".join(lines)


def recall_quotes(found: PastRecall, now: datetime, told: Collection[str] = ()) -> list[Quote]:
    """That the same was asked before; then each past conversation, followed by its exchanges, best first.

    None of exchanges whose id or question is `told` elsewhere, nor of conversations of which no other came back.
    """
    quotes = []
    if (asked := found.asked) is not None:
        facts = asked.exchange_uid, "", asked.at[-1], asked.trust.value
        quotes.append(Quote(asked.sentence(now), ASKED, *facts, project=asked.other_project))
    for talk in found.conversations:
        left = tuple(one for one in talk.exchanges if one.uid not in told and one.user.strip() not in told)
        if talk.exchanges and not left:
            continue
        summary, shown = told_of(each := replace(talk, exchanges=left), found.query)
        quotes.append(_conversation_quote(each, summary))
        quotes += [_exchange_quote(one, each, said) for one, said in zip(each.exchanges, shown, strict=True)]
    return quotes


def told_of(found: PastConversation, query: str) -> tuple[str, list[list[tuple[str, str]]]]:
    """A conversation's summary, less the sentences that its exchanges quote, or begin; and these quotations.

    Of each exchange there are its speakers and their words.
    """
    shown = [speakers(exchange, query) for exchange in found.exchanges]
    told = _bare(" ".join(": ".join(one) for said in shown for one in said))
    cut = (text.rsplit(" ", 1)[0] for said in shown for _, text in said if text[-1:] == "…")
    begun = tuple(filter(None, map(_bare, cut)))
    sentences = split_sentences(summary := one_line(found.summary))
    left = [each for each in sentences if (said := _bare(each)) not in told and not said.startswith(begun)]
    return summary if len(left) == len(sentences) else " ".join(left), shown


def _bare(text: str) -> str:
    return _APART.sub(" ", text).strip().casefold()


def _conversation_quote(found: PastConversation, summary: str) -> Quote:
    similarity = "" if found.similarity is None else f"similarity {found.similarity:.2f}, "
    count = "1 exchange" if found.exchange_count == 1 else f"{found.exchange_count} exchanges"
    lines = [f'Conversation "{one_line(found.title) or "untitled"}" ({similarity}{count})']
    lines += [f"Summary: {summary}"] if summary else []
    why = likeness("its best exchange or its summary", found.similarity)
    facts = found.uid, "", found.at, found.trust.value, (), found.other_project, why, found.origin
    return Quote("\n".join(lines), "conversation", *facts)


def _exchange_quote(found: PastExchange, of: PastConversation, said: Sequence[tuple[str, str]]) -> Quote:
    lines = ["Exchange" if found.similarity is None else f"Exchange (similarity {found.similarity:.2f})"]
    lines.extend(f"{name}: {text}" for name, text in said)
    text, why = "\n".join(lines), likeness("what was asked or answered", found.similarity)
    return Quote(text, "exchange", found.uid, "", found.at, found.trust.value, (), of.other_project, why, of.origin)


def likeness(what: str, similarity: float | None, threshold: float | None = None) -> str:
    """Why something is quoted: `similarity 0.62 of what was asked, threshold 0.45`, or by its words."""
    if similarity is None:
        return f"words of the prompt in {what}"
    held = "" if threshold is None else f", threshold {threshold:.2f}"
    return f"similarity {similarity:.2f} of {what}{held}"


def speakers(exchange: PastExchange, query: str) -> list[tuple[str, str]]:
    """The speakers of an exchange and their words, cut to where they have most of a query's."""
    terms = distinctive_terms(parse_query(query).terms)
    asked, answered = (legible(one_line(name)) for name in exchange.authors)
    person = legible(one_line(exchange.said_by)) if exchange.said_by else asked or "User"
    agent = f"Assistant of {person}" if exchange.said_by else answered or "Assistant"
    user = f"{person} ({MARK})" if exchange.said_before else person
    said = (user, exchange.user), (agent, exchange.assistant)
    return [(name, excerpt(text, terms, _SHOWN_CHARS)) for name, text in said if text]
