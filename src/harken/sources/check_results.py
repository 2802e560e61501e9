"""Whether a test or a build passed, read from its exit code and from the summaries that its tools print."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harken.sources.check_commands import CheckCommand

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
    if failed and not (code == 0 and check.owns_success):
        return FAILED
    if code is not None and code != 0:
        return FAILED if check.owns_failure else None
    if _SUCCESSES.search(text) or (code == 0 and check.owns_success):
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
