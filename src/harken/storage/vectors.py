"""Vectors as rows: float16 blobs, written with their entry's state, read back for exact scoring; and what lacks one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    type_coerce,
    update,
)

from harken.storage.ports import Dialect, Question, StoredSpace, Transaction, among_these, batches, rows_among, rows_in
from harken.storage.state import count_up
from harken.storage.tables import (
    conversations,
    entries,
    failed_work,
    reader,
    refers,
    same,
    spaces,
    to_microseconds,
    vectors,
    work,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Numpy is imported with the first vector: counting them, and removing them, pays nothing for it.
Float32: TypeAlias = "NDArray[np.float32]"
Int64: TypeAlias = "NDArray[np.int64]"
# The counter of removals: a derived index that has seen fewer holds what is gone.
VECTORS_REMOVED = "vectors_removed"
# The kind of work that makes them; and the vectors of a second model, for other languages than English.
EMBED = "embed"
EMBED_LANGUAGES = "embed_languages"
# The states of that model's spaces, of which each text is in one, once all are filled; and before.
FOREIGN, ENGLISH = "foreign", "english"
SECOND = (FOREIGN, ENGLISH)
_UNFINISHED = "filling-"
_AT_ONCE = 1000
_OF_TENANT: BindParameter[str] = bindparam("of_tenant")


def pack(vector: Float32) -> bytes:
    """A unit vector as its row keeps it: little-endian float16."""
    return vector.astype("<f2").tobytes()


def unpack(blobs: Sequence[bytes], dims: int) -> Float32:
    """Blobs as a matrix, `(len(blobs), dims)` float32; rounding leaves lengths within 0.001 of one."""
    import numpy as np

    return np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(blobs), dims).astype(np.float32)


def similarities(matrix: Float32, query: Float32) -> Float32:
    """The dot product of each row with a query, `(n,)`: of unit vectors the cosine similarity, -1 to 1."""
    import numpy as np

    # Not by BLAS: waking its threads takes 5 to 10 ms where others are busy, for half a millisecond's work.
    found: Float32 = np.einsum("nd,d->n", matrix, query)
    return found


def best_of(ids: Int64, scores: Float32, limit: int) -> dict[int, float]:
    """The ids, `(n,)`, with the highest of their scores, `(n,)`, best first; of equals the lowest id."""
    import numpy as np

    if 0 < limit < len(scores):
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        ids, scores = ids[scores >= least], scores[scores >= least]
    order = np.lexsort((ids, -scores))[:limit]
    return dict(zip(ids[order].tolist(), scores[order].tolist(), strict=True))


def put_vectors(
    tx: Transaction, space: StoredSpace, entry_ids: Sequence[int], matrix: Float32, is_second: bool = False
) -> int:
    """Store vectors and their entries' state; an entry that has one in this space, or is gone, is left alone.

    Those of a second model change no state.

    Returns:
        How many were new.
    """
    *questions, settled = _of_these(tx.dialect)
    named = {**among_these(tx, settled, entry_ids)[1], "of_space": space.id}
    tx.dialect.foresee(tx.connection, *((each, named) for each in questions))
    present, alive = ({row[0] for row in tx.dialect.bare_rows(tx.connection, each, named)} for each in questions)
    rows = [
        {"entry_id": entry_id, "space_id": space.id, "vector": pack(row)}
        for entry_id, row in zip(entry_ids, matrix, strict=True)
        if entry_id in alive and entry_id not in present
    ]
    tx.insert(vectors, rows)
    if not is_second:
        tx.dialect.execute_each(tx.connection, settled, [named])
    return len(rows)


@cache
def _of_these(dialect: Dialect) -> tuple[Any, Any, Any]:
    """What tells those of entries with a vector in a space, and those that are there; what marks them with it."""
    having = vectors.c.tenant == _OF_TENANT, vectors.c.space_id == bindparam("of_space")
    there = entries.c.tenant == _OF_TENANT, dialect.among(entries.c.id)
    present = select(vectors.c.entry_id).where(*having, dialect.among(vectors.c.entry_id))
    settled = update(entries).where(*there).values(space_id=bindparam("of_space"))
    return present, select(entries.c.id).where(*there), settled


def settle_without_vector(tx: Transaction, entry_ids: Sequence[int]) -> None:
    """Let entries wait for no vector any more, though they have none."""
    if entry_ids:
        tx.update(entries, entries.c.id.in_(entry_ids), space_id=None)


def read_vectors(tx: Transaction, space: StoredSpace, entry_ids: Sequence[int]) -> tuple[Int64, Float32]:
    """Those entries' vectors: ids and `(n, dims)` float32, in no promised order; entries without one are left out."""
    import numpy as np

    rows = list(rows_among(tx, _of_entries(tx.dialect, space.id), entry_ids))
    ids = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    return ids, unpack([row[1] for row in rows], space.dims)


@cache
def _of_entries(dialect: Dialect, space_id: int) -> Select[Any]:
    mine = vectors.c.tenant == _OF_TENANT, vectors.c.space_id == space_id
    return select(vectors.c.entry_id, vectors.c.vector).where(*mine, dialect.among(vectors.c.entry_id))


def has_vectors(tx: Transaction, space: StoredSpace) -> bool:
    """Whether a space holds anything yet."""
    asked = {"of_tenant": tx.tenant, "of_space": space.id}
    return tx.connection.execute(_ANY_VECTOR, asked).first() is not None


def delete_vectors(tx: Transaction, entry_ids: Sequence[int]) -> None:
    """Remove the entries' vectors in every space."""
    for batch in batches(entry_ids):
        delete_vectors_where(tx, vectors.c.entry_id.in_(batch))


def delete_vectors_where(tx: Transaction, condition: ColumnElement[bool]) -> None:
    """Remove every vector that meets the condition; indexes derived from them are told."""
    if tx.delete(vectors, condition):
        count_up(tx, {VECTORS_REMOVED: 1})


# Built once: these two run before every search.
_SPACES = select(spaces).where(spaces.c.tenant == _OF_TENANT).order_by(spaces.c.id)
_ANY_VECTOR = (
    select(vectors.c.id).where(vectors.c.tenant == _OF_TENANT, vectors.c.space_id == bindparam("of_space")).limit(1)
)


def list_spaces(tx: Transaction) -> list[StoredSpace]:
    """Every space that the store has vectors or plans for, oldest first."""
    return list(map(_stored_space, tx.connection.execute(_SPACES, {"of_tenant": tx.tenant}).all()))


def spaces_by_state(tx: Transaction) -> dict[str, StoredSpace]:
    """The oldest space of each state: that which is `active` answers, that which is `filling` is to take over."""
    return {space.state: space for space in reversed(list_spaces(tx))}


_stored_space = reader(StoredSpace, spec=dict)
_HOLDS_SOME = exists().where(vectors.c.tenant == _OF_TENANT, vectors.c.space_id == spaces.c.id)
# Made once: it runs with every search.
_ANSWERING = (
    select(
        *(spaces.c.id, spaces.c.name, spaces.c.dims, spaces.c.threshold),
        *(type_coerce(spaces.c.spec, Text), spaces.c.state, _HOLDS_SOME),
    )
    .where(spaces.c.tenant == _OF_TENANT, or_(*(spaces.c.state == state for state in ("active", *SECOND))))
    .order_by(spaces.c.id)
)


def answering_space(tx: Transaction) -> StoredSpace | None:
    """The space that queries are asked of; None while it holds nothing."""
    return answering_spaces(tx).get("active")


def answering_spaces(tx: Transaction) -> dict[str, StoredSpace]:
    """By their state the space that queries are asked of, and those of the second model; each if it holds anything."""
    found: dict[str, StoredSpace | None] = {}
    rows = tx.dialect.bare_rows(tx.connection, *spaces_question(tx))
    for row_id, name, dims, threshold, spec, state, holds_some in rows:
        # The oldest of a state stands for it, whether it holds anything or not.
        space = StoredSpace(row_id, name, dims, threshold, json.loads(spec or "{}"), state)
        found.setdefault(state, space if holds_some else None)
    return {state: space for state, space in found.items() if space is not None}


def spaces_question(tx: Transaction) -> Question:
    """What `answering_spaces` asks."""
    return _ANSWERING, {"of_tenant": tx.tenant}


def ensure_space(tx: Transaction, name: str, dims: int, threshold: float, spec: dict[str, object]) -> StoredSpace:
    """The space that is to be filled, made if it is new: `active` where no other answers yet, else `filling`.

    A store without vectors follows a change of model at once: there is no old space to answer meanwhile.
    """
    known = [space for space in list_spaces(tx) if not is_second(space)]
    found = next((space for space in known if space.name == name), None)
    answering = next((space for space in known if space.state == "active" and has_vectors(tx, space)), None)
    state = "active" if answering is None or answering == found else "filling"
    values = {"dims": dims, "threshold": threshold, "spec": spec, "state": state}
    if found is None:
        tx.insert(spaces, [{"name": name, **values}])
    elif any(getattr(found, key) != value for key, value in values.items()):
        tx.update(spaces, spaces.c.id == found.id, **values)
    unwanted = [space for space in known if space not in (found, answering) and space.state != "retired"]
    for space in unwanted:
        tx.update(spaces, spaces.c.id == space.id, state="retired")
    if unwanted and answering is not None and answering == found:
        # Entries that another space was filled with meanwhile need nothing more where they have this one's vector.
        here = tx.select(vectors.c.entry_id).where(vectors.c.space_id == answering.id)
        others = entries.c.space_id.not_in([0, answering.id])
        tx.update(entries, others, entries.c.id.in_(here), space_id=answering.id)
    return next(space for space in list_spaces(tx) if space.name == name)


def is_second(space: StoredSpace) -> bool:
    """Whether a space is of the second model."""
    return space.state.removeprefix(_UNFINISHED) in SECOND


def ensure_second(
    tx: Transaction, name: str, dims: int, threshold: float, spec: dict[str, object]
) -> dict[str, StoredSpace]:
    """The spaces of a second model by what they hold, `FOREIGN` and `ENGLISH`, made if they are new.

    Those of another one are retired, and their vectors removed.
    """
    values = {"dims": dims, "threshold": threshold, "spec": spec}
    wanted = {f"{name}/{kind}": _UNFINISHED + kind for kind in SECOND}
    for space in list_spaces(tx):
        state = wanted.pop(space.name, "retired")
        if state == "retired" and is_second(space):
            tx.update(spaces, spaces.c.id == space.id, state=state)
            delete_vectors_where(tx, vectors.c.space_id == space.id)
        elif state != "retired" and (space.threshold != threshold or not is_second(space)):
            tx.update(spaces, spaces.c.id == space.id, **values, state=space.state if is_second(space) else state)
    tx.insert(spaces, [{"name": full, "state": state, **values} for full, state in wanted.items()])
    return second_spaces(tx)


def second_spaces(tx: Transaction) -> dict[str, StoredSpace]:
    """The spaces of the second model by what they hold; empty where there is none."""
    return {space.state.removeprefix(_UNFINISHED): space for space in list_spaces(tx) if is_second(space)}


def finish_second(tx: Transaction) -> None:
    """Let the second model answer from now on."""
    for kind in SECOND:
        tx.update(spaces, spaces.c.state == _UNFINISHED + kind, state=kind)


def activate_space(tx: Transaction, space: StoredSpace) -> None:
    """Let a complete space answer from now on; the others of its kind are retired and their vectors removed."""
    others = [other.id for other in list_spaces(tx) if other.id != space.id and not is_second(other)]
    tx.update(spaces, spaces.c.id.in_(others), state="retired")
    tx.update(spaces, spaces.c.id == space.id, state="active")
    delete_vectors_where(tx, vectors.c.space_id.in_(others))
    # What was given up has no vector any more and waits for one, should it be tried again.
    tx.update(entries, entries.c.space_id.not_in([0, space.id]), space_id=0)


def vectors_of_folder(tx: Transaction, folder: str, source: str | None) -> Sequence[Any]:
    """The vectors of a conversation, or of a source of saved records, as rows that `restore_vectors` takes."""
    columns = (entries.c.ref_uid, entries.c.part, entries.c.space_id.label("newest"))
    return tx.connection.execute(_of_folder(tx, folder, source, *columns, vectors.c.space_id, vectors.c.vector)).all()


def _of_folder(tx: Transaction, folder: str, source: str | None, *columns: Any) -> Select[Any]:
    of_folder = conversations.c.uid == folder if source is None else entries.c.source == source
    return (
        select(*columns)
        .select_from(entries)
        .outerjoin(conversations, refers(entries.c.conversation_id, conversations))
        .join(vectors, refers(vectors.c.entry_id, entries))
        .where(entries.c.tenant == tx.tenant, of_folder)
    )


def each_vector_of(tx: Transaction, folder: str, source: str | None, space: StoredSpace) -> Iterator[Row[Any]]:
    """The vectors of a conversation, or of a source of saved records, in a space, with what they are of."""
    columns = (entries.c.source, entries.c.ref_uid, entries.c.part, entries.c.author, entries.c.text, vectors.c.vector)
    mine = _of_folder(tx, folder, source, *columns).where(vectors.c.space_id == space.id).order_by(entries.c.id)
    yield from tx.connection.execute(mine, execution_options={"yield_per": _AT_ONCE})


def embeddable_by_ref(tx: Transaction, ref_uids: Iterable[str]) -> dict[tuple[str, str, str], Row[Any]]:
    """The entries of records that may have a vector, with row, author and text, by source, record and part."""
    columns = (entries.c.id, entries.c.source, entries.c.ref_uid, entries.c.part, entries.c.author, entries.c.text)
    statement = tx.select(*columns).where(entries.c.space_id.is_not(None))
    return {(row.source, row.ref_uid, row.part): row for row in rows_in(tx, statement, entries.c.ref_uid, ref_uids)}


def restore_vectors(tx: Transaction, kept: Sequence[Any]) -> Iterator[tuple[StoredSpace, list[int], Float32]]:
    """Put vectors back where their entries came back; yield them by space, with the entries' rows."""
    statement = select(entries.c.ref_uid, entries.c.part, entries.c.id).where(entries.c.tenant == tx.tenant)
    found = rows_in(tx, statement, entries.c.ref_uid, {row.ref_uid for row in kept})
    ids = {(row.ref_uid, row.part): row.id for row in found}
    back = [(ids[row.ref_uid, row.part], row) for row in kept if (row.ref_uid, row.part) in ids]
    if back:
        tx.connection.execute(
            insert(vectors),
            [
                {"tenant": tx.tenant, "entry_id": entry_id, "space_id": row.space_id, "vector": row.vector}
                for entry_id, row in back
            ],
        )
        tx.connection.execute(
            update(entries)
            .where(entries.c.tenant == tx.tenant, entries.c.id == bindparam("of_entry"))
            .values(space_id=bindparam("newest")),
            [{"of_entry": entry_id, "newest": row.newest} for entry_id, row in back],
        )
    for space in list_spaces(tx) if back else ():
        mine = {entry_id: row.vector for entry_id, row in back if row.space_id == space.id}
        if mine and all(len(vector) == 2 * space.dims for vector in mine.values()):
            yield space, list(mine), unpack(list(mine.values()), space.dims)


def misplaced_vectors(tx: Transaction, fix: bool) -> tuple[int, int]:
    """How many vectors belong to no entry, and how many entries are marked as embedded and have none.

    Args:
        tx: a writing transaction.
        fix: remove the vectors, and let the entries wait anew.
    """
    known = select(entries.c.id).where(entries.c.tenant == tx.tenant)
    embedded = select(vectors.c.entry_id).where(vectors.c.tenant == tx.tenant)
    stray = vectors.c.tenant == tx.tenant, vectors.c.entry_id.not_in(known)
    empty = entries.c.tenant == tx.tenant, entries.c.space_id > 0, entries.c.id.not_in(embedded)
    counts = [
        int(tx.connection.execute(select(func.count()).select_from(table).where(*condition)).scalar_one())
        for table, condition in ((vectors, stray), (entries, empty))
    ]
    if fix:
        delete_vectors_where(tx, stray[1])
        tx.connection.execute(entries.update().where(*empty).values(space_id=0))
    return counts[0], counts[1]


# As many entries are embedded at once at most.
A_BATCH = 100


@dataclass(frozen=True, slots=True)
class Backlog:
    """Entries that never had a vector and wait for one.

    Attributes:
        waiting: how many; one more than a batch stands for any more. What was given up is not among them.
        running: how many somebody is embedding.
    """

    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class VectorCounts:
    """Vectors of one source; what was given up is neither embedded nor waiting."""

    embedded: int = 0
    waiting: int = 0


def count_vectors(tx: Transaction, space: StoredSpace | None) -> dict[str, VectorCounts]:
    """Vectors in a space by source; without a space, everything that may have one waits."""
    filled = entries.c.space_id == (space.id if space else -1)
    of_failed = and_(same(entries.c.id, failed_work.c.item_id), failed_work.c.kind == EMBED)
    rows = tx.connection.execute(
        tx.select(
            entries.c.source,
            func.sum(case((filled, 1), else_=0)).label("embedded"),
            func.sum(case((and_(~filled, failed_work.c.id.is_(None)), 1), else_=0)).label("waiting"),
        )
        .select_from(entries.outerjoin(failed_work, of_failed))
        .where(entries.c.space_id.is_not(None))
        .group_by(entries.c.source)
    )
    return {row.source: VectorCounts(int(row.embedded), int(row.waiting)) for row in rows}


_WAITING = select(entries.c.id).where(entries.c.tenant == _OF_TENANT, entries.c.space_id == 0)
_GIVEN_UP = select(failed_work.c.item_id).where(failed_work.c.tenant == _OF_TENANT, failed_work.c.kind == EMBED)
# Built once, and one statement: it runs with every search.
_BACKLOG = select(
    select(func.count()).select_from(_WAITING.limit(A_BATCH + 1).subquery()).scalar_subquery(),
    select(func.count()).select_from(_GIVEN_UP.subquery()).scalar_subquery(),
    select(func.count())
    .select_from(work)
    .where(
        work.c.tenant == _OF_TENANT,
        work.c.kind == EMBED,
        work.c.claimed_by.is_not(None),
        work.c.lease_until >= bindparam("of_now", type_=BigInteger),
    )
    .scalar_subquery(),
)


def backlog(tx: Transaction, now: datetime) -> Backlog:
    """What waits for its first vector; quick however much that is."""
    ((waiting, given_up, running),) = tx.dialect.bare_rows(tx.connection, *backlog_question(tx, now))
    return Backlog(waiting if waiting > A_BATCH else max(0, waiting - given_up), running)


def backlog_question(tx: Transaction, now: datetime) -> Question:
    """What `backlog` asks."""
    return _BACKLOG, {"of_tenant": tx.tenant, "of_now": to_microseconds(now)}


def count_embeddable(tx: Transaction) -> int:
    """How many entries have or wait for a vector."""
    return tx.count(entries, entries.c.space_id.is_not(None))


def count_waiting(tx: Transaction) -> int:
    """How many entries wait for their first vector, all of them counted; what was given up is not among them."""
    return tx.count(entries, entries.c.space_id == 0) - tx.count(failed_work, failed_work.c.kind == EMBED)


def embeddable_texts(tx: Transaction, sources: Sequence[str] = ()) -> Iterator[str]:
    """The text of every entry that has or waits for a vector; all sources where none is named."""
    of_sources = entries.c.source.in_(sources) if sources else true()
    yield from tx.connection.scalars(tx.select(entries.c.text).where(entries.c.space_id.is_not(None), of_sources))
