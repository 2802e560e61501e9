"""Checks as evidence for experiences: a suggestion for the active one, or a candidate for a new one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from harken.model.conversations import Message, MessageType, ProjectIdentity, Role
from harken.model.experiences import EXPERIENCE, STATEMENT_CHARS, Experience, ExperienceStatus
from harken.model.views import format_moment
from harken.sources.experiences.checks import (
    FAILED,
    PASSED,
    SHELL_TOOLS,
    check_command,
    check_result,
    command_line,
    told_lines,
)
from harken.storage.conversations import find_tombstones, messages_of_exchange
from harken.storage.ports import Store, Transaction
from harken.storage.records.checks import SeenCheck, ShellResult, all_checks, put_checks, unseen_results
from harken.storage.records.rows import experience_spans, find_kept
from harken.text.words import split_sentences

_REVIEWED, _AT_ONCE = 2000, 500
_CANDIDATES = UUID("6f1f2d0e-4a53-5c0b-9d5e-3f0a8c1b7e42")
# "I'll run the tests" says what is done next.
_EXPECTS = re.compile(r"(?i)\b(?:(?:should|expect|ought to|must now)\b|должн|ожида)|(?<!\bI)(?<!\bwe)( will|['’]ll)\b")
_EXPLAINS = re.compile(
    r"(?i)\b(?:because|caused? by|since|due to|looks like|seems|appears|means)\b"
    r"|\bthe (?:issue|problem|cause|reason|error) is\b"
    r"|\b(?:потому что|из-за|похоже|причина)"
)
# As what happens, not as what is spoken of: "the failing test goes green" and "errors are logged" predict no failure.
_FAIL = r"(?:fails?|breaks?|crash(?:es)?|errors? out)\b"
_FAILURE = re.compile(
    r"(?i)\b(?:fails|breaks|crashes|errors out)\b|\bexpect\w*\s+(?:an?\s+)?(?:\w+\s+)?failure"
    rf"|\b(?:will|should|must|would|might|to|make\w*(?:\s+\S+){{1,3}})\s+(?:\w+ly\s+|still\s+|first\s+)?{_FAIL}"
)
_DENIAL = re.compile(
    r"(?i)\b(?:pass(?:es)?|succeeds?|green)\b|\b(?:no|not|\w+n't|never|nothing|none|neither|zero|0|stops?|ends?|fix(?:es)?"
    rf"|prevents?|avoids?)(?:\s+[\w']+){{0,4}}?\s+{_FAIL}"
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The outcome that a check suggests for the active experience of its project, by lines that it printed."""

    status: ExperienceStatus
    result: str
    command: str
    evidence_uid: str
    at: datetime

    def view(self) -> dict[str, Any]:
        """The suggestion as JSON."""
        told = {"status": self.status.value, "result": self.result, "command": self.command}
        return {**told, "evidence_id": self.evidence_uid, "at": format_moment(self.at)}


def see_checks(store: Store, since: datetime | None = None) -> None:
    """Look at results of shell commands that nobody has looked at; at none before a moment."""
    tools = sorted({form for name in SHELL_TOOLS for form in (name, name.capitalize())})
    while True:
        with store.reading() as tx:
            results = unseen_results(tx, tools, _AT_ONCE, since)
        if not results:
            return
        outcomes: list[tuple[ShellResult, str | None]] = []
        for one in results:
            check = check_command(command_line(one.tool_name, one.call))
            outcomes.append((one, check_result(check, one.channel, one.printed, one.facts) if check else None))
        with store.writing() as tx:
            put_checks(tx, outcomes)


def suggestion_of(one: Experience, check: SeenCheck) -> Suggestion:
    """Suggest an outcome by a check: a success confirms the experience, unless it was predicted to fail."""
    expects_failure = _FAILURE.search(one.prediction) is not None and _DENIAL.search(one.prediction) is None
    as_predicted = (check.outcome == PASSED) is not expects_failure
    return Suggestion(
        ExperienceStatus.CONFIRMED if as_predicted else ExperienceStatus.FALSIFIED,
        told_lines(check.printed, check.outcome),
        command_line(check.tool_name, check.call),
        check.result_uid,
        check.at,
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A check that failed while no experience was active: one of the same id may be started from it.

    Goal, hypothesis and prediction are what was said around it; empty where nothing like it was said.
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
            **{name: getattr(self, name) for name in ("command", "printed", "failures", "has_passed")},
            **{name: getattr(self, name) or None for name in ("goal", "hypothesis", "prediction")},
        }


def open_candidates(store: Store) -> list[Candidate]:
    """Checks that failed while no experience of their project was active, the newest first.

    Those are left out that an experience came of, and those that were dismissed.
    """
    see_checks(store)
    with store.reading() as tx:
        streaks = {str(uuid5(_CANDIDATES, one[0].result_uid)): one for one in _streaks(all_checks(tx, _REVIEWED))}
        uids = list(streaks)
        taken = find_kept(tx, EXPERIENCE, uids).keys() | find_tombstones(tx, uids)
        spans = experience_spans(tx)
        wanted = (uid for uid in reversed(uids) if uid not in taken and not _is_told(streaks[uid][0], spans))
        return [_candidate(tx, uid, streaks[uid]) for uid in wanted]


def _is_told(check: SeenCheck, spans: Iterable[tuple[str, datetime, datetime]]) -> bool:
    project = check.project.key if check.project else ""
    return any(key == project and begun <= check.at < ended for key, begun, ended in spans)


def _streaks(seen: Iterable[SeenCheck]) -> list[list[SeenCheck]]:
    """Failures of a check in a conversation, whatever they were piped to, up to its success; all oldest first."""
    done: list[list[SeenCheck]] = []
    running: dict[tuple[str, str, str], list[SeenCheck]] = {}
    for check in seen:
        line = command_line(check.tool_name, check.call)
        ran = found.check if (found := check_command(line)) else line
        key = (check.conversation_uid, line.partition(ran.split(" ")[0])[0], ran)
        if check.outcome == FAILED:
            running.setdefault(key, []).append(check)
        elif key in running:
            done.append([*running.pop(key), check])
    return sorted([*done, *running.values()], key=lambda one: (one[0].at, one[0].result_uid))


def _candidate(tx: Transaction, uid: str, streak: Sequence[SeenCheck]) -> Candidate:
    """The streak with what was said around its first failure."""
    check = streak[0]
    exchange = messages_of_exchange(tx, check.exchange_uid)
    place = next((number for number, one in enumerate(exchange) if one.uid == check.result_uid), len(exchange))
    asked = [one.text for one in exchange if one.role is Role.USER and one.type is MessageType.TEXT]
    expected = [each for each in _agent_sentences(exchange[:place]) if _EXPECTS.search(each)]
    explained = [each for each in _agent_sentences(exchange[place:]) if _EXPLAINS.search(each)]
    has_passed = streak[-1].outcome == PASSED
    return Candidate(
        uid=uid,
        project=check.project,
        conversation_uid=check.conversation_uid,
        at=check.at,
        command=command_line(check.tool_name, check.call),
        printed=told_lines(check.printed, FAILED),
        goal=asked[0].strip()[:STATEMENT_CHARS] if asked else "",
        hypothesis=explained[0][:STATEMENT_CHARS] if explained else "",
        prediction=expected[-1][:STATEMENT_CHARS] if expected else "",
        failures=len(streak) - has_passed,
        has_passed=has_passed,
        evidence_uid=check.result_uid,
    )


def _agent_sentences(messages: Sequence[Message]) -> list[str]:
    texts = [one.text for one in messages if one.role is Role.ASSISTANT and one.type is MessageType.TEXT]
    return [sentence for text in texts for sentence in split_sentences(text)]
