"""One transcript read and made ready for the recorder, without the store: here, or in a process of its own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from harken.importers.parsed import (
    Checkpoint,
    ParsedConversation,
    ParsedItem,
    ParsedTitle,
    TranscriptFormat,
    Unreadable,
)
from harken.model.conversations import MessageType, ProjectIdentity, Role, Trust, least_trusted
from harken.record.prepared import NewConversation, NewMessage, Prepared, Preparer
from harken.record.project import identify_project

# Agents on this machine wrote these themselves; any other format has only somebody's word for it.
OWN_FORMATS = ("claude-code", "codex")
# A portion is written in a few milliseconds, so that the writer may end its transaction behind any.
_PORTION_WEIGHT = 16_000
_MESSAGE_WEIGHT, _PART_WEIGHT = 250, 1_500
_HASH_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """A transcript to be read.

    Attributes:
        size: of the file when it was looked at, in bytes.
        begin: the offset to read from.
        fallback: the time of what has none.
        is_capped: nobody says that it is the owner's, so that its words come as `imported`.
    """

    transcripts: TranscriptFormat
    file: Path
    size: int
    begin: int
    fallback: datetime
    is_capped: bool


@dataclass(slots=True)
class ConversationPart:
    """What a portion has of a conversation.

    Attributes:
        after: the id of the message before; empty before the first.
        is_last: nothing more comes for now.
    """

    head: NewConversation
    after: str = ""
    is_last: bool = False
    messages: list[Prepared] = field(default_factory=list)

    @property
    def weight(self) -> int:
        """About how long it takes to write, in characters."""
        return _PART_WEIGHT + sum(_MESSAGE_WEIGHT + len(one.message.text) for one in self.messages)


@dataclass(slots=True)
class Portion:
    """A transcript's next few messages.

    Attributes:
        offset: how far the file has been read, in bytes.
        fingerprint: the hash of what need not be read again, once all so far is written; empty where the file is to be
            read from where it was before.
        is_last: the file was read to its end. The part of every conversation in which anything was said is there.
    """

    parts: list[ConversationPart]
    unreadable: list[Unreadable]
    offset: int
    fingerprint: str
    is_last: bool


@dataclass(slots=True)
class _Thread:
    uid: str
    part: ConversationPart
    seen: Counter[tuple[object, ...]] = field(default_factory=Counter)
    last_at: datetime | None = None
    changed: bool = False


def read_portions(task: ReadingTask, preparer: Preparer, prefix: Prefix | None = None) -> Iterator[Portion]:
    """Yield a transcript's messages, ready to be recorded, in their order.

    `prefix` is of the file, where its beginning was hashed before.

    Raises:
        TranscriptError, OSError: it cannot be read; what came before the damage has been yielded.
    """
    reading, appends = _Reading(task, preparer, prefix or Prefix(task.file)), task.transcripts.appends
    items = task.transcripts.parse(task.file, task.begin)
    while True:
        try:
            item = next(items, None)
        except BaseException:
            if reading.weight:
                yield reading.portion(is_marked=False)
            raise
        if item is None:
            yield reading.portion(is_marked=True, is_last=True)
            return
        reading.take(item)
        may_end = isinstance(item, Checkpoint) or not appends
        if reading.weight >= _PORTION_WEIGHT * (1 if may_end else 2):
            yield reading.portion(is_marked=appends and may_end)


class _Reading:
    """A transcript that is being read."""

    def __init__(self, task: ReadingTask, preparer: Preparer, prefix: Prefix) -> None:
        self._task, self._preparer, self._prefix = task, preparer, prefix
        self._is_agents = task.transcripts.name in OWN_FORMATS
        self._threads: dict[str, _Thread] = {}
        self._touched: dict[str, _Thread] = {}
        self._unreadable: list[Unreadable] = []
        self._offset = task.begin
        self.weight = 0

    def take(self, item: ParsedItem) -> None:
        """Take in the next thing that a parser says."""
        if isinstance(item, NewMessage):
            self._message(item)
        elif isinstance(item, ParsedConversation):
            self._conversation(item)
        elif isinstance(item, ParsedTitle):
            thread = self._thread(item.conversation)
            thread.part.head = replace(thread.part.head, title=item.title)
            thread.changed = True
        elif isinstance(item, Unreadable):
            self._unreadable.append(item)
        else:
            self._offset = item.offset

    def portion(self, is_marked: bool, is_last: bool = False) -> Portion:
        """What was taken since the last one."""
        threads = self._threads if is_last else self._touched
        parts = [replace(thread.part, is_last=is_last) for thread in threads.values() if thread.changed]
        read = self._offset if self._task.transcripts.appends else self._task.size
        fingerprint = self._prefix.fingerprint(read) if is_marked else ""
        portion = Portion(parts, self._unreadable, self._offset, fingerprint, is_last)
        for thread in threads.values():
            last = thread.part.messages[-1].message.uid if thread.part.messages else thread.part.after
            thread.part = ConversationPart(thread.part.head, last)
        self._touched, self._unreadable, self.weight = {}, [], 0
        return portion

    def _thread(self, external_id: str) -> _Thread:
        if external_id not in self._threads:
            head = NewConversation(self._task.transcripts.name, external_id)
            self._threads[external_id] = _Thread(head.uid, ConversationPart(head))
        return self._threads[external_id]

    def _conversation(self, item: ParsedConversation) -> None:
        part = self._thread(item.external_id).part
        named = item.project
        project = (
            identify_project(item.cwd, item.git_remote) if named is None else ProjectIdentity(f"name:{named}", named)
        )
        part.head = replace(
            part.head,
            title=item.title or part.head.title,
            project=project,
            created_at=item.created_at,
            parent_external_id=item.parent_external_id,
            metadata=item.metadata,
        )

    def _message(self, item: NewMessage) -> None:
        thread = self._touched[item.conversation] = self._thread(item.conversation)
        head = thread.part.head
        thread.last_at = item.created_at or thread.last_at or head.created_at or self._task.fallback
        origin = item.external_id
        if not origin:
            # Without an id of its own, a message is its words, and which of the equal ones it is.
            words = (item.role, item.type, item.author, item.created_at, item.text)
            thread.seen[words] += 1
            origin = f"#{item.author or ''}#{thread.seen[words]}"
        trust = self._trust(item, head)
        said = item.read(thread.last_at, trust, origin)
        thread.part.messages.append(self._preparer.prepare(thread.uid, said))
        thread.changed = True
        self.weight += _MESSAGE_WEIGHT + len(item.text)

    def _trust(self, item: NewMessage, head: NewConversation) -> Trust:
        if item.role is Role.TOOL or item.type is MessageType.TOOL_RESULT:
            return Trust.TOOL
        if self._task.is_capped or not self._is_agents:
            return least_trusted((item.trust, Trust.IMPORTED))
        # In a subagent's conversation it is the calling agent that asks.
        is_persons = item.role is Role.USER and head.parent_external_id is None and "agent_type" not in head.metadata
        return least_trusted((item.trust, Trust.OWNER if is_persons else Trust.AGENT))


class Prefix:
    """A running hash of a file's first bytes, so that a long file is hashed once however often it is asked for."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._digest = hashlib.blake2b(digest_size=16)
        self._length = 0

    def fingerprint(self, length: int) -> str:
        """The hash of the first `length` bytes; lengths may only grow."""
        with self._file.open("rb") as stream:
            stream.seek(self._length)
            while self._length < length:
                chunk = stream.read(min(_HASH_CHUNK, length - self._length))
                if not chunk:
                    break
                self._digest.update(chunk)
                self._length += len(chunk)
        return self._digest.hexdigest()
