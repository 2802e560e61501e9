from __future__ import annotations

from typing import Any

import pytest

from harken.sources.experiences.checks import check_command, check_result, told_lines

FAILURES = {
    "pytest": "FAILED tests/a.py::test_b - assert 1 == 2\n====== 1 failed, 4 passed in 0.32s ======",
    "pytest -q": "1 failed, 2 passed in 0.1s",
    "npm test": "Tests:       1 failed, 3 passed, 4 total",
    "npx vitest run": "      Tests  2 failed | 5 passed (7)",
    "cargo test": "test result: FAILED. 3 passed; 1 failed; 0 ignored",
    "cargo build": "error[E0308]: mismatched types\n --> src/main.rs:4:5",
    "go test ./...": "--- FAIL: TestSum (0.00s)\nFAIL\texample.org/sum\t0.003s",
    "make": "make: *** [Makefile:12: all] Error 2",
    "npx tsc": "src/a.ts(3,1): error TS2322: Type 'string' is not assignable to type 'number'.",
    "gcc a.c": "a.c:3:5: error: expected ';' before 'return'",
    "python -m unittest": "Ran 3 tests in 0.001s\n\nFAILED (failures=1)",
    "./gradlew test": "BUILD FAILED in 3s",
    "bun test": "a.test.ts:\n\n 0 pass\n 1 fail\nRan 1 tests across 1 files.",
    "node --test": "ℹ tests 2\nℹ pass 1\nℹ fail 1",
    "npx playwright test": "  1 failed\n    a.spec.ts:3:1 › pays\n  3 passed (2.1s)",
    "mix test": "3 tests, 1 failure",
    "swift test": "\t Executed 3 tests, with 1 failure (0 unexpected) in 0.1 (0.1) seconds",
}
SUCCESSES = {
    "pytest": "====== 5 passed in 0.32s ======",
    "npm test": "Tests:       4 passed, 4 total",
    "cargo test": "test result: ok. 4 passed; 0 failed; 0 ignored",
    "go test ./...": "ok  \texample.org/sum\t0.003s",
    "python -m unittest": "Ran 3 tests in 0.001s\n\nOK",
    "mvn test": "[INFO] BUILD SUCCESS",
    "bun test": " 3 pass\n 0 fail\nRan 3 tests across 1 files.",
    "node --test": "# tests 2\n# pass 2\n# fail 0",
    "npx playwright test": "  3 passed (2.1s)",
    "mix test": "1 test, 0 failures",
    "swift test": "\t Executed 3 tests, with 0 failures (0 unexpected) in 0.1 (0.1) seconds",
}


def result(line: str, printed: str, channel: str = "library", **facts: Any) -> str | None:
    check = check_command(line)
    assert check is not None
    return check_result(check, channel, printed, facts)


@pytest.mark.parametrize(("line", "printed"), FAILURES.items())
def test_a_printed_failure_is_told(line: str, printed: str) -> None:
    assert result(line, printed) == "failed"
    assert result(f"{line} 2>&1 | tail -40", f"\x1b[31m{printed}\x1b[0m") == "failed"


@pytest.mark.parametrize(("line", "printed"), SUCCESSES.items())
def test_a_printed_success_is_told(line: str, printed: str) -> None:
    assert result(line, printed) == "passed"


def test_without_a_summary_the_exit_code_tells() -> None:
    assert result("make test", "done", exit_code=0) == "passed"
    assert result("make test", "oh", exit_code=2) == "failed"
    assert result("make test", "Process exited with code 1\noh") == "failed"
    assert result("npm run build", "> tsc", channel="claude-code") == "passed"
    assert result("npm run build", "> tsc", channel="claude-code", is_error=True) == "failed"


@pytest.mark.parametrize(
    ("line", "printed", "facts"),
    [
        ("make test", "building", {}),
        ("pytest || true", "something", {"exit_code": 0}),
        ("pytest", "bash: pytest: command not found", {"exit_code": 127}),
        ("pytest", "bash: pytest: command not found", {"is_error": True}),
        ("pytest", "The user doesn't want to proceed with this tool use.", {"is_error": True}),
        ("pytest", "Command timed out after 2m", {"is_error": True}),
        ("npm install && npm test", "no such package", {"exit_code": 1}),
        ("timeout 60 pytest", "......", {"exit_code": 124}),
        ("pytest tests/nope.py", "ERROR: file or directory not found\n\nno tests ran in 0.01s", {"exit_code": 4}),
    ],
)
def test_nothing_is_told_where_nothing_can_be(line: str, printed: str, facts: dict[str, Any]) -> None:
    assert result(line, printed, **facts) is None


@pytest.mark.parametrize(
    ("channel", "line", "printed"),
    [
        ("claude-code", "npm test", "Command running in background with ID: b12. Output is being written to: /tmp/b12"),
        ("claude-code", "npm test", "> test\n\nCommand was manually backgrounded by user with ID: b12"),
        ("codex", "go test ./...", "Wall time: 10 seconds\nProcess running with session ID 42\nOutput:\nok  \ta\t1s"),
        ("claude-code", "npm test &", ""),
        ("claude-code", "nohup pytest > log 2>&1 &", "[1] 4242"),
    ],
)
def test_a_check_that_still_runs_has_not_passed(channel: str, line: str, printed: str) -> None:
    assert result(line, printed, channel) is None


def test_the_lines_that_say_it_are_those_that_were_printed() -> None:
    printed = "collected 5 items\n\ntests/a.py F....\nFAILED tests/a.py::test_b - boom\n1 failed, 4 passed in 0.32s\n"
    assert told_lines(printed, "failed") == "FAILED tests/a.py::test_b - boom\n1 failed, 4 passed in 0.32s"
    assert told_lines("== FAILURES ==\n==== 1 failed in 0.3s ====", "failed") == "1 failed in 0.3s"
    jest = "FAIL src/cart.test.js\n  ● total\n\nTests:       1 failed, 5 total"
    assert told_lines(jest, "failed") == "FAIL src/cart.test.js\nTests:       1 failed, 5 total"
    assert told_lines("one\ntwo\n\nthree\nfour\n", "passed") == "two\nthree\nfour"
    many = "\n".join(f"FAILED tests/a.py::test_{n}" for n in range(40))
    kept = told_lines(many, "failed").splitlines()
    assert len(kept) == 12
    assert set(kept) <= set(many.splitlines())


@pytest.mark.parametrize("printed", ["\n" * 100_000, "1 failed, " * 10_000, "1" * 100_000])
def test_whatever_is_printed_is_read_at_once(printed: str) -> None:
    # Each took minutes.
    assert result("pytest", printed, exit_code=0) == "passed"
    assert told_lines(printed, "failed") == printed.strip()[:1500].strip()
