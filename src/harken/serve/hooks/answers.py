"""Answers to hooks: what a model is to read as a session begins, with a prompt, or after a failed check."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from harken.context.compose import OTHER_PROJECT
from harken.context.render import Quote, core_block, quotation_block
from harken.engine import Harken
from harken.importers.blocks import claude_words
from harken.importers.reading import string
from harken.log import Log
from harken.model.conversations import EMPTY, SavedRecord, Trust
from harken.model.experience_texts import experience_markdown, value_markdown
from harken.model.experiences import EXPERIENCE, read_experience, read_value
from harken.model.provenance import Provenance
from harken.record.ids import conversation_uid
from harken.serve.daemon.spool import Transcript, put
from harken.serve.hooks.events import (
    CHECKED,
    CLAUDE_CODE,
    CODEX,
    GEMINI,
    PROMPT,
    SESSION_START,
    TOOL_FAILED,
    event_name,
    grown,
    is_path,
    read_payload,
)
from harken.sources.experiences.checks import CheckFailure, failure_of
from harken.text import tokens
from harken.text.fence import BRIEF, PAST, PREMORTEM

_log = Log(__name__)

_DEFAULT_DOMAIN = "debugging"
_EXPERIENCES_SHOWN = 4
_LINE_TOKENS = 80
_MOST_TIMES = 500
# Of each kind so many are looked at: those that are near are few.
_LIMIT = 10
_UNDER_WAY, _LIKE_THE_FAILURE = "under way in this project", "tells of a failure like this one"
# What failed is told at the end of what is printed, however much that is.
_READ_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """An agent shows its model a stump of a longer answer; `marks`: its hooks are told how a command ended."""

    max_chars: int
    max_tokens: int
    marks: bool = True


# Claude Code takes 10,000 characters of one hook, Codex 2,500 times four bytes. Source: both, as of November 2026.
LIMITS = {
    CLAUDE_CODE: AgentLimits(9_500, 100_000),
    CODEX: AgentLimits(9_500, 2_400, marks=False),
    GEMINI: AgentLimits(9_500, 100_000),
}


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The text that a conversation's model reads, empty where nothing matters.

    Attributes:
        given: the ids of what it is told by the text, each with why.
    """

    conversation_uid: str = ""
    text: str = ""
    given: Mapping[str, str] = EMPTY


NOTHING = HookAnswer()


@dataclass(frozen=True, slots=True)
class Hooks:
    """Answers hooks from an open store.

    Attributes:
        reports: folder where transcripts that have grown are put down.
        unwritten: those that could not be, the disk being full, say; whoever reads the folder tries again.
        is_loading: whether the model is not there yet: a prompt is then looked for by its words alone.
        took: how many milliseconds the last answers took, each with its agent, which nobody has written down yet.
    """

    harken: Harken
    reports: str
    unwritten: set[Transcript] = field(default_factory=set)
    is_loading: Callable[[], bool] = lambda: False
    took: deque[tuple[str, float]] = field(default_factory=partial(deque, maxlen=_MOST_TIMES))

    def answer(self, event: str, agent: str, content: bytes, is_gone: Callable[[], bool] = lambda: False) -> bytes:
        """Return what the hook is to print; nothing where nothing matters.

        The content is what the agent told its hook, unread. Where `is_gone` says that nobody waits for the answer any
        more, the same is told another time.
        """
        began = perf_counter()
        try:
            return self._answer(event, agent, content, is_gone)
        finally:
            self.took.append((agent, 1000 * (perf_counter() - began)))

    def _answer(self, event: str, agent: str, content: bytes, is_gone: Callable[[], bool]) -> bytes:
        payload = read_payload(content)
        transcripts = grown(event, agent, payload)
        if payload is None or transcripts is None:
            return b""
        for transcript in transcripts:
            try:
                put(self.reports, transcript)
            except OSError as error:
                _log.warning("report_failed", error_class=type(error).__name__)
                self.unwritten.add(transcript)
        name = event_name(event)
        answer = self._context(name, agent, payload)
        if not answer.text:
            return b""
        if answer.given:
            told = answer.conversation_uid, answer.given, is_gone, tokens.estimate(answer.text)
            # Of the answers before this one, for which nobody has written: that would be a transaction of its own.
            before = self._taken()
            if not self.harken.chats.note_given(*told, before, name, payload.get("source") != "compact"):
                self.took.extend(before)
                return b""
        called = payload.get("hook_event_name")
        said = {"hookEventName": called if isinstance(called, str) else event, "additionalContext": answer.text}
        return json.dumps({"hookSpecificOutput": said}).encode()

    def _taken(self) -> list[tuple[str, float]]:
        """Take the times that nobody has written down; two answers at once never get the same."""
        found: list[tuple[str, float]] = []
        with suppress(IndexError):
            while True:
                found.append(self.took.popleft())
        return found

    def _context(self, event: str, agent: str, payload: Mapping[str, Any]) -> HookAnswer:
        wanted, chats = self.harken.settings.hooks, self.harken.chats
        session_id, prompt = payload.get("session_id"), payload.get("prompt")
        if not isinstance(session_id, str) or not session_id:
            return NOTHING
        if event == SESSION_START and wanted.brief:
            return self._brief(agent, session_id, payload)
        if event == PROMPT and wanted.recall and isinstance(prompt, str):
            uid = conversation_uid(agent, session_id)
            # Claude Code asks its hooks also where nobody has typed anything, as at the end of a background task.
            prompt = claude_words(prompt) if agent == CLAUDE_CODE else prompt
            quotes = chats.quotes_about(prompt, uid, _directory(payload), self.is_loading())
            return self._told(agent, uid, PAST, quotes) if quotes else NOTHING
        if event in CHECKED and wanted.premortem:
            return self._premortem(event, agent, session_id, payload)
        return NOTHING

    def _premortem(self, event: str, agent: str, session_id: str, payload: Mapping[str, Any]) -> HookAnswer:
        """Return what earlier work says about the test or build that failed; once for each cause."""
        failure = failed_check(event, agent, payload)
        if failure is None:
            return NOTHING
        side = payload.get("agent_id")
        # A subagent's conversation is one of its own, by the name that its transcript has.
        name = f"{session_id}/agent-{side}" if isinstance(side, str) and side else session_id
        uid = conversation_uid(agent, name)
        given = self.harken.chats.given(uid)
        if failure.cause in given:
            return NOTHING
        quotes = premortem_quotes(self.harken, failure, _directory(payload))
        answer = self._told(agent, uid, PREMORTEM, quotes, given)
        return replace(answer, given={failure.cause: "", **answer.given}) if answer.text else answer

    def _brief(self, agent: str, session_id: str, payload: Mapping[str, Any]) -> HookAnswer:
        """Return what is always known, what is under way in the project, and what its last conversation came to."""
        cwd = _directory(payload)
        uid = conversation_uid(agent, session_id)
        is_new = payload.get("source") != "compact"
        facts, quotes = self.harken.chats.always_known(uid if is_new else "", cwd)
        if cwd is not None:
            under_way = open_experience(self.harken, cwd, session_id, payload.get("source"))
            quotes += [*under_way, *self.harken.chats.latest(cwd, uid)]
        # Core memory, in no more than half of the room.
        core = tokens.clip(core_block(facts), self._room(agent) // 2)[: LIMITS[agent].max_chars // 2] if facts else ""
        # After a compaction all of it again: what was told before it is no longer in the context.
        given = self.harken.chats.given(uid) if is_new else set()
        return self._told(agent, uid, BRIEF, quotes, given, core)

    def _room(self, agent: str) -> int:
        return min(self.harken.settings.hooks.max_tokens, LIMITS[agent].max_tokens)

    def _told(
        self, agent: str, uid: str, heading: str, quotes: Sequence[Quote], known: Collection[str] = (), before: str = ""
    ) -> HookAnswer:
        """Return as many of the quotations as fit, the most important first, less those that are known.

        Known are the ids of what stands in the conversation's context; `before` stands above the heading, and counts.
        """
        text, given = quotation_block(heading, quotes, known, self._room(agent), LIMITS[agent].max_chars, before)
        if quotes and len(text.encode()) > 4 * LIMITS[agent].max_tokens:
            return self._told(agent, uid, heading, quotes[:-1], known, before)
        return HookAnswer(uid, text, given)


def _directory(payload: Mapping[str, Any]) -> str | None:
    cwd = payload.get("cwd")
    return cwd if is_path(cwd) and Path(cwd).is_absolute() else None


def open_experience(harken: Harken, directory: str, session: str, source: object = "") -> list[Quote]:
    """The experience that is under way in a folder's project, and whether another session has left it open."""
    active = harken.experiences.active(directory=directory, session=session)
    if active is None:
        return []
    one = active.experience
    text = (
        f"Open experience: {one.goal}\nHypothesis: {one.hypothesis}\nAction: {one.action}\nPrediction: {one.prediction}"
    )
    # Agents do not know what their session is called: of one that goes on, it may be this one's.
    if active.is_orphan and (one.session or source not in ("compact", "resume")):
        text += "\nBegun in another session, and still open: it can be adopted, or resolved as abandoned."
    return [Quote(text, EXPERIENCE, one.uid, "", one.updated_at, Trust.AGENT.value, why=_UNDER_WAY)]


def failed_check(event: str, agent: str, payload: Mapping[str, Any]) -> CheckFailure | None:
    """The test or build that an event of a tool, told its hook by an agent, says the failure of; None without one."""
    name, given = payload.get("tool_name"), payload.get("tool_input")
    if not isinstance(name, str) or not isinstance(given, dict) or payload.get("is_interrupt") is True:
        return None
    if event == TOOL_FAILED:
        printed, facts = string(payload.get("error")) or "", {"is_error": True}
    else:
        printed, facts = _printed(payload.get("tool_response")), {"is_error": False} if LIMITS[agent].marks else {}
    return failure_of(name, json.dumps(given), printed[-_READ_CHARS:], facts)


def _printed(response: Any) -> str:
    """What a shell printed: Codex tells the text, the others an object that has it."""
    if not isinstance(response, dict):
        return string(response) or ""
    if response.get("interrupted") is True:
        return ""
    printed = [string(response.get(name)) for name in ("stdout", "stderr", "llmContent")]
    # Gemini CLI frames what its shell printed.
    return "\n".join(filter(None, printed)).removeprefix("<untrusted_context>\n").removeprefix("Output: ")


def premortem_quotes(harken: Harken, failure: CheckFailure, directory: str | None) -> list[Quote]:
    """The experiences and values that tell of such a failure, most relevant first; none where none is near to it.

    The experience that is under way in the directory says what kind of work it is.
    """
    if not failure.words:
        return []
    active = harken.experiences.active(directory=directory) if directory else None
    domain, strategy = (active.experience.domain, active.experience.strategy) if active else (_DEFAULT_DOMAIN, None)
    items = harken.assembler.get_premortem_context(
        domain, strategy, _LIMIT, about=failure.words, directory=directory
    ).items
    facts = {item.metadata["id"]: item.metadata for item in items}
    # A record stands once, whichever parts of the premortem it is in.
    records = harken.sources.records((item.source, item.metadata["id"]) for item in items)
    return [_failure_quote(record, facts[record.uid]) for record in records[:_EXPERIENCES_SHOWN]]


def _failure_quote(record: SavedRecord, facts: Mapping[str, Any]) -> Quote:
    """All that a record tells, root cause included; cut in each of its lines, for what a warning is about ends it."""
    if record.source == EXPERIENCE:
        told = experience_markdown(read_experience(record), "root_cause")
    else:
        told = value_markdown(read_value(record))
    text = "\n".join(tokens.clip(line, _LINE_TOKENS) for line in told.split("\n"))
    trust = (record.fields or {}).get("trust", Trust.AGENT.value)
    origin, project = facts.get("origin"), facts.get(OTHER_PROJECT, "")
    whose = Provenance.of(origin) if origin else None
    trust = Trust.IMPORTED.value if whose and trust in (Trust.OWNER, Trust.AGENT) else trust
    return Quote(text, record.source, record.uid, "", record.at, trust, (), project, _LIKE_THE_FAILURE, whose)
