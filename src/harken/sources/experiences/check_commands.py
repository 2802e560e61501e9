"""Which shell commands run tests or builds, and whether their exit code is the check's own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SHELL_TOOLS = """
    bash shell sh zsh exec execute exec_command shell_command local_shell run_command run_shell_command
    run_terminal_cmd terminal
"""
SHELL_TOOLS = frozenset(_SHELL_TOOLS.split())
_OPERATOR = re.compile(r"[;&|<>()\n]+")
_REDIRECTED = re.compile(r"\s*(?:\b[0-9]\s?|&)?[<>].*", re.DOTALL)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
# What only runs the command behind it, and those of its options that have a value.
_RUNNERS = frozenset(
    [
        *("sudo", "time", "env", "command", "exec", "nohup", "timeout", "npx", "bunx", "pnpm exec", "yarn exec"),
        *("uv run", "poetry run", "pipenv run", "hatch run", "bundle exec", "coverage run"),
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
_ASKS_ONLY = frozenset(["--help", "-h", "--version", "-V", "--collect-only", "--list-tests", "--dry-run"])
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
    "bun": "test",
    "deno": "test",
    **dict.fromkeys(("npm", "pnpm", "yarn"), r"(t|test(:\S+)?|run (test|spec|e2e)([:-]\S+)?)"),
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
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), r"run (build|typecheck|type-check|compile|lint)([:-]\S+)?"),
    **dict.fromkeys(("mvn", "mvnw", "gradle", "gradlew"), r"(.* )?:?(\S+:)?(compile|package|install|build|assemble)"),
    **dict.fromkeys(("make", "gmake"), r"(?!.*\b(clean|install|help|format|fmt|run|serve|start|dev)\b).*"),
}


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """A command line that runs a test or a build.

    Attributes:
        check: the part that tests or builds, without what leads to it or passes its output on.
        is_test: whether it tests; else it builds.
        owns_exit: that how the line ended is how the check did.
    """

    line: str
    check: str
    is_test: bool
    owns_exit: bool


def command_line(tool_name: str | None, call: str) -> str:
    """The command line that a tool call ran; empty for tools that are no shell.

    Args:
        tool_name: as the agent calls the tool.
        call: the call's text: the tool's name, then what it was given, as JSON or as it is.
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
    return _words(fields.get("command") or fields.get("cmd") or fields.get("script"))


def check_command(line: str) -> CheckCommand | None:
    """What a command line checks; None where it checks nothing, or cannot be read.

    The last check of the line counts: what comes before it is usually there to reach it. The exit code is its own where
    nothing comes behind it, and nothing before it that could have failed in its place. What a script, another shell or
    a container is given to run is not looked into.
    """
    parts = _parts(line.partition("<<")[0])
    checks = {place: kind for place, (words, _) in enumerate(parts) if (kind := _kind(words)) is not None}
    if not checks:
        return None
    place = max(checks)
    owns_exit = place == len(parts) - 1 and all(
        then in (";", "\n") or (then == "&&" and (words[0] in _PREPARING or number in checks))
        for number, (words, then) in enumerate(parts[:place])
    )
    check = _REDIRECTED.sub("", " ".join(parts[place][0]))
    return CheckCommand(line.strip(), check, checks[place], owns_exit)


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


def _kind(words: Sequence[str]) -> bool | None:
    """Whether a simple command tests (True) or builds (False); None for neither."""
    program, *rest = _bare(words) or [""]
    name = program.replace("\\", "/").rpartition("/")[2].removesuffix(".cmd").removesuffix(".exe")
    if _ASKS_ONLY & set(rest):
        return None
    if re.fullmatch(r"(python|py)[\d.]*", name):
        if rest[:1] != ["-m"] and not (rest and rest[0].endswith("manage.py")):
            return None
        name, rest = (rest[1], rest[2:]) if rest[0] == "-m" and len(rest) > 1 else ("manage.py", rest[1:])
    asked = " ".join(rest)
    for is_test, known in ((True, _TESTS), (False, _BUILDS)):
        if name in known and re.fullmatch(rf"(?:{known[name] or '.*'})(?:\s.*)?", asked, re.DOTALL):
            return is_test
    return None


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


def _words(given: Any) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        return ""
    is_script = len(given) == 3 and given[1] in ("-c", "-lc")
    return given[2] if is_script else shlex.join(given)
