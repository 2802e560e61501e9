"""Statements over any number of ids, a bounded number of them at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select

from harken.storage.dialect import AMONG
from harken.storage.store import Transaction

# SQLite binds 32,766 values in one statement, PostgreSQL's protocol 65,535.
_MOST = 10_000

_Value = TypeVar("_Value")


def batches(values: Iterable[_Value]) -> Iterator[list[_Value]]:
    """The values in order, in lists that one statement can bind."""
    rest = iter(values)
    while batch := list(islice(rest, _MOST)):
        yield batch


def rows_in(
    tx: Transaction, statement: Select[Any], column: ColumnElement[Any], values: Iterable[Any]
) -> Iterator[Any]:
    """The rows of a statement whose column has one of the values.

    A statement that is built once names the tenant by `bindparam("of_tenant")`.
    """
    for batch in batches(values):
        # All at once: one by one they take half as long again.
        yield from tx.connection.execute(
            statement.where(tx.dialect.one_of(column, batch)), {"of_tenant": tx.tenant}
        ).all()


def rows_among(tx: Transaction, statement: Select[Any], values: Iterable[Any]) -> Iterator[Any]:
    """The rows of a statement that was made once, with the places `of_tenant` and that of `Dialect.among`."""
    for batch in batches(values):
        yield from tx.connection.execute(statement, {"of_tenant": tx.tenant, AMONG: tx.dialect.listing(batch)}).all()


def bare_among(tx: Transaction, statement: Select[Any], values: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """The same by place alone and sooner, where the types of its columns convert nothing."""
    for batch in batches(values):
        asked = {"of_tenant": tx.tenant, AMONG: tx.dialect.listing(batch)}
        yield from tx.dialect.bare_rows(tx.connection, statement, asked)
