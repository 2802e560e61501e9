"""What a person says of what is recorded: verdicts on what was recalled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Verdict(StrEnum):
    """A judgement on something that was recalled; `NONE` takes back all earlier ones of who gives it."""

    USEFUL = "useful"
    USELESS = "useless"
    WRONG = "wrong"
    NONE = "none"


OWNER, AGENT, ANSWER = "owner", "agent", "answer"
"""Who judged: the owner, an agent, or nobody: an answer used the rare words of what was recalled."""
VERDICTS = (Verdict.USEFUL.value, Verdict.USELESS.value, Verdict.WRONG.value)
_LEAST, _MOST = 0.8, 1.2
# Three who find something useful bring it to the top of the scale; an answer that used it says a quarter as much.
_STEP, _OF_AN_ANSWER, _MOST_OF_ANSWERS = 0.07, 0.25, 2.0
# What was called wrong is looked at again before it comes back by itself, and is known by this.
_NOTED = 0.999


@dataclass(frozen=True, slots=True)
class Rated:
    """A verdict on something that was recalled.

    Attributes:
        conversation_uid: the journal's folder of what is judged: its conversation, or that of all records of its kind.
        ref_uid: what is judged: a message, an exchange, a conversation, a memory, an experience, a value.
        by: `owner`, `agent` or `answer`; in a shared space the member follows: `owner:ID`.
        given_to: the conversation in which it was recalled; empty where that is not known.
        about: the message that asked; empty where that is not known.
        question: what was asked, where somebody says so.
    """

    uid: str
    conversation_uid: str
    ref_uid: str
    verdict: Verdict
    by: str
    at: datetime
    given_to: str = ""
    about: str = ""
    question: str = ""

    @property
    def is_answer(self) -> bool:
        """Whether nobody has judged: an answer has used it."""
        return self.by.partition(":")[0] == ANSWER


def in_force(ratings: Iterable[Rated]) -> list[Rated]:
    """Of the verdicts on one thing, oldest first, those that count: the last of each judge and conversation."""
    last: dict[tuple[str, str], Rated] = {}
    for one in sorted(ratings, key=lambda rating: (rating.at, rating.uid)):
        if one.verdict is Verdict.NONE:
            whose = one.by.partition(":")[2]
            last = {key: each for key, each in last.items() if whose and key[0].partition(":")[2] != whose}
        else:
            last.pop((one.by, one.given_to), None)
            last[one.by, one.given_to] = one
    return list(last.values())


def factor_of(ratings: Iterable[Rated]) -> float:
    """What verdicts multiply a score by, 0.8 to 1.2; 1 without any. Not to be used never lowers it."""
    counted, of_answers, is_wrong = 0.0, 0.0, False
    for one in in_force(ratings):
        if one.is_answer:
            of_answers = min(_MOST_OF_ANSWERS, of_answers + _OF_AN_ANSWER)
        else:
            counted += 1.0 if one.verdict is Verdict.USEFUL else -1.0
        is_wrong |= one.verdict is Verdict.WRONG
    factor = round(min(_MOST, max(_LEAST, 1.0 + _STEP * (counted + of_answers))), 4)
    return _NOTED if is_wrong and factor >= _NOTED else factor


def in_words(ratings: Iterable[Rated]) -> str:
    """`rated useful twice, wrong once; used in 3 answers`; empty without any."""
    counted: dict[str, int] = {}
    for one in in_force(ratings):
        name = ANSWER if one.is_answer else one.verdict.value
        counted[name] = counted.get(name, 0) + 1
    judged = [f"{name} {_times(counted[name])}" for name in VERDICTS if name in counted]
    said = [f"rated {', '.join(judged)}"] if judged else []
    if answers := counted.get(ANSWER):
        said.append("used in an answer" if answers == 1 else f"used in {answers} answers")
    return "; ".join(said)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
