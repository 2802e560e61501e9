"""The tables, defined once for both engines.

Keys and indexes are the migrations' matter, since they differ: on PostgreSQL `tenant` leads every one of them,
the embedded store has one tenant. Integer ids are explicit (an implicit rowid moves under REPLACE and VACUUM);
`uid` is what journals, exports and people know a record by.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

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

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """To the database."""
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """From the database."""
        return None if value is None else from_microseconds(value)


class Json(TypeDecorator[Mapping[str, Any]]):
    """A JSON object as text; empty is null."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Mapping[str, Any] | None, dialect: Dialect) -> str | None:
        """To the database."""
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":")) if value else None

    def process_result_value(self, value: str | None, dialect: Dialect) -> Mapping[str, Any]:
        """From the database."""
        return json.loads(value) if value else {}


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

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Bytes on the embedded engine."""
        on_server = dialect.name == "postgresql"
        return dialect.type_descriptor(_ServerHalves() if on_server else LargeBinary())

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | str | None:
        """To the database."""
        if value is None or dialect.name != "postgresql":
            return value
        # Six digits are more than a float16 has.
        return "[" + ",".join(f"{number:.6g}" for number in struct.unpack(f"<{len(value) // 2}e", value)) + "]"

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        """From the database."""
        if value is None or dialect.name != "postgresql":
            return None if value is None else bytes(value)
        numbers = [float(number) for number in value[1:-1].split(",")]
        return struct.pack(f"<{len(numbers)}e", *numbers)


class Usd(TypeDecorator[Decimal]):
    """US dollars, stored as whole billionths: a token costs some tens of them, and sums stay exact."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> int | None:
        """To the database, rounded up: a price is never smaller in the books than in life."""
        return None if value is None else int((value * _BILLION).to_integral_value(ROUND_CEILING))

    def process_result_value(self, value: int | Decimal | None, dialect: Dialect) -> Decimal | None:
        """From the database; some engines sum integers as decimals."""
        return None if value is None else Decimal(value) / _BILLION


metadata = MetaData()


def refers(reference: Column[Any], target: Table) -> ColumnElement[bool]:
    """Whether a row's reference is to the target's row; of the same tenant, which a sharded server must be told."""
    return and_(target.c.tenant == reference.table.c.tenant, target.c.id == reference)


def _key() -> Column[int]:
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def _uid() -> Column[str]:
    return Column("uid", Text, nullable=False)


def _tenant() -> Column[str]:
    return Column("tenant", Text, nullable=False, server_default="local")


def _reference(name: str, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _moment(name: str, nullable: bool = False) -> Column[datetime]:
    kind: TypeEngine[datetime] = Instant()
    return Column(name, kind, nullable=nullable)


projects = Table(
    "projects",
    metadata,
    _key(),
    _tenant(),
    Column("key", Text, nullable=False),
    Column("name", Text, nullable=False),
)

project_aliases = Table(
    "project_aliases",
    metadata,
    _key(),
    _tenant(),
    Column("alias", Text, nullable=False),
    _reference("project_id"),
)

conversations = Table(
    "conversations",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    Column("channel", Text, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    _reference("project_id", nullable=True),
    Column("parent_uid", Text),
    _moment("created_at"),
    _moment("updated_at"),
    Column("metadata", Json),
)

segments = Table(
    "segments",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("conversation_id"),
    Column("number", Integer, nullable=False),
    _moment("started_at"),
)

exchanges = Table(
    "exchanges",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("conversation_id"),
    _reference("segment_id"),
    Column("number", Integer, nullable=False),
    Column("status", Text, nullable=False),
    _moment("started_at"),
    _moment("completed_at", nullable=True),
    Column("error", Text),
)

messages = Table(
    "messages",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    _reference("conversation_id"),
    _reference("segment_id"),
    _reference("exchange_id"),
    Column("role", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("author", Text),
    Column("trust", Text, nullable=False),
    Column("call_id", Text),
    Column("tool_name", Text),
    Column("external_id", Text, nullable=False),
    _moment("created_at"),
    Column("text", Text, nullable=False),
    Column("metadata", Json),
)

entries = Table(
    "entries",
    metadata,
    _key(),
    _tenant(),
    Column("source", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("ref_uid", Text, nullable=False),
    _reference("conversation_id", nullable=True),
    _reference("segment_id", nullable=True),
    _reference("exchange_id", nullable=True),
    _reference("project_id", nullable=True),
    Column("role", Text),
    Column("author", Text),
    Column("trust", Text, nullable=False),
    _moment("created_at"),
    Column("text", Text, nullable=False),
    Column("weight", Float, nullable=False),
    Column("is_turn", Boolean, nullable=False),
    # 0 waits for a vector, NULL never gets one, else the space of the newest vector.
    Column("space_id", BigInteger, nullable=True),
    sqlite_autoincrement=True,
)

spaces = Table(
    "spaces",
    metadata,
    _key(),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("threshold", Float, nullable=False),
    Column("spec", Json),
    # `active` answers queries; `filling` is being embedded and takes over when it is complete.
    Column("state", Text, nullable=False),
)

vectors = Table(
    "vectors",
    metadata,
    _key(),
    _tenant(),
    _reference("entry_id"),
    _reference("space_id"),
    Column("vector", Halves, nullable=False),
    sqlite_autoincrement=True,
)

work = Table(
    "work",
    metadata,
    _key(),
    _tenant(),
    Column("kind", Text, nullable=False),
    _reference("item_id"),
    Column("claimed_by", Text),
    _moment("lease_until", nullable=True),
    Column("attempts", Integer, nullable=False),
    _moment("retry_at", nullable=True),
)

failed_work = Table(
    "failed_work",
    metadata,
    _key(),
    _tenant(),
    Column("kind", Text, nullable=False),
    _reference("item_id"),
    Column("attempts", Integer, nullable=False),
    Column("error_class", Text, nullable=False),
    _moment("failed_at"),
)

settings = Table(
    "settings",
    metadata,
    _key(),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    _key(),
    _tenant(),
    Column("name", Text, nullable=False),
    Column("value", BigInteger, nullable=False),
)

tombstones = Table(
    "tombstones",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    Column("conversation_uid", Text, nullable=False),
    Column("kind", Text, nullable=False),
    _moment("at"),
)

import_state = Table(
    "import_state",
    metadata,
    _key(),
    _tenant(),
    Column("format", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modified", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("unreadable", Integer, nullable=False),
    _moment("imported_at"),
)

journal_files = Table(
    "journal_files",
    metadata,
    _key(),
    _tenant(),
    Column("path", Text, nullable=False),
    Column("applied", BigInteger, nullable=False),
)

spend = Table(
    "spend",
    metadata,
    _key(),
    _tenant(),
    _uid(),
    Column("day", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("item_uid", Text, nullable=False),
    Column("model", Text, nullable=False),
    # `open` until the answer is here; `lost` where it never came and may have been charged.
    Column("state", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("estimate_usd", Usd),
    Column("price_usd", Usd),
    _moment("started_at"),
    _moment("ended_at", nullable=True),
)

summaries = Table(
    "summaries",
    metadata,
    _key(),
    _tenant(),
    Column("kind", Text, nullable=False),
    Column("item_uid", Text, nullable=False),
    Column("conversation_uid", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("model", Text, nullable=False),
    # What was said until then is in it; what comes later makes it outlived.
    _moment("covers"),
    _moment("created_at"),
)
