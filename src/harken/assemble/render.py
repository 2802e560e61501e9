"""How remembered things look in a context: fenced, dated, quoted as data, never as instruction."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harken.model import CoreFact, Entry, Trust
from harken.record.recalled import AS_DATA

CORE = "Core memory, always known:"
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


def _any_form_of(tag: str) -> str:
    """A pattern of a tag as anybody might write it to pass for ours."""
    return _UNSEEN.join(map(_letter, tag))


# Our own mark, and those between which agents hand over what a hook told them.
_MARKS = ("harken-recall", "system-reminder", "hook-context", "hook-prompt", "additional-context")
_MARK = re.compile(
    f"(?:{_LESS})(?={_UNSEEN}(?:[/\uff0f\u2044\u2215]{_UNSEEN})?(?:{'|'.join(map(_any_form_of, _MARKS))}))",
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
        "date": quote.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M"),
        "trust": Trust(quote.trust).label,
        "id": quote.uid,
    }
    attributes = " ".join(f'{name}="{_attribute(value)}"' for name, value in facts.items() if value)
    text = harmless(quote.text.strip())
    return f"<harken-recall {attributes}>\n{text}\n</harken-recall>"


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
    lines = [CORE]
    for section in dict.fromkeys(fact.section for fact in facts):
        lines.append(f"{section}:")
        lines.extend(core_line(fact) for fact in facts if fact.section == section)
    return "\n".join(lines)


def core_line(fact: CoreFact) -> str:
    """One fact as one line."""
    return harmless(f"- {fact.key}: {' '.join((fact.value or '').split())}")


def _attribute(value: str) -> str:
    return html.escape(" ".join(value.split()), quote=True)
