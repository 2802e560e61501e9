"""Codex: one rollout file per session, plain JSONL or compressed with Zstandard.

A rollout tells each thing twice: `response_item` is what the model was sent and answered, `event_msg` what the person
saw. The answers, calls and results are taken from the first. What the person typed is taken from the second, as soon as
a file has it: among the model's user texts stand the project's instructions, the environment, skills and more that
Codex says in the person's name, and nothing tells them apart. Rollouts of versions without such events (before autumn
2025) give the model's user texts, without those that begin as Codex's own do.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from harken.errors import TranscriptError
from harken.importers.blocks import (
    ParsedContent,
    Piece,
    ToolCalls,
    codex_words,
    marker,
    questions_of,
    read_content,
    result_text,
)
from harken.importers.parsed import ParsedConversation, ParsedItem, ParsedTitle, Unreadable
from harken.importers.reading import (
    LineReader,
    call_text,
    files_below,
    follow,
    items,
    known,
    listing,
    mapping,
    moment,
    numbered,
    spoken,
    string,
)
from harken.model.conversations import MessageType, Role
from harken.record.prepared import NewMessage
from harken.text.fence import without_recall

# The tool by which it asks the person something; in place of an answer that it asks for as a secret.
_ASKING, _HIDDEN = "request_user_input", "[redacted:secret]"
_PLAIN, _COMPRESSED = ".jsonl", ".jsonl.zst"
_NOT_ROLLOUTS = ("history.jsonl", "session_index.jsonl")
_THREAD_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_REMOTE = re.compile(r"(?:(?:https?|ssh|git|git\+ssh)://|[\w.-]+@[\w.-]+:)\S+")
_ENVELOPED = ("session_meta", "response_item", "event_msg", "compacted")
# What a call was given stands under one of these.
_INPUTS = ("arguments", "input", "action", "revised_prompt")
# What Codex asks itself: whether a command is safe, with all that was said before it; for a summary; for memories.
_HELPERS = ("guardian", "compact", "memory_consolidation")
# Ends what Codex has taken over from another agent's session; what that agent's tools printed is told as said there.
_TAKEN_OVER = b'"<EXTERNAL SESSION IMPORTED>"'
# Copies are written without a pause; who says the same again after going back takes longer.
_PAUSE = timedelta(seconds=1)
# From which version on surely an event follows what was typed, whatever stands in the person's name before it.
_VERSION, _TELLS_EVENTS = re.compile(r"(\d+)\.(\d+)"), (0, 60)


class Codex:
    """Codex's rollouts, in `CODEX_HOME` or else `~/.codex`."""

    name = "codex"
    appends = True

    def __init__(self, codex_home: Path) -> None:
        self._places = (codex_home / "sessions", codex_home / "archived_sessions")

    def discover(self) -> list[Path]:
        """The folders of live and of archived sessions, those that exist."""
        return [place for place in self._places if place.is_dir()]

    def files(self, path: Path) -> list[Path]:
        """The rollouts under a path, oldest first by the time in their names; of a pair, the one not compressed."""
        if path.is_file():
            return [path]
        found = {_stem(file): file for file in sorted(files_below(path, "*" + _COMPRESSED))}
        found |= {_stem(file): file for file in sorted(files_below(path, "*" + _PLAIN))}
        return sorted((file for file in found.values() if file.name not in _NOT_ROLLOUTS), key=lambda file: file.name)

    def parse(self, path: Path, offset: int = 0) -> Iterator[ParsedItem]:
        """Yield a rollout's items in order; a compressed one is read whole. See `TranscriptFormat.parse`."""
        if path.name.endswith(_COMPRESSED):
            return _whole(path, _RolloutReader(path))
        return follow(path, _RolloutReader(path), offset)


def _rollout(thread: str, beside: Path) -> Path | None:
    """The rollout of a thread, where it is still to be found from a later one; they are named by when they began."""
    home = next((folder.parent for folder in beside.parents if folder.name.endswith("sessions")), None)
    places = Codex(home).discover() if home else [beside.parent]
    found = (file for place in places for file in files_below(place, f"*{thread}{_PLAIN}*") if file.name < beside.name)
    return min(found, default=None) if _THREAD_ID.fullmatch(thread) else None


def _stem(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_COMPRESSED).removesuffix(_PLAIN))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as stream:
        is_plain, unpacked = not path.name.endswith(_COMPRESSED), zstandard.ZstdDecompressor()
        yield stream if is_plain else io.BufferedReader(unpacked.stream_reader(stream, read_across_frames=True))


def _whole(path: Path, reader: _RolloutReader) -> Iterator[ParsedItem]:
    number = 0
    try:
        with _opened(path) as stream:
            for line in numbered(stream):
                number = line.number
                yield from items(path, reader, line)
        if not _has_end(path):
            yield Unreadable(path, number + 1, "is cut off, as is all behind it: the compressed file has no end")
    except zstandard.ZstdError as error:
        raise TranscriptError(f"{path} is damaged: it cannot be unpacked as Zstandard") from error
    yield from reader.finish()


def _has_end(path: Path) -> bool:
    """False for a compressed file that was cut off, which is unpacked without an error as far as it goes."""
    frame, rest = None, b""
    with path.open("rb") as stream:
        while chunk := rest or stream.read(1 << 20):
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            frame.decompress(chunk)
            rest, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    return frame is None


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a rollout, out of its envelope; kind is empty and the payload None where it has none."""

    number: int
    kind: str
    payload: Mapping[str, Any] | None
    timestamp: Any
    ordinal: Any

    @property
    def event(self) -> str | None:
        """The kind of event by which Codex shows what the person typed, if this line is one."""
        payload = mapping(self.payload)
        name = payload.get("type") if self.kind == "event_msg" else None
        if name == "user_message" or (name == "item_completed" and self.item.get("type") == "UserMessage"):
            return str(name)
        return None

    @property
    def item(self) -> Mapping[str, Any]:
        """The item that an `item_completed` event completed."""
        return mapping(mapping(self.payload).get("item"))


def _line(value: Mapping[str, Any], number: int) -> _Line:
    """Take a line out of its envelope; the first versions of Codex wrote session facts and items without one."""
    kind, payload = value.get("type"), value.get("payload")
    if "payload" not in value and kind not in _ENVELOPED:
        kind, payload = ("response_item" if kind else "session_meta"), value
    return _Line(
        number,
        kind if isinstance(kind, str) else "",
        payload if isinstance(payload, dict) else None,
        value.get("timestamp"),
        value.get("ordinal"),
    )


class _RolloutReader(LineReader):
    """Reads one rollout's lines."""

    telling = re.compile(rb'"user_message"|"item_completed"|_call"')

    def __init__(self, path: Path) -> None:
        self._path = path
        self._meta: Mapping[str, Any] | None = None
        self._conversation = ""
        self._heads: dict[str, ParsedConversation] = {}
        self._headed: set[str] = set()
        self._event: str | None = None
        self._held: list[NewMessage] = []
        self._copied: list[NewMessage] = []
        self._copied_at: datetime | None = None
        self._taken_over, self._is_helper = 0, False
        self._calls, self._secrets = ToolCalls(), dict[str, list[Any]]()

    @property
    def settled(self) -> bool:
        """True where no user text waits for the event that tells if a person typed it, and no copy may follow."""
        return not (self._held or self._copied)

    def learn(self, value: dict[str, Any]) -> None:
        """Note the session's facts, by which kind of event the person's words come, and which tools are called."""
        line = _line(value, 0)
        self._learn(line)
        if line.kind == "response_item" and line.payload is not None and not self._inherited(line):
            self._note(line.payload)

    def read(self, value: dict[str, Any], number: int) -> Iterator[ParsedItem]:
        """Yield what one line says."""
        line = _line(value, number)
        self._learn(line)
        if line.kind == "session_meta" and not self._copied:
            self._copied, self._copied_at = self._said_before(mapping(line.payload)), moment(line.timestamp)
        if line.payload is None and line.kind in _ENVELOPED:
            yield Unreadable(self._path, number, "has no payload object")
        elif line.payload is not None and not self._inherited(line):
            yield from self._with_head(self._items(line, line.payload))

    def finish(self) -> Iterator[ParsedItem]:
        """Yield the last user texts of a rollout that has no events, unless its version writes one behind them."""
        version = _VERSION.match(string(mapping(self._meta).get("cli_version")) or "")
        is_awaited = version is not None and tuple(map(int, version.groups())) >= _TELLS_EVENTS
        return self._with_head(() if is_awaited else self._released())

    def _learn(self, line: _Line) -> None:
        if self._meta is None:
            self._meta = mapping(line.payload) if line.kind == "session_meta" else {}
            asked = mapping(self._meta.get("source")).get("subagent")
            self._is_helper = (mapping(asked).get("other") or asked) in _HELPERS
            with suppress(zstandard.ZstdError), _opened(self._path) as stream:
                self._taken_over = max((n for n, raw in enumerate(stream, 1) if _TAKEN_OVER in raw), default=0)
            named = _THREAD_ID.search(self._path.name)
            self._conversation = string(self._meta.get("id")) or (named[0] if named else _stem(self._path).name)
        # One kind for the whole file: were a version to write both, each prompt would come twice.
        self._event = self._event or line.event

    def _inherited(self, line: _Line) -> bool:
        """True for a copy: of whoever called a subagent, of another agent's session; and for what Codex asks itself."""
        start = mapping(self._meta).get("subagent_history_start_ordinal")
        is_given = isinstance(start, int) and isinstance(line.ordinal, int) and line.ordinal < start
        return self._is_helper or is_given or 0 < line.number <= self._taken_over

    def _with_head(self, parsed: Iterable[ParsedItem]) -> Iterator[ParsedItem]:
        for each in parsed:
            item = self._as_first_said(each) if isinstance(each, NewMessage) and self._copied else each
            if isinstance(item, NewMessage | ParsedTitle) and item.conversation not in self._headed:
                self._headed.add(item.conversation)
                yield self._heads.get(item.conversation) or _head(mapping(self._meta), self._conversation)
            yield item

    def _said_before(self, meta: Mapping[str, Any]) -> list[NewMessage]:
        """The messages, last first, of the rollout that a fork's begins with a copy of, unless that is its base."""
        named, read = string(meta.get("id")) or "", list[ParsedItem]()
        forked = _head(meta, named).metadata.get("forked_from", "")
        source = _rollout(forked if named == self._conversation else named, self._path)
        with suppress(TranscriptError, OSError):
            read += Codex(source).parse(source) if source and not meta.get("history_base") else ()
        self._heads |= {head.external_id: head for head in read if isinstance(head, ParsedConversation)}
        return [message for message in reversed(read) if isinstance(message, NewMessage)]

    def _as_first_said(self, message: NewMessage) -> NewMessage:
        """The next message of the other rollout that is the same, for what a subagent gets is less; else a new one."""
        before, self._copied_at = self._copied_at, message.created_at
        is_next = before is None or self._copied_at is None or self._copied_at - before < _PAUSE
        while is_next and self._copied:
            first = self._copied.pop()
            if (first.role, first.text, first.call_id) == (message.role, message.text, message.call_id):
                return first
        self._copied = []
        return message

    def _released(self) -> list[NewMessage]:
        """The user texts that were held back: no event told what was typed, so they are it."""
        held, self._held = self._held, []
        return held

    def _items(self, line: _Line, payload: Mapping[str, Any]) -> Iterator[ParsedItem]:
        kind = string(payload.get("type")) or ""
        if line.event and line.event == self._event:
            yield from self._typed(line, payload)
        elif kind == "thread_name_updated" and (title := string(payload.get("thread_name"))):
            yield ParsedTitle(self._conversation, title)
        elif line.kind == "compacted" or (line.kind == "event_msg" and kind == "turn_aborted"):
            event = "compact_boundary" if line.kind == "compacted" else "interrupted"
            yield from self._released()
            yield self._message(line, payload, Role.SYSTEM, marker(event=event))
        elif line.kind == "response_item" and kind == "message":
            yield from self._model_message(line, payload)
        elif line.kind == "response_item":
            yield from self._released()
            yield from self._tool(line, payload, kind)

    def _typed(self, line: _Line, payload: Mapping[str, Any]) -> Iterator[ParsedItem]:
        # The model's copy of these words, and all the context before it, was held back: now it is known as such. Its id
        # stays, for an earlier reading may have met the end of the file between the two.
        ids = {message.text: message.external_id for message in self._held}
        self._held = []
        typed = line.item.get("content") if line.item else payload.get("message")
        words = partial(codex_words, is_event=True)
        for one in self._said(line, line.item or payload, Role.USER, read_content(typed, words)):
            yield replace(one, external_id=ids[one.text]) if isinstance(one, NewMessage) and one.text in ids else one

    def _model_message(self, line: _Line, payload: Mapping[str, Any]) -> Iterator[ParsedItem]:
        role = payload.get("role")
        if role == "assistant":
            yield from self._released()
            yield from self._said(line, payload, Role.ASSISTANT, read_content(payload.get("content"), without_recall))
        elif role == "user" and not self._event:
            said = self._said(line, payload, Role.USER, read_content(payload.get("content"), codex_words))
            self._held += [one for one in said if isinstance(one, NewMessage)]
            yield from (one for one in said if isinstance(one, Unreadable))

    def _said(
        self, line: _Line, payload: Mapping[str, Any], role: Role, content: ParsedContent
    ) -> list[NewMessage | Unreadable]:
        messages = (self._message(line, payload, role, piece) for piece in content.pieces)
        return [*messages, *(Unreadable(self._path, line.number, fault) for fault in content.faults)]

    def _tool(self, line: _Line, payload: Mapping[str, Any], kind: str) -> Iterator[ParsedItem]:
        call_id = string(payload.get("call_id"))
        if kind.endswith("_call"):
            given, name = _given(payload), self._note(payload)
            if given or call_id:
                text = without_recall(call_text(name, given))
                yield self._message(line, payload, Role.ASSISTANT, Piece(MessageType.TOOL_CALL, text, call_id, name))
            if name == _ASKING:
                yield from self._beside(line, payload, Role.ASSISTANT, questions_of(_object(given)))
        elif kind.endswith("_output"):
            read = _output(payload.get("output"))
            if read is None:
                yield Unreadable(self._path, line.number, "has a tool result without readable content")
                return
            text, failed = read
            if (secrets := self._secrets.get(call_id or "")) and (answers := mapping(_object(text).get("answers"))):
                kept = {name: {"answers": [_HIDDEN]} if name in secrets else each for name, each in answers.items()}
                text = json.dumps({"answers": kept}, ensure_ascii=False)
            piece = Piece(MessageType.TOOL_RESULT, without_recall(text), call_id, facts=known(is_error=failed))
            piece = self._calls.completed(piece)
            yield self._message(line, payload, Role.TOOL, piece)
            if piece.tool_name == _ASKING:
                yield from self._beside(line, payload, Role.USER, _answers(_object(text)))

    def _beside(self, line: _Line, payload: Mapping[str, Any], role: Role, texts: list[str]) -> Iterator[NewMessage]:
        """What is asked or answered by a tool, behind its call or result, whose id it has."""
        if said := spoken(texts):
            message = self._message(line, payload, role, Piece(MessageType.TEXT, said))
            yield replace(message, external_id=f"{message.external_id}#2")

    def _note(self, payload: Mapping[str, Any]) -> str:
        """Remember the name of the tool that an item calls, for its result, which has only the call's id."""
        kind, call_id = string(payload.get("type")) or "", string(payload.get("call_id"))
        name = string(payload.get("name")) or kind.removesuffix("_call")
        if call_id and kind.endswith("_call"):
            asked = listing(_object(_given(payload)).get("questions")) if name == _ASKING else []
            self._secrets[call_id] = [mapping(one).get("id") for one in asked if mapping(one).get("isSecret") is True]
            server = string(payload.get("namespace")) or ""
            self._calls.note(call_id, name, call_text(name, _given(payload)), server)
        return name

    def _message(self, line: _Line, payload: Mapping[str, Any], role: Role, piece: Piece) -> NewMessage:
        # Most lines have no id of their own. Time and number are the same in a rollout's plain and compressed form.
        external_id = string(payload.get("id")) or f"{line.timestamp}#{line.number}"
        return piece.message(role, self._conversation, external_id, line.timestamp, phase=string(payload.get("phase")))


def _given(payload: Mapping[str, Any]) -> Any:
    """The arguments that a call hands its tool."""
    return next((payload[key] for key in _INPUTS if payload.get(key)), None)


def _head(meta: Mapping[str, Any], conversation: str) -> ParsedConversation:
    git, source = mapping(meta.get("git")), meta.get("source")
    remote = string(git.get("repository_url")) or ""
    # Who asks over MCP is an agent as well.
    subagent = source if source == "mcp" else mapping(source).get("subagent")
    spawn = mapping(mapping(subagent).get("thread_spawn"))
    base = mapping(meta.get("history_base")).get("thread_id")
    forked = string(meta.get("forked_from_id")) or string(meta.get("forked_from")) or string(base)
    parent = string(meta.get("parent_thread_id")) or string(spawn.get("parent_thread_id"))
    return ParsedConversation(
        conversation,
        created_at=moment(meta.get("timestamp")),
        cwd=string(meta.get("cwd")),
        git_remote=remote if _REMOTE.fullmatch(remote) else None,
        # Older versions tell of a review only what it was forked from.
        parent_external_id=parent or (forked if subagent else None),
        metadata=known(
            git_branch=string(git.get("branch")),
            version=string(meta.get("cli_version")),
            source=string(source),
            agent_type=string(spawn.get("agent_role")) or string(mapping(subagent).get("other")) or string(subagent),
            forked_from=forked,
        ),
    )


def _object(text: Any) -> Mapping[str, Any]:
    """The JSON object of a text; empty where it has none."""
    with suppress(ValueError, TypeError, RecursionError):
        return mapping(json.loads(text))
    return {}


def _answers(result: Mapping[str, Any]) -> list[str]:
    """What a person has chosen or typed where Codex has asked them."""
    each = [listing(mapping(answer).get("answers")) for answer in mapping(result.get("answers")).values()]
    return [(string(text) or "").removeprefix("user_note: ") for texts in each for text in texts]


def _output(output: Any) -> tuple[str, bool] | None:
    """The words of a tool's result and whether it failed; None if it is nothing readable."""
    if isinstance(output, str) and output.startswith('{"'):
        # Older versions wrote the object of a result as JSON in a text.
        with suppress(ValueError, RecursionError):
            value = json.loads(output)
            output = value if isinstance(value, dict) and value.keys() == {"output", "metadata"} else output
    if isinstance(output, dict):
        failed = output.get("success") is False or mapping(output.get("metadata")).get("exit_code") not in (None, 0)
        inner = output.get("output", output.get("content"))
        return (result_text(inner), failed) if isinstance(inner, (str, list, type(None))) else None
    return (result_text(output), False) if isinstance(output, (str, list, type(None))) else None
