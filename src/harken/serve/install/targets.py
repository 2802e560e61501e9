"""The coding agents that Harken can be put into: their files, their hooks, and what they leave to be done.

Source: the agents' releases of November 2026. Claude Code, Codex and Gemini CLI were seen at work with what is written
here; Cursor and OpenCode were not, theirs is from their documentation.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from harken.errors import UsageError
from harken.serve.hooks.events import CHECKED, CLAUDE_CODE, CODEX, GEMINI, event_name
from harken.serve.install.entries import JSON, TOML, ConfigEntry, Syntax
from harken.serve.install.plan import Edit

CURSOR, OPENCODE = "cursor", "opencode"
_NAME = "harken"
# Harken as a file names it that others get with the project: their machines have it elsewhere.
SHARED_COMMAND = (_NAME,)
# Where `uvx` puts what it runs; its next cleaning takes it away.
_PASSING = ("archive-v", "environments-v")
_GROWING = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")


class Command(NamedTuple):
    """The words that start Harken from wherever an agent is; `home` is None where Harken finds it by itself."""

    words: tuple[str, ...]
    home: str | None = None

    def hook(self, event: str, agent: str) -> str:
        """Return a hook as a line of a shell."""
        home = ["--home", self.home] if self.home else []
        return shlex.join([*self.words, "hook", event, "--agent", agent, *home])

    def server(self, **more: Any) -> dict[str, Any]:
        """Return the MCP server as most agents write it."""
        environment = {"env": self.environment} if self.environment else {}
        return {**more, "command": self.words[0], "args": [*self.words[1:], "mcp"], **environment}

    @property
    def environment(self) -> dict[str, str]:
        """What the MCP server is to find in its environment."""
        return {} if self.home is None else {"HARKEN_HOME": self.home}


def own_command() -> tuple[str, ...]:
    """This Harken, named so that it is found without a PATH: agents that were not started in a shell have another.

    Raises:
        UsageError: this one will be gone soon.
    """
    script = Path(sys.executable).parent / _NAME
    if any(part.startswith(_PASSING) for part in script.parts):
        raise UsageError(
            "This Harken runs out of a cache that is emptied some day. First, in a clone: uv tool install '.[all]'"
        )
    found = shutil.which(_NAME)
    if found and script.exists() and Path(found).samefile(script):
        # The link that `uv tool` and `pipx` make outlives the environment that it points into.
        return (str(Path(found).absolute()),)
    return (str(script),) if script.exists() else (sys.executable, "-m", _NAME)


class Where(NamedTuple):
    """The home folder of a person, or the project whose files are changed instead, and the agents' own variables."""

    person: Path
    project: Path | None
    env: Mapping[str, str]

    def folder(self, variable: str, otherwise: str) -> Path:
        """Return a person's folder that a variable may have moved."""
        named = self.env.get(variable)
        return Path(named) if named else self.person / otherwise

    def edit(self, person: Path, project: str, syntax: Syntax, *entries: ConfigEntry) -> Edit:
        """Return the change of the file of the person, or of the one of the project."""
        if self.project is None:
            return Edit(person, syntax, entries)
        return Edit(self.project / project, syntax, entries, new_mode=0o644)


class Hooked(NamedTuple):
    """The events that are answered, the timeout in the agent's unit, and its shell, whose results alone are told."""

    events: tuple[str, ...]
    timeout: int
    shell: str


class Target(NamedTuple):
    """An agent; `hooked` is None where it has the MCP server alone, `notes` say what is left to be done by hand."""

    title: str
    edits: Callable[[Where, Command, Hooked | None], list[Edit]]
    hooked: Hooked | None
    notes: tuple[str, ...]


def _hooks(agent: str, hooked: Hooked | None, command: Command) -> list[ConfigEntry]:
    if hooked is None:
        return []
    entries = []
    for event in hooked.events:
        handler = {"type": "command", "command": command.hook(event, agent), "timeout": hooked.timeout}
        matcher = {"matcher": hooked.shell} if event_name(event) in CHECKED else {}
        entries.append(ConfigEntry(("hooks", event), {**matcher, "hooks": [handler]}, listed=True))
    return entries


def _claude_code(where: Where, command: Command, hooked: Hooked | None) -> list[Edit]:
    folder = where.folder("CLAUDE_CONFIG_DIR", ".claude")
    # The other file is beside the folder, unless the folder was moved.
    state = folder / ".claude.json" if where.env.get("CLAUDE_CONFIG_DIR") else where.person / ".claude.json"
    server = ConfigEntry(("mcpServers", _NAME), command.server(type="stdio"))
    return [
        where.edit(folder / "settings.json", ".claude/settings.json", JSON, *_hooks(CLAUDE_CODE, hooked, command)),
        where.edit(state, ".mcp.json", JSON, server),
    ]


def _codex(where: Where, command: Command, hooked: Hooked | None) -> list[Edit]:
    folder = where.folder("CODEX_HOME", ".codex")
    server = ConfigEntry(("mcp_servers", _NAME), command.server())
    return [
        where.edit(folder / "hooks.json", ".codex/hooks.json", JSON, *_hooks(CODEX, hooked, command)),
        where.edit(folder / "config.toml", ".codex/config.toml", TOML, server),
    ]


def _one_file(agent: str, name: str, where: Where, command: Command, hooked: Hooked | None) -> list[Edit]:
    server = ConfigEntry(("mcpServers", _NAME), command.server())
    return [where.edit(where.person / name, name, JSON, *_hooks(agent, hooked, command), server)]


def _opencode(where: Where, command: Command, _hooked: Hooked | None) -> list[Edit]:
    folder = where.project or where.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    path = folder / "opencode.jsonc"
    path = path if path.exists() else folder / "opencode.json"
    server: dict[str, Any] = {"type": "local", "command": [*command.words, "mcp"], "enabled": True}
    if command.environment:
        server["environment"] = command.environment
    return [where.edit(path, path.name, JSON, ConfigEntry(("mcp", _NAME), server))]


_NO_HOOKS = "{} gets the MCP server alone: it searches when it is asked to, and its conversations are not recorded."

TARGETS: Mapping[str, Target] = {
    CLAUDE_CODE: Target(
        "Claude Code",
        _claude_code,
        Hooked(("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", *_GROWING), 5, "Bash"),
        ("Start Claude Code anew: sessions that run already keep the settings that they began with.",),
    ),
    CODEX: Target(
        "Codex",
        _codex,
        # Three seconds is what Codex grants SessionEnd at most.
        Hooked(("SessionStart", "UserPromptSubmit", "PostToolUse", *_GROWING), 3, "Bash"),
        ("Codex starts a hook only when you trust it: type /hooks in Codex once.",),
    ),
    CURSOR: Target("Cursor", partial(_one_file, CURSOR, ".cursor/mcp.json"), None, (_NO_HOOKS.format("Cursor"),)),
    GEMINI: Target(
        "Gemini CLI",
        partial(_one_file, GEMINI, ".gemini/settings.json"),
        # In milliseconds, there alone.
        Hooked(("SessionStart", "BeforeAgent", "AfterTool"), 5000, "run_shell_command"),
        ("Gemini CLI is given what other agents' conversations hold; its own are not recorded.",),
    ),
    OPENCODE: Target("OpenCode", _opencode, None, (_NO_HOOKS.format("OpenCode"),)),
}
