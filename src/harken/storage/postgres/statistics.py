"""What the server believes of a tenant's tables, which decides how it answers."""

from __future__ import annotations

import time

from sqlalchemy import Engine, text

from harken.storage.postgres.connection import entered, reading_begins

# A table is passed over while an index of it is made beside running writers, which takes minutes.
COUNT_AGAIN = "ANALYZE (SKIP_LOCKED) messages, entries, vectors, exchanges, conversations"
# So many rows are planned for well enough; so many times more than are expected, and some, are not.
_WELL_FORESEEN, _MANY_TIMES, _SOME = 1_000, 10, 200
# Counting may not help: a tenant may be too small beside the others to be seen.
_AGAIN_SECONDS = 60.0


class Statistics:
    """Has the server count its tables again where it takes the tenant for far smaller than it is.

    By itself it counts when a tenth of a table has changed. Where it expects a single row, every index that begins with
    the tenant seems as good as any other to it, and each of two tables is read whole for each row of the other.

    Args:
        engine: to the database.
        tenant: whose rows are looked at.
    """

    def __init__(self, engine: Engine, tenant: str) -> None:
        self._engine = engine
        self._tenant = tenant
        self._again_at: dict[str, float] = {}

    def refresh(self, table: str) -> None:
        """Compare what is expected of a table with what there is; quick, and seldom done for the same table.

        A role that may not have tables counted changes nothing.
        """
        now = time.monotonic()
        if now < self._again_at.get(table, now):
            return
        self._again_at[table] = now + _AGAIN_SECONDS
        if self._is_unforeseen(table):
            with self._engine.connect() as plain:
                plain.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(COUNT_AGAIN)

    def _is_unforeseen(self, table: str) -> bool:
        rows = f"SELECT 1 FROM {table} WHERE tenant = :of_tenant"
        with entered(self._engine, reading_begins(self._tenant)) as connection:
            mine = {"of_tenant": self._tenant}
            planned = connection.execute(text(f"EXPLAIN (FORMAT JSON) {rows}"), mine).scalar_one()
            expected = int(planned[0]["Plan"]["Plan Rows"])
            if expected >= _WELL_FORESEEN:
                return False
            most = _MANY_TIMES * expected + _SOME
            counted = text(f"SELECT count(*) FROM ({rows} LIMIT :most) found")
            return int(connection.execute(counted, {**mine, "most": most}).scalar_one()) == most
