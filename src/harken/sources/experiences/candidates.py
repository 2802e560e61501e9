"""Failed checks that no experience tells of yet: candidates, in the words that were said and printed around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from harken.model.conversations import Message, MessageType, ProjectIdentity, Role
from harken.model.experiences import EXPERIENCE, STATEMENT_CHARS
from harken.model.views import format_moment
from harken.sources.experiences.check_commands import command_line
from harken.sources.experiences.checks import FAILED, see_checks, told_lines
from harken.storage.conversations import find_tombstones, messages_of_exchange
from harken.storage.ports import Store
from harken.storage.records.checks import SeenCheck, all_checks
from harken.storage.records.lists import experience_spans
from harken.storage.records.rows import find_kept

_REVIEWED = 2000
_CANDIDATES = UUID("6f1f2d0e-4a53-5c0b-9d5e-3f0a8c1b7e42")
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_EXPECTS = re.compile(r"\b(?:should|will|expect|ought to|must now|'ll)\b|\b(?:должн|ожида)", re.IGNORECASE)
_EXPLAINS = re.compile(
    r"\b(?:because|caused? by|since|due to|looks like|seems|appears|means)\b"
    r"|\bthe (?:issue|problem|cause|reason|error) is\b"
    r"|\b(?:потому что|из-за|похоже|причина)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A check that failed while no experience was active: one may be started from it.

    Attributes:
        uid: the experience's id, should it be accepted.
        printed: the lines that say what failed.
        goal, hypothesis, prediction: what was said around it; empty where nothing like it was said.
        failures: how often it failed before it passed, or until now.
    """

    uid: str
    project: ProjectIdentity | None
    conversation_uid: str
    at: datetime
    command: str
    printed: str
    goal: str
    hypothesis: str
    prediction: str
    failures: int
    has_passed: bool
    evidence_uid: str

    def view(self) -> dict[str, Any]:
        """The candidate as JSON; what was not said is null."""
        return {
            "id": self.uid,
            "project": self.project.key if self.project else None,
            "conversation_id": self.conversation_uid,
            "evidence_id": self.evidence_uid,
            "at": format_moment(self.at),
            "command": self.command,
            "printed": self.printed,
            "goal": self.goal or None,
            "hypothesis": self.hypothesis or None,
            "prediction": self.prediction or None,
            "failures": self.failures,
            "has_passed": self.has_passed,
        }


@dataclass(frozen=True, slots=True)
class Streak:
    """A check's failures in one conversation, up to its next success."""

    first: SeenCheck
    command: str
    failures: int
    has_passed: bool

    @property
    def uid(self) -> str:
        """The id of the experience that may come of it; the same whenever it is found."""
        return str(uuid5(_CANDIDATES, self.first.result_uid))


def open_candidates(store: Store) -> list[Candidate]:
    """Checks that failed while no experience of their project was active, the newest first.

    Those are left out that an experience came of, and those that were dismissed.
    """
    see_checks(store)
    with store.reading() as tx:
        found = streaks(all_checks(tx, _REVIEWED))
        uids = [one.uid for one in found]
        taken = find_kept(tx, EXPERIENCE, uids).keys() | find_tombstones(tx, uids)
        spans = experience_spans(tx)
        wanted = [one for one in reversed(found) if one.uid not in taken and not _is_told(one.first, spans)]
        return [candidate_of(one, messages_of_exchange(tx, one.first.exchange_uid)) for one in wanted]


def _is_told(check: SeenCheck, spans: Iterable[tuple[str, datetime, datetime]]) -> bool:
    project = check.project.key if check.project else ""
    return any(key == project and begun <= check.at < ended for key, begun, ended in spans)


def streaks(seen: Iterable[SeenCheck]) -> list[Streak]:
    """Failures of one command in one conversation as one, the oldest first.

    Args:
        seen: oldest first.
    """
    done: list[Streak] = []
    running: dict[tuple[str, str], list[SeenCheck]] = {}
    for check in seen:
        command = command_line(check.tool_name, check.call)
        key = (check.conversation_uid, command)
        if check.outcome == FAILED:
            running.setdefault(key, []).append(check)
        elif key in running:
            failures = running.pop(key)
            done.append(Streak(failures[0], command, len(failures), has_passed=True))
    done += [Streak(failures[0], command, len(failures), False) for (_, command), failures in running.items()]
    return sorted(done, key=lambda one: (one.first.at, one.first.result_uid))


def candidate_of(streak: Streak, exchange: Sequence[Message]) -> Candidate:
    """The streak with what was said around its first failure.

    Args:
        streak: the failures.
        exchange: the messages of the first failure's exchange, oldest first.
    """
    check = streak.first
    place = next((number for number, one in enumerate(exchange) if one.uid == check.result_uid), len(exchange))
    asked = [one.text for one in exchange if one.role is Role.USER and one.type is MessageType.TEXT]
    before, behind = _agent_words(exchange[:place]), _agent_words(exchange[place:])
    expected = [sentence for sentence in before if _EXPECTS.search(sentence)]
    explained = [sentence for sentence in behind if _EXPLAINS.search(sentence)]
    return Candidate(
        uid=streak.uid,
        project=check.project,
        conversation_uid=check.conversation_uid,
        at=check.at,
        command=streak.command,
        printed=told_lines(check.printed, FAILED),
        goal=asked[0].strip()[:STATEMENT_CHARS] if asked else "",
        hypothesis=explained[0][:STATEMENT_CHARS] if explained else "",
        prediction=expected[-1][:STATEMENT_CHARS] if expected else "",
        failures=streak.failures,
        has_passed=streak.has_passed,
        evidence_uid=check.result_uid,
    )


def _agent_words(messages: Sequence[Message]) -> list[str]:
    """The agent's sentences, as they were said."""
    texts = [one.text for one in messages if one.role is Role.ASSISTANT and one.type is MessageType.TEXT]
    return [found.strip() for text in texts for found in _SENTENCE.findall(text) if found.strip()]
