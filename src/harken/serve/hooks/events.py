"""The coding agents whose hooks we answer, and their events as a hook receives them. On the way of hooks."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

    from harken.serve.daemon.spool import Transcript


CLAUDE_CODE, CODEX, GEMINI = "claude-code", "codex", "gemini"
# Agents whose transcripts can be imported; the format has the agent's name.
IMPORTED = frozenset({CLAUDE_CODE, CODEX})
ANSWERED = IMPORTED | {GEMINI}

SESSION_START, PROMPT = "sessionstart", "userpromptsubmit"
# Events behind which a transcript has grown.
GROWN = frozenset({"stop", "subagentstop", "precompact", "sessionend", "stopfailure"})
# Claude Code tells of a tool that failed by an event of its own.
TOOL_USED, TOOL_FAILED = "posttooluse", "posttoolusefailure"
CHECKED = frozenset({TOOL_USED, TOOL_FAILED})
KNOWN = GROWN | CHECKED | {SESSION_START, PROMPT}
# What Gemini CLI calls them.
_ALIASES = {"beforeagent": PROMPT, "aftertool": TOOL_USED}


def event_name(text: str) -> str:
    """Return an event's name without its spelling: `UserPromptSubmit`, `user-prompt-submit` and the like are one."""
    plain = text.replace("-", "").replace("_", "").lower()
    return _ALIASES.get(plain, plain)


def asks(event: str) -> bool:
    """Whether an agent waits to be told something before it begins: then the first answer is worth a daemon's start."""
    return event_name(event) in (SESSION_START, PROMPT)


def is_path(text: object) -> TypeGuard[str]:
    """Whether a file of this machine can have this path: it is not empty, and holds no half of a character."""
    try:
        return isinstance(text, str) and bool(os.fsencode(text)) and "\0" not in text
    except UnicodeEncodeError:
        return False


def read_payload(content: bytes) -> dict[str, Any] | None:
    """Return what an agent told its hook; None where it is no JSON object."""
    # Not before somebody wants to know: of all that a hook does without a daemon, this import takes the longest.
    import json

    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def grown(event: str, agent: str, payload: dict[str, Any] | None) -> list[Transcript] | None:
    """Return the transcripts, a subagent's too, that an event says have grown; None where we know no such event."""
    from harken.serve.daemon.spool import Transcript

    name = event_name(event)
    if payload is None or name not in KNOWN or agent not in ANSWERED:
        return None
    if name not in GROWN or agent not in IMPORTED:
        return []
    paths = [payload.get("transcript_path"), payload.get("agent_transcript_path")]
    return [Transcript(agent, os.path.abspath(path)) for path in paths if is_path(path)]


def report(folder: str, event: str, agent: str, content: bytes) -> bool:
    """Put down the transcripts that an event says have grown; whether we know it, and the agent.

    The content is what the agent told its hook; it is read only where something has grown.

    Raises:
        OSError: the folder cannot be written.
    """
    name = event_name(event)
    if name not in GROWN:
        stripped = content.strip()
        return name in KNOWN and agent in ANSWERED and stripped[:1] == b"{" and stripped[-1:] == b"}"
    from harken.serve.daemon.spool import put

    transcripts = grown(event, agent, read_payload(content))
    for transcript in transcripts or ():
        put(folder, transcript)
    return transcripts is not None
