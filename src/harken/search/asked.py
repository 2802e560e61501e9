"""Questions that were asked before, in other words; and what was called wrong in answer to such a one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from harken.model.conversations import TASK_UID, MessageType, Role, Trust, least_trusted
from harken.search.candidates import Candidates
from harken.search.query import Query, distinctive_terms, is_bare_question, parse_query, share_held
from harken.search.session import QueryVector
from harken.storage.conversations import messages_of_exchange
from harken.storage.entries import load_entries
from harken.storage.ports import MESSAGE_SOURCE, NearestIndex, RowScope, Transaction
from harken.storage.records.marks import objections
from harken.text.decisions import decision_in, outcome
from harken.text.traits import ASKS
from harken.text.words import MONTHS, STOP_WORDS, UNSPACED_RUN, WORD

# Of the shorter question's telling words the other has so many, and no fewer than these; of the longer one's, where
# nothing else is known of the two.
_SHARE, _LEAST_WORDS, _SHARE_OF_LONGER = 0.75, 3, 0.6
# So near by meaning (cosine) is the same question, whatever its words; with its words, so near. In the half of
# benchmarks/asked_before.py that they were chosen by, nine in ten repeats lie above 0.90; of 200 other questions the
# words alone would take seven for the same, none of them above 0.82.
SAME_QUESTION, _WITH_WORDS = 0.90, 0.85
# The threshold of the model that they were measured by.
_CALIBRATED_BY = 0.60
_BEGINNING = re.compile(rf"^\W*[^\W\d_]+(?!\w)|(?<=[.!?…] )(?:{'|'.join(STOP_WORDS)})\b", re.I)
# A task says this many words, or it is asked for every day.
_LEAST_TOLD = 5
_MOST_READ, _MOST_WITHOUT = 24, 12
# What asks for a time is not what asks for a place, however alike the rest is.
_KINDS = {
    "when": re.compile(r"\b(?:when|(?:what|which) (?:date|day|year|month|time)s?|how long ago)\b", re.I),
    "where": re.compile(r"\b(?:where|(?:what|which)(?: \w+)? (?:place|city|country|town|location)s?)\b", re.I),
    "who": re.compile(r"\b(?:who|whom|whose)\b", re.I),
    "why": re.compile(r"\b(?:why|what (?:reason|made|motivat\w+|inspired))\b", re.I),
    "how many": re.compile(r"\bhow (?:many|much|often)\b", re.I),
    "how long": re.compile(r"\bhow long\b(?! ago)", re.I),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it is compared with others.

    Attributes:
        terms: its telling words.
        kinds: what it asks for: a time, a place, a person…; empty where it does not say.
        names: names and numbers in it, which the other must have as well; no word with a capital for its place.
    """

    terms: tuple[str, ...]
    kinds: frozenset[str]
    names: frozenset[str]


@lru_cache(maxsize=2048)
def question_of(text: str) -> Question:
    """Take a question apart."""
    query = parse_query(text)
    kinds = frozenset(name for name, pattern in _KINDS.items() if pattern.search(query.text))
    names = frozenset(
        word.lower().removesuffix("'s").removesuffix("’s")
        for word in WORD.findall(UNSPACED_RUN.sub(" ", _BEGINNING.sub(" ", query.text)))
        if (word[:1].isupper() and word.lower() not in ("i", "i'm", "i've", "i'd", "i'll")) or word[:1].isdigit()
    )
    return Question(tuple(distinctive_terms(query.terms)), kinds, names)


def is_same_question(one: str, other: str, similarity: float | None = None) -> bool:
    """Whether two texts ask the same: by three quarters of the shorter one's words, or by their meaning.

    Args:
        one: a question, likewise `other`.
        other: in whatever order.
        similarity: cosine of the two, -1 to 1; None where one has no vector.
    """
    first, second = question_of(one), question_of(other)
    if first.kinds != second.kinds and first.kinds and second.kinds:
        return False
    few, many = sorted((first.names, second.names), key=len)
    # An ending is a third of a name at most: `Java` is no `JavaScript`, nor `C` a `CSS`.
    if any(share_held([one], [o for o in many if 3 * abs(len(o) - len(one)) <= len(one)]) < 1.0 for one in few):
        return False
    if similarity is not None and similarity < _WITH_WORDS:
        return False
    if similarity is not None and similarity >= SAME_QUESTION:
        return True
    shorter, longer = sorted((first.terms, second.terms), key=len)
    held = share_held(shorter, longer)
    if held < _SHARE or (held * len(shorter) < _LEAST_WORDS and first != second):
        return False
    if similarity is not None:
        return True
    return len(first.names) == len(second.names) and share_held(longer, shorter) >= _SHARE_OF_LONGER


def objected(
    tx: Transaction, query: Query, judged: Sequence[int], index: NearestIndex, asked: QueryVector | None
) -> set[int]:
    """Those judged entries that somebody has called wrong in answer to such a question: they do not come by themselves.

    Costs nothing where none was judged.
    """
    found = objections(tx, judged) if judged else []
    asking = [each.question_entry for each in found if each.question_entry is not None]
    near = asked.compare(tx, index, RowScope(), 0, asking)[1] if asked is not None and asking else {}
    scale = asked.space.threshold if asked is not None else _CALIBRATED_BY
    near = {entry_id: on_scale(similarity, scale) for entry_id, similarity in near.items()}
    return {
        each.entry_id
        for each in found
        if not each.question or is_same_question(query.text, each.question, near.get(each.question_entry or 0))
    }


@dataclass(frozen=True, slots=True)
class AskedBefore:
    """A question that was asked in other conversations, and what the last of them came to.

    Attributes:
        at: when it was asked, once for each conversation, oldest first.
        exchange_uid: in which it was asked last; likewise `conversation_uid`.
        decided: a sentence that decides, else one that answers; empty where nothing was answered.
        trust: of that sentence.
        project: the key of the last one's project; empty where it belongs to none.
        other_project: its name, where it is another one than the one at hand.
        said_by: in a team, the name of whose conversation the last one is; empty of one's own.
    """

    at: tuple[datetime, ...]
    exchange_uid: str
    conversation_uid: str
    decided: str
    trust: Trust = Trust.AGENT
    project: str = ""
    other_project: str = ""
    said_by: str = ""

    def sentence(self, now: datetime) -> str:
        """`Asked before: 9 August, 2 September (3rd time). Then decided: …`; `answered` where nothing was decided."""
        days = dict.fromkeys(_day(moment, now) for moment in self.at)
        told = f"Asked before: {', '.join(days)} ({_ordinal(len(self.at) + 1)} time)."
        by = f" with {self.said_by}" if self.said_by else ""
        return f"{told} Then {outcome(self.decided)}{by}: {self.decided}" if self.decided else told

    def view(self) -> dict[str, Any]:
        """The earlier questions as JSON."""
        return {
            "at": [moment.isoformat() for moment in self.at],
            "exchange_id": self.exchange_uid,
            "conversation_id": self.conversation_uid,
            "decided": self.decided,
        }


def may_be_asked_again(query: Query) -> bool:
    """Whether a prompt is one that may have been asked before: a question, or a task that says enough."""
    terms = len(distinctive_terms(query.terms))
    return terms >= (_LEAST_WORDS - 1 if is_bare_question(query.text) else _LEAST_TOLD)


def askers_among(found: Candidates, barred: Collection[int], threshold: float | None) -> dict[int, float | None]:
    """Candidates that a person said and that may ask the same, each with its similarity on the scale of questions.

    Those barred are left out. A question is asked again by questions alone. Those without a vector, as short ones are,
    have some of the words; few of either, for their texts are read.
    """
    asks, similarity = ASKS if is_bare_question(found.query.text) else 0, found.similarity
    mine = {
        id_: each
        for id_, each in found.facts.items()
        if each.role == Role.USER and each.source == MESSAGE_SOURCE and each.traits & asks == asks and id_ not in barred
        if each.trust is not Trust.AGENT  # which asks subagents what it was asked itself
    }
    near = {id_: on_scale(similarity[id_], threshold) for id_ in mine if threshold is not None and id_ in similarity}
    best = sorted(near, key=lambda id_: -near[id_])[:_MOST_READ]
    alike: dict[int, float | None] = {id_: near[id_] for id_ in best if near[id_] >= _WITH_WORDS}
    unlike = (id_ for id_ in found.keyword if id_ in mine and id_ not in near and mine[id_].traits & ASKS)
    return alike | dict.fromkeys(islice(unlike, _MOST_WITHOUT))


def on_scale(similarity: float, threshold: float) -> float:
    """A similarity by a model of this threshold, on the scale of the model by which questions were calibrated."""
    return 1.0 - (1.0 - similarity) * (1.0 - _CALIBRATED_BY) / (1.0 - threshold)


def asked_before(tx: Transaction, prompt: str, askers: Mapping[int, float | None]) -> AskedBefore | None:
    """The question among what persons said that is the prompt's own, and what it came to; None without any."""
    found = load_entries(tx, list(askers))
    same = [
        entry
        for entry_id, entry in found.items()
        if entry.conversation_uid
        and not entry.conversation_uid.startswith(TASK_UID)
        and is_same_question(prompt, entry.text, askers[entry_id])
    ]
    first = {entry.conversation_uid: entry for entry in sorted(same, key=lambda entry: -entry.created_at.timestamp())}
    # A fork of a conversation holds the same message once more.
    once = {(entry.created_at, entry.text): entry for entry in first.values()}
    in_order = sorted(once.values(), key=lambda entry: (entry.created_at, entry.id))
    if not in_order:
        return None
    last = in_order[-1]
    said = messages_of_exchange(tx, last.exchange_uid or "")
    told = [message for message in said if message.type is MessageType.TEXT and message.role is Role.ASSISTANT]
    decided = decision_in([message.text for message in told], question_of(prompt).terms)
    trust = least_trusted([Trust.AGENT, *(message.trust for message in told)])
    at = tuple(entry.created_at for entry in in_order)
    return AskedBefore(at, last.exchange_uid or "", last.conversation_uid or "", decided, trust, last.project or "")


def _day(moment: datetime, now: datetime) -> str:
    day = moment.astimezone()
    month = f"{day.day} {MONTHS[day.month - 1]}"
    return month if day.year == now.astimezone().year else f"{month} {day.year}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
