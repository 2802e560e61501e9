"""Harken's own exchange format: one message per line.

Keys: `conversation`, `role`, `content`, and as wanted `author`, `ts` (or `timestamp`, `created_at`, `at`, `time`,
`date`), `type`, `project`, `title`, `id`, `call_id`, `tool_name`, `metadata`. What is null counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from harken.importers.parsed import ParsedConversation, ParsedItem, ParsedTitle, TranscriptFormat, Unreadable
from harken.importers.reading import LineReader, files_below, follow, in_order, moment, string
from harken.model.conversations import EMPTY, MessageType, Role
from harken.record.prepared import NewMessage
from harken.text.fence import without_recall

_ROLES = {role.value: role for role in Role}
_TYPES = (MessageType.TEXT, MessageType.TOOL_CALL, MessageType.TOOL_RESULT, MessageType.MARKER)
# What files of others call a time; one that is none is passed over like any key of theirs.
_OTHER_TIMES = ("timestamp", "created_at", "at", "time", "date")
_TEXT_KEYS = ("author", "project", "title", "id", "call_id", "tool_name")


class Jsonl(TranscriptFormat):
    """Harken's own exchange format."""

    name = "jsonl"

    def files(self, path: Path) -> list[Path]:
        """The `.jsonl` files under a path, oldest first."""
        if path.is_file():
            return [path]
        return in_order(files_below(path, "*.jsonl"), lambda file: (file.stat().st_mtime, str(file)))

    def parse(self, path: Path, offset: int = 0) -> Iterator[ParsedItem]:
        """Yield the file's items in order; it is read whole, whatever the offset."""
        return follow(path, _LinesReader(path))


class _LinesReader(LineReader):
    """Reads one file's lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._titles: dict[str, str] = {}

    def read(self, value: dict[str, Any], number: int) -> Iterator[ParsedItem]:
        """Yield the message of one line, or the key that is wrong with it."""
        if fault := _fault(value):
            yield Unreadable(self._path, number, fault)
            return
        conversation, title, at = value["conversation"], value.get("title") or "", moment(value.get("ts"))
        if at is None and value.get("ts") is not None:
            yield Unreadable(self._path, number, "'ts' is neither an ISO time nor an epoch number")
            return
        at = at or next(filter(None, map(moment, map(value.get, _OTHER_TIMES))), None)
        if conversation not in self._titles:
            self._titles[conversation] = title
            yield ParsedConversation(conversation, title=title, created_at=at, project=string(value.get("project")))
        elif title and title != self._titles[conversation]:
            self._titles[conversation] = title
            yield ParsedTitle(conversation, title)
        message = _message(value, at)
        if message.text.strip() or message.type is not MessageType.TEXT:
            yield message


def _message(line: Mapping[str, Any], said_at: datetime | None) -> NewMessage:
    role = _ROLES[line["role"]]
    implied = MessageType.TOOL_RESULT if role is Role.TOOL else MessageType.TEXT
    return NewMessage(
        role,
        without_recall(line["content"]),
        MessageType(line["type"]) if line.get("type") else implied,
        conversation=line["conversation"],
        external_id=line.get("id") or "",
        created_at=said_at,
        author=string(line.get("author")),
        call_id=string(line.get("call_id")),
        tool_name=string(line.get("tool_name")),
        metadata=line.get("metadata") or EMPTY,
    )


def _fault(line: Mapping[str, Any]) -> str:
    """The first key that is not what the format says; empty if all are."""
    for key in ("conversation", "content", "role"):
        if line.get(key) is None:
            return f"'{key}' is missing"
    if not string(line["conversation"]):
        return "'conversation' is not a text"
    if not isinstance(line["content"], str):
        return "'content' is not a text"
    if not isinstance(line["role"], str) or line["role"] not in _ROLES:
        return f"'role' is not one of {', '.join(Role)}"
    if line.get("type") is not None and line["type"] not in _TYPES:
        return f"'type' is not one of {', '.join(_TYPES)}"
    if not isinstance(line.get("metadata"), (dict, type(None))):
        return "'metadata' is not an object"
    for key in _TEXT_KEYS:
        if key in line and not isinstance(line[key], (str, type(None))):
            return f"'{key}' is not a text"
    return ""
