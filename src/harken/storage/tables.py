"""The tables, defined once for both engines, and the way between their rows and records.

Keys and indexes are the migrations' matter, since they differ: on PostgreSQL `tenant` leads every one of them,
the embedded store has one tenant. Integer ids are explicit (an implicit rowid moves under REPLACE and VACUUM);
`uid` is what journals, exports and people know a record by.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    FromClause,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    and_,
)
from sqlalchemy.engine import Dialect as SQLDialect
from sqlalchemy.exc import DontWrapMixin
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

from harken.errors import StoreCorruptError, UsageError

metadata = MetaData()
REPAIR = "Repair it: harken doctor --fix"
_Record = TypeVar("_Record")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BILLION = Decimal(1_000_000_000)


class _NoMomentError(UsageError, DontWrapMixin):
    """Raised as it is, also where the values of a statement are made."""


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC; exact, unlike `timestamp()`. Without a zone it is local time, as Python has it."""
    try:
        since = (moment if moment.tzinfo else moment.astimezone()) - _EPOCH
    except AttributeError as error:
        raise _NoMomentError(f"A moment is a datetime, as datetime(2026, 5, 8), not {moment!r}.") from error
    # Half as long as to divide by a microsecond, and every row has a moment.
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def interpret(convert: Callable[[Any], Any], value: Any) -> Any:
    """What a value of a row stands for; one that stands for nothing was damaged from outside."""
    try:
        return convert(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise StoreCorruptError(f"The database is damaged: a row holds what cannot be. {REPAIR}") from error


def from_microseconds(value: int) -> datetime:
    """The moment, timezone-aware in UTC."""
    moment: datetime = interpret(lambda microseconds: _EPOCH + timedelta(microseconds=microseconds), value)
    return moment


class Instant(TypeDecorator[datetime]):
    """A timezone-aware moment, stored as microseconds since 1970 UTC."""

    impl = BigInteger
    cache_ok = True

    def bind_processor(self, dialect: SQLDialect) -> Callable[[datetime | None], int | None]:
        """To the database; by `process_bind_param` it takes twice as long, and every row has a moment."""
        return lambda moment: None if moment is None else to_microseconds(moment)

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
        return interpret(json.loads, value) if value else {}


class Listed(TypeDecorator[Sequence[Any]]):
    """A JSON list as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Sequence[Any] | None, dialect: SQLDialect) -> str | None:
        """To the database."""
        return None if value is None else json.dumps(list(value), ensure_ascii=False, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: SQLDialect) -> Sequence[Any]:
        """From the database."""
        return interpret(json.loads, value) if value else []


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
        numbers = struct.unpack(f"<{len(value) // 2}e", value)
        # Six digits are more than a float16 has.
        return "[" + ",".join(["%.6g"] * len(numbers)) % numbers + "]"

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


def refers(reference: ColumnElement[Any], target: Table) -> ColumnElement[bool]:
    """The condition that a reference is to the target's row, of the same tenant: a sharded server must be told."""
    return same(reference, target.c.id)


def same(one: Any, other: Any) -> ColumnElement[bool]:
    """The condition that columns of two tables are equal in rows of one tenant."""
    return and_(other.table.c.tenant == one.table.c.tenant, other == one)


def joined(table: Table, *others: Table) -> FromClause:
    """A table joined with others that it refers to, each by a column of the other's name: `messages.segment_id`."""
    source: FromClause = table
    for other in others:
        source = source.join(other, refers(table.c[f"{other.name.removesuffix('s')}_id"], other))
    return source


def reader(
    record: type[_Record], besides: Collection[str] = (), /, **converted: Callable[[Any], Any]
) -> Callable[..., _Record]:
    """Make the function that turns a row into a record, once for a class.

    The row has a column for each of its fields, by name, but for those that the caller gives besides; some values are
    converted first.
    """
    names = [field.name for field in fields(record) if field.name not in besides]  # type: ignore[arg-type]
    values_of = attrgetter(*names)
    changes = [(names.index(name), convert) for name, convert in converted.items()]

    def read(row: Row[Any], **others: Any) -> _Record:
        values = list(values_of(row))
        for place, convert in changes:
            values[place] = interpret(convert, values[place])
        return record(**dict(zip(names, values, strict=True)), **others) if besides else record(*values)

    return read


def writer(record: type[_Record], table: Table, *enums: str) -> Callable[[_Record], dict[str, Any]]:
    """Make the function that gives those columns of a row that a record has as well, once for a class with slots.

    Of fields that are enumerations of texts, which are named, it gives the value.
    """
    names = [column.name for column in table.columns if hasattr(record, column.name)]
    # All are texts, and so is what `str` makes of one; its `value` takes three times as long.
    values = [f"{name!r}: str(one.{name})" if name in enums else f"{name!r}: one.{name}" for name in names]
    # Its text is put together, as a dataclass's is: to pair names with values takes each row three times as long.
    write: Callable[[_Record], dict[str, Any]] = eval(f"lambda one: {{{', '.join(values)}}}")  # noqa: S307
    return write


def table(name: str, *own: Column[Any], autoincrement: bool = False) -> Table:
    """A table with the columns that every one has before its own."""
    key = Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    tenant = Column("tenant", Text, nullable=False, server_default="local")
    return Table(name, metadata, key, tenant, *own, sqlite_autoincrement=autoincrement)


def columns(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Columns of one type; one whose name is written with `?` may be NULL."""
    return [Column(name.removesuffix("?"), kind, nullable=name.endswith("?")) for name in names]


texts, numbers, ids, reals, moments = (partial(columns, kind) for kind in (Text, Integer, BigInteger, Float, Instant))


def saved_table(name: str, *own: Column[Any]) -> Table:
    """A table of saved records, with the columns that all of them have before their own."""
    head = (*texts("uid"), *ids("project_id?"), *texts("trust"), *moments("created_at", "updated_at"))
    return table(name, *head, *own)


def _position() -> Column[int]:
    """A message's place in its conversation; its entry's likewise, and 0 of entries that are no messages'."""
    return Column("position", BigInteger, nullable=False, server_default="0")


projects = table("projects", *texts("key", "name"))
project_aliases = table("project_aliases", *texts("alias"), *ids("project_id"))

conversations = table(
    "conversations",
    *texts("uid", "channel", "external_id", "title"),
    *ids("project_id?"),
    *texts("parent_uid?"),
    *moments("created_at", "updated_at"),
    # What its owner has said of it: a title, tags, a project.
    *columns(Json, "metadata?", "label?"),
)

segments = table("segments", *texts("uid"), *ids("conversation_id"), *numbers("number"), *moments("started_at"))

exchanges = table(
    "exchanges",
    *texts("uid"),
    *ids("conversation_id", "segment_id"),
    *numbers("number"),
    *texts("status"),
    *moments("started_at", "completed_at?"),
    *texts("error?"),
)

messages = table(
    "messages",
    *texts("uid"),
    *ids("conversation_id", "segment_id", "exchange_id"),
    *texts("role", "type", "author?", "trust", "call_id?", "tool_name?", "external_id"),
    *moments("created_at"),
    *texts("text"),
    *columns(Json, "metadata?"),
    _position(),
)

entries = table(
    "entries",
    *texts("source", "part", "ref_uid"),
    *ids("conversation_id?", "segment_id?", "exchange_id?", "project_id?"),
    *texts("role?", "author?", "trust"),
    *moments("created_at"),
    *texts("text"),
    *reals("weight"),
    *columns(Boolean, "is_turn"),
    # 0 waits for a vector, NULL never gets one, else the space of the newest vector.
    *ids("space_id?"),
    _position(),
    # What its text is like, packed by `harken.text.traits`; 0 until that was looked at.
    Column("traits", BigInteger, nullable=False, server_default="0"),
    # What verdicts multiply its score by.
    Column("rated", Float, nullable=False, server_default="1"),
    autoincrement=True,
)

# Words `name:value` that a search can be limited by.
entry_facets = table("entry_facets", *ids("entry_id"), *texts("facet"))

spaces = table(
    "spaces",
    *texts("name"),
    *numbers("dims"),
    *reals("threshold"),
    *columns(Json, "spec?"),
    # `active` answers queries; `filling` is being embedded and takes over when it is complete.
    *texts("state"),
)

vectors = table("vectors", *ids("entry_id", "space_id"), *columns(Halves, "vector"), autoincrement=True)

work = table(
    "work",
    *texts("kind"),
    *ids("item_id"),
    *texts("claimed_by?"),
    *moments("lease_until?"),
    *numbers("attempts"),
    *moments("retry_at?"),
)

failed_work = table(
    "failed_work", *texts("kind"), *ids("item_id"), *numbers("attempts"), *texts("error_class"), *moments("failed_at")
)

settings = table("settings", *texts("name", "value"))
counters = table("counters", *texts("name"), *ids("value"))
tombstones = table("tombstones", *texts("uid", "conversation_uid", "kind"), *moments("at"))

import_state = table(
    "import_state",
    *texts("format", "path"),
    *ids("size", "modified", "offset"),
    *texts("fingerprint"),
    *numbers("unreadable"),
    *moments("imported_at"),
)

journal_files = table("journal_files", *texts("path"), *ids("applied"))

spend = table(
    "spend",
    *texts("uid", "day", "kind", "item_uid", "model"),
    # `open` until the answer is here; `lost` where it never came and may have been charged.
    *texts("state"),
    *ids("input_tokens", "output_tokens", "cached_tokens"),
    *columns(Usd, "estimate_usd?", "price_usd?"),
    *moments("started_at", "ended_at?"),
)

summaries = table(
    "summaries",
    *texts("kind", "item_uid", "conversation_uid", "text", "title", "model"),
    # What was said until then is in it; what comes later makes it stale.
    *moments("covers", "created_at"),
)

core_memory = table("core_memory", *texts("section", "key", "value"), *moments("updated_at"))

# What a segment's rolling summary says, and how far its messages have left the window.
segment_summaries = table(
    "segment_summaries",
    # Messages before this place have left the window; both are 0 until the first has.
    *ids("segment_id", "left_position", "left_id"),
    *texts("text", "model?"),
    *moments("updated_at"),
)

summarized_messages = table("summarized_messages", *ids("segment_id", "message_id"))

# How past conversations were looked for: never what for.
retrievals = table(
    "retrievals",
    *texts("query_hash"),
    *numbers("conversations", "exchanges"),
    *reals("best_conversation?", "best_exchange?"),
    *ids("duration_microseconds"),
    *texts("error_class?"),
    *moments("at"),
)

# What came back by itself: ids, never words; why, and at what event of its agent, where that was kept.
injections = table("injections", *texts("conversation_uid", "ref_uid"), *moments("at"), *texts("event?", "why?"))
ratings = table(
    "ratings",
    *texts("uid", "conversation_uid", "ref_uid", "verdict", "by", "given_to", "about", "question"),
    *moments("at"),
)

memories = saved_table(
    "memories",
    *texts("content", "category"),
    *reals("importance"),
    *columns(Listed, "tags", "supersedes"),
    *texts("superseded_by?"),
    *moments("accessed_at?", "confirmed_at?", "review_by?"),
)

experiences = saved_table(
    "experiences",
    *texts("agent", "session", "status", "domain", "strategy", "goal", "hypothesis", "action", "prediction"),
    *moments("attempted_at"),
    *columns(Listed, "history"),
    *numbers("iteration_count"),
    *columns(Listed, "notes"),
    *columns(Json, "outcome?"),
    *texts("surprise?"),
    *columns(Json, "root_cause?", "lesson?"),
    *texts("tier?"),
)

learned_values = saved_table(
    "learned_values",
    *texts("text", "axis", "cluster_id"),
    *numbers("cluster_size"),
    *reals("similarity_to_centroid", "distance", "distance_limit"),
    *texts("space"),
    *columns(Listed, "members", "domains", "strategies"),
)

# Clusters of experiences: derived, but kept, since values refer to them by id.
clusters = table(
    "clusters",
    *texts("uid", "axis", "space"),
    *columns(LargeBinary, "centroid"),
    *reals("mean_distance", "deviation"),
    *moments("created_at", "updated_at"),
    # Since when no cluster is found in its place; values may still refer to it.
    *moments("retired_at?"),
)

cluster_members = table("cluster_members", *texts("cluster_uid", "experience_uid"), *reals("distance"))

# Tests and builds that were seen to run.
checks = table(
    "checks",
    *texts("result_uid", "call_uid"),
    # NULL where the command checks nothing, or has not told how it went.
    *texts("outcome?"),
    *moments("at"),
)

# How each indexed file stood when it was last looked at. What follows can be made again from what lies on the disk.
indexed_files = table(
    "indexed_files",
    *texts("source"),
    *ids("project_id"),
    *texts("path"),
    *ids("size", "modified"),
    *texts("digest", "skipped"),
)

code_units = table(
    "code_units",
    *texts("uid"),
    *ids("project_id"),
    *texts("path", "digest", "unit_type", "name", "qualified_name", "language", "signature", "docstring"),
    *numbers("start_line", "end_line"),
)

passages = table(
    "passages",
    *texts("uid"),
    *ids("project_id"),
    *texts("path", "digest"),
    *numbers("number"),
    *columns(Listed, "headings"),
    *texts("text"),
    *numbers("start_line", "end_line"),
)

commits = table(
    "commits",
    *texts("uid"),
    *ids("project_id"),
    *texts("sha", "author", "email"),
    *moments("authored_at", "committed_at"),
    *texts("message"),
    *ids("insertions", "deletions"),
)

_of_commit = (*ids("commit_id", "project_id"), *numbers("number"), *texts("path", "old_path?"))
commit_files = table("commit_files", *_of_commit, *ids("insertions", "deletions"))

# How far each project's history was read, and in which bounds.
histories = table("histories", *ids("project_id"), *texts("head"), *moments("since"), *numbers("most_commits"))

# Groups of conversations that are about the same, each member with its place on the map.
topics = saved_table("topics", *texts("name", "named_by"), *columns(Listed, "words", "members"))
