"""Standing rules as rows have them: facets of messages, and, with core memory, what was decided about each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, literal_column, select

from harken.model.conversations import UNTRUSTED, Role, Trust
from harken.model.lookups import Rule, RuleState
from harken.storage.entries import MOMENT, OF_TENANT, RULE_SPAN, STATES_RULE, TRUSTS, rule_facets
from harken.storage.ports import Dialect, Question, StoredSpace, Transaction, bare_among, batches, rows_in
from harken.storage.state import core_facts
from harken.storage.tables import conversations, entries, entry_facets, from_microseconds, projects, refers
from harken.storage.vectors import Float32, is_second
from harken.text.kinds import RULE, TALK, leaning
from harken.text.rules import may_state
from harken.text.traits import STATES
from harken.text.words import is_english

# In core memory's own journal and table, under a section that people's facts never have.
RULES = "rules"
# Older ones were said again since, or hold no longer.
_MOST = 300
_OWNER = Trust.OWNER.value


def read_rules(tx: Transaction, only_counting: bool = False) -> list[Rule]:
    """Every rule that people stated in what may be trusted, as it was decided about, newest first.

    Of those that count alone (`Rule.counts`), few in what was imported, no other's text is read.
    """
    rows = tx.dialect.bare_rows(tx.connection, *rules_question(tx))
    if not rows:
        return []
    decided = {fact.key: RuleState.of(fact.value or "") for fact in core_facts(tx, RULES)}
    if only_counting:
        named = {uid.rpartition(".")[0] for uid in decided}
        rows = [row for row in rows if row[2] == _OWNER or row[1] in named]
    ids = [row[0] for row in rows]
    places: dict[int, list[tuple[int, int]]] = {}
    for entry_id, facet in bare_among(tx, _spans(tx.dialect), ids):
        if facet.startswith(RULE_SPAN):
            first, _, end = facet.removeprefix(RULE_SPAN).partition("-")
            places.setdefault(entry_id, []).append((int(first), int(end)))
    texts = {row[0]: row[1] for row in bare_among(tx, _texts(tx.dialect), ids)}
    return [
        Rule(
            uid := f"{ref_uid}.{first}",
            texts[entry_id][first:end],
            decided.get(uid, RuleState.FOUND),
            from_microseconds(created_us),
            TRUSTS[trust],
            conversation_uid,
            ref_uid,
            entry_id,
            project=project,
        )
        for entry_id, ref_uid, trust, created_us, conversation_uid, project in rows
        for first, end in sorted(places.get(entry_id, ()), reverse=True)
    ]


def rules_question(tx: Transaction) -> Question:
    """What `read_rules` asks first, and mostly alone."""
    return _stated(), {"of_tenant": tx.tenant}


def note_rules(tx: Transaction, space: StoredSpace, entry_ids: Sequence[int], vectors: Float32) -> int:
    """Mark the messages of people that resemble rules by their vectors, where no pattern has found one in them.

    Args:
        tx: a writing transaction.
        space: that of the vectors.
        entry_ids: the entries that the vectors are of, in their order.
        vectors: `(n, dims)` float32, unit length.
    Returns:
        How many were marked, each whole as one rule.
    """
    leaned, talk = leaning(RULE, space.name, vectors), leaning(TALK, space.name, vectors)
    if leaned is None or talk is None:
        return 0
    # Small talk is near to both ("whatever you prefer").
    near = [entry_ids[row] for row in ((leaned > 0.0) & (talk <= 0.0)).nonzero()[0].tolist()]
    if not near:
        return 0
    said = tx.select(entries.c.id, entries.c.text).where(
        entries.c.role == Role.USER.value, entries.c.is_turn, entries.c.traits.bitwise_and(STATES) == 0
    )
    # Each model is trained for what it is asked about: the first one for English, the second one for the rest.
    asked_of = not is_second(space)
    rows = rows_in(tx, said, entries.c.id, near)
    found = {row.id: row.text for row in rows if may_state(row.text) and is_english(row.text) is asked_of}
    if not found:
        return 0
    index = tx.text.before_change(tx.connection, sorted(found))
    for batch in batches(sorted(found)):
        tx.update(entries, tx.dialect.one_of(entries.c.id, batch), traits=entries.c.traits + STATES)
    facets = ((entry_id, facet) for entry_id, text in found.items() for facet in rule_facets([(0, len(text.rstrip()))]))
    tx.insert(entry_facets, ({"entry_id": entry_id, "facet": facet} for entry_id, facet in facets))
    index(())
    return len(found)


@cache
def _stated() -> Select[Any]:
    """Made once: it runs for every context, and putting it together takes longer than running it."""
    of_tenant = entry_facets.c.tenant == bindparam("of_tenant")
    stating = select(entry_facets.c.entry_id).where(of_tenant, entry_facets.c.facet == STATES_RULE)
    columns = (entries.c.id, entries.c.ref_uid, entries.c.trust, MOMENT)
    untrusted = [entries.c.trust != trust.value for trust in UNTRUSTED]
    return (
        select(*columns, conversations.c.uid.label("conversation_uid"), projects.c.key.label("project"))
        .select_from(
            entries.join(conversations, refers(entries.c.conversation_id, conversations)).outerjoin(
                projects, refers(entries.c.project_id, projects)
            )
        )
        .where(OF_TENANT, entries.c.id.in_(stating), *untrusted)
        .order_by(entries.c.created_at.desc(), entries.c.id.desc())
        .limit(literal_column(str(_MOST)))
    )


@cache
def _spans(dialect: Dialect) -> Select[Any]:
    of_tenant = entry_facets.c.tenant == bindparam("of_tenant")
    return select(entry_facets.c.entry_id, entry_facets.c.facet).where(
        of_tenant, dialect.among(entry_facets.c.entry_id)
    )


@cache
def _texts(dialect: Dialect) -> Select[Any]:
    return select(entries.c.id, entries.c.text).where(OF_TENANT, dialect.among(entries.c.id))
