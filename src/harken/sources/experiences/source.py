"""Experiences and values as sources: what search sees of them, and how a context shows them."""

from __future__ import annotations

from collections.abc import Sequence

from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.experience_texts import experience_entries, experience_markdown, value_entries, value_markdown
from harken.model.experiences import EXPERIENCE, VALUE, Experience, Value, read_experience, read_value
from harken.sources.source import relevance_of
from harken.storage.ports import Transaction
from harken.storage.records.rows import find_kept


class ExperienceSource:
    """A `Source` of experiences; one that was found on several axes is shown once, as it was found best."""

    name = EXPERIENCE

    def entries(self, record: Experience) -> Sequence[NewEntry]:
        """One for each axis that it has; nothing while it is active."""
        return experience_entries(record)

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The experiences among what was found."""
        mine: dict[str, Hit] = {}
        for hit in hits:
            if hit.entry.source == EXPERIENCE:
                mine.setdefault(hit.entry.ref_uid, hit)
        known = find_kept(tx, EXPERIENCE, list(mine))
        return [_experience_item(read_experience(known[uid]), hit) for uid, hit in mine.items() if uid in known]


class ValueSource:
    """A `Source` of values."""

    name = VALUE

    def entries(self, record: Value) -> Sequence[NewEntry]:
        """Its text."""
        return value_entries(record)

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The values among what was found."""
        mine = [hit for hit in hits if hit.entry.source == VALUE]
        known = find_kept(tx, VALUE, [hit.entry.ref_uid for hit in mine])
        return [_value_item(read_value(known[hit.entry.ref_uid]), hit) for hit in mine if hit.entry.ref_uid in known]


def _experience_item(one: Experience, hit: Hit) -> ContextItem:
    metadata = {
        "id": one.uid,
        "domain": one.domain,
        "strategy": one.strategy,
        "outcome_status": one.status.value,
        "confidence_tier": one.tier,
        "iteration_count": one.iteration_count,
    }
    return ContextItem(EXPERIENCE, experience_markdown(one, hit.entry.part), relevance_of(hit), metadata)


def _value_item(one: Value, hit: Hit) -> ContextItem:
    metadata = {
        "id": one.uid,
        "axis": one.axis,
        "cluster_id": one.cluster_id,
        "cluster_size": one.cluster_size,
        "similarity_to_centroid": one.similarity_to_centroid,
    }
    return ContextItem(VALUE, value_markdown(one), relevance_of(hit), metadata)
