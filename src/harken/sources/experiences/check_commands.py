"""Which shell commands run tests or builds, and whether their exit code is the check's own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

SHELL_TOOLS = frozenset(
    [
        "bash",
        "shell",
        "sh",
        "zsh",
        "exec",
        "execute",
        "exec_command",
        "shell_command",
        "local_shell",
        "run_command",
        "run_shell_command",
        "run_terminal_cmd",
        "terminal",
    ]
)
_OPERATOR = re.compile(r"[;&|<>()\n]+")
_REDIRECTED = re.compile(r"\s*(?:\b[0-9]\s?|&)?[<>].*", re.DOTALL)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_WRAPPERS = (
    ("sudo",), ("time",), ("env",), ("command",), ("exec",), ("nohup",), ("npx",), ("bunx",), ("pnpm", "exec"),
    ("yarn", "exec"), ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("bundle", "exec"),
    ("coverage", "run", "-m"),
)  # fmt: skip
# Behind these stands what it runs in: a service, a container.
_CONTAINERS = (
    ("docker", "compose", "exec"), ("docker", "compose", "run"), ("docker-compose", "exec"), ("docker-compose", "run"),
    ("docker", "exec"), ("podman", "exec"),
)  # fmt: skip
# Options of what only runs a command that have a value behind them.
_VALUED = {
    "uv": "--with --with-editable --with-requirements --extra --group --only-group --python -p --directory --project"
    " --package --env-file",
    "npx": "-p --package",
    "poetry": "-C --directory -P --project",
    "sudo": "-u --user -g --group",
    "env": "-u --unset -C --chdir",
    **dict.fromkeys(
        ("docker", "docker-compose", "podman"),
        "-e --env --env-file -u --user -w --workdir --name --index -f --file -p --project-name --project-directory"
        " --profile -c --context -H --host",
    ),
}
_SHELLS = frozenset(["bash", "sh", "zsh", "dash"])
_SCRIPT_OPTIONS = frozenset(["-c", "-lc", "-ec", "-ic", "-xc"])
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
        owns_success: that the line ended well says that the check did.
        owns_failure: that the line ended badly says that the check did.
    """

    line: str
    check: str
    is_test: bool
    owns_success: bool
    owns_failure: bool


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

    The last check of the line counts: what comes before it is usually there to reach it.
    """
    parts = [each for part in _parts(line.partition("<<")[0]) for each in _opened(part)]
    found = [(place, kind) for place, part in enumerate(parts) if (kind := _kind(part.words)) is not None]
    if not found:
        return None
    place, is_test = found[-1]
    before, behind = parts[:place], parts[place + 1 :]
    checks = {each for each, _ in found}
    ready = all(
        part.words[0] in _PREPARING or part.then in (";", "\n") or number in checks
        for number, part in enumerate(before)
    )
    joined = all(part.then in ("&&", ";", "\n") for part in before)
    ends_well = all(part.then == "&&" for part in parts[place:-1])
    check = _REDIRECTED.sub("", " ".join(parts[place].words))
    return CheckCommand(line.strip(), check, is_test, joined and ends_well, joined and ready and not behind)


@dataclass(frozen=True, slots=True)
class _Part:
    """A simple command and the operator behind it."""

    words: tuple[str, ...]
    then: str


def _parts(line: str) -> list[_Part]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    parts: list[_Part] = []
    words: list[str] = []
    try:
        for token in lexer:
            if not _OPERATOR.fullmatch(token) or "<" in token or ">" in token:
                words.append(token)
            elif words:
                parts.append(_Part(tuple(words), token.strip("()") or token))
                words = []
    except ValueError:
        return []
    return [*parts, _Part(tuple(words), "")] if words else parts


def _opened(part: _Part) -> list[_Part]:
    """The commands inside `bash -c '...'`; else the command itself."""
    words = _unwrapped(part.words)
    is_script = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in _SCRIPT_OPTIONS
    inside = _parts(words[2]) if is_script else []
    return [*inside[:-1], replace(inside[-1], then=part.then)] if inside else [part]


def _kind(words: Sequence[str]) -> bool | None:
    """Whether a simple command tests (True) or builds (False); None for neither."""
    program, *rest = _unwrapped(words) or [""]
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


def _unwrapped(words: Sequence[str]) -> list[str]:
    """The command behind what only runs it: assignments, `sudo`, `uv run`, `timeout 60`…"""
    left = list(words)
    while left:
        if _ASSIGNMENT.fullmatch(left[0]):
            left = left[1:]
        elif left[0] == "timeout":
            left = [word for number, word in enumerate(left[1:]) if number or not word[:1].isdigit()]
        elif (wrapper := _wrapper(left)) is not None:
            left = _without_options(left[len(wrapper) :], _VALUED.get(wrapper[0], "").split())
        elif (inside := _in_container(left)) is not None:
            left = inside
        else:
            break
    return left


def _wrapper(words: Sequence[str]) -> tuple[str, ...] | None:
    """The words that only run what comes behind them."""
    return next((one for one in _WRAPPERS if tuple(words[: len(one)]) == one), None)


def _in_container(words: Sequence[str]) -> list[str] | None:
    """What is run in a service or a container, whatever options stand between the words."""
    valued = _VALUED.get(words[0], "").split()
    for wanted in _CONTAINERS:
        left = list(words)
        for word in wanted:
            if left[:1] != [word]:
                break
            left = _without_options(left[1:], valued)
        else:
            return left[1:]
    return None


def _without_options(words: Sequence[str], valued: Sequence[str]) -> list[str]:
    left = list(words)
    while left and left[0].startswith("-"):
        left = left[2:] if left[0] in valued else left[1:]
    return left


def _words(given: Any) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        return ""
    is_script = len(given) == 3 and given[1] in _SCRIPT_OPTIONS
    return given[2] if is_script else shlex.join(given)
