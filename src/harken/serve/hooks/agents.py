"""The coding agents whose hooks we answer: what they call things, and how much they take. On the way of hooks."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Agent:
    """A coding agent.

    Args:
        format: of its transcripts, and the channel of its conversations.
        max_chars: more than this and the agent shows its model a stump.
        max_tokens: likewise.
        read: whether its transcripts can be imported.
        marks: whether its hooks are told how a command ended.
    """

    __slots__ = ("format", "marks", "max_chars", "max_tokens", "read")

    def __init__(
        self,
        format: str,
        max_chars: int,
        max_tokens: int,
        read: bool = True,
        marks: bool = True,
    ) -> None:
        self.format = format
        self.max_chars = max_chars
        self.max_tokens = max_tokens
        self.read = read
        self.marks = marks


CLAUDE_CODE, CODEX, GEMINI = "claude-code", "codex", "gemini"
# Claude Code takes 10,000 characters of one hook, Codex 2,500 tokens. Source: both, as of November 2026.
AGENTS = {
    CLAUDE_CODE: Agent(CLAUDE_CODE, 9_500, 100_000),
    CODEX: Agent(CODEX, 9_500, 2_400, marks=False),
    GEMINI: Agent(GEMINI, 9_500, 100_000, read=False),
}

SESSION_START, PROMPT = "sessionstart", "userpromptsubmit"
# Events behind which a transcript has grown.
GROWN = frozenset({"stop", "subagentstop", "precompact", "sessionend", "stopfailure"})
# Claude Code tells of a tool that failed by an event of its own.
TOOL_USED, TOOL_FAILED = "posttooluse", "posttoolusefailure"
CHECKED = frozenset({TOOL_USED, TOOL_FAILED})
ANSWERED = frozenset({SESSION_START, PROMPT, *CHECKED})
KNOWN = GROWN | ANSWERED
# What Gemini CLI calls them.
_ALIASES = {"beforeagent": PROMPT, "aftertool": TOOL_USED}


def event_name(text: str) -> str:
    """An event's name without its spelling: `UserPromptSubmit`, `user-prompt-submit` and `userPromptSubmit` are one."""
    plain = text.replace("-", "").replace("_", "").lower()
    return _ALIASES.get(plain, plain)


def transcripts(payload: Mapping[str, Any]) -> list[str]:
    """Paths of the transcripts that an event names, its own and a subagent's."""
    named = (payload.get("transcript_path"), payload.get("agent_transcript_path"))
    return [path for path in named if isinstance(path, str) and is_path(path)]


def is_path(text: str) -> bool:
    """Whether a file of this machine can have this path: it is not empty, and holds no half of a character."""
    try:
        return bool(os.fsencode(text)) and "\0" not in text
    except UnicodeEncodeError:
        return False
