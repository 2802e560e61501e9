"""Tests and builds that ran in a shell: the command, how it went, and a failure in words that stay the same."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harken.text.words import STOP_WORDS, words_of

SHELL_TOOLS = frozenset(
    [
        *("bash", "shell", "sh", "zsh", "exec", "execute", "exec_command", "shell_command", "local_shell"),
        *("run_command", "run_shell_command", "run_terminal_cmd", "terminal"),
    ]
)
_OPERATOR = re.compile(r"[;&|<>()\n]+")
_REDIRECTED = re.compile(r"\s*(?:\b[0-9]\s?|&)?[<>].*", re.DOTALL)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
# What only runs the command behind it, and those of its options that have a value.
_RUNNERS = frozenset(
    [
        *("sudo", "time", "env", "command", "exec", "nohup", "timeout", "npx", "bunx", "pnpm exec", "yarn exec"),
        *("uv run", "poetry run", "pdm run", "pipenv run", "hatch run", "bundle exec", "coverage run", "nice"),
    ]
)
_VALUED = frozenset(
    [
        *("-p", "-u", "-g", "-C", "--user", "--with", "--extra", "--group", "--python"),
        *("--package", "--project", "--directory", "--env-file"),
    ]
)
# Their failure is no word on the check behind them only where they do something of their own.
_PREPARING = frozenset(["cd", "export", "set", "source", ".", "pushd", "popd", "mkdir", "clear", "echo"])
_ASKS_ONLY = frozenset(["--help", "-h", "--version", "-V", "--collect-only", "--co", "--list-tests", "--dry-run"])
# Which package's script is run, before its name: `pnpm --filter api test`, `npm --prefix web test`.
_OF = r"(?:(?:workspaces? \S+|(?:-C|-F|-w|--filter|--prefix|--workspace|--cwd|--dir)[ =]\S+|-\S+) )*"
_RUN = rf"{_OF}run {_OF}"
# By program: what its first words must be, as a regular expression on the words behind it.
_TESTS = {
    **dict.fromkeys(("pytest", "py.test", "tox", "nox", "jest", "mocha", "ctest", "rspec", "phpunit"), ""),
    "vitest": "",
    "playwright": "test",
    "unittest": "",
    "cargo": "(test|nextest)",
    "go": "test",
    "swift": "test",
    "mix": "test",
    "dotnet": "test",
    "rake": "(test|spec)",
    "manage.py": "test",
    "bun": rf"({_OF}test|{_RUN}(test|spec|e2e)([:-]\S+)?)",
    "node": r"(.* )?--test",
    "deno": "test",
    **dict.fromkeys(("npm", "pnpm", "yarn"), rf"({_OF}(t|test(:\S+)?)|{_RUN}(test|spec|e2e)([:-]\S+)?)"),
    **dict.fromkeys(("mvn", "mvnw", "gradle", "gradlew"), r"(.* )?:?(\S+:)?(test|verify|check|integration-?[tT]est)"),
    **dict.fromkeys(("make", "gmake", "just"), r"(.* )?\S*(test|check)\S*"),
}
_BUILDS = {
    **dict.fromkeys(("tsc", "gcc", "g++", "cc", "c++", "clang", "clang++", "rustc", "javac", "mypy", "pyright"), ""),
    "cargo": "(build|check|clippy)",
    "go": "(build|vet)",
    "swift": "build",
    "dotnet": "build",
    "cmake": ".*--build",
    "ninja": "",
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), rf"{_RUN}(build|typecheck|type-check|compile|lint)([:-]\S+)?"),
    **dict.fromkeys(("mvn", "mvnw", "gradle", "gradlew"), r"(.* )?:?(\S+:)?(compile|package|install|build|assemble)"),
    **dict.fromkeys(("make", "gmake"), r"(?!.*\b(clean|install|help|format|fmt|run|serve|start|dev)\b).*"),
}


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """A command line that runs a test or a build.

    Attributes:
        check: the part that tests or builds, without what leads to it or passes its output on.
        owns_exit: that how the line ended is how the check did.
    """

    check: str
    owns_exit: bool


def command_line(tool_name: str | None, call: str) -> str:
    """The command line that a tool call ran; empty for tools that are no shell.

    A call begins with the tool's name; what it was given follows, as JSON or as it is.
    """
    if (tool_name or "").lower() not in SHELL_TOOLS:
        return ""
    given = call.removeprefix(tool_name or "").strip()
    if not given.startswith("{"):
        return given
    try:
        fields = json.loads(given)
    except json.JSONDecodeError:
        return ""
    return _command_of(fields.get("command") or fields.get("cmd") or fields.get("script"))


def check_command(line: str) -> CheckCommand | None:
    """The check in a command line; None where it checks nothing, or cannot be read.

    The last check of the line counts: what comes before it is usually there to reach it. The exit code is its own where
    nothing comes behind it, and nothing before it that could have failed in its place. What a script, another shell or
    a container is given to run is not looked into.
    """
    parts = _parts(line.partition("<<")[0])
    checks = [place for place, (words, _) in enumerate(parts) if _is_check(words)]
    if not checks:
        return None
    place = checks[-1]
    # What runs in the background has not ended with its line.
    ends_it = place == len(parts) - 1 and parts[place][1] != "&"
    owns_exit = ends_it and all(
        then in (";", "\n") or (then == "&&" and (words[0] in _PREPARING or number in checks))
        for number, (words, then) in enumerate(parts[:place])
    )
    return CheckCommand(_REDIRECTED.sub("", " ".join(parts[place][0])), owns_exit)


def _parts(line: str) -> list[tuple[list[str], str]]:
    """The simple commands of a line, each with the operator behind it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    parts: list[tuple[list[str], str]] = []
    words: list[str] = []
    try:
        for token in lexer:
            if not _OPERATOR.fullmatch(token) or "<" in token or ">" in token:
                words.append(token)
            elif words:
                parts.append((words, token.strip("()") or token))
                words = []
    except ValueError:
        return []
    return [*parts, (words, "")] if words else parts


def _is_check(words: Sequence[str]) -> bool:
    program, *rest = _bare(words) or [""]
    name = program.replace("\\", "/").rpartition("/")[2].removesuffix(".cmd").removesuffix(".exe")
    if _ASKS_ONLY & set(rest):
        return False
    if re.fullmatch(r"(python|py)[\d.]*", name):
        if rest[:1] != ["-m"] and not (rest and rest[0].endswith("manage.py")):
            return False
        name, rest = (rest[1], rest[2:]) if rest[0] == "-m" and len(rest) > 1 else ("manage.py", rest[1:])
    asked = " ".join(rest)
    wanted = (known[name] or ".*" for known in (_TESTS, _BUILDS) if name in known)
    return any(re.fullmatch(rf"(?:{each})(?:\s.*)?", asked, re.DOTALL) for each in wanted)


def _bare(words: Sequence[str]) -> list[str]:
    """The command behind what only runs it: assignments, `sudo`, `uv run`, `timeout 60`…"""
    left = list(words)
    while left:
        runner = next((length for length in (1, 2) if " ".join(left[:length]) in _RUNNERS), 0)
        if not runner and not _ASSIGNMENT.fullmatch(left[0]):
            break
        left = left[runner or 1 :]
        while runner and left and (left[0].startswith("-") or left[0][:1].isdigit()):
            left = left[2 if left[0] in _VALUED else 1 :]
    return left


def _command_of(given: Any) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        return ""
    is_script = len(given) == 3 and given[1] in ("-c", "-lc")
    return given[2] if is_script else shlex.join(given)


PASSED = "passed"
FAILED = "failed"
_TOLD_LINES = 12
_TOLD_CHARS = 1500
_TAIL_LINES = 3
# Agents that mark the result of every command that ended badly, so that no mark means that it ended well.
_MARKING_CHANNELS = ("claude-code", "codex")
# Out of time, not executable, not found, interrupted, killed, terminated: the check itself has said nothing.
_NOT_ITS_OWN = frozenset({124, 126, 127, 130, 137, 143})
# Claude Code and Codex go on while a command does, and say so with no mark that it ended badly.
_RUNNING = re.compile(r"^(?:Command .{0,120}background.{0,30} ID: \w|Process running with session ID \d+\s*$)", re.M)
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:?|exit_code:)\s*(\d+)\s*$", re.MULTILINE | re.IGNORECASE)
_NEVER_RAN = re.compile(
    r"command not found|No such file or directory\s*$|not recognized as an internal|doesn't want to (?:proceed|take)"
    r"|interrupted by user|was (?:rejected|cancelled|aborted)|timed out after|Permission denied\s*$"
    r"|No module named ['\"]?(?:pytest|tox|nox|mypy)\b|Missing script:|no tests ran in ",
    re.IGNORECASE,
)
_FAILURES = re.compile(
    r"^(?:"
    r"=*[ \t]?(?:[\d.]+ \w+, ){0,9}[1-9]\d* (?:failed|errors?)\b.*\bin [\d.]+m?s.*"  # pytest
    r"|FAILED .+|ERROR \S+::.+|E\s{3,}\S.*"
    r"|FAILED \((?:failures|errors)=.*"  # unittest
    r"|[ \t]*Tests:?\s+.*?\b[1-9]\d* failed.*"  # jest, vitest
    r"|[ \t]*[1-9]\d* failing\b.*"  # mocha
    r"|test result: FAILED.*|error(?:\[E\d+\])?: .+|test \S+ \.\.\. FAILED"  # cargo
    r"|[ \t]*--- FAIL:? .*|FAIL(?:\s.*)?"  # go, jest
    r"|g?make(?:\[\d+\])?: \*\*\* .*"
    r"|.*\berror TS\d+: .*|Found [1-9]\d* errors?\b.*"  # tsc, mypy
    r"|.+: (?:fatal )?error: .+|.*undefined reference to .*|.*ld returned \d+ exit status.*"  # compilers
    r"|npm (?:ERR!|error) .*"
    r"|.*BUILD FAIL(?:URE|ED).*|.*Tests run:.*(?:Failures|Errors): [1-9].*"  # maven, gradle
    r"|.*\bFailed!\s+-.*|Build FAILED\.?"  # dotnet
    r"|.*\b[1-9]\d* tests? failed out of \d+.*"  # ctest
    r"|\d+ (?:example|test)s?, [1-9]\d* failures?.*|FAILURES!|.*Executed \d+ tests?, with [1-9].*"  # rspec, mix, swift
    r"|[ \t]+[1-9]\d* fail(?:ed)?|[#ℹ] fail [1-9]\d*"  # playwright, bun, node
    r")$",
    re.MULTILINE,
)
_SUCCESSES = re.compile(
    r"^(?:"
    r"=*[ \t]?(?:\d+ \w+, ){0,9}[1-9]\d* passed\b.*\bin [\d.]+m?s.*"
    r"|OK(?: \(.*\))?"
    r"|[ \t]*Tests:?\s+.*?\b[1-9]\d* passed.*"
    r"|[ \t]*[1-9]\d* passing\b.*"
    r"|test result: ok\..*|[ \t]*Finished .*\b(?:dev|release|test|profile)\b.*"
    r"|ok\s+\S+\s.*|PASS"
    r"|.*BUILD SUCCESS(?:FUL)?.*"
    r"|.*\bPassed!\s+-.*|Build succeeded\.?"
    r"|100% tests passed.*"
    r"|\d+ (?:example|test)s?, 0 failures.*|.*Executed [1-9]\d* tests?, with 0 failures.*"
    r"|[ \t]+[1-9]\d* pass(?:ed \([\d.]+m?s\))?|[#ℹ] pass [1-9]\d*"
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
    The facts are the result's metadata; the agents of some channels mark every command that ended badly.
    """
    text = _COLOUR.sub("", printed)
    code = _exit_code(channel, text, facts)
    failed = _FAILURES.search(text) is not None
    untold = _RUNNING.search(text) or (code != 0 and _NEVER_RAN.search(text))
    if code in _NOT_ITS_OWN or (untold and not failed):
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
    matches = (_FAILURES if result == FAILED else _SUCCESSES).finditer(text)
    found = (_BAR.sub("", each.group()).strip() for each in matches)
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
    """A test or build that failed: its command, and the lines that say what failed."""

    check: str
    told: str

    @property
    def words(self) -> str:
        """The words that it is about, for a search: names taken apart, without those that every failure is told in.

        Empty where that leaves less than two, so that nothing could be found but by chance.
        """
        plain = " ".join(_plain(line) for line in self.told.splitlines())
        words = dict.fromkeys(word.lower() for word in _WORD.findall(_NAME_BORDER.sub(" ", plain)))
        kept = [word for word in words if word not in _FRAME]
        return " ".join(kept) if sum(not word.isdigit() for word in kept) > 1 else ""

    @property
    def cause(self) -> str:
        """An id that is the same for the same lines of the same command, whatever they took and in whatever order."""
        lines = sorted({plain for line in self.told.splitlines() if (plain := _plain(line))})
        digest = hashlib.sha256("\n".join([" ".join(self.check.split()), *lines]).encode("utf-8", "surrogatepass"))
        return f"cause-{digest.hexdigest()[:32]}"


def failure_of(tool_name: str, given: str, printed: str, facts: Mapping[str, Any]) -> CheckFailure | None:
    """The failure that a tool's call came to; None where it ran no test or build, or that did not fail.

    The facts are `exit_code` or `is_error`, where the agent tells.
    """
    check = check_command(command_line(tool_name, given))
    if check is None or check_result(check, "", printed, facts) != FAILED:
        return None
    return CheckFailure(check.check, told_lines(printed, FAILED))


def _plain(line: str) -> str:
    return " ".join(_PASSING.sub(" ", line).split())
