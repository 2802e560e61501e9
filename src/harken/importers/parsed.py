"""Items that every transcript parser yields, whatever the agent that wrote the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from harken.model.conversations import EMPTY
from harken.record.prepared import NewMessage


@dataclass(frozen=True, slots=True)
class ParsedConversation:
    """A conversation's head; a parser yields it before the conversation's first message, once per file.

    Attributes:
        external_id: the agent's own id of the conversation, unique within the channel.
        project: a name given outright; without one, the project follows from `cwd` and `git_remote`.
        parent_external_id: for a subagent's side file, the conversation that called it.
    """

    external_id: str
    title: str = ""
    created_at: datetime | None = None
    cwd: str | None = None
    git_remote: str | None = None
    project: str | None = None
    parent_external_id: str | None = None
    metadata: Mapping[str, Any] = EMPTY


@dataclass(frozen=True, slots=True)
class ParsedTitle:
    """A title that the agent gave a conversation later than its head."""

    conversation: str
    title: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line or item that is not what the format says; counted and shown, never fatal.

    Attributes:
        line: counts from 1; for JSON documents the item's number in the list.
        reason: a short clause that quotes no text of the file.
    """

    path: Path
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything before this byte offset has been yielded; where files only grow, reading may go on from here."""

    offset: int


ParsedItem = ParsedConversation | NewMessage | ParsedTitle | Unreadable | Checkpoint


class TranscriptFormat(Protocol):
    """One agent's way of writing conversations down.

    Attributes:
        name: as the command line spells it (`claude-code`, `codex`, …); also the channel.
        appends: files only grow, so `parse` may start at an offset; else a file is read whole.
    """

    name: str
    appends: bool = False

    def discover(self) -> list[Path]:
        """The places where this agent keeps its histories on this machine and that exist; empty if none."""
        return []

    def files(self, path: Path) -> list[Path]:
        """The transcript files under a path (itself, if it is a file), oldest first."""
        ...

    def parse(self, path: Path, offset: int = 0) -> Iterator[ParsedItem]:
        """Yield the file's items in order.

        Args:
            path: one of `files`.
            offset: a `Checkpoint` of an earlier reading; always 0 where `appends` is false.
        Raises:
            TranscriptError: the file as a whole is not of this format.
            OSError: the file cannot be read.
        """
        ...
