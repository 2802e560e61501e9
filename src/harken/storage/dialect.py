"""What SQL the engines spell differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Insert, Select, Table

# The name under which statements that are made once get the ids that they are about.
AMONG = "among"


class Dialect(Protocol):
    """The statements that engines spell differently; two of one engine are equal."""

    def __hash__(self) -> int:
        """Statements are made once for each engine."""
        ...

    def one_of(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Whether a column has one of the values, however many they are."""
        ...

    def among(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """The same of numbers or texts that each execution binds, as `listing` gives them, to the name `AMONG`."""
        ...

    def listing(self, values: Sequence[Any]) -> object:
        """Values as a statement with `among` takes them."""
        ...

    def bare_rows(
        self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """The rows of a statement that was made once, by place alone and as the driver gives them.

        Args:
            connection: of a transaction.
            statement: kept for good; the types of its columns convert nothing, and it has no list (`IN`).
            values: what it is executed with.
        """
        ...

    def upsert(
        self,
        table: Table,
        rows: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        key: Sequence[str],
        changes: Mapping[str, Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        """Insert one row or some of different keys; each may change the one that has its key.

        Args:
            table: where to.
            rows: complete but for the id, with the tenant; `{}` where they are given when the statement is executed.
            key: the columns of the unique key, without the tenant.
            changes: what a row of the same key gets instead; may speak of its columns. None leaves it as it is.
            where: the row of the same key is changed only if this holds for it.
        """
        ...
