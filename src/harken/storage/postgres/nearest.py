"""The nearest vectors by pgvector: exact where few are compared, by an HNSW index where many are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, Engine, Select, Subquery, cast, func, literal_column, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Float, UserDefinedType

from harken.storage.entries import scope_conditions
from harken.storage.store import RowScope, StoredSpace, Transaction
from harken.storage.tables import entries, refers, vectors

# Up to so many rows comparing all is quicker than the index, and finds all (shared facts: "exact per tenant").
EXACT_UP_TO = 20_000
_EF_SEARCH_MOST = 1000
_RECOUNT_SECONDS = 30.0
# An index on a text of halves orders by rounded distances: some more than wanted hold the best.
_SLACK = 20

_log = structlog.get_logger(__name__)


class _Vector(UserDefinedType[str]):
    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_options: object) -> str:
        return "vector"


class PgvectorIndex:
    """A `NearestIndex` by pgvector.

    Args:
        engine: makes indexes, outside of any transaction.
        tenant: whose spaces get one.
        translated: turns the driver's errors into ours.
    """

    def __init__(self, engine: Engine, tenant: str, translated: Callable[[], AbstractContextManager[None]]) -> None:
        self._engine = engine
        self._tenant = tenant
        self._translated = translated
        self._sizes: dict[tuple[str, int], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def nearest(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> dict[int, float]:
        """The nearest entries in the scope, best first."""
        if self._few(tx, space, scope):
            return self._exact(tx, space, query, scope, limit)
        reach = min(limit + _SLACK, _EF_SEARCH_MOST)
        tx.connection.execute(_REACH, {"reach": str(reach)})
        # As the index has it: by another expression it would not be recognized.
        halves = f"halfvec({space.dims})"
        distance: ColumnElement[float] = literal_column(
            f"CAST(vectors.vector AS {halves}) <=> CAST('{_written(query)}' AS {halves})"
        )
        near = self._scoped(tx, space, scope).where(literal_column(f"vectors.space_id = {int(space.id)}"))
        found = near.order_by(distance).limit(reach).subquery()
        return self._compared(tx, found, query, limit)

    def similarities(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], entry_ids: Sequence[int]
    ) -> dict[int, float]:
        """The exact cosine similarity of each of these entries that has a vector, best first."""
        if not entry_ids:
            return {}
        wanted = tx.dialect.one_of(vectors.c.entry_id, entry_ids)
        found = self._of_space(tx, space).where(wanted).subquery()
        return self._compared(tx, found, query, len(entry_ids))

    def save(self) -> None:
        """Nothing: what was derived is on the server."""

    def settle(self) -> None:
        """Make the index of every space that has outgrown comparing all, where the role may."""
        with self._translated(), self._engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            if connection.execute(_CHANGED, {"least": EXACT_UP_TO}).scalar():
                # Or searches would be planned for the tables as they were, until the server looks by itself.
                connection.exec_driver_sql("ANALYZE vectors, entries")
            for space_id, dims in connection.execute(_GROWN, {"tenant": self._tenant, "least": EXACT_UP_TO}):
                name = f"ix_vectors_hnsw_{space_id}"
                statement = (
                    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON vectors"
                    f" USING hnsw ((vector::halfvec({dims})) halfvec_cosine_ops) WHERE space_id = {space_id}"
                )
                try:
                    connection.exec_driver_sql(statement)
                except DBAPIError as error:
                    # Searches go on without the index, slower: this role does not own the table, or there is no room.
                    _log.warning("vector_index_not_made", space=space_id, error_class=type(error).__name__)

    def discard(self) -> None:
        """Nothing: the server keeps its index in step by itself."""

    def problems(self, connection: Connection) -> list[str]:
        """One sentence for each index that a broken-off making left unusable."""
        invalid = connection.execute(_INVALID).scalars().all()
        return [f"The vector index {name} is incomplete. Drop it: DROP INDEX {name}" for name in invalid]

    def _few(self, tx: Transaction, space: StoredSpace, scope: RowScope) -> bool:
        if scope.is_narrow:
            return True
        if self._size(tx, space) <= EXACT_UP_TO:
            return True
        bounds = (scope.project_id, scope.since, scope.until)
        if not (scope.is_apart or scope.facets) and all(bound is None for bound in bounds):
            return False
        inside = select(entries.c.id).where(entries.c.tenant == tx.tenant, *scope_conditions(scope))
        counted = select(func.count()).select_from(inside.limit(EXACT_UP_TO + 1).subquery())
        return int(tx.connection.execute(counted).scalar_one()) <= EXACT_UP_TO

    def _size(self, tx: Transaction, space: StoredSpace) -> int:
        """How many vectors the tenant has in the space, counted to just above the limit and now and then."""
        with self._lock:
            counted = self._sizes.get((tx.tenant, space.id))
        if counted is not None and time.monotonic() - counted[0] < _RECOUNT_SECONDS:
            return counted[1]
        some = self._of_space(tx, space).limit(EXACT_UP_TO + 1).subquery()
        size = int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())
        with self._lock:
            self._sizes[tx.tenant, space.id] = (time.monotonic(), size)
        return size

    def _exact(
        self, tx: Transaction, space: StoredSpace, query: NDArray[np.float32], scope: RowScope, limit: int
    ) -> dict[int, float]:
        return self._compared(tx, self._scoped(tx, space, scope).subquery(), query, limit)

    def _scoped(self, tx: Transaction, space: StoredSpace, scope: RowScope) -> Select[tuple[int, bytes]]:
        found = self._of_space(tx, space)
        if scope.is_open:
            return found
        joined = vectors.join(entries, refers(vectors.c.entry_id, entries))
        return found.select_from(joined).where(entries.c.tenant == tx.tenant, *scope_conditions(scope))

    def _of_space(self, tx: Transaction, space: StoredSpace) -> Select[tuple[int, bytes]]:
        return select(vectors.c.entry_id, vectors.c.vector).where(
            vectors.c.tenant == tx.tenant, vectors.c.space_id == space.id
        )

    def _compared(self, tx: Transaction, found: Subquery, query: NDArray[np.float32], limit: int) -> dict[int, float]:
        """Exact similarities of what a statement finds: the stored halves against the whole query."""
        columns = found.c
        # Added to nothing, so that the index of another order is not taken for this one.
        distance = cast(columns.vector, _Vector()).op("<=>", return_type=Float())(cast(_written(query), _Vector()))
        statement = select(columns.entry_id, (1 - distance).label("similarity")).order_by(
            (distance + 0.0), columns.entry_id
        )
        return {row[0]: row[1] for row in tx.connection.execute(statement.limit(limit))}


_REACH = text(
    "SELECT set_config('hnsw.ef_search', :reach, true), set_config('hnsw.iterative_scan', 'relaxed_order', true)"
)
_CHANGED = text("SELECT n_mod_since_analyze > :least FROM pg_stat_user_tables WHERE relname = 'vectors'")
_GROWN = text(
    "SELECT s.id, s.dims FROM spaces s WHERE s.tenant = :tenant"
    " AND NOT EXISTS (SELECT 1 FROM pg_indexes WHERE indexname = 'ix_vectors_hnsw_' || s.id)"
    " AND :least <= (SELECT count(*) FROM"
    " (SELECT 1 FROM vectors v WHERE v.tenant = s.tenant AND v.space_id = s.id LIMIT :least) found)"
)
_INVALID = text(
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE NOT i.indisvalid AND c.relname LIKE 'ix\\_vectors\\_hnsw\\_%'"
)


def _written(vector: NDArray[np.float32]) -> str:
    return "[" + ",".join(f"{number:.9g}" for number in vector.tolist()) + "]"
