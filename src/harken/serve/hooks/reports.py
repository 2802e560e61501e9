"""Events as a hook receives them: read, and what has grown put down in a file. On the way of hooks."""

from __future__ import annotations

import os

from harken.serve.hooks.agents import AGENTS, GROWN, KNOWN, event_name, transcripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from harken.serve.daemon.spool import Transcript


def read_payload(content: bytes) -> dict[str, Any] | None:
    """What an agent told its hook; None where it is no JSON object."""
    # Not before somebody wants to know: of all that a hook does without a daemon, this import takes the longest.
    import json

    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def report(folder: str, event: str, agent: str, content: bytes) -> bool:
    """Put down the transcripts that an event says have grown.

    Args:
        folder: of the reports.
        event: in any spelling.
        agent: one of `agents.AGENTS`.
        content: what the agent told its hook; read only where the event is one behind which something has grown.
    Returns:
        Whether this was an event that we know, of an agent that we know.
    Raises:
        OSError: the folder cannot be written.
    """
    name = event_name(event)
    if name not in GROWN:
        return name in KNOWN and agent in AGENTS and _may_be_object(content)
    from harken.serve.daemon.spool import put

    found = grown(event, agent, read_payload(content))
    for transcript in found or ():
        put(folder, transcript)
    return found is not None


def grown(event: str, agent: str, payload: dict[str, Any] | None) -> list[Transcript] | None:
    """The transcripts that an event says have grown; None where event, agent or payload is none that we know."""
    from harken.serve.daemon.spool import Transcript

    name = event_name(event)
    if payload is None or name not in KNOWN or agent not in AGENTS:
        return None
    paths = transcripts(payload) if name in GROWN and AGENTS[agent].read else []
    return [Transcript(AGENTS[agent].format, os.path.abspath(path)) for path in paths]


def _may_be_object(content: bytes) -> bool:
    stripped = content.strip()
    return stripped[:1] == b"{" and stripped[-1:] == b"}"
