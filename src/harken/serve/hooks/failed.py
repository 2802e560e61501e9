"""A test or build that has just failed, as an agent tells its hook, and what earlier work says about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harken import tokens
from harken.assemble.render import Quote
from harken.engine import Harken
from harken.learned.axes import experience_markdown, value_markdown
from harken.learned.fields import EXPERIENCE, read_experience, read_value
from harken.model import ContextItem, Kept, Trust
from harken.serve.hooks.agents import TOOL_FAILED, Agent
from harken.sources.failures import Failure, failure_of
from harken.storage.kept.rows import find_kept

_DEFAULT_DOMAIN = "debugging"
_SHOWN = 4
_WITH_CAUSE = "root_cause"
_LINE_TOKENS = 80
# Of each kind so many are looked at: those that are near are few.
_LIMIT = 10
# What failed is told at the end of what is printed, however much that is.
_READ_CHARS = 200_000
# Gemini CLI frames what its shell printed.
_GEMINI_FRAME = ("<untrusted_context>\n", "Output: ")


def failed_check(event: str, agent: Agent, payload: Mapping[str, Any]) -> Failure | None:
    """The test or build that an event tells the failure of; None where it tells of none.

    Args:
        event: `agents.TOOL_USED` or `agents.TOOL_FAILED`.
        agent: whose.
        payload: what it told its hook.
    """
    name, given = payload.get("tool_name"), payload.get("tool_input")
    if not isinstance(name, str) or not isinstance(given, dict) or payload.get("is_interrupt") is True:
        return None
    if event == TOOL_FAILED:
        printed, facts = _text(payload.get("error")), {"is_error": True}
    else:
        printed, facts = _printed(payload.get("tool_response")), {"is_error": False} if agent.marks else {}
    return failure_of(name, json.dumps(given), printed[-_READ_CHARS:], facts)


def premortem_quotes(harken: Harken, failure: Failure, directory: str | None) -> list[Quote]:
    """The experiences and values that tell of such a failure, most relevant first; none where none is near to it.

    Args:
        harken: the store.
        failure: what has failed.
        directory: where; the experience that is under way there says what kind of work it is.
    """
    if not failure.words:
        return []
    active = harken.experiences.active(directory=directory) if directory else None
    domain, strategy = (active.experience.domain, active.experience.strategy) if active else (_DEFAULT_DOMAIN, None)
    told = harken.assembler.get_premortem_context(domain, strategy, _LIMIT, about=failure.words)
    return _quotes(harken, told.items)[:_SHOWN]


def _quotes(harken: Harken, items: Sequence[ContextItem]) -> list[Quote]:
    """One quotation for each record, whichever parts of the premortem it stands in."""
    keys = dict.fromkeys((item.source, item.metadata["id"]) for item in items)
    with harken.store.reading() as tx:
        found = [find_kept(tx, source, [uid]).get(uid) for source, uid in keys]
    return [_quote(kept) for kept in found if kept]


def _quote(kept: Kept) -> Quote:
    return Quote(_story(kept), kept.source, kept.uid, "", kept.at, (kept.fields or {}).get("trust", Trust.AGENT.value))


def _story(kept: Kept) -> str:
    """All that a record tells, root cause included; cut in each of its lines, for what a warning is about ends it."""
    is_experience = kept.source == EXPERIENCE
    told = (
        experience_markdown(read_experience(kept), _WITH_CAUSE) if is_experience else value_markdown(read_value(kept))
    )
    return "\n".join(tokens.clip(line, _LINE_TOKENS) for line in told.split("\n"))


def _printed(response: Any) -> str:
    """What a shell printed: Codex tells the text, the others an object that has it."""
    if not isinstance(response, dict):
        return _text(response)
    if response.get("interrupted") is True:
        return ""
    framed = _text(response.get("llmContent"))
    for mark in _GEMINI_FRAME:
        framed = framed.removeprefix(mark)
    return "\n".join(text for text in (_text(response.get("stdout")), _text(response.get("stderr")), framed) if text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
