"""What a coding agent is told at the events that its hooks report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog

from harken import tokens
from harken.assemble.past import past_quotes
from harken.assemble.render import Quote, block, core_block, fenced
from harken.engine import Harken
from harken.record.identity import conversation_uid
from harken.record.recalled import BRIEF, PAST, PREMORTEM
from harken.serve.daemon.spool import Transcript, put
from harken.serve.hooks.agents import AGENTS, CHECKED, PROMPT, SESSION_START, Agent, event_name, is_path
from harken.serve.hooks.failed import failed_check, premortem_quotes
from harken.serve.hooks.reports import grown, read_payload
from harken.serve.hooks.saved import last_conversation, open_experience, saved_quotes
from harken.storage.injections import INJECTIONS, given_to, note_given

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """What a conversation is told.

    Attributes:
        text: as its model reads it; empty where nothing matters.
        given: ids of what is in it, and of what it is told for.
    """

    conversation_uid: str = ""
    text: str = ""
    given: tuple[str, ...] = ()


NOTHING = Told()


@dataclass(frozen=True, slots=True)
class Hooks:
    """Answers hooks from an open store.

    Args:
        harken: the store.
        reports: folder where transcripts that have grown are put down.
        unwritten: those that could not be, the disk being full, say; whoever reads the folder tries again.
    """

    harken: Harken
    reports: str
    unwritten: set[Transcript] = field(default_factory=set)

    def answer(self, event: str, agent: str, content: bytes, is_gone: Callable[[], bool] = lambda: False) -> bytes:
        """What the hook is to print; nothing where nothing matters.

        Args:
            event: in any spelling.
            agent: one of `agents.AGENTS`.
            content: what the agent told its hook, unread.
            is_gone: whether nobody waits for the answer any more; what was not heard is told another time.
        """
        name, payload = event_name(event), read_payload(content)
        transcripts = grown(event, agent, payload)
        if payload is None or transcripts is None:
            return b""
        for transcript in transcripts:
            self._report(transcript)
        said = self.context(name, agent, payload)
        if not said.text or not self._noted(said, is_gone):
            return b""
        called = payload.get("hook_event_name")
        told = {"hookEventName": called if isinstance(called, str) else event, "additionalContext": said.text}
        return json.dumps({"hookSpecificOutput": told}).encode()

    def _noted(self, said: Told, is_gone: Callable[[], bool]) -> bool:
        """Whether somebody waits for it; if so it is written down that the conversation has been given this."""
        if not said.given:
            return True
        with self.harken.store.writing(of=INJECTIONS) as tx:
            # Asked now: the store may have been busy for longer than a hook waits.
            if is_gone():
                return False
            note_given(tx, said.conversation_uid, said.given, self.harken.recorder.now())
        return True

    def _report(self, transcript: Transcript) -> None:
        try:
            put(self.reports, transcript)
        except OSError as error:
            _log.warning("report_failed", error_class=type(error).__name__)
            self.unwritten.add(transcript)

    def context(self, event: str, agent_name: str, payload: Mapping[str, Any]) -> Told:
        """What the agent's model is to read with this event."""
        agent, wanted = AGENTS[agent_name], self.harken.settings.hooks
        session_id = payload.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            return NOTHING
        if event == SESSION_START and wanted.brief:
            return self._brief(agent, session_id, payload)
        prompt = payload.get("prompt")
        if event == PROMPT and wanted.recall and isinstance(prompt, str):
            return self._recall(agent, session_id, prompt)
        if event in CHECKED and wanted.premortem:
            return self._premortem(event, agent, session_id, payload)
        return NOTHING

    def _recall(self, agent: Agent, session_id: str, prompt: str) -> Told:
        """What was saved or said elsewhere about the prompt, and this conversation was not told yet."""
        session = self.harken.chats.session(session_id, agent.format)
        past = past_quotes(self.harken.chats.past(prompt, session).conversations)
        return self._told(agent, session.conversation_uid, PAST, [*saved_quotes(self.harken, prompt), *past])

    def _premortem(self, event: str, agent: Agent, session_id: str, payload: Mapping[str, Any]) -> Told:
        """What earlier work says about the test or build that failed; once for each cause."""
        failure = failed_check(event, agent, payload)
        if failure is None:
            return NOTHING
        side = payload.get("agent_id")
        # A subagent's conversation is one of its own, by the name that its transcript has.
        name = f"{session_id}/agent-{side}" if isinstance(side, str) and side else session_id
        uid = conversation_uid(agent.format, name)
        with self.harken.store.reading() as tx:
            if failure.cause in given_to(tx, uid):
                return NOTHING
        found = premortem_quotes(self.harken, failure, _directory(payload))
        said = self._told(agent, uid, PREMORTEM, found)
        return replace(said, given=(failure.cause, *said.given)) if said.text else said

    def _brief(self, agent: Agent, session_id: str, payload: Mapping[str, Any]) -> Told:
        """What is always known, what is under way in the project, and what its last conversation came to.

        After a compaction all of it again: what was told before it is no longer in the context.
        """
        cwd = _directory(payload)
        uid = conversation_uid(agent.format, session_id)
        found: list[Quote] = []
        if cwd is not None:
            found = [*open_experience(self.harken, cwd, session_id), *last_conversation(self.harken, cwd, uid)]
        return self._told(agent, uid, BRIEF, found, self._known(agent), again=payload.get("source") == "compact")

    def _known(self, agent: Agent) -> str:
        """Core memory, in no more than half of the room."""
        facts = self.harken.core.list()
        text = tokens.clip(core_block(facts), self._room(agent) // 2) if facts else ""
        return text[: agent.max_chars // 2]

    def _room(self, agent: Agent) -> int:
        return min(self.harken.settings.hooks.max_tokens, agent.max_tokens)

    def _told(
        self, agent: Agent, uid: str, heading: str, found: Sequence[Quote], before: str = "", again: bool = False
    ) -> Told:
        """As much as fits of what the conversation was not given yet, or, told again, of all.

        Args:
            agent: whose limits hold.
            uid: of the conversation.
            heading: above the quotations.
            found: the most important first.
            before: stands above the heading, and counts.
            again: whether what it was given before is gone from its context.
        """
        with self.harken.store.reading() as tx:
            known = set() if again else given_to(tx, uid)
        fresh = [quote for quote in found if quote.uid not in known]
        told: list[Quote] = []
        quotations: list[str] = []
        text = before
        for quote in fresh:
            quotations.append(fenced(quote))
            quoted = block(heading, quotations)
            longer = f"{before}\n\n{quoted}" if before else quoted
            if len(longer) > agent.max_chars or tokens.estimate(longer) > self._room(agent):
                break
            told.append(quote)
            text = longer
        return Told(uid, text, tuple(given for quote in told for given in (quote.uid, *quote.whole)))


def _directory(payload: Mapping[str, Any]) -> str | None:
    """Where the agent works."""
    cwd = payload.get("cwd")
    return cwd if isinstance(cwd, str) and is_path(cwd) and Path(cwd).is_absolute() else None
