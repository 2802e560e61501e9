"""Types of columns, what SQL the engines spell differently, and words as full text has them on both."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Protocol

from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, Insert, LargeBinary, Select, Table, Text
from sqlalchemy.engine import Dialect as SQLDialect
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

# The name under which statements that are made once get the ids that they are about.
AMONG = "among"


class Dialect(Protocol):
    """The statements that engines spell differently; two of one engine are equal."""

    def __hash__(self) -> int:
        """Statements are made once for each engine."""

    def of_tenant(self, table: FromClause, tenant: str) -> tuple[ColumnElement[bool], ...]:
        """The condition that rows to be counted are of a tenant; none where there is one tenant alone."""

    def one_of(self, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Whether a column has one of the values, however many they are."""

    def among(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """The same of numbers or texts that each execution binds, as `listing` gives them, to the name `AMONG`."""

    def listing(self, values: Sequence[Any]) -> object:
        """Values as a statement with `among` takes them."""

    def bare_rows(
        self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """The rows of a statement that was made once and is kept for good, by place alone and as the driver gives them.

        The types of its columns convert nothing, and it has no list (`IN`).
        """

    def upsert(
        self,
        table: Table,
        rows: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        key: Sequence[str],
        changes: Mapping[str, Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        """Insert one row or some of different keys; each may change the one that has its key.

        Rows are complete but for the id, `{}` where they are given when the statement is executed. The key is that of
        a unique constraint, without the tenant. A row of the same key gets the changes, which may speak of its columns,
        if the condition holds for it; without changes it stays as it is.
        """


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BILLION = Decimal(1_000_000_000)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC; exact, unlike `timestamp()`."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """The moment, timezone-aware in UTC."""
    return _EPOCH + value * _MICROSECOND


class Instant(TypeDecorator[datetime]):
    """A timezone-aware moment, stored as microseconds since 1970 UTC."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: SQLDialect) -> int | None:
        """To the database."""
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: int | None, dialect: SQLDialect) -> datetime | None:
        """From the database."""
        return None if value is None else from_microseconds(value)


class Json(TypeDecorator[Mapping[str, Any]]):
    """A JSON object as text; empty is null."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, Any] | None, dialect: SQLDialect) -> str | None:
        """To the database."""
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":")) if value else None

    def process_result_value(self, value: str | None, dialect: SQLDialect) -> Mapping[str, Any]:
        """From the database."""
        return json.loads(value) if value else {}


class Listed(TypeDecorator[Sequence[Any]]):
    """A JSON list as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Sequence[Any] | None, dialect: SQLDialect) -> str | None:
        """To the database."""
        return None if value is None else json.dumps(list(value), ensure_ascii=False, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: SQLDialect) -> Sequence[Any]:
        """From the database."""
        return json.loads(value) if value else []


class _ServerHalves(UserDefinedType[str]):
    """The type `halfvec` of pgvector, in its text form."""

    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_options: Any) -> str:
        return "halfvec"


class Halves(TypeDecorator[bytes]):
    """A vector of float16, little-endian bytes here; the server's own type where it compares vectors itself."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: SQLDialect) -> TypeEngine[Any]:
        """Bytes on the embedded engine."""
        on_server = dialect.name == "postgresql"
        return dialect.type_descriptor(_ServerHalves() if on_server else LargeBinary())

    def process_bind_param(self, value: bytes | None, dialect: SQLDialect) -> bytes | str | None:
        """To the database."""
        if value is None or dialect.name != "postgresql":
            return value
        # Six digits are more than a float16 has.
        return "[" + ",".join(f"{number:.6g}" for number in struct.unpack(f"<{len(value) // 2}e", value)) + "]"

    def process_result_value(self, value: Any, dialect: SQLDialect) -> bytes | None:
        """From the database."""
        if value is None or dialect.name != "postgresql":
            return None if value is None else bytes(value)
        numbers = [float(number) for number in value[1:-1].split(",")]
        return struct.pack(f"<{len(numbers)}e", *numbers)


class Usd(TypeDecorator[Decimal]):
    """US dollars, stored as whole billionths: a token costs some tens of them, and sums stay exact."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: SQLDialect) -> int | None:
        """To the database, rounded up: a price is never smaller in the books than in life."""
        return None if value is None else int((value * _BILLION).to_integral_value(ROUND_CEILING))

    def process_result_value(self, value: int | Decimal | None, dialect: SQLDialect) -> Decimal | None:
        """From the database; some engines sum integers as decimals."""
        return None if value is None else Decimal(value) / _BILLION


# Chinese, Japanese and Korean are written without spaces; an engine would take a whole sentence for one word.
_UNSPACED = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_DAY_MICROSECONDS = 86_400_000_000
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def spaced(text: str) -> str:
    """The text with a space around every character of a script that writes none."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    moment = time.gmtime(day * 86400)
    # Not by `strftime`: what is indexed must not change with the process's locale.
    return f"{moment.tm_mday} {_MONTHS[moment.tm_mon - 1]} {moment.tm_year}"


def day_in_words(microseconds: int) -> str:
    """The day as people write it, `8 May 2023`, so that a question that names a date finds it."""
    return _date(microseconds // _DAY_MICROSECONDS)
