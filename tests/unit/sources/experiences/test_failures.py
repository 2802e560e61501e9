"""What a failure is about, and when it is the same one again."""

from __future__ import annotations

import json

import pytest

from harken.sources.experiences.checks import CheckFailure, failure_of

TOKENS = "FAILED tests/auth/test_tokens.py::test_expiredToken_is_refused - AssertionError: assert 200 == 401"


def failed(command: str, printed: str) -> CheckFailure:
    found = failure_of("Bash", json.dumps({"command": command}), printed, {})
    assert found is not None
    return found


def test_it_is_about_the_words_that_name_what_failed() -> None:
    assert (
        failed("pytest", f"{TOKENS}\n== 1 failed, 4 passed in 0.32s ==").words
        == "auth tokens expired token refused 200 401"
    )
    assert failed("go test ./...", "--- FAIL: TestSumOfRows (0.00s)\nFAIL").words == "sum rows"
    assert failed("npx tsc", "src/a.ts(3,1): error TS2322: Type 'x' is wrong.").words == "ts2322 type wrong"


@pytest.mark.parametrize("printed", ["1 failed in 0.1s", "make: *** [Makefile:12: all] Error 2", "FAIL"])
def test_what_every_failure_says_is_about_nothing(printed: str) -> None:
    assert failed("make test", printed).words == ""


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("pytest -q", f"{TOKENS}\n== 1 failed, 9 passed, 2 warnings in 61.20s (0:01:01) =="),
        ("cd /work && pytest -q 2>&1 | tail -40", f"1 failed, 4 passed in 0.32s\n{TOKENS}"),
        ("pytest  -q > out.txt; cat out.txt", f"\x1b[31m{TOKENS}\x1b[0m"),
    ],
)
def test_the_same_lines_of_the_same_check_are_one_cause(command: str, printed: str) -> None:
    assert failed(command, printed).cause == failed("pytest -q", f"{TOKENS}\n1 failed in 0.1s").cause


def test_places_and_addresses_that_move_are_no_other_cause() -> None:
    first = "a.c:3:5: error: expected ';' before 'total'\nE   assert <Row at 0x7f01> == 3"
    later = "a.c:14:9: error: expected ';' before 'total'\nE   assert <Row at 0x55aa> == 3"
    assert failed("make", first).cause == failed("make", later).cause


def test_other_lines_or_another_check_are_another_cause() -> None:
    causes = {
        failed("pytest -q", TOKENS).cause,
        failed("pytest -q", TOKENS.replace("401", "403")).cause,
        failed("pytest -q", TOKENS.replace("expired", "early")).cause,
        failed("pytest -q tests/auth", TOKENS).cause,
    }
    assert len(causes) == 4


@pytest.mark.parametrize(
    ("tool", "command", "printed", "facts"),
    [
        ("Read", "pytest", TOKENS, {}),
        ("Bash", "cat log", TOKENS, {}),
        ("Bash", "pytest", "5 passed in 0.1s", {}),
        ("Bash", "pytest", "Command timed out after 2m", {"is_error": True}),
        ("Bash", "pytest", "bash: pytest: command not found", {"exit_code": 127}),
        ("Bash", "npm run build", "> tsc", {}),
    ],
)
def test_what_is_no_failed_check_is_none(tool: str, command: str, printed: str, facts: dict[str, object]) -> None:
    assert failure_of(tool, json.dumps({"command": command}), printed, facts) is None
