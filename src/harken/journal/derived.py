"""What was made of the records and goes with an export: summaries, and on request vectors.

Neither is in the journal, for both can be made again. But a model's summaries are paid for, and so may vectors be.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from harken.model.conversations import spoken
from harken.model.views import format_moment, parse_moment
from harken.providers.summarizer import EXTRACTIVE
from harken.storage.conversations import find_known, own_conversations, places_of, tombstones_of
from harken.storage.enrichment.segments import RollingSummary, put_rolling, rolling_summaries
from harken.storage.enrichment.summaries import (
    CONVERSATION,
    EXCHANGE,
    TOOLS,
    StoredSummary,
    put_summaries,
    read_summaries,
    summaries_of,
)
from harken.storage.ports import StoredSpace, Transaction
from harken.storage.records.rows import SOURCE_OF_FOLDER
from harken.storage.records.rules import note_rules
from harken.storage.tables import conversations, exchanges
from harken.storage.vectors import each_vector_of, embeddable_by_ref, put_vectors, unpack

_ITEMS = {EXCHANGE: exchanges, TOOLS: exchanges, CONVERSATION: conversations}
_DIGEST_BYTES = 8
# A vector is of length 1, but for what float16 rounds off.
_ROUNDED = 0.01


@dataclass(frozen=True, slots=True)
class MadeSummary:
    """A summary of an exchange, its tool calls or a conversation, with the conversation that it belongs to."""

    summary: StoredSummary
    conversation_uid: str


@dataclass(frozen=True, slots=True)
class MadeVector:
    """The vector of an entry, as its row keeps it; `digest` is of the text that it is of."""

    source: str
    ref_uid: str
    part: str
    space: str
    digest: str
    vector: bytes


_Told = MadeSummary | RollingSummary
Derived = _Told | MadeVector


def derived_of(tx: Transaction, uid: str, space: StoredSpace | None) -> Iterator[Derived]:
    """What was made of a conversation, or of a folder of saved records; vectors where a space is named."""
    for found in sorted(summaries_of(tx, uid), key=lambda each: (each.kind, each.item_uid)):
        yield MadeSummary(found, uid)
    yield from sorted(rolling_summaries(tx, uid), key=lambda each: each.segment_uid)
    if space is not None:
        for row in each_vector_of(tx, uid, SOURCE_OF_FOLDER.get(uid), space):
            digest = _digest(row.author, row.text)
            yield MadeVector(row.source, row.ref_uid, row.part, space.name, digest, row.vector)


def fields_of(one: Derived) -> dict[str, Any]:
    """The JSON of a line."""
    if isinstance(one, MadeSummary):
        times = {name: format_moment(getattr(one.summary, name)) for name in ("covers", "created_at")}
        return {"event": "summary", "conversation": one.conversation_uid, **asdict(one.summary), **times}
    if isinstance(one, RollingSummary):
        return {"event": "rolling_summary", **asdict(one), "updated_at": format_moment(one.updated_at)}
    return {"event": "vector", **asdict(one), "vector": base64.b64encode(one.vector).decode()}


def derived_from_fields(fields: Mapping[str, Any]) -> Derived | None:
    """What a line's JSON says was made; None where it says nothing of the kind, or not the whole of it."""
    read = _READ.get(str(fields.get("event")))
    try:
        return read({key: value for key, value in fields.items() if key != "event"}) if read else None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _read_summary(fields: dict[str, Any]) -> MadeSummary | None:
    conversation = fields.pop("conversation")
    times = {name: parse_moment(fields[name]) for name in ("covers", "created_at")}
    made = MadeSummary(StoredSummary(**{**fields, **times}), conversation)
    summary = made.summary
    texts = (conversation, summary.item_uid, summary.text, summary.title, summary.model)
    return made if summary.kind in _ITEMS and all(isinstance(text, str) for text in texts) else None


def _read_rolling(fields: dict[str, Any]) -> RollingSummary | None:
    covers = tuple(fields["covers"])
    made = RollingSummary(**{**fields, "updated_at": parse_moment(fields["updated_at"]), "covers": covers})
    texts = (made.segment_uid, made.conversation_uid, made.text, made.model or "", made.left_uid, *covers)
    return made if all(isinstance(text, str) for text in texts) else None


def _read_vector(fields: dict[str, Any]) -> MadeVector | None:
    made = MadeVector(**{**fields, "vector": base64.b64decode(fields["vector"], validate=True)})
    texts = (made.source, made.ref_uid, made.part, made.space, made.digest)
    return made if all(isinstance(text, str) for text in texts) else None


_READ: Mapping[str, Callable[[dict[str, Any]], Derived | None]] = {
    "summary": _read_summary,
    "rolling_summary": _read_rolling,
    "vector": _read_vector,
}


def keep_derived(
    tx: Transaction,
    made: Sequence[Derived],
    graves: Collection[str],
    clean: Callable[[str], str],
    space: StoredSpace | None,
    is_mine: bool,
) -> tuple[int, int]:
    """Keep what an export brings and is not here yet; how many summaries, and how many vectors.

    Args:
        tx: a writing transaction.
        made: as the export has it; what it is made of has been brought in.
        graves: ids of all that the export says was forgotten. Where more was forgotten here, a summary may tell of it.
        clean: takes secrets out of a text.
        space: only its vectors are kept; None keeps none.
        is_mine: a stranger's vectors are not kept, and summaries only of what is a stranger's as well.
    """
    told = _where_they_belong(tx, [one for one in made if isinstance(one, _Told)])
    uids = {one.conversation_uid for one in told}
    left = set() if is_mine else own_conversations(tx, uids)
    left |= {uid for uid in uids if any(grave.uid not in graves for grave in tombstones_of(tx, uid))}
    told = [one for one in told if one.conversation_uid not in left]
    rolling = [one for one in told if isinstance(one, RollingSummary)]
    kept = sum(put_rolling(tx, replace(one, text=clean(one.text))) for one in rolling)
    for kind, table in _ITEMS.items():
        mine = [one for one in told if isinstance(one, MadeSummary) and one.summary.kind == kind]
        item_uids = [one.summary.item_uid for one in mine]
        there = find_known(tx, table, item_uids)
        known = read_summaries(tx, kind, item_uids)
        new = {
            one.summary.item_uid: (
                replace(one.summary, text=clean(one.summary.text), title=clean(one.summary.title)),
                one.conversation_uid,
            )
            for one in mine
            if one.summary.item_uid in there and _is_better(one.summary, known.get(one.summary.item_uid))
        }
        put_summaries(tx, list(new.values()))
        kept += len(new)
    vectors = [one for one in made if isinstance(one, MadeVector) and space and one.space == space.name]
    return kept, _keep_vectors(tx, vectors, space) if space and is_mine else 0


def _where_they_belong(tx: Transaction, told: Sequence[_Told]) -> list[_Told]:
    """Those of what is here, each with the conversation that this is of, whatever the file says."""
    named = [one.segment_uid if isinstance(one, RollingSummary) else one.summary.item_uid for one in told]
    place = places_of(tx, named)
    return [replace(one, conversation_uid=place[uid]) for one, uid in zip(told, named, strict=True) if uid in place]


def _is_better(new: StoredSummary, present: StoredSummary | None) -> bool:
    """True where more is in it, or a model has written what was only chosen here."""
    if present is None or new.covers != present.covers:
        return present is None or new.covers > present.covers
    return present.model == EXTRACTIVE and new.model != EXTRACTIVE


def _keep_vectors(tx: Transaction, made: Sequence[MadeVector], space: StoredSpace) -> int:
    """Those of texts that are here letter by letter."""
    import numpy as np

    here = embeddable_by_ref(tx, {one.ref_uid for one in made})
    found = {}
    for one in made:
        row = here.get((one.source, one.ref_uid, one.part))
        if row and len(one.vector) == 2 * space.dims and _digest(row.author, row.text) == one.digest:
            found[row.id] = one.vector
    if not found:
        return 0
    matrix = unpack(list(found.values()), space.dims)
    sound = np.abs(np.linalg.norm(matrix, axis=1) - 1.0) < _ROUNDED
    ids = [row_id for row_id, is_sound in zip(found, sound.tolist(), strict=True) if is_sound]
    if ids:
        note_rules(tx, space, ids, matrix[sound])
    return put_vectors(tx, space, ids, matrix[sound]) if ids else 0


def _digest(author: str | None, text: str) -> str:
    words = spoken(author, text).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(words, digest_size=_DIGEST_BYTES).hexdigest()
