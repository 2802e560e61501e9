"""Whole events of other stores, as they may be kept here: their rules were others, or switched off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harken.model import Conversation, CoreFact, Event, ExchangeEnd, Kept, Message
from harken.record.recorder import Recorder
from harken.storage.state import REDACTED


def clean_event(recorder: Recorder, event: Event) -> Event:
    """The event without secrets and private passages, under the same ids; itself where it holds none."""
    redact, names = recorder.redactor.redact, recorder.names
    if isinstance(event, Message):
        return _clean_message(recorder, event)
    if isinstance(event, Conversation):
        return replace(
            event,
            channel=names.text(event.channel),
            external_id=names.text(event.external_id),
            title=redact(event.title).text,
            project=names.project(event.project),
            metadata=recorder.redactor.redact_value(event.metadata)[0],
        )
    if isinstance(event, Kept) and event.fields is not None:
        cleaned = recorder.redactor.redact_value(event.fields)[0]
        return replace(event, fields=cleaned, project=names.project(event.project))
    if isinstance(event, CoreFact) and event.value is not None:
        return replace(event, value=redact(event.value).text)
    if isinstance(event, ExchangeEnd) and event.error is not None:
        return replace(event, error=redact(event.error).text)
    return event


def _clean_message(recorder: Recorder, event: Message) -> Message:
    redacted = recorder.redactor.redact(event.text)
    # How much was taken out before is no secret, whatever the kinds are called.
    before: Mapping[str, int] = event.metadata.get(REDACTED, {})
    facts = {key: value for key, value in event.metadata.items() if key != REDACTED}
    metadata, more = recorder.redactor.redact_value(facts)
    found = [counts for counts in (redacted.counts, more) if counts]
    counts: dict[str, Any] = dict(before) if isinstance(before, Mapping) else {}
    for one in found:
        counts |= {kind: counts.get(kind, 0) + amount for kind, amount in one.items()}
    return replace(
        event,
        text=redacted.text,
        metadata={**metadata, REDACTED: counts} if counts else metadata,
        author=recorder.names.optional(event.author),
        call_id=recorder.names.optional(event.call_id),
        tool_name=recorder.names.optional(event.tool_name),
        external_id=recorder.names.text(event.external_id),
    )
