"""What tests and builds say: whether one passed, whether a failure is the same again, and of which experience."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harken.model.experiences import Experience, ExperienceStatus
from harken.model.views import format_moment
from harken.sources.experiences.check_commands import SHELL_TOOLS, CheckCommand, check_command, command_line
from harken.storage.ports import Store
from harken.storage.records.checks import SeenCheck, ShellResult, put_checks, unseen_results
from harken.text.words import STOP_WORDS, words_of

PASSED = "passed"
FAILED = "failed"
_TOLD_LINES = 12
_TOLD_CHARS = 1500
_TAIL_LINES = 3
# Agents that mark the result of every command that ended badly, so that no mark means that it ended well.
_MARKING_CHANNELS = ("claude-code", "codex")
# Not executable, not found, interrupted, killed, terminated: the check itself has said nothing.
_NOT_ITS_OWN = frozenset({126, 127, 130, 137, 143})
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:?|exit_code:)\s*(\d+)\s*$", re.MULTILINE | re.IGNORECASE)
_NEVER_RAN = re.compile(
    r"command not found|No such file or directory\s*$|not recognized as an internal|doesn't want to (?:proceed|take)"
    r"|interrupted by user|was (?:rejected|cancelled|aborted)|timed out after|Permission denied\s*$"
    r"|No module named ['\"]?(?:pytest|tox|nox|mypy)\b|Missing script:",
    re.IGNORECASE,
)
_FAILURES = re.compile(
    r"^(?:"
    r"=*\s?(?:[\d.]+ \w+, )*[1-9]\d* (?:failed|errors?)\b.*\bin [\d.]+m?s.*"  # pytest
    r"|FAILED .+|ERROR \S+::.+|E\s{3,}\S.*"
    r"|FAILED \((?:failures|errors)=.*"  # unittest
    r"|\s*Tests:?\s+.*?[1-9]\d* failed.*"  # jest, vitest
    r"|\s*[1-9]\d* failing\b.*"  # mocha
    r"|test result: FAILED.*|error(?:\[E\d+\])?: .+|test \S+ \.\.\. FAILED"  # cargo
    r"|\s*--- FAIL:? .*|FAIL(?:\s.*)?"  # go, jest
    r"|g?make(?:\[\d+\])?: \*\*\* .*"
    r"|.*\berror TS\d+: .*|Found [1-9]\d* errors?\b.*"  # tsc, mypy
    r"|.+: (?:fatal )?error: .+|.*undefined reference to .*|.*ld returned \d+ exit status.*"  # compilers
    r"|npm (?:ERR!|error) .*"
    r"|.*BUILD FAIL(?:URE|ED).*|.*Tests run:.*(?:Failures|Errors): [1-9].*"  # maven, gradle
    r"|.*\bFailed!\s+-.*|Build FAILED\.?"  # dotnet
    r"|.*[1-9]\d* tests? failed out of \d+.*"  # ctest
    r"|\d+ examples?, [1-9]\d* failures?.*|FAILURES!"  # rspec, phpunit
    r")$",
    re.MULTILINE,
)
_SUCCESSES = re.compile(
    r"^(?:"
    r"=*\s?(?:\d+ \w+, )*[1-9]\d* passed\b.*\bin [\d.]+m?s.*"
    r"|OK(?: \(.*\))?"
    r"|\s*Tests:?\s+.*?[1-9]\d* passed.*"
    r"|\s*[1-9]\d* passing\b.*"
    r"|test result: ok\..*|\s*Finished .*\b(?:dev|release|test|profile)\b.*"
    r"|ok\s+\S+\s.*|PASS"
    r"|.*BUILD SUCCESS(?:FUL)?.*"
    r"|.*\bPassed!\s+-.*|Build succeeded\.?"
    r"|100% tests passed.*"
    r"|\d+ examples?, 0 failures.*"
    r"|Success: no issues found.*"
    r")$",
    re.MULTILINE,
)
# What pytest draws around its last line.
_BAR = re.compile(r"^=+ | =+$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")


def check_result(check: CheckCommand, channel: str, printed: str, facts: Mapping[str, Any]) -> str | None:
    """`passed` or `failed`; None where neither can be told.

    A printed failure counts before everything; then the exit code, where it is the check's own; then a printed success.

    Args:
        check: the command that ran.
        channel: of the conversation; some agents mark every command that ended badly.
        printed: the result's text.
        facts: the result's metadata.
    """
    text = _COLOUR.sub("", printed)
    code = _exit_code(channel, text, facts)
    failed = _FAILURES.search(text) is not None
    if code in _NOT_ITS_OWN or (code != 0 and not failed and _NEVER_RAN.search(text)):
        return None
    if failed and not (code == 0 and check.owns_exit):
        return FAILED
    if code is not None and code != 0:
        return FAILED if check.owns_exit else None
    if _SUCCESSES.search(text) or (code == 0 and check.owns_exit):
        return PASSED
    return None


def told_lines(printed: str, result: str) -> str:
    """The lines that say how it went, as they were printed: those of failures, or of success, else the last ones."""
    text = _COLOUR.sub("", printed)
    found = [
        _BAR.sub("", each.group()).strip() for each in (_FAILURES if result == FAILED else _SUCCESSES).finditer(text)
    ]
    lines = list(filter(None, found)) or [line.rstrip() for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    if len(lines) > _TOLD_LINES:
        # The first failure and the summary at the end say the most.
        lines = [*lines[: _TOLD_LINES - _TAIL_LINES], *lines[-_TAIL_LINES:]]
    return "\n".join(lines)[:_TOLD_CHARS].strip()


def _exit_code(channel: str, text: str, facts: Mapping[str, Any]) -> int | None:
    given = facts.get("exit_code")
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    stated = _EXIT.search(text)
    if stated:
        return int(stated.group(1))
    if facts.get("is_error") is True:
        return 1
    return 0 if channel in _MARKING_CHANNELS or facts.get("is_error") is False else None


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

    status: ExperienceStatus
    result: str
    command: str
    evidence_uid: str
    at: datetime

    def view(self) -> dict[str, Any]:
        """The suggestion as JSON."""
        return {
            "status": self.status.value,
            "result": self.result,
            "command": self.command,
            "evidence_id": self.evidence_uid,
            "at": format_moment(self.at),
        }


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
        ExperienceStatus.CONFIRMED if as_predicted else ExperienceStatus.FALSIFIED,
        told_lines(check.printed, check.outcome),
        command_line(check.tool_name, check.call),
        check.result_uid,
        check.at,
    )


def expects_failure(prediction: str) -> bool:
    """Whether a prediction says that something fails, and not that it fails no more."""
    found = _FAILURE.search(prediction)
    return found is not None and _DENIAL.search(prediction) is None


# What changes from one run to the next although nothing else has failed.
_PASSING = re.compile(
    r"=*\s?(?:\d+ \w+, )*\d+ \w+\b.* in [\d.]+m?s.*"  # pytest's last line
    r"|0x[0-9a-f]+|\b[\d.]+\s?(?:ms|s|sec|seconds|m|min)\b"
    r"|:\d+(?::\d+)?\b|\(\d+(?:[,:]\d+)?\)|\bline \d+"
    r"|/(?:tmp|var/folders)/\S*?(?=/[^/\s]+(?:\s|$)|\s|$)",
    re.IGNORECASE,
)
_NAME_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]{2,}")
# By these words alone, experiences that had nothing to do with a failure were as near to it as 0.68 (cosine, bundled
# model, 82 experiences), where 0.6 is asked.
_FRAME = STOP_WORDS | words_of("failure_words")


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A test or build that failed.

    Attributes:
        check: the command.
        told: the lines that say what failed.
    """

    check: str
    told: str

    @property
    def words(self) -> str:
        """What it is about, for a search: names taken apart, without the words that every failure is told in.

        Empty where that leaves less than two, so that nothing could be found but by chance.
        """
        plain = " ".join(_plain(line) for line in self.told.splitlines())
        found = dict.fromkeys(word.lower() for word in _WORD.findall(_NAME_BORDER.sub(" ", plain)))
        kept = [word for word in found if word not in _FRAME]
        return " ".join(kept) if sum(not word.isdigit() for word in kept) > 1 else ""

    @property
    def cause(self) -> str:
        """An id that is the same for the same lines of the same command, whatever they took and in whatever order."""
        lines = sorted({plain for line in self.told.splitlines() if (plain := _plain(line))})
        digest = hashlib.sha256("\n".join([" ".join(self.check.split()), *lines]).encode("utf-8", "surrogatepass"))
        return f"cause-{digest.hexdigest()[:32]}"


def failure_of(tool_name: str, given: str, printed: str, facts: Mapping[str, Any]) -> CheckFailure | None:
    """The failure that a tool's call came to; None where it ran no test or build, or that did not fail.

    Args:
        tool_name: as the agent calls the tool.
        given: what it was given: a command, or JSON that holds one.
        printed: what came of it.
        facts: `exit_code` or `is_error`, where the agent tells.
    """
    check = check_command(command_line(tool_name, given))
    if check is None or check_result(check, "", printed, facts) != FAILED:
        return None
    return CheckFailure(check.check, told_lines(printed, FAILED))


def _plain(line: str) -> str:
    return " ".join(_PASSING.sub(" ", line).split())
