"""Full text by FTS5 over a view, so that the context window is stored nowhere but in the index."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from harken.storage.sqlite.connection import words
from harken.storage.store import RowScope, Scored

# Own words count twice those of the two neighbours on each side (measured on LoCoMo); the scope's tokens count nothing.
_WEIGHTS = "2.0, 1.0, 1.0, 0.0"
_COLUMNS = "own, context, day, scope"
INDEX = "entry_index"
_SEARCHED, _OWN = "{own context day}", "{own}"
# A plain OR over common words costs half a second in a million entries. Above this many matches only the rarest
# words drive the candidates, and the others are looked for in what came back.
MATCHES_TO_RANK = 20_000
_CANDIDATES_TO_RESCORE = 300
_SPOKEN = "coalesce({0}.author || ': ', '') || {0}.text"
_NEIGHBOURS = (
    """coalesce((SELECT group_concat(spoken, ' ') FROM (
    SELECT """
    + _SPOKEN.format("n")
    + """ AS spoken FROM entries n
    WHERE n.is_turn AND n.conversation_id = e.conversation_id AND (n.created_at, n.id) {0} (e.created_at, e.id)
    ORDER BY n.created_at {1}, n.id {1} LIMIT 2)), '')"""
)
SCHEMA = (
    f"""CREATE VIEW entry_words AS SELECT
    e.id AS id,
    harken_words({_SPOKEN.format("e")}) AS own,
    CASE WHEN e.is_turn THEN harken_words(
        {_NEIGHBOURS.format("<", "DESC")} || ' ' || {_NEIGHBOURS.format(">", "ASC")}) ELSE '' END AS context,
    harken_day(e.created_at) AS day,
    'o' || e.source || coalesce(' r' || e.role, '') || coalesce(' p' || e.project_id, '')
        || coalesce(' c' || e.conversation_id, '') || coalesce(' g' || e.segment_id, '') AS scope
    FROM entries e""",
    f"""CREATE VIRTUAL TABLE {INDEX} USING fts5({_COLUMNS},
    content='entry_words', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2')""",
    # Larger steps of merging than the defaults (4; 1 MB): imports index a sixth faster, searches are no slower.
    "INSERT INTO entry_index(entry_index, rank) VALUES ('automerge', 8)",
    "INSERT INTO entry_index(entry_index, rank) VALUES ('hashsize', 8388608)",
)
# Inside quotes nothing else means anything.
_NO_SYNTAX = str.maketrans('"\0', "  ")
_ALL_TIME = 2**62
_LISTED = "(SELECT value FROM json_each(?))"


class Fts5Index:
    """A `TextIndex` by FTS5."""

    def add(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Index entries as their rows stand now."""
        connection.exec_driver_sql(
            f"INSERT INTO entry_index(rowid, {_COLUMNS}) SELECT id, {_COLUMNS} FROM entry_words WHERE id IN {_LISTED}",
            (json.dumps(list(entry_ids)),),
        )

    def remove(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out; their rows and their neighbours' must still be as they were indexed."""
        if entry_ids:
            connection.exec_driver_sql(
                f"INSERT INTO entry_index(entry_index, rowid, {_COLUMNS}) "
                f"SELECT 'delete', id, {_COLUMNS} FROM entry_words WHERE id IN {_LISTED}",
                (json.dumps(list(entry_ids)),),
            )

    def search(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, limit: int, with_context: bool = True
    ) -> list[Scored]:
        """Entries that hold any of the words, best first."""
        phrases = [phrase for phrase in map(_phrase, terms) if phrase]
        if not phrases:
            return []
        columns = _SEARCHED if with_context else _OWN
        rarest, common = self._split_by_rarity(connection, phrases, scope, columns)
        if not common:
            return self._match(connection, rarest, scope, limit, columns)
        found = self._match(connection, rarest, scope, max(limit, _CANDIDATES_TO_RESCORE), columns)
        if not found:
            # The rarest words are not of the days asked for; the others may be.
            return self._match(connection, phrases, scope, limit, columns)
        return self._rescored(connection, found, common)[:limit]

    def quoting(self, connection: Connection, text: str, scope: RowScope, limit: int) -> list[Scored]:
        """Entries whose own text has these words in this order, best first."""
        phrase = _phrase(text)
        return self._match(connection, [phrase], scope, limit, _OWN) if phrase else []

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""
        connection.exec_driver_sql("INSERT INTO entry_index(entry_index) VALUES ('rebuild')")

    def optimize(self, connection: Connection) -> None:
        """Merge the index into one piece, which drops the words of removed entries from it."""
        connection.exec_driver_sql("INSERT INTO entry_index(entry_index) VALUES ('optimize')")

    def problems(self, connection: Connection) -> list[str]:
        """One sentence if the index differs from the rows."""
        try:
            connection.exec_driver_sql("INSERT INTO entry_index(entry_index, rank) VALUES ('integrity-check', 1)")
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.DatabaseError):
                return ["The full-text index differs from the rows."]
            raise
        return []

    def _match(
        self, connection: Connection, phrases: Sequence[str], scope: RowScope, limit: int, columns: str
    ) -> list[Scored]:
        timed = scope.since is not None or scope.until is not None
        join = "JOIN entries e ON e.id = entry_index.rowid" if timed else ""
        condition = "AND e.created_at >= ? AND e.created_at < ?" if timed else ""
        since, until = (-_ALL_TIME if scope.since is None else scope.since), scope.until
        bounds = (since, _ALL_TIME if until is None else until) if timed else ()
        rows = connection.exec_driver_sql(
            f"SELECT entry_index.rowid, -bm25(entry_index, {_WEIGHTS}) AS score FROM entry_index {join} "
            f"WHERE entry_index MATCH ? {condition} ORDER BY score DESC LIMIT ?",
            (_query(phrases, scope, columns), *bounds, limit),
        )
        return [(row[0], row[1]) for row in rows]

    def _split_by_rarity(
        self, connection: Connection, phrases: Sequence[str], scope: RowScope, columns: str
    ) -> tuple[list[str], list[str]]:
        total = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").scalar() or 0
        if total <= MATCHES_TO_RANK or scope.conversation_id is not None or scope.segment_id is not None:
            return list(phrases), []
        counts = sorted((self._matches(connection, phrase, scope, columns), phrase) for phrase in phrases)
        rarest, budget = [counts[0][1]], MATCHES_TO_RANK - counts[0][0]
        for count, phrase in counts[1:]:
            budget -= count
            if budget < 0:
                break
            rarest.append(phrase)
        return rarest, [phrase for _, phrase in counts if phrase not in rarest]

    def _matches(self, connection: Connection, phrase: str, scope: RowScope, columns: str) -> int:
        counted = connection.exec_driver_sql(
            "SELECT count(*) FROM (SELECT 1 FROM entry_index WHERE entry_index MATCH ? LIMIT ?)",
            (_query([phrase], scope, columns), MATCHES_TO_RANK),
        )
        return int(counted.scalar_one())

    def _rescored(self, connection: Connection, found: Sequence[Scored], common: Sequence[str]) -> list[Scored]:
        """Lift what also holds the common words; each counts like a small part of a typical rare one."""
        patterns = [re.compile(r"\b" + r"\s+".join(map(re.escape, _stem(phrase).split())), re.I) for phrase in common]
        texts: dict[int, str] = dict(
            connection.exec_driver_sql(
                f"SELECT id, own || ' ' || context FROM entry_words WHERE id IN {_LISTED}",
                (json.dumps([entry_id for entry_id, _ in found]),),
            ).all(),
        )
        step = 0.1 * max(score for _, score in found)
        lifted = [
            (entry_id, score + step * sum(1 for pattern in patterns if pattern.search(texts.get(entry_id, ""))))
            for entry_id, score in found
        ]
        return sorted(lifted, key=lambda pair: -pair[1])


def _query(phrases: Sequence[str], scope: RowScope, columns: str) -> str:
    """Any of the phrases, among what the scope's tokens let through."""
    query = f"{columns} : ({' OR '.join(phrases)})"
    for tokens in _scope_tokens(scope):
        query = f"scope : ({tokens}) AND {query}"
    return query


def _phrase(term: str) -> str:
    sound = term.encode("utf-8", "ignore").decode().translate(_NO_SYNTAX)
    inner = " ".join(words(sound).split())
    return f'"{inner}"' if any(character.isalnum() for character in inner) else ""


def _stem(phrase: str) -> str:
    word = phrase.strip('"')
    return word[:-2] if len(word) > 5 else word


def _scope_tokens(scope: RowScope) -> list[str]:
    groups = [
        [f"o{source}" for source in scope.sources],
        [f"r{role}" for role in scope.roles],
        [f"p{scope.project_id}"] if scope.project_id is not None else [],
        [f"c{scope.conversation_id}"] if scope.conversation_id is not None else [],
        [f"g{scope.segment_id}"] if scope.segment_id is not None else [],
    ]
    return [" OR ".join(_phrase(token) for token in group) for group in groups if group]
