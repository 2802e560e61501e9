"""Events as a hook receives them: read, and what has grown put down in a file. Standard library only."""

from __future__ import annotations

import json
import os
from typing import Any

from harken.serve.daemon import spool
from harken.serve.hooks.agents import AGENTS, GROWN, KNOWN, event_name, transcripts


def read_payload(content: bytes) -> dict[str, Any] | None:
    """What an agent told its hook; None where it is no JSON object."""
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
        content: what the agent told its hook.
    Returns:
        Whether this was an event that we know, of an agent that we know.
    Raises:
        OSError: the folder cannot be written.
    """
    found = grown(event, agent, read_payload(content))
    for transcript in found or ():
        spool.put(folder, transcript)
    return found is not None


def grown(event: str, agent: str, payload: dict[str, Any] | None) -> list[spool.Transcript] | None:
    """The transcripts that an event says have grown; None where event, agent or payload is none that we know."""
    name = event_name(event)
    if payload is None or name not in KNOWN or agent not in AGENTS:
        return None
    paths = transcripts(payload) if name in GROWN and AGENTS[agent].read else []
    return [spool.Transcript(AGENTS[agent].format, os.path.abspath(path)) for path in paths]
