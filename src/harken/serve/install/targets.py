"""The coding agents that Harken can be put into: their files, their hooks, and what they leave to be done.

Source: the agents' releases of November 2026. Claude Code, Codex and Gemini CLI were seen at work with what is written
here; Cursor and OpenCode were not, theirs is from their documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harken.serve.hooks.agents import CHECKED, CLAUDE_CODE, CODEX, GEMINI, event_name
from harken.serve.install.command import Command
from harken.serve.install.entries import JSON, TOML, ConfigEntry
from harken.serve.install.plan import Edit

CURSOR, OPENCODE = "cursor", "opencode"
_NAME = "harken"
_SHARED_MODE = 0o644


class Where(NamedTuple):
    """Where an agent is looked for.

    Attributes:
        person: `~`.
        project: the folder whose files are changed; None for the person's own.
        env: `CLAUDE_CONFIG_DIR`, `CODEX_HOME` and `XDG_CONFIG_HOME` of the agents.
    """

    person: Path
    project: Path | None
    env: Mapping[str, str]

    def folder(self, variable: str, otherwise: str) -> Path:
        """A person's folder that a variable may have moved."""
        named = self.env.get(variable)
        return Path(named) if named else self.person / otherwise

    def at(self, person: Path, project: str) -> Path:
        """The file of the person, or the one of the project."""
        return person if self.project is None else self.project / project


class Hooked(NamedTuple):
    """How an agent starts hooks.

    Attributes:
        events: those that are answered, as the agent calls them.
        timeout: in the agent's own unit.
        shell: the tool that runs commands, as the agent calls it; of no other is what it came to reported.
    """

    events: tuple[str, ...]
    timeout: int
    shell: str


class Target(NamedTuple):
    """An agent.

    Attributes:
        title: its name as people write it.
        edits: makes the changes to its files.
        hooked: None where it has the MCP server alone.
        notes: what is left to be done, or not to be had.
    """

    title: str
    edits: Callable[[Where, Command, Hooked | None], list[Edit]]
    hooked: Hooked | None
    notes: tuple[str, ...]


_GROWING = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")


def _hooks(agent: str, hooked: Hooked, command: Command) -> tuple[ConfigEntry, ...]:
    def entry(event: str) -> ConfigEntry:
        handler = {"type": "command", "command": command.hook(event, agent), "timeout": hooked.timeout}
        matcher = {"matcher": hooked.shell} if event_name(event) in CHECKED else {}
        return ConfigEntry(("hooks", event), {**matcher, "hooks": [handler]}, listed=True)

    return tuple(map(entry, hooked.events))


def _server(command: Command, **more: Any) -> dict[str, Any]:
    program, arguments = command.server
    environment = {"env": dict(command.environment)} if command.environment else {}
    return {**more, "command": program, "args": arguments, **environment}


def _mode(where: Where) -> int:
    return 0o600 if where.project is None else _SHARED_MODE


def _claude_code(where: Where, command: Command, hooked: Hooked | None) -> list[Edit]:
    folder = where.folder("CLAUDE_CONFIG_DIR", ".claude")
    # The other file is beside the folder, unless the folder was moved.
    state = folder / ".claude.json" if "CLAUDE_CONFIG_DIR" in where.env else where.person / ".claude.json"
    settings, servers = where.at(folder / "settings.json", ".claude/settings.json"), where.at(state, ".mcp.json")
    server = ConfigEntry(("mcpServers", _NAME), _server(command, type="stdio"))
    hooks = _hooks(CLAUDE_CODE, hooked, command) if hooked else ()
    return [Edit(settings, JSON, hooks, _mode(where)), Edit(servers, JSON, (server,), _mode(where))]


def _codex(where: Where, command: Command, hooked: Hooked | None) -> list[Edit]:
    folder = where.at(where.folder("CODEX_HOME", ".codex"), ".codex")
    server = ConfigEntry(("mcp_servers", _NAME), _server(command))
    hooks = _hooks(CODEX, hooked, command) if hooked else ()
    return [
        Edit(folder / "hooks.json", JSON, hooks, _mode(where)),
        Edit(folder / "config.toml", TOML, (server,), _mode(where)),
    ]


def _gemini(where: Where, command: Command, hooked: Hooked | None) -> list[Edit]:
    settings = where.at(where.person / ".gemini" / "settings.json", ".gemini/settings.json")
    hooks = _hooks(GEMINI, hooked, command) if hooked else ()
    return [Edit(settings, JSON, (*hooks, ConfigEntry(("mcpServers", _NAME), _server(command))), _mode(where))]


def _cursor(where: Where, command: Command, _hooked: Hooked | None) -> list[Edit]:
    servers = where.at(where.person / ".cursor" / "mcp.json", ".cursor/mcp.json")
    return [Edit(servers, JSON, (ConfigEntry(("mcpServers", _NAME), _server(command)),), _mode(where))]


def _opencode(where: Where, command: Command, _hooked: Hooked | None) -> list[Edit]:
    folder = where.at(where.folder("XDG_CONFIG_HOME", ".config") / "opencode", "")
    files = [folder / "opencode.jsonc", folder / "opencode.json"]
    program, arguments = command.server
    server: dict[str, Any] = {"type": "local", "command": [program, *arguments], "enabled": True}
    if command.environment:
        server["environment"] = dict(command.environment)
    path = next((file for file in files if file.exists()), files[-1])
    return [Edit(path, JSON, (ConfigEntry(("mcp", _NAME), server),), _mode(where))]


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
    CURSOR: Target("Cursor", _cursor, None, (_NO_HOOKS.format("Cursor"),)),
    GEMINI: Target(
        "Gemini CLI",
        _gemini,
        # In milliseconds, there alone.
        Hooked(("SessionStart", "BeforeAgent", "AfterTool"), 5000, "run_shell_command"),
        ("Gemini CLI is given what other agents' conversations hold; its own are not recorded.",),
    ),
    OPENCODE: Target("OpenCode", _opencode, None, (_NO_HOOKS.format("OpenCode"),)),
}
