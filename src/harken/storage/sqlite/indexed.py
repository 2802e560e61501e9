"""The words that full text has of each entry: what the view says of its row, and how they come into the index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from harken.model.conversations import UNTRUSTED, spoken
from harken.storage.entries import NEIGHBOURS
from harken.storage.ports import Values
from harken.storage.statements import bare, bare_each
from harken.storage.tables import to_microseconds
from harken.text.words import as_indexed, day_in_words

INDEX = "entry_index"
COLUMNS = "own, context, day, scope"
_SPOKEN = "coalesce({0}.author || ': ', '') || {0}.text"
_NEIGHBOURS = (
    """coalesce((SELECT group_concat(spoken, ' ') FROM (
    SELECT """
    + _SPOKEN.format("n")
    + """ AS spoken FROM entries n
    WHERE n.is_turn = 1 AND n.conversation_id = e.conversation_id AND (n.position, n.id) {0} (e.position, e.id)
    ORDER BY n.position {1}, n.id {1} LIMIT 2)), '')"""
)
UNTRUSTED_NAMES = ", ".join(f"'{trust.value}'" for trust in UNTRUSTED)
# What stands in the scope of an entry that is not to be trusted.
MARK = "untrusted"
_scoping = itemgetter("source", "trust", "role", "project_id", "conversation_id", "segment_id")
VIEW = f"""CREATE VIEW entry_words AS SELECT
    e.id AS id,
    harken_words({_SPOKEN.format("e")}) AS own,
    CASE WHEN e.is_turn THEN harken_words(
        {_NEIGHBOURS.format("<", "DESC")} || ' ' || {_NEIGHBOURS.format(">", "ASC")}) ELSE '' END AS context,
    harken_day(e.created_at) AS day,
    'o' || e.source || coalesce(' r' || e.role, '') || coalesce(' p' || e.project_id, '')
        || coalesce(' c' || e.conversation_id, '') || coalesce(' g' || e.segment_id, '')
        || CASE WHEN e.trust IN ({UNTRUSTED_NAMES}) THEN ' {MARK}' ELSE '' END AS scope
    FROM entries e"""
_WORDS_OF = f"SELECT id, {COLUMNS} FROM entry_words WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
# Whoever comes next stands beside the last two, beside which stand the two before.
_LAST_TURNS = f"""SELECT e.position, w.id, w.own, w.day, w.scope FROM entries e JOIN entry_words w ON w.id = e.id
    WHERE e.conversation_id = ? AND e.is_turn = 1 ORDER BY e.position DESC, e.id DESC LIMIT {2 * NEIGHBOURS}"""
# Row by row and in the order of their ids: FTS5 writes a segment of what it has before every statement that may change
# several rows, and before a row whose id is lower than the last one's. Each is to be merged with others later.
PUT_IN = f"INSERT INTO {INDEX}(rowid, {COLUMNS}) VALUES (?, ?, ?, ?, ?)"
TAKE_OUT = f"INSERT INTO {INDEX}({INDEX}, rowid, {COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?)"


@lru_cache(maxsize=1024)
def _scope(source: str, trust: str, *named: object) -> str:
    """The scope of an entry; talks go on in the same one."""
    tokens = [f"{letter}{value}" for letter, value in zip("rpcg", named, strict=True) if value is not None]
    return " ".join([f"o{source}", *tokens, *([MARK] if trust in UNTRUSTED else ())])


class Indexed(NamedTuple):
    """An entry as the view has it, but for its context."""

    id: int
    own: str
    day: str
    scope: str

    @classmethod
    def of(cls, entry_id: int, row: Values) -> Indexed:
        """That of a row which is complete."""
        day = day_in_words(to_microseconds(row["created_at"]))
        return cls(entry_id, as_indexed(spoken(row["author"], row["text"])), day, _scope(*_scoping(row)))

    def with_context(self, said: Sequence[str], place: int) -> tuple[int, str, str, str, str]:
        """It among what was said, in its place there."""
        before, behind = said[max(0, place - NEIGHBOURS) : place], said[place + 1 : place + 1 + NEIGHBOURS]
        return self.id, self.own, f"{' '.join(reversed(before))} {' '.join(behind)}", self.day, self.scope


Ends = Mapping[int, Sequence[Indexed]]
"""By the row of a conversation its last turns."""


def words_of(connection: Connection, entry_ids: Sequence[int]) -> Iterator[Any]:
    """The rows of the view of entries, one by one."""
    driver: Any = connection.connection.dbapi_connection
    found: Iterator[Any] = driver.execute(_WORDS_OF, (json.dumps(list(entry_ids)),))
    return found


def ends_of(connection: Connection, rows: Sequence[Values], new_conversations: frozenset[int]) -> Ends | None:
    """The last turns of each conversation, first the first, where all rows stand behind them and in their order."""
    ends: dict[int, list[Indexed]] = {}
    last: dict[int, int] = {}
    for row in rows:
        if not row["is_turn"]:
            continue
        place = row["conversation_id"]
        if place not in ends:
            found = [] if place in new_conversations else bare(connection, _LAST_TURNS, (place,))
            ends[place] = [Indexed._make(turn[1:]) for turn in reversed(found)]
            last[place] = found[0][0] if found else row["position"]
        if row["position"] < last[place]:
            return None
        last[place] = row["position"]
    return ends


def append_rows(connection: Connection, ends: Ends, rows: Mapping[int, Values]) -> None:
    """Index new entries with the last two turns before them, of which everything is known.

    From the rows themselves: to read each back through the view, with its neighbours, takes longer than to index it.
    """
    turns: dict[int, list[Indexed]] = {place: list(said) for place, said in ends.items()}
    fresh, changed = [], []
    for entry_id, row in rows.items():
        one = Indexed.of(entry_id, row)
        if row["is_turn"]:
            turns[row["conversation_id"]].append(one)
        else:
            fresh.append((one.id, one.own, "", one.day, one.scope))
    for place, said in turns.items():
        known, words = len(ends[place]), [one.own for one in said]
        for number, one in enumerate(said):
            if number >= known:
                fresh.append(one.with_context(words, number))
            elif number >= known - NEIGHBOURS:
                changed.append((one.with_context(words[:known], number), one.with_context(words, number)))
    for old, new in sorted(changed):
        bare(connection, TAKE_OUT, old)
        bare(connection, PUT_IN, new)
    bare_each(connection, PUT_IN, sorted(fresh))
