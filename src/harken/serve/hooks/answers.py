"""What a coding agent is told at the events that its hooks report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from harken import tokens
from harken.assemble.past import past_quotes
from harken.assemble.render import PAST, Quote, block, core_block, fenced
from harken.engine import Harken
from harken.model import Trust
from harken.record.identity import conversation_uid
from harken.record.project import identify_project
from harken.serve.daemon.spool import Transcript, put
from harken.serve.hooks.agents import AGENTS, CHECKED, PROMPT, SESSION_START, Agent, event_name
from harken.serve.hooks.failed import HEADING, failed_check, premortem_quotes
from harken.serve.hooks.reports import grown, read_payload
from harken.serve.hooks.saved import open_experience, saved_quotes
from harken.storage.injections import INJECTIONS, given_to, note_given
from harken.storage.past import latest_of_project

_log = structlog.get_logger(__name__)

BRIEF = "What this project's memory has:"


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

    def answer(self, event: str, agent: str, content: bytes) -> bytes:
        """What the hook is to print; nothing where nothing matters.

        Args:
            event: in any spelling.
            agent: one of `agents.AGENTS`.
            content: what the agent told its hook, unread.
        """
        name, payload = event_name(event), read_payload(content)
        transcripts = grown(event, agent, payload)
        if payload is None or transcripts is None:
            return b""
        for transcript in transcripts:
            self._report(transcript)
        text = self.context(name, agent, payload)
        if not text:
            return b""
        called = payload.get("hook_event_name")
        told = {"hookEventName": called if isinstance(called, str) else event, "additionalContext": text}
        return json.dumps({"hookSpecificOutput": told}).encode()

    def _report(self, transcript: Transcript) -> None:
        try:
            put(self.reports, transcript)
        except OSError as error:
            _log.warning("report_failed", error_class=type(error).__name__)
            self.unwritten.add(transcript)

    def context(self, event: str, agent_name: str, payload: Mapping[str, Any]) -> str:
        """What the agent's model is to read with this event; empty where nothing matters."""
        agent, wanted = AGENTS[agent_name], self.harken.settings.hooks
        session_id = payload.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            return ""
        if event == SESSION_START and wanted.brief:
            return self._brief(agent, session_id, payload)
        prompt = payload.get("prompt")
        if event == PROMPT and wanted.recall and isinstance(prompt, str):
            return self._recall(agent, session_id, prompt)
        if event in CHECKED and wanted.premortem:
            return self._premortem(event, agent, session_id, payload)
        return ""

    def _recall(self, agent: Agent, session_id: str, prompt: str) -> str:
        """What was saved or said elsewhere about the prompt, and this conversation was not told yet."""
        session = self.harken.chats.session(session_id, agent.format)
        past = past_quotes(self.harken.chats.past(prompt, session).conversations)
        return self._told(agent, session.conversation_uid, PAST, [*saved_quotes(self.harken, prompt), *past])

    def _premortem(self, event: str, agent: Agent, session_id: str, payload: Mapping[str, Any]) -> str:
        """What earlier work says about the test or build that failed; once for each cause."""
        failure = failed_check(event, agent, payload)
        if failure is None:
            return ""
        side = payload.get("agent_id")
        # A subagent's conversation is one of its own, by the name that its transcript has.
        name = f"{session_id}/agent-{side}" if isinstance(side, str) and side else session_id
        uid = conversation_uid(agent.format, name)
        with self.harken.store.reading() as tx:
            if failure.cause in given_to(tx, uid):
                return ""
        found = premortem_quotes(self.harken, failure, _directory(payload))
        return self._told(agent, uid, HEADING, found, failure.cause)

    def _brief(self, agent: Agent, session_id: str, payload: Mapping[str, Any]) -> str:
        """What is always known, and what the project's last conversation came to."""
        cwd = _directory(payload)
        uid = conversation_uid(agent.format, session_id)
        found: list[Quote] = []
        if cwd is not None:
            project = identify_project(cwd)
            keys = (project.key, *project.aliases) if project else ()
            with self.harken.store.reading() as tx:
                latest = latest_of_project(tx, keys, uid)
            found = open_experience(self.harken, cwd, session_id)
            if latest is not None and (latest.title or latest.summary):
                text = f'Last conversation "{latest.title or "untitled"}"\n{latest.summary}'
                found += [Quote(text, "conversation", latest.uid, "", latest.created_at, Trust.AGENT.value)]
        told = self._told(agent, uid, BRIEF, found)
        facts = self.harken.core.list()
        known = tokens.clip(core_block(facts), self.harken.settings.hooks.max_tokens // 2) if facts else ""
        return "\n\n".join(part for part in (known, told) if part)

    def _told(self, agent: Agent, uid: str, heading: str, found: Sequence[Quote], cause: str = "") -> str:
        """As much as fits of what the conversation was not given yet; that it has now been given is written down.

        So is the cause, where anything is told because of it.
        """
        with self.harken.store.reading() as tx:
            known = given_to(tx, uid)
        room = min(self.harken.settings.hooks.max_tokens, agent.max_tokens)
        fresh = [quote for quote in found if quote.uid not in known]
        told: list[Quote] = []
        text = ""
        for quote in fresh:
            longer = block(heading, [fenced(each) for each in (*told, quote)])
            if len(longer) > agent.max_chars or tokens.estimate(longer) > room:
                break
            told.append(quote)
            text = longer
        if told:
            with self.harken.store.writing(of=INJECTIONS) as tx:
                given = [*([cause] if cause else []), *(quote.uid for quote in told)]
                note_given(tx, uid, given, self.harken.recorder.now())
        return text


def _directory(payload: Mapping[str, Any]) -> str | None:
    """Where the agent works."""
    cwd = payload.get("cwd")
    return cwd if isinstance(cwd, str) and Path(cwd).is_absolute() else None
