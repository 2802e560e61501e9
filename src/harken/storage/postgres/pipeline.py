"""Connections that wait for the server as seldom as they can: what needs no answer goes with what needs one."""

from __future__ import annotations

import select
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from harken.storage.postgres.together import Row, answers_of, asked_together

# What lies idle for longer may have been lost on the way without a sign.
_SURELY_OPEN_SECONDS = 30.0
_COMMIT, _READ_ONLY = "COMMIT", "READ ONLY"
# So many statements wait for their answers before one has to be there.
_AT_ONCE = 100

# A statement and its values.
Asked = tuple[str, Mapping[str, Any] | None]


def reservation(tables: tuple[str, ...]) -> Asked:
    """What gives each of the tables an id for a new row, with its name; a table that is named twice gets two."""
    reserve = "SELECT t, nextval(pg_get_serial_sequence(t, 'id')) FROM unnest(CAST(%(tables)s AS text[])) t"
    return reserve, {"tables": list(tables)}


@dataclass(slots=True, eq=False)
class Sent:
    """A statement that is sent with the next one that is waited for.

    Attributes:
        values: of one execution, or a list of those of each.
        cursor: has the answer once it is there.
        columns: how many its rows have, if it may be asked together with others; else 0.
        rows: those of the answer, once somebody has asked for them.
    """

    text: str
    values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    cursor: psycopg.Cursor[Row]
    columns: int = 0
    rows: Sequence[Row] | None = None

    def send(self) -> None:
        """Send it, inside of a pipeline."""
        if isinstance(self.values, Sequence):
            self.cursor.executemany(self.text, self.values)
        else:
            self.cursor.execute(self.text, self.values)


class PipelinedConnection(psycopg.Connection[Row]):
    """A driver's connection whose transactions begin with their first question and end with their last writes.

    Statements that wait to be sent are sent in their order, before any other, in one pipeline with it. Where one of
    them fails, whoever sent them all meets its error.
    """

    def __init__(self, pgconn: psycopg.pq.abc.PGconn, row_factory: Any = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.cursor_factory = _Cursor
        self.server_cursor_factory = _ServerCursor
        self._begins: list[Sent] = []
        self._waiting: list[Sent] = []
        self._foreseen: list[Sent] = []
        self._reserving: Sent | None = None
        self._reserved: dict[str, int] = {}
        self._ended = self._is_reading = False
        self._used_at = time.monotonic()

    def begin(self, statements: Sequence[Asked], reserved: Sequence[str] = ()) -> None:
        """Begin a transaction by these statements, with an id reserved for a new row of each of some tables.

        One that reads sees the same to its end, so that what is asked twice need not be sent twice.
        """
        self._forget()
        self._is_reading = _READ_ONLY in statements[0][0]
        self._begins = [Sent(text, values, psycopg.Cursor(self)) for text, values in statements]
        self._waiting = [*self._begins]
        self._reserving = self.later(*reservation(tuple(reserved))) if reserved else None

    @property
    def may_be_lost(self) -> bool:
        """Whether somebody has to ask the server first if it is still there."""
        if time.monotonic() - self._used_at > _SURELY_OPEN_SECONDS:
            return True
        # Nothing comes unasked but the end.
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def is_waiting(self) -> bool:
        """Whether anything is to be sent before other statements."""
        return bool(self._waiting) or self._ended

    @property
    def is_ending(self) -> bool:
        """Whether the last of what waits ends the transaction."""
        return bool(self._waiting) and self._waiting[-1].text == _COMMIT

    def later(self, text: str, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> Sent:
        """Have a statement sent with the next one that is waited for."""
        sent = Sent(text, values, psycopg.Cursor(self))
        self._waiting.append(sent)
        return sent

    def foresee(self, text: str, values: Mapping[str, Any], columns: int = 0) -> None:
        """Have what `rows` will be asked sent along, unless it was in a transaction that reads.

        Such a transaction asks those of which the number of `columns` is told together.
        """
        if not (self._is_reading and any(sent.text is text and sent.values == values for sent in self._foreseen)):
            sent = self.later(text, values)
            sent.columns = columns if self._is_reading else 0
            self._foreseen.append(sent)

    def end_with(self, questions: Iterable[tuple[str, Mapping[str, Any], int]]) -> None:
        """Foresee these and end a transaction that reads with them; whatever is asked then begins it again."""
        for question in questions:
            self.foresee(*question)
        if self._waiting or not self._ended:
            self.later(_COMMIT, None)

    def rows(self, text: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """The rows of a statement: at once where they were foreseen, as they were when that was sent.

        A transaction that reads asks nothing twice.
        """
        for place, sent in enumerate(self._foreseen):
            if sent.text is text and sent.values == values:
                if not self._is_reading:
                    del self._foreseen[place]
                return self._answer(sent)
        cursor = self.execute(text, values)
        rows = cursor.fetchall()
        if self._is_reading:
            self._foreseen.append(Sent(text, values, cursor, rows=rows))
        return rows

    def new_ids(self, table: str, count: int) -> Sequence[int]:
        """Ids for so many new rows of a table, ascending."""
        if self._reserving is not None:
            self._reserved = {row[0]: row[1] for row in self._answer(self._reserving)}
            self._reserving = None
        if count == 1 and table in self._reserved:
            return [self._reserved.pop(table)]
        return [row[1] for row in self.execute(*reservation((table,) * count)).fetchall()]

    def _answer(self, sent: Sent) -> Sequence[Row]:
        if sent.rows is None and sent.cursor.description is None:
            self.send()
        if sent.rows is None:
            sent.rows = sent.cursor.fetchall()
        return sent.rows

    def send(self) -> None:
        """Send what waits."""
        if self._waiting:
            with self.sending():
                pass

    @contextmanager
    def sending(self) -> Iterator[None]:
        """What is sent inside comes behind what waits, and all is answered when it is left."""
        is_ending = self.is_ending
        waiting, self._waiting = self._waiting, []
        if self._ended:
            waiting, self._ended = [*self._begins, *waiting], False
        self._pipeline = self._pipeline or _AtOnce(self)
        parts = [sent for sent in waiting if sent.columns]
        together: Sent | None = None
        if len(parts) > 1:
            asked = asked_together([(sent.text, sent.values, sent.columns) for sent in parts])
            together = Sent(*asked, psycopg.Cursor(self))
            waiting = [together if sent is parts[0] else sent for sent in waiting if sent not in parts[1:]]
        with self.pipeline():
            for sent in waiting:
                sent.send()
            yield
        self._ended = is_ending
        if together is not None:
            for sent, rows in zip(parts, answers_of(together.cursor.fetchall()), strict=True):
                sent.rows = rows

    def finish(self) -> None:
        """Commit what was begun; nothing where nothing was sent."""
        if self.pgconn.transaction_status == TransactionStatus.INERROR:
            # The server would take it back without a word.
            raise psycopg.errors.InFailedSqlTransaction("a statement of this transaction has failed")
        is_idle = not self._waiting if self._ended else self._waiting == self._begins
        if not is_idle:
            self.later(_COMMIT, None)
            self.send()
        self._forget()

    def commit(self) -> None:
        """End a transaction, whoever has begun it."""
        if self._begins:
            self.finish()
        else:
            self.send()
            super().commit()

    def rollback(self) -> None:
        """Undo everything; what waits is not sent."""
        self._forget()
        super().rollback()

    def _forget(self) -> None:
        self._begins, self._waiting, self._foreseen = [], [], []
        self._reserving, self._reserved = None, {}
        self._ended = self._is_reading = False
        self._used_at = time.monotonic()


class _AtOnce(psycopg.Pipeline):
    """A pipeline whose statements leave with its end.

    The driver's own sends each by itself, and looks for answers behind it: both sides wake up for every statement.
    """

    def _communicate_gen(self) -> Generator[Any, Any, None]:
        if len(self.result_queue) > _AT_ONCE:
            yield from super()._communicate_gen()
        while self.command_queue:
            self.command_queue.popleft()()


class _Cursor(psycopg.Cursor[Row]):
    """A cursor that first sends what waits, in one pipeline."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Execute a statement, and wait for its answer."""
        connection = self.connection
        if isinstance(connection, PipelinedConnection) and connection.is_waiting:
            if connection.is_ending:
                connection.send()
            with connection.sending():
                super().execute(query, params, **options)
            return self
        return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
        """Execute a statement with each of some values."""
        connection = self.connection
        if isinstance(connection, PipelinedConnection) and connection.is_waiting:
            connection.send()
        super().executemany(query, params_seq, returning=returning)


class _ServerCursor(psycopg.ServerCursor[Row]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Declare it, once what waits was sent."""
        connection = self.connection
        if isinstance(connection, PipelinedConnection):
            connection.send()
        return super().execute(query, params, **options)
