"""Counts of rows for `status`, which need not scan them: those up to a row are kept, those behind it are counted.

Triggers keep step with what is deleted or changed below that row. None runs with an insert of what there is much of: it
would make SQLite keep what each row changes apart, to be able to take it back, which takes 9 µs for a message and 21
for an entry.

Likewise how many exchanges and conversations have a summary, and whether it is stale. A summary is a pair of two rows,
so whatever changes one of them moves the pair from the count that it was in to the one that it is in now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from harken.storage.ports import RowCount
from harken.storage.state import PAIRS

# How many rows behind the last one that is counted are soon looked at.
MOST_UNCOUNTED = 2_000
# Of the tables that grow with each message: which of its rows are counted apart.
_COUNTED = {"messages": "0", "exchanges": "0", "entries": "coalesce({row}space_id, -1)", "vectors": "{row}space_id"}
# Stands among the counted rows where the pairs are counted: an older Harken did not.
_PAIRS = "summaries"
_OPEN = "exchanges_open"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS row_counts (name TEXT, space_id INTEGER, number INTEGER, PRIMARY KEY (name, space_id))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS counted_rows (name TEXT PRIMARY KEY, last_id INTEGER) WITHOUT ROWID",
    # What has no end is as old as its conversation, and goes with it.
    f"CREATE INDEX IF NOT EXISTS {_OPEN} ON exchanges (conversation_id) WHERE completed_at IS NULL",
)
_COUNTED_EXCHANGES = "(SELECT last_id FROM counted_rows WHERE name = 'exchanges')"


def _ended(exchange: str) -> str:
    begun = f"(SELECT updated_at FROM conversations WHERE id = {exchange}.conversation_id)"
    return f"coalesce({exchange}.completed_at, {begun})"


# For each kind: its table, and until when what it says goes.
_ITEMS = {"exchange": ("exchanges", _ended("i")), "conversation": ("conversations", "i.updated_at")}


def _less(kind: str, is_stale: str) -> str:
    return f"UPDATE row_counts SET number = number - 1 WHERE name = '{PAIRS[kind]}' AND space_id = ({is_stale})"


def _more(kind: str, is_stale: str) -> str:
    return (
        f"INSERT INTO row_counts (name, space_id, number) SELECT '{PAIRS[kind]}', found, 1 "
        f"FROM (SELECT ({is_stale}) AS found) WHERE found IS NOT NULL "
        "ON CONFLICT (name, space_id) DO UPDATE SET number = number + 1"
    )


def _stale(kind: str, item: str, ended: str, condition: str = "1") -> str:
    """Whether the summary of a row is stale, as 0 or 1; no row where it has none."""
    of_item = f"s.tenant = {item}.tenant AND s.kind = '{kind}' AND s.item_uid = {item}.uid"
    return f"SELECT s.covers < {ended} FROM summaries s WHERE {of_item} AND {condition}"


def _open(change: str, ended: str) -> str:
    """Count all of a conversation's exchanges without an end anew, as if it ended then: by so many more or less."""
    name = PAIRS["exchange"]
    return (
        f"INSERT INTO row_counts (name, space_id, number) SELECT '{name}', s.covers < {ended}, {change}count(*) "
        f"FROM exchanges e INDEXED BY {_OPEN} JOIN summaries s ON s.tenant = e.tenant AND s.kind = 'exchange' "
        f"AND s.item_uid = e.uid WHERE e.conversation_id = OLD.id AND e.completed_at IS NULL "
        f"AND e.id <= {_COUNTED_EXCHANGES} GROUP BY 2 "
        "ON CONFLICT (name, space_id) DO UPDATE SET number = number + excluded.number"
    )


def _pair_triggers() -> Iterator[tuple[str, str]]:
    for kind, (table, ended) in _ITEMS.items():
        counted = f" AND i.id <= {_COUNTED_EXCHANGES}" if kind == "exchange" else ""
        pairs = {
            row: f"SELECT {row}.covers < {ended} FROM {table} i WHERE i.tenant = {row}.tenant "
            f"AND i.uid = {row}.item_uid{counted}"
            for row in ("OLD", "NEW")
        }
        less, more = _less(kind, pairs["OLD"]), _more(kind, pairs["NEW"])
        yield f"pair_{kind}_made", f"AFTER INSERT ON summaries WHEN NEW.kind = '{kind}' BEGIN {more}; END"
        yield f"pair_{kind}_gone", f"AFTER DELETE ON summaries WHEN OLD.kind = '{kind}' BEGIN {less}; END"
        remade = f"AFTER UPDATE OF covers ON summaries WHEN NEW.kind = '{kind}' AND OLD.covers <> NEW.covers"
        yield f"pair_{kind}_remade", f"{remade} BEGIN {less}; {more}; END"
    less, more = (
        change("exchange", _stale("exchange", row, _ended(row))) for change, row in ((_less, "OLD"), (_more, "NEW"))
    )
    ends = "WHEN OLD.completed_at IS NOT NEW.completed_at"
    counted = f"{ends} AND OLD.id <= {_COUNTED_EXCHANGES}"
    yield "pair_exchange_ended", f"AFTER UPDATE OF completed_at ON exchanges {counted} BEGIN {less}; {more}; END"
    less = _less("conversation", _stale("conversation", "OLD", "OLD.updated_at"))
    more = _more("conversation", _stale("conversation", "NEW", "NEW.updated_at"))
    # With every message: most conversations that grow have no summary yet, nor has what is said in them now.
    whole = "SELECT 1 FROM summaries s WHERE s.tenant = NEW.tenant AND s.kind = 'conversation' AND s.item_uid = NEW.uid"
    said = (
        f"SELECT 1 FROM exchanges e INDEXED BY {_OPEN} JOIN summaries s ON s.tenant = e.tenant "
        "AND s.kind = 'exchange' AND s.item_uid = e.uid WHERE e.conversation_id = NEW.id AND e.completed_at IS NULL"
    )
    counts = f"OLD.updated_at <> NEW.updated_at AND (EXISTS ({whole}) OR EXISTS ({said}))"
    grows = f"AFTER UPDATE OF updated_at ON conversations WHEN {counts} BEGIN"
    reopened = f"{_open('-', 'OLD.updated_at')}; {_open('', 'NEW.updated_at')}"
    yield "pair_conversation_grown", f"{grows} {less}; {more}; {reopened}; END"
    # Summaries outlive their conversation's rows while those are made anew from the journal.
    yield "pair_conversation_back", f"AFTER INSERT ON conversations BEGIN {more}; END"
    closed = _open("-", "OLD.updated_at")
    yield "pair_conversation_left", f"AFTER DELETE ON conversations BEGIN {less}; {closed}; END"


def _triggers() -> Iterator[tuple[str, str]]:
    for table, space in _COUNTED.items():
        until = f"(SELECT last_id FROM counted_rows WHERE name = '{table}')"
        gone_from, come_to = (space.format(row=row) for row in ("OLD.", "NEW."))
        one_less = f"UPDATE row_counts SET number = number - 1 WHERE name = '{table}' AND space_id = {gone_from}"
        # Whichever row goes, for the next one may get the number of the last that is gone.
        last = f"(SELECT coalesce(max(id), 0) FROM {table})"
        back = f"UPDATE counted_rows SET last_id = {last} WHERE name = '{table}' AND last_id > {last}"
        gone = f"{one_less} AND OLD.id <= {until}; {back};"
        if table == "exchanges":
            # First, while it is known to be counted.
            gone = f"{_less('exchange', _stale('exchange', 'OLD', _ended('OLD'), f'OLD.id <= {until}'))}; {gone}"
        yield f"count_{table}_gone", f"AFTER DELETE ON {table} BEGIN {gone} END"
        if table == "entries":
            one_more = (
                f"INSERT INTO row_counts (name, space_id, number) VALUES ('{table}', {come_to}, 1) "
                "ON CONFLICT (name, space_id) DO UPDATE SET number = number + 1"
            )
            changes = f"WHEN OLD.space_id IS NOT NEW.space_id AND OLD.id <= {until} BEGIN {one_less}; {one_more}; END"
            yield f"count_{table}_moved", f"AFTER UPDATE OF space_id ON {table} {changes}"
    yield from _pair_triggers()


def prepare_counts(driver: sqlite3.Connection, counts: Mapping[RowCount, int]) -> None:
    """Make tables and triggers, anew where they are there; the counts are those of all rows there are."""
    for statement in _TABLES:
        driver.execute(statement)
    for name, body in _triggers():
        driver.execute(f"DROP TRIGGER IF EXISTS {name}")
        driver.execute(f"CREATE TRIGGER {name} {body}")
    keep_counts(driver, counts)


def has_pairs(counts: Mapping[RowCount, int]) -> bool:
    """Whether summaries are among what is counted."""
    return any(name in PAIRS.values() for name, _ in counts)


def keep_counts(driver: sqlite3.Connection, counts: Mapping[RowCount, int]) -> None:
    """Keep the counts of all rows there are."""
    driver.execute("DELETE FROM row_counts")
    names = {*_COUNTED, *PAIRS.values()}
    of_each = [(name, space_id, number) for (name, space_id), number in counts.items() if name in names and number]
    driver.executemany("INSERT INTO row_counts (name, space_id, number) VALUES (?, ?, ?)", of_each)
    driver.execute("DELETE FROM counted_rows")
    for table in _COUNTED:
        driver.execute(f"INSERT INTO counted_rows SELECT '{table}', coalesce(max(id), 0) FROM {table}")
    if has_pairs(counts):
        driver.execute("INSERT INTO counted_rows VALUES (?, 0)", (_PAIRS,))


def kept_counts(driver: sqlite3.Connection) -> tuple[dict[RowCount, int], int]:
    """The counts of all rows there are, and how many of those had to be looked at.

    Without those of summaries where an older Harken has kept them.
    """
    found: dict[RowCount, int] = {(row[0], row[1]): row[2] for row in driver.execute("SELECT * FROM row_counts")}
    uncounted = 0
    for table, space in _COUNTED.items():
        behind = f"SELECT {space.format(row='')}, count(*) FROM {table} NOT INDEXED WHERE id > "
        last = f"(SELECT last_id FROM counted_rows WHERE name = '{table}')"
        for space_id, number in driver.execute(f"{behind} {last} GROUP BY 1").fetchall():
            found[table, space_id] = found.get((table, space_id), 0) + number
            uncounted += number
    if driver.execute("SELECT 1 FROM counted_rows WHERE name = ?", (_PAIRS,)).fetchone():
        for name in PAIRS.values():
            found = {(name, 0): 0, (name, 1): 0} | found
        of_new = f"SELECT s.covers < {_ended('e')}, count(*) FROM exchanges e NOT INDEXED JOIN summaries s ON "
        of_new += (
            f"s.tenant = e.tenant AND s.kind = 'exchange' AND s.item_uid = e.uid WHERE e.id > {_COUNTED_EXCHANGES}"
        )
        for is_stale, number in driver.execute(f"{of_new} GROUP BY 1").fetchall():
            found[PAIRS["exchange"], is_stale] += number
    return found, uncounted
