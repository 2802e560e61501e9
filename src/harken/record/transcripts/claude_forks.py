"""Claude Code's forks: a session whose file begins with a copy of what was said in another one.

The copies stand there under the new session's id, so that nothing in a line alone tells it from a new one. They are
what the other session said, once: recorded again, each would come back twice, and what was forgotten would return.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harken.record.transcripts.fields import mapping, string
from harken.record.transcripts.lines import decoded

# What the command line writes into copied answers, and what the SDK writes into every copied line.
_REQUESTED_BY, _FORKED_FROM = "requestSessionId", "forkedFrom"


class Origin(NamedTuple):
    """Where a copied line was written first, and when, if that is known."""

    session: str
    uuid: str
    timestamp: str | None = None


def as_first_written(line: dict[str, Any], copies: Mapping[str, Origin]) -> dict[str, Any]:
    """The line as it stands where it was copied from; any other line as it is."""
    origin = copies.get(string(line.get("uuid")) or "")
    if origin is None:
        return line
    first = {**line, "sessionId": origin.session, "uuid": origin.uuid}
    return {**first, "timestamp": origin.timestamp} if origin.timestamp else first


def copied_lines(path: Path) -> dict[str, Origin]:
    """The origin of every line of a session's file that was copied from another one, by the line's uuid.

    Source: sessions forked by Claude Code 2.1.330 and by claude-agent-sdk 0.2.187.
    """
    copies: dict[str, Origin] = {}
    unclear: list[str] = []
    session = ""
    for line in _own_head(path):
        uuid = string(line.get("uuid"))
        if uuid is None:
            continue
        forked = mapping(line.get(_FORKED_FROM))
        if (first := string(forked.get("sessionId"))) and (same := string(forked.get("messageUuid"))):
            session, copies[uuid] = first, Origin(first, same)
        elif first := string(line.get(_REQUESTED_BY)):
            # Prompts bear no mark: each was copied with the answer that follows it.
            session = first
            copies |= {each: Origin(first, each) for each in (*unclear, uuid)}
            unclear = []
        else:
            unclear.append(uuid)
    return _dated(path, copies, unclear, session) if session else {}


def _own_head(path: Path) -> Iterator[dict[str, Any]]:
    """The lines up to the first answer that was given in this session: copies stand before it."""
    with path.open("rb") as stream:
        for raw in stream:
            line, _ = decoded(raw)
            if line is None:
                continue
            is_copy = _FORKED_FROM in line or line.get(_REQUESTED_BY) not in (None, line.get("sessionId"))
            if line.get("type") == "assistant" and not is_copy:
                return
            yield line


def _dated(path: Path, copies: Mapping[str, Origin], unclear: list[str], session: str) -> dict[str, Origin]:
    """The same with what the other session's file, if it is still there, tells of them.

    A prompt that nobody answered is a copy if it stands there; and the SDK gives the last line it copies a new time.
    """
    original = path.with_name(f"{session}.jsonl") if Path(session).name == session else path
    if original == path or not original.is_file():
        return dict(copies)
    times: dict[str, str] = {}
    with original.open("rb") as stream:
        for raw in stream:
            line, _ = decoded(raw) if b'"uuid"' in raw else (None, "")
            if line and (uuid := string(line.get("uuid"))):
                times[uuid] = string(line.get("timestamp")) or ""
    found = {uuid: origin._replace(timestamp=times.get(origin.uuid) or None) for uuid, origin in copies.items()}
    return found | {uuid: Origin(session, uuid) for uuid in unclear if uuid in times}
