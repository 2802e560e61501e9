"""Standing rules as rows have them: facets of messages, and, with core memory, what was decided about each."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, select

from harken.model.conversations import UNTRUSTED, Trust
from harken.model.lookups import Rule, RuleState
from harken.storage.entries import OF_TENANT, RULE_SPAN, STATES_RULE
from harken.storage.ports import Transaction, rows_by
from harken.storage.state import core_facts
from harken.storage.tables import conversations, entries, entry_facets, projects, refers

# In core memory's own journal and table, under a section that people's facts never have.
RULES = "rules"
# Older ones were said again since, or hold no longer.
_MOST = 300


def read_rules(tx: Transaction) -> list[Rule]:
    """Every rule that people stated in what may be trusted, as it was decided about, newest first."""
    rows = tx.connection.execute(_stated(), {"of_tenant": tx.tenant}).all()
    if not rows:
        return []
    places: dict[int, list[tuple[int, int]]] = {}
    ids = [row.id for row in rows]
    for row in rows_by(tx, entry_facets.c.entry_id, ids, entry_facets.c.entry_id, entry_facets.c.facet):
        if row.facet.startswith(RULE_SPAN):
            first, _, end = row.facet.removeprefix(RULE_SPAN).partition("-")
            places.setdefault(row.entry_id, []).append((int(first), int(end)))
    decided = {fact.key: RuleState.of(fact.value or "") for fact in core_facts(tx, RULES)}
    return [
        Rule(
            uid := f"{row.ref_uid}.{first}",
            row.text[first:end],
            decided.get(uid, RuleState.FOUND),
            row.created_at,
            Trust(row.trust),
            row.conversation_uid,
            row.ref_uid,
            row.id,
            project=row.project,
        )
        for row in rows
        for first, end in sorted(places.get(row.id, ()), reverse=True)
    ]


@cache
def _stated() -> Select[Any]:
    """Made once: it runs for every context, and putting it together takes longer than running it."""
    of_tenant = entry_facets.c.tenant == bindparam("of_tenant")
    stating = select(entry_facets.c.entry_id).where(of_tenant, entry_facets.c.facet == STATES_RULE)
    columns = (entries.c.id, entries.c.ref_uid, entries.c.trust, entries.c.created_at, entries.c.text)
    return (
        select(*columns, conversations.c.uid.label("conversation_uid"), projects.c.key.label("project"))
        .select_from(
            entries.join(conversations, refers(entries.c.conversation_id, conversations)).outerjoin(
                projects, refers(entries.c.project_id, projects)
            )
        )
        .where(OF_TENANT, entries.c.id.in_(stating), entries.c.trust.not_in([trust.value for trust in UNTRUSTED]))
        .order_by(entries.c.created_at.desc(), entries.c.id.desc())
        .limit(_MOST)
    )
