"""Claude Code: one JSONL file per session, with subagents' files beside it.

A fork's file begins with a copy of what was said in another session, under the new session's id, so that nothing in a
line alone tells it from a new one. The copies are what the other session said, once: recorded again, each would come
back twice, and what was forgotten would return.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from harken.importers.blocks import (
    ParsedContent,
    Piece,
    ToolCalls,
    claude_words,
    is_interruption,
    marker,
    questions_of,
    read_content,
)
from harken.importers.parsed import ParsedConversation, ParsedItem, ParsedTitle, Unreadable
from harken.importers.reading import (
    LineReader,
    files_below,
    follow,
    in_order,
    known,
    listing,
    mapping,
    moment,
    objects,
    spoken,
    string,
)
from harken.model.conversations import MessageType, Role, Trust
from harken.record.prepared import NewMessage
from harken.text.fence import without_recall

# What the command line writes into copied answers, and what the SDK writes into every copied line.
_REQUESTED_BY, _FORKED_FROM = "requestSessionId", "forkedFrom"


class Origin(NamedTuple):
    """The place where a copied line was written first, and the time, if that is known."""

    session: str
    uuid: str
    timestamp: str | None = None


def _marked(path: Path) -> dict[str, Origin]:
    """Source: sessions forked by Claude Code 2.1.330 and by claude-agent-sdk 0.2.187."""
    copies: dict[str, Origin] = {}
    unclear: list[str] = []
    session = ""
    for line in objects(path):
        is_copy = _FORKED_FROM in line or line.get(_REQUESTED_BY) not in (None, line.get("sessionId"))
        if line.get("type") == "assistant" and not is_copy:
            # The first answer that was given in this session: copies stand before it.
            break
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


def copied_lines(path: Path) -> dict[str, Origin]:
    """The origin of every line of a session's file that was copied from another one, by the line's uuid.

    Versions before 2.1 resumed a session in a new file, which repeats it without a mark: the oldest file said it.
    """
    if marked := _inherited(path) or _marked(path):
        return marked
    begins, age = _first_uuids(path.parent, path.parent.stat().st_mtime_ns), path.stat().st_mtime
    same = [file for file, uuid in begins.items() if uuid == begins.get(path)]
    older = in_order(same, lambda file: began if (began := file.stat().st_mtime) < age else None)
    # An id alone says little: those that a script writes count from one in each session.
    own = {str(line.get("uuid")): line for line in (objects(path) if older else ())}
    return {
        uuid: Origin(file.stem, uuid)
        for file in reversed(older)
        if not _marked(file)
        for line in objects(file, b'"uuid"')
        if (uuid := str(line.get("uuid"))) in own
        if all(line.get(key) == own[uuid].get(key) for key in ("timestamp", "message"))
    }


def _inherited(path: Path) -> dict[str, Origin]:
    """The lines of whom a forked subagent goes on from; its file begins with them, as they stand there."""
    side = _side_facts(path) if _SUBAGENTS in path.parts[:-1] else None
    if side is None or not (side.get("isFork") is True or side.get("agentType") == "fork" or _helper(path)):
        return {}
    session, agent = _session_folder(path), string(side.get("parentAgentId"))
    source = path.with_name(f"agent-{Path(agent).name}.jsonl") if agent else session.with_name(f"{session.name}.jsonl")
    lines = objects(source, b'"uuid"') if source.is_file() else ()
    return {uuid: Origin(session.name, uuid) for line in lines if (uuid := string(line.get("uuid")))}


def _helper(path: Path) -> str:
    """What Claude Code does in a subagent's file unasked, as compaction; empty for any other file."""
    named = _HELPER.fullmatch(path.stem)
    is_own = named is not None and (named["label"] in _HELPERS or not path.with_suffix(".meta.json").exists())
    return named["label"] if named and is_own else ""


@lru_cache(maxsize=64)
def _first_uuids(folder: Path, _changed_ns: int) -> Mapping[Path, str]:
    found: dict[Path, str] = {}
    for file in folder.glob("*.jsonl"):
        with suppress(OSError, StopIteration):
            found[file] = next(filter(None, (string(line.get("uuid")) for line in objects(file, lines=_HEAD_LINES))))
    return found


def _dated(path: Path, copies: Mapping[str, Origin], unclear: list[str], session: str) -> dict[str, Origin]:
    """The same with what the other session's file, if it is still there, tells of them.

    A prompt that nobody answered is a copy if it stands there; and the SDK gives the last line it copies a new time.
    """
    original = path.with_name(f"{session}.jsonl") if Path(session).name == session else path
    if original == path or not original.is_file():
        return dict(copies)
    times = {
        uuid: string(line.get("timestamp")) or ""
        for line in objects(original, b'"uuid"')
        if (uuid := string(line.get("uuid")))
    }
    found = {uuid: origin._replace(timestamp=times.get(origin.uuid) or None) for uuid, origin in copies.items()}
    return found | {uuid: Origin(session, uuid) for uuid in unclear if uuid in times}


_SUBAGENTS = "subagents"
# Files of subagents that it starts by itself are labelled, and few have one beside them; one has a person's question.
_HELPER, _ASIDE = re.compile(r"agent-a(?P<label>[a-z_]+)-[0-9a-f]{6,}"), "side_question"
_HELPERS = ("compact", "prompt_suggestion", _ASIDE)
_HEAD_LINES = 20
# Lines that hold no words although some carry a `message`: progress, bookkeeping, and (`api-request-blob` and its kin)
# whole prompts again.
_SILENT_TYPES = re.compile(r"progress|file-history-snapshot|queue-operation|api-.*", re.DOTALL)
_SILENT_FLAGS = ("isMeta", "isCompactSummary", "isApiErrorMessage", "turnCompanion")
# Where a title stands, and which one wins over which: what a person chose over what a model found.
_SUMMARY_RANK = 1
_TITLES = {"summary": ("summary", _SUMMARY_RANK), "ai-title": ("aiTitle", 2), "custom-title": ("customTitle", 3)}
# Senders of prompts who are no persons, those who pass on what anybody may write, and prompts that came by themselves.
_MACHINES = re.compile(r"task-notification|peer.*|projects-relay|coordinator|auto-continuation|observer.*", re.DOTALL)
_RELAYS = ("channel", "plugin")
_UNTYPED = ("system", "loop_wakeup", "schedule_wakeup", "poll_event")
# The result of a call that was refused, and what the person said in its place.
_REFUSED = re.compile(
    r"(?:The user doesn't want to proceed with|Permission for) this tool use\b.{1,250}?\bthe user (?:said:\n|provided "
    r"the following reason for the rejection:\s{1,9})(?P<words>\S.*?)(?:\n\nNote: The user's next message may .*)?",
    re.DOTALL | re.IGNORECASE,
)
_SPEAKERS = {"user": Role.USER, "assistant": Role.ASSISTANT}


class ClaudeCode:
    """Claude Code's transcripts, in `CLAUDE_CONFIG_DIR` or else `~/.claude`."""

    name = "claude-code"
    appends = True

    def __init__(self, config_dir: Path) -> None:
        self._projects = config_dir / "projects"

    def discover(self) -> list[Path]:
        """The folder with every project's sessions, if it exists."""
        return [self._projects] if self._projects.is_dir() else []

    def files(self, path: Path) -> list[Path]:
        """The session files under a path, oldest first, each followed by its subagents' files."""
        if path.is_file():
            return [path]
        found = (file for file in files_below(path, "*.jsonl") if file.name != "history.jsonl")
        return in_order(found, lambda file: None if _opening(file) is None else _age(file))

    def parse(self, path: Path, offset: int = 0) -> Iterator[ParsedItem]:
        """Yield a session file's items in order, of what Claude Code did unasked none; see `TranscriptFormat.parse`."""
        first = mapping(mapping(_opening(path)).get("message")).get("content") if path.stem.startswith("agent-") else ""
        if first == "Warmup" or _helper(path) not in ("", _ASIDE):
            return iter(())
        return follow(path, _SessionReader(path, offset), offset)


def _opening(path: Path) -> Mapping[str, Any] | None:
    """The first line that looks like a session's; empty if none is readable, None if the file is something else."""
    readable = False
    for value in objects(path, lines=_HEAD_LINES):
        if not value.keys().isdisjoint(("sessionId", "message", "type")):
            return value
        readable = True
    return None if readable else {}


def _age(path: Path) -> tuple[float, str, bool, float, str]:
    """Sorts a subagent's file directly behind its session's, wherever this version of Claude Code put it."""
    session = path
    if _SUBAGENTS in path.parts[:-1]:
        folder = _session_folder(path)
        session = folder.with_name(f"{folder.name}.jsonl")
    elif path.stem.startswith("agent-"):
        named = string((_opening(path) or {}).get("sessionId")) or ""
        session = path.with_name(f"{named}.jsonl") if re.fullmatch(r"[\w-]+", named) else path
    own = path.stat().st_mtime
    began = session.stat().st_mtime if session.is_file() else own
    return began, str(session), session != path, own, str(path)


def _session_folder(path: Path) -> Path:
    """The folder of the session that a file under `SESSION/subagents/` belongs to."""
    return next(folder.parent for folder in path.parents if folder.name == _SUBAGENTS)


class _SessionReader(LineReader):
    """Reads one file's lines; what it must know of lines before its start, it learns from them again."""

    telling = re.compile(rb'"isSidechain"\s*:\s*true|"(?:custom|ai)-title"|"tool_use"')

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._begin = offset
        self._read: set[str] = set()
        self._to_read: set[str] | None = None
        self._held: dict[str, list[tuple[dict[str, Any], int]]] = {}
        self._side = _SUBAGENTS in path.parts[:-1]
        self._file_session = _session_folder(path).name if self._side else path.stem
        self._current = self._file_session
        self._headed: set[str] = set()
        self._chains: dict[str, str] = {}
        self._calls = ToolCalls()
        self._ranks: dict[str, int] = {}
        self._waiting: dict[str, str] = {}
        self._copies = copied_lines(path)

    @property
    def settled(self) -> bool:
        """True where no title waits for its conversation's first message, and no line for its parent."""
        return not self._waiting and not self._held

    def learn(self, value: dict[str, Any]) -> None:
        """Note the sidechain that a line belongs to, how its title ranks, and which tools it calls."""
        conversation, _ = self._conversation(value)
        if named := _title(value):
            self._ranks[conversation] = max(named[1], self._ranks.get(conversation, 0))
        for piece in _content(value).pieces:
            self._note(piece)

    def read(self, value: dict[str, Any], number: int) -> Iterator[ParsedItem]:
        """Yield what one line says, and those that waited for it; nothing while its parent is still to come."""
        parent = string(value.get("parentUuid"))
        if parent is not None and parent != value.get("uuid") and parent not in self._read:
            if self._to_read is None:
                # Only now, for nearly all files stand in order and need not be looked through.
                lines = objects(self._path, start=self._begin)
                self._to_read = {uuid for line in lines if (uuid := string(line.get("uuid")))}
            if parent in self._to_read:
                self._held.setdefault(parent, []).append((value, number))
                return
        ready = [(value, number)]
        while ready:
            line, place = ready.pop(0)
            yield from self._say(line, place)
            uuid = string(line.get("uuid")) or ""
            self._read.add(uuid)
            ready += self._held.pop(uuid, [])

    def _say(self, value: dict[str, Any], number: int) -> Iterator[ParsedItem]:
        if origin := self._copies.get(string(value.get("uuid")) or ""):
            if self._side:
                return
            # As it stands where it was copied from.
            written = {"timestamp": origin.timestamp} if origin.timestamp else {}
            value = {**value, "sessionId": origin.session, "uuid": origin.uuid, **written}
        conversation, parent = self._conversation(value)
        if named := _title(value):
            # A summary may be of any other session of the project.
            if named[1] > _SUMMARY_RANK or self._has(string(value.get("leafUuid")) or ""):
                yield from self._titled(conversation, *named)
            return
        content = _content(value)
        if content.pieces and conversation not in self._headed:
            yield self._head(value, conversation, parent)
        for order, piece in enumerate(content.pieces, 1):
            yield self._message(value, conversation, piece, order)
        for fault in content.faults:
            yield Unreadable(self._path, number, fault)

    def finish(self) -> Iterator[ParsedItem]:
        """Yield the lines that wait for each other in a circle; a title without a message is no conversation."""
        for line, place in sorted((each for held in self._held.values() for each in held), key=itemgetter(1)):
            yield from self._say(line, place)

    def _conversation(self, line: Mapping[str, Any]) -> tuple[str, str | None]:
        """The id of the line's conversation, and of the one it is a side of."""
        session = string(line.get("sessionId"))
        if _title(line) and not session:
            return self._current, None
        session = self._current = session or self._file_session
        if self._side:
            return f"{session}/{self._path.stem}", session
        if line.get("isSidechain") is not True:
            return session, None
        agent = string(line.get("agentId"))
        return f"{session}/" + (f"agent-{agent}" if agent else f"sidechain-{self._chain(line)}"), session

    def _chain(self, line: Mapping[str, Any]) -> str:
        """The first line of the sidechain that a line hangs on; older versions mix them in one file, unnamed."""
        uuid = string(line.get("uuid")) or ""
        start = self._chains.get(string(line.get("parentUuid")) or "", uuid)
        self._chains.setdefault(uuid, start)
        return start

    def _titled(self, conversation: str, title: str, rank: int) -> Iterator[ParsedItem]:
        if rank < self._ranks.get(conversation, 0):
            return
        self._ranks[conversation] = rank
        if self._begin > 0 or conversation in self._headed:
            yield ParsedTitle(conversation, title)
        else:
            self._waiting[conversation] = title

    def _has(self, uuid: str) -> bool:
        return uuid in self._read or any(line.get("uuid") == uuid for line in objects(self._path, uuid.encode()))

    def _head(self, line: Mapping[str, Any], conversation: str, parent: str | None) -> ParsedConversation:
        self._headed.add(conversation)
        side = _side_facts(self._path) if self._side else {}
        facts = known(git_branch=string(line.get("gitBranch")), version=string(line.get("version")))
        if self._copies and conversation == self._file_session:
            facts["forked_from"] = next(reversed(self._copies.values())).session
        facts |= known(agent_type=string(side.get("agentType")), parent_call_id=string(side.get("toolUseId")))
        return ParsedConversation(
            conversation,
            title=self._waiting.pop(conversation, "") or string(side.get("description")) or "",
            created_at=None if self._begin else moment(line.get("timestamp")),
            cwd=string(line.get("cwd")),
            parent_external_id=parent,
            metadata=facts,
        )

    def _message(self, line: Mapping[str, Any], conversation: str, piece: Piece, order: int) -> NewMessage:
        self._note(piece)
        role, external_id = piece.role(_role(line)), piece.external_id(string(line.get("uuid")), order)
        named, trust = self._calls.completed(piece), _trust(line)
        message = named.message(role, conversation, external_id, line.get("timestamp"), **_facts(line, role))
        return message if trust is Trust.OWNER else replace(message, trust=trust)

    def _note(self, piece: Piece) -> None:
        if piece.type is MessageType.TOOL_CALL and piece.call_id and piece.tool_name:
            self._calls.note(piece.call_id, piece.tool_name, piece.text)


def _side_facts(path: Path) -> Mapping[str, Any]:
    """Read the file beside a subagent's file; empty where it is missing or damaged."""
    try:
        return mapping(json.loads(path.with_suffix(".meta.json").read_text("utf-8", "replace")))
    except (OSError, ValueError, RecursionError):
        return {}


def _title(line: Mapping[str, Any]) -> tuple[str, int] | None:
    """The title that a line gives its conversation, and how much it counts."""
    key, rank = _TITLES.get(str(line.get("type")), ("", 0))
    title = (string(line.get(key)) or "").strip()
    return (title, rank) if title else None


def _role(line: Mapping[str, Any]) -> Role:
    named = _SPEAKERS.get(str(line.get("type"))) or _SPEAKERS.get(str(mapping(line.get("message")).get("role")))
    return named or Role.USER


def _facts(line: Mapping[str, Any], role: Role) -> dict[str, Any]:
    if role is Role.ASSISTANT:
        return {"model": string(mapping(line.get("message")).get("model"))}
    if role is Role.USER:
        source = string(line.get("promptSource"))
        return {"prompt_source": None if source == "user" else source, "origin": _origin(line)}
    return {}


def _trust(line: Mapping[str, Any]) -> Trust:
    """The most that a prompt is believed; a plan that was accepted is the agent's own, in the person's name."""
    if _origin(line) in _RELAYS:
        return Trust.TOOL
    is_untyped = line.get("promptSource") in _UNTYPED and mapping(line.get("origin")).get("kind") != "human"
    return Trust.AGENT if is_untyped or "planContent" in line else Trust.OWNER


def _origin(line: Mapping[str, Any]) -> str | None:
    """The sender of a prompt, also of one handed over in mid-turn, where it was not a person at the keyboard."""
    kind = string(mapping(line.get("origin") or mapping(line.get("attachment")).get("origin")).get("kind"))
    return None if kind == "human" else kind


def _content(line: Mapping[str, Any]) -> ParsedContent:
    """The words or tool data of a line; empty for everything else."""
    # Whoever leads a team has no name in it, or this one.
    is_teammate = line.get("teamName") and line.get("agentName") not in (None, "", "team-lead")
    if is_teammate or any(line.get(flag) for flag in _SILENT_FLAGS) or _MACHINES.fullmatch(_origin(line) or ""):
        return ParsedContent()
    kind = line.get("type")
    if kind == "system":
        trigger = string(mapping(line.get("compactMetadata")).get("trigger"))
        boundary = marker(event="compact_boundary", trigger=trigger)
        return ParsedContent((boundary,) if line.get("subtype") == "compact_boundary" else ())
    if kind == "attachment":
        return _queued(mapping(line.get("attachment")))
    message = line.get("message")
    declared = kind in ("user", "assistant")
    if not isinstance(message, dict):
        return ParsedContent(faults=("has no message object",)) if declared else ParsedContent()
    # A line of another or no type may be somebody's message all the same.
    speaks = (
        not _SILENT_TYPES.fullmatch(str(kind)) and "content" in message and message.get("role") in ("user", "assistant")
    )
    if message.get("model") == "<synthetic>" or not (declared or speaks):
        return ParsedContent()
    if _role(line) is Role.ASSISTANT:
        # The placeholder of an empty answer is none.
        blocks = message.get("content")
        content = read_content(blocks, lambda text: "" if text == "(no content)" else without_recall(text))
        return _with_texts(content, map(_question, listing(blocks)))
    content = read_content(message.get("content"), claude_words)
    results = (piece for piece in content.pieces if piece.facts.get("is_error"))
    refused = filter(None, (_REFUSED.fullmatch(result.text) for result in results))
    content = _with_texts(content, [*(one["words"] for one in refused), _answer(mapping(line.get("toolUseResult")))])
    if any(is_interruption(text) for text in content.texts):
        return replace(content, pieces=(marker(event="interrupted"), *content.pieces))
    return content


def _with_texts(content: ParsedContent, texts: Iterable[str]) -> ParsedContent:
    """The content with texts behind it that stand elsewhere in its line."""
    return replace(content, pieces=(*content.pieces, *(Piece(MessageType.TEXT, text) for text in texts if text)))


def _question(block: Any) -> str:
    """What the agent asks the person by a tool's call; empty for any other block."""
    asks = isinstance(block, dict) and block.get("name") == "AskUserQuestion"
    return spoken(questions_of(block.get("input"))) if asks else ""


def _answer(result: Mapping[str, Any]) -> str:
    """What the person has chosen or typed there, question by question, with their notes; empty for other results."""
    answers, notes = mapping(result.get("answers")), mapping(result.get("annotations"))
    told = [
        (string(answers.get(asked)), string(mapping(notes.get(asked)).get("notes"))) for asked in questions_of(result)
    ]
    return spoken([text or "" for both in told for text in both])


def _queued(attachment: Mapping[str, Any]) -> ParsedContent:
    """The prompt that a person typed while the agent was at work; no other attachment holds anybody's words.

    Claude Code hands such a prompt over in mid-turn and writes no user line for it.
    """
    typed = attachment.get("type") == "queued_command" and attachment.get("commandMode") in (None, "prompt")
    if not typed or attachment.get("isMeta"):
        return ParsedContent()
    return replace(read_content(attachment.get("prompt"), claude_words), faults=())
