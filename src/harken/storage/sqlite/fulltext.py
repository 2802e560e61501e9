"""Full text by FTS5 over a view, so that the context window is stored nowhere but in the index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from harken.model.conversations import UNTRUSTED
from harken.storage.columns import spaced
from harken.storage.entries import scope_conditions
from harken.storage.ports import Holding, RowScope, Scored
from harken.storage.positions import TURNS_OUT_OF_TIME
from harken.storage.tables import entries
from harken.text.words import STOP_WORDS

if TYPE_CHECKING:
    from harken.storage.sqlite import postings

# Own words count twice those of the two neighbours on each side (measured on LoCoMo); the scope's tokens count nothing.
_WEIGHTS = "2.0, 1.0, 1.0, 0.0"
_COLUMNS = "own, context, day, scope"
INDEX = "entry_index"
_SEARCHED, _OWN, _BESIDE = "{own context day}", "{own}", "{context day}"
# A plain OR over common words costs half a second in a million entries. So in a store with more entries than this,
# only the rarest words choose the candidates: those that up to three times as many entries hold.
MATCHES_TO_RANK = 20_000
_SPOKEN = "coalesce({0}.author || ': ', '') || {0}.text"
_NEIGHBOURS = (
    """coalesce((SELECT group_concat(spoken, ' ') FROM (
    SELECT """
    + _SPOKEN.format("n")
    + """ AS spoken FROM entries n
    WHERE n.is_turn = 1 AND n.conversation_id = e.conversation_id AND (n.position, n.id) {0} (e.position, e.id)
    ORDER BY n.position {1}, n.id {1} LIMIT 2)), '')"""
)
_UNTRUSTED = ", ".join(f"'{trust.value}'" for trust in UNTRUSTED)
# What stands in the scope of an entry that is not to be trusted.
MARK = "untrusted"
VIEW = f"""CREATE VIEW entry_words AS SELECT
    e.id AS id,
    harken_words({_SPOKEN.format("e")}) AS own,
    CASE WHEN e.is_turn THEN harken_words(
        {_NEIGHBOURS.format("<", "DESC")} || ' ' || {_NEIGHBOURS.format(">", "ASC")}) ELSE '' END AS context,
    harken_day(e.created_at) AS day,
    'o' || e.source || coalesce(' r' || e.role, '') || coalesce(' p' || e.project_id, '')
        || coalesce(' c' || e.conversation_id, '') || coalesce(' g' || e.segment_id, '')
        || CASE WHEN e.trust IN ({_UNTRUSTED}) THEN ' {MARK}' ELSE '' END AS scope
    FROM entries e"""
SCHEMA = (
    VIEW,
    f"""CREATE VIRTUAL TABLE {INDEX} USING fts5({_COLUMNS},
    content='entry_words', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2')""",
    # Larger steps of merging than the defaults (4; 1 MB): imports index a sixth faster, searches are no slower.
    "INSERT INTO entry_index(entry_index, rank) VALUES ('automerge', 8)",
    "INSERT INTO entry_index(entry_index, rank) VALUES ('hashsize', 8388608)",
)
# Inside quotes nothing else means anything.
_NO_SYNTAX = str.maketrans('"\0', "  ")
_ALL_TIME = 2**62
# Signed, or each of them would be looked up in the full text by itself.
_WITH_FACET = "(SELECT entry_id FROM entry_facets WHERE facet = ?)"
_LISTED_WITH_FACET = "SELECT group_concat(entry_id) FROM entry_facets WHERE facet = ?"
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

    def before_change(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out: they could not be, once what they were indexed with is gone."""
        self.remove(connection, entry_ids)

    def search(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, limit: int, with_context: bool = True
    ) -> list[Scored]:
        """Entries that hold any of the words, best first."""
        phrases = [phrase for phrase in map(_phrase, terms) if phrase]
        if not phrases:
            return []
        newest = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").scalar() or 0
        if newest > MATCHES_TO_RANK and not scope.is_narrow:
            found = self._by_lists(connection, phrases, scope, limit, with_context, newest)
            if found is not None:
                return found
        return self._match(connection, phrases, scope, limit, _SEARCHED if with_context else _OWN)

    def holders(self, connection: Connection, terms: Sequence[str], scope: RowScope, few: int = -1) -> Holding:
        """Who of a scope has each word in its own text, all words in one statement."""
        from harken.storage.sqlite import postings

        phrases = {term: phrase for term in terms if (phrase := _phrase(term))}
        join, condition, bounds = _limited(scope)
        listed = f"SELECT group_concat(entry_index.rowid) FROM entry_index {join} WHERE entry_index MATCH ? {condition}"
        parameters: list[str | int] = []
        for phrase in phrases.values():
            parameters += [_query([phrase], scope, _OWN), *bounds]
        found: dict[str, frozenset[int]] = dict.fromkeys(terms, frozenset())
        if phrases:
            # No more than a query has terms, of which SQLite joins up to 500.
            rows = connection.exec_driver_sql(" UNION ALL ".join([listed] * len(phrases)), tuple(parameters))
            found |= {
                term: frozenset(postings.parsed_ids(row[0]).tolist()) for term, row in zip(phrases, rows, strict=True)
            }
        is_counted = max(map(len, found.values()), default=0) > few
        return Holding(found, _count(connection, scope) if is_counted else 0)

    def quoting(self, connection: Connection, text: str, scope: RowScope, limit: int) -> list[Scored]:
        """Entries whose own text has these words in this order, best first."""
        phrase = _phrase(text)
        if not phrase or not self._may_quote(connection, text, scope):
            return []
        return self._match(connection, [phrase], scope, limit, _OWN)

    def _may_quote(self, connection: Connection, text: str, scope: RowScope) -> bool:
        """Whether any entry has all words of a text that say something; a phrase reads the lists of its stop words."""
        words = text.split()
        telling = [phrase for word in words if word.lower() not in STOP_WORDS and (phrase := _phrase(word))]
        if not telling or len(telling) == len(words):
            return True
        asked = "SELECT 1 FROM entry_index WHERE entry_index MATCH ? LIMIT 1"
        query = _query([" AND ".join(telling)], scope, _OWN)
        return connection.exec_driver_sql(asked, (query,)).first() is not None

    def find(
        self,
        connection: Connection,
        terms: Sequence[str],
        quote: str,
        scope: RowScope,
        limit: int,
        with_context: bool = True,
    ) -> tuple[list[Scored], set[int]]:
        """What `search` finds, and who is `quoting`."""
        quoting = self.quoting(connection, quote, scope, limit) if quote else []
        return self.search(connection, terms, scope, limit, with_context), {entry_id for entry_id, _ in quoting}

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""
        connection.exec_driver_sql("INSERT INTO entry_index(entry_index) VALUES ('rebuild')")

    def optimize(self, connection: Connection) -> None:
        """Merge the index into one piece, which drops the words of removed entries from it."""
        connection.exec_driver_sql("INSERT INTO entry_index(entry_index) VALUES ('optimize')")

    def renew(self, connection: Connection) -> None:
        """Bring what an older Harken has indexed up to date.

        Entries that are not to be trusted get their mark, and turns whose times are not in their order the words of
        their true neighbours. Each of the two views says what is in the index at its time.
        """
        untrusted = f"SELECT id FROM entries WHERE trust IN ({_UNTRUSTED})"
        marked = f"FROM entry_words WHERE id IN ({untrusted}) OR id IN ({TURNS_OUT_OF_TIME})"
        for statement in (
            f"INSERT INTO entry_index(entry_index, rowid, {_COLUMNS}) SELECT 'delete', id, {_COLUMNS} {marked}",
            "DROP VIEW entry_words",
            VIEW,
            f"INSERT INTO entry_index(rowid, {_COLUMNS}) SELECT id, {_COLUMNS} {marked}",
        ):
            connection.exec_driver_sql(statement)

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
        join, condition, bounds = _limited(scope)
        rows = connection.exec_driver_sql(
            f"SELECT entry_index.rowid, -bm25(entry_index, {_WEIGHTS}) AS score FROM entry_index {join} "
            f"WHERE entry_index MATCH ? {condition} ORDER BY score DESC LIMIT ?",
            (_query(phrases, scope, columns), *bounds, limit),
        )
        # All at once: one by one they take several times as long.
        return [(row[0], row[1]) for row in rows.all()]

    def _by_lists(
        self,
        connection: Connection,
        phrases: Sequence[str],
        scope: RowScope,
        limit: int,
        with_context: bool,
        newest: int,
    ) -> list[Scored] | None:
        """The way for many matches; None where there are few, or where it finds nothing and a plain search may."""
        from harken.storage.sqlite import postings

        own, context, either = (
            partial(_query_one, scope=scope, columns=columns) for columns in (_OWN, _BESIDE, _SEARCHED)
        )
        searched, beside = (either, context) if with_context else (own, None)
        counted_up_to = max(1, MATCHES_TO_RANK // 4)
        counted = [postings.count(connection, searched(phrase), phrase, counted_up_to, newest) for phrase in phrases]
        held_words = sorted((word for word in counted if word.entries), key=lambda word: word.entries)
        if sum(word.entries for word in held_words) <= MATCHES_TO_RANK // 8:
            return None
        held = [
            postings.list_holders(connection, word, own, beside, 10 * MATCHES_TO_RANK)
            for word in _rarest(held_words, 3 * MATCHES_TO_RANK)
        ]
        ranking = postings.rank(held)
        for facet in scope.facets:
            ranking = postings.with_ids(ranking, connection, _LISTED_WITH_FACET, facet)
        if scope.since is not None or scope.until is not None:
            ranking = postings.of_days(connection, ranking, *_bounds(scope), limit)
        if not len(ranking.ids):
            return None
        return postings.look_at_best(connection, ranking.part(slice(limit)), held_words, held, with_context)


def _rarest(words: Sequence[postings.Word], entries: int) -> list[postings.Word]:
    """The rarest one, and as many more as that many entries hold."""
    chosen = list(words[:1])
    left = entries - words[0].entries
    for word in words[1:]:
        left -= word.entries
        if left < 0:
            break
        chosen.append(word)
    return chosen


def _limited(scope: RowScope) -> tuple[str, str, tuple[int | str, ...]]:
    """The join, the condition and its values for what of a scope the rows tell; empty where they need not be asked."""
    condition = f" AND +entry_index.rowid IN {_WITH_FACET}" * len(scope.facets)
    values: tuple[int | str, ...] = scope.facets
    sources = scope.sources if scope.segment_id is not None else ()
    if sources:
        condition += f" AND e.source IN ({', '.join('?' * len(sources))})"
        values += sources
    if scope.since is not None or scope.until is not None:
        condition += " AND e.created_at >= ? AND e.created_at < ?"
        values += _bounds(scope)
    join = "JOIN entries e ON e.id = entry_index.rowid" if " e." in condition else ""
    return join, condition, values


def _count(connection: Connection, scope: RowScope) -> int:
    """How many entries a scope has; from the index where it can tell, since rows lie far apart."""
    groups = [f"scope : ({tokens})" for tokens in _scope_tokens(scope)]
    beyond_tokens = (scope.since, scope.until, scope.without_conversation_id, scope.without_sources, scope.facets)
    if groups and not any(beyond_tokens) and not scope.without_untrusted:
        counted = "SELECT count(*) FROM entry_index WHERE entry_index MATCH ?"
        return int(connection.exec_driver_sql(counted, (" AND ".join(groups),)).scalar_one())
    inside = select(func.count()).select_from(entries).where(*scope_conditions(scope))
    return int(connection.execute(inside).scalar_one())


def _bounds(scope: RowScope) -> tuple[int, int]:
    return (-_ALL_TIME if scope.since is None else scope.since, _ALL_TIME if scope.until is None else scope.until)


def _query_one(phrase: str, scope: RowScope, columns: str) -> str:
    return _query([phrase], scope, columns)


def _query(phrases: Sequence[str], scope: RowScope, columns: str) -> str:
    """Any of the phrases, among what the scope's tokens let through."""
    query = f"{columns} : ({' OR '.join(phrases)})"
    # How rare a source is, bm25 would find out by reading all that it has; of a segment the rows tell it sooner.
    told = replace(scope, sources=()) if scope.segment_id is not None else scope
    for tokens in _scope_tokens(told):
        query = f"scope : ({tokens}) AND {query}"
    without = [f"o{source}" for source in scope.without_sources]
    if scope.without_conversation_id is not None:
        without.append(f"c{scope.without_conversation_id}")
    if scope.without_untrusted:
        without.append(MARK)
    for token in without:
        query = f"({query}) NOT scope : {_phrase(token)}"
    return query


def _phrase(term: str) -> str:
    text = term.encode("utf-8", "ignore").decode().translate(_NO_SYNTAX)
    inner = " ".join(spaced(text).split())
    return f'"{inner}"' if any(character.isalnum() for character in inner) else ""


def _scope_tokens(scope: RowScope) -> list[str]:
    groups = [
        [f"o{source}" for source in scope.sources],
        [f"r{role}" for role in scope.roles],
        [f"p{scope.project_id}"] if scope.project_id is not None else [],
        # A segment is of one conversation.
        [f"c{scope.conversation_id}"] if scope.conversation_id is not None and scope.segment_id is None else [],
        [f"c{conversation_id}" for conversation_id in scope.conversation_ids],
        [f"g{scope.segment_id}"] if scope.segment_id is not None else [],
    ]
    return [" OR ".join(_phrase(token) for token in group) for group in groups if group]
