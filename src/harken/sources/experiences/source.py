"""Experiences and values as sources: what search sees of them, and how a context shows them."""

from __future__ import annotations

from collections.abc import Sequence

from harken.model.conversations import ContextItem, Hit, NewEntry
from harken.model.experience_texts import experience_entries, experience_markdown, value_entries, value_markdown
from harken.model.experiences import EXPERIENCE, VALUE, Experience, Value, read_experience, read_value
from harken.sources.source import relevance_of
from harken.storage.ports import Transaction
from harken.storage.records.rows import find_kept

_SHOWN = ("axis", "cluster_id", "cluster_size", "similarity_to_centroid")


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
        known = {uid: read_experience(kept) for uid, kept in find_kept(tx, EXPERIENCE, list(mine)).items()}
        return [_item(known[uid], hit) for uid, hit in mine.items() if uid in known]


def _item(one: Experience, hit: Hit) -> ContextItem:
    metadata = {
        "id": one.uid,
        "domain": one.domain,
        "strategy": one.strategy,
        "outcome_status": one.status.value,
        "confidence_tier": one.tier,
        "iteration_count": one.iteration_count,
    }
    return ContextItem(EXPERIENCE, experience_markdown(one, hit.entry.part), relevance_of(hit), metadata)


class ValueSource:
    """A `Source` of values."""

    name = VALUE

    def entries(self, record: Value) -> Sequence[NewEntry]:
        """Its text."""
        return value_entries(record)

    def items(self, tx: Transaction, hits: Sequence[Hit]) -> list[ContextItem]:
        """The values among what was found."""
        mine = [hit for hit in hits if hit.entry.source == VALUE]
        found = find_kept(tx, VALUE, [hit.entry.ref_uid for hit in mine])
        items = []
        for hit, one in ((hit, read_value(found[hit.entry.ref_uid])) for hit in mine if hit.entry.ref_uid in found):
            facts = {name: getattr(one, name) for name in _SHOWN}
            items.append(ContextItem(VALUE, value_markdown(one), relevance_of(hit), {"id": one.uid, **facts}))
        return items
