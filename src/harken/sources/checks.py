"""What tests and builds say about experiences: nothing here that was not said or printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from harken.learned.records import Experience, Status
from harken.sources.check_commands import SHELL_TOOLS, check_command, command_line
from harken.sources.check_results import PASSED, check_result, told_lines
from harken.storage.checks import SeenCheck, ShellResult, put_checks, unseen_results
from harken.storage.store import Store

_AT_ONCE = 500
_FAILURE = re.compile(r"(?:\S+\s+){0,3}?\b(?:fail(?:s|ed|ing|ure)?|crash(?:es)?|breaks?|errors?)\b", re.IGNORECASE)
_DENIAL = re.compile(
    r"\b(?:no|not|never|without|stops?|ends?|fix(?:es)?|none|0|zero|longer|gone|don't|doesn't|won't)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a check says about the active experience of its project.

    Attributes:
        status: the outcome that it suggests.
        result: the lines that it printed.
        evidence_uid: the message with all that it printed.
    """

    status: Status
    result: str
    command: str
    evidence_uid: str
    at: datetime


def see_checks(store: Store, since: datetime | None = None) -> int:
    """Look at results of shell commands that nobody has looked at; how many there were.

    Args:
        store: where messages are.
        since: look at no older ones.
    """
    tools = sorted({form for name in SHELL_TOOLS for form in (name, name.capitalize())})
    looked = 0
    while True:
        with store.reading() as tx:
            found = unseen_results(tx, tools, _AT_ONCE, since)
        if not found:
            return looked
        told = [(one, _outcome_of(one)) for one in found]
        with store.writing() as tx:
            put_checks(tx, told)
        looked += len(found)


def _outcome_of(one: ShellResult) -> str | None:
    check = check_command(command_line(one.tool_name, one.call))
    return None if check is None else check_result(check, one.channel, one.printed, one.facts)


def suggestion_of(one: Experience, check: SeenCheck) -> Suggestion:
    """What a check says of an experience: a success confirms it, unless it was predicted to fail."""
    as_predicted = (check.outcome == PASSED) is not expects_failure(one.prediction)
    return Suggestion(
        Status.CONFIRMED if as_predicted else Status.FALSIFIED,
        told_lines(check.printed, check.outcome),
        command_line(check.tool_name, check.call),
        check.result_uid,
        check.at,
    )


def expects_failure(prediction: str) -> bool:
    """Whether a prediction says that something fails, and not that it fails no more."""
    found = _FAILURE.search(prediction)
    return found is not None and _DENIAL.search(prediction) is None
