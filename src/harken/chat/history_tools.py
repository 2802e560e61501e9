"""Tools that look into what was said before: search, and a conversation or an exchange in detail."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field, field_validator, model_validator

from harken import tokens
from harken.assemble.render import block, quoted
from harken.chat.details import NoDetails, details_of
from harken.chat.tools import Arguments, Here, Outcome, Tool
from harken.model import DERIVED_SOURCES, KEPT_FOLDERS, Hit, SearchResult, SearchScope
from harken.storage.store import Store

_MOST_HITS = 20
_HIT_TOKENS = 200
_LEAST_CHARS = 6
# What was saved or read from the disk is no part of what was said.
_SAID = SearchScope(without_sources=(*KEPT_FOLDERS, *DERIVED_SOURCES))
_OFFSET = "Where to go on: the next_offset of the answer before."


class FetchDetails(Arguments):
    """What `fetch_conversation_details` takes."""

    conversation_id: str | None = Field(None, max_length=200, description="A conversation's id, or how it begins.")
    exchange_id: str | None = Field(None, max_length=200, description="An exchange's id, or how it begins.")
    include_full_transcript: bool = Field(
        False, description="True: every word, tools included. False: title, date, summary and the exchanges, cut short."
    )
    offset: int = Field(0, ge=0, description=_OFFSET)

    @field_validator("conversation_id", "exchange_id")
    @classmethod
    def _named(cls, given: str | None) -> str | None:
        if given and len(given) < _LEAST_CHARS:
            raise ValueError(f"give at least {_LEAST_CHARS} characters of the id")
        return given or None

    @model_validator(mode="after")
    def _one(self) -> FetchDetails:
        if (self.conversation_id is None) == (self.exchange_id is None):
            given = "neither is given" if self.conversation_id is None else "both are given"
            raise ValueError(f"give exactly one of conversation_id and exchange_id; {given}")
        return self


class SearchHistory(Arguments):
    """What `search_history` takes."""

    query: str = Field(min_length=1, max_length=2000, description="What to look for, in plain words.")
    limit: int = Field(5, ge=1, le=_MOST_HITS, description="How many messages at most.")
    offset: int = Field(0, ge=0, le=500, description=_OFFSET)


def history_tools(store: Store, search: Callable[..., SearchResult]) -> list[Tool]:
    """Tools for all conversations of a store.

    Args:
        store: where conversations are read.
        search: see `Harken.search`.
    """

    def fetch(wanted: FetchDetails, here: Here) -> Outcome:
        uid, is_conversation = (wanted.conversation_id, True) if wanted.conversation_id else (wanted.exchange_id, False)
        with store.reading() as tx:
            found = details_of(tx, uid or "", is_conversation, wanted.include_full_transcript)
            if isinstance(found, NoDetails):
                return Outcome(found.why, failed=True)
            text = found.page(wanted.offset, here.room_tokens)
        return Outcome(text, kept=f"(Showed {found.kind} {found.uid} from offset {wanted.offset}; recalled, not said.)")

    def look(wanted: SearchHistory, here: Here) -> Outcome:
        # One more tells whether there are others.
        asked = wanted.offset + wanted.limit + 1
        result = search(wanted.query, scope=_SAID, limit=asked + _MOST_HITS)
        hits = [hit for hit in result.hits if hit.entry.exchange_uid != here.exchange_uid][wanted.offset : asked]
        shown = _fitting(hits[: wanted.limit], here.room_tokens)
        more = f"More: next_offset={wanted.offset + len(shown)}." if len(shown) < len(hits) else "There is no more."
        notes = " ".join(result.notes)
        if not shown:
            return Outcome(f"Nothing was found. Try other words. {notes}".rstrip())
        text = "\n".join([block("Said before:", shown), more, *([notes] if notes else [])])
        ids = ", ".join(hit.entry.ref_uid for hit in hits[: len(shown)])
        return Outcome(text, kept=f"(Found {len(shown)} messages: {ids}; recalled, not said.)")

    return [
        Tool(
            "fetch_conversation_details",
            "Look into one earlier conversation or exchange by its id, as it stands in a quotation's mark or in a "
            "result of search_history. Give exactly one id.",
            FetchDetails,
            fetch,
        ),
        Tool(
            "search_history",
            "Search everything that was ever said, in all conversations, by words and meaning.",
            SearchHistory,
            look,
        ),
    ]


def _fitting(hits: list[Hit], room_tokens: int) -> list[str]:
    shown: list[str] = []
    room = room_tokens
    for hit in hits:
        entry = hit.entry
        place = f"conversation_id={entry.conversation_uid} exchange_id={entry.exchange_uid}"
        text = f"{place}\n{quoted(entry, tokens.clip_middle(entry.text, min(_HIT_TOKENS, room_tokens // 3)))}"
        room -= tokens.estimate(text)
        if shown and room < 0:
            break
        shown.append(text)
    return shown
