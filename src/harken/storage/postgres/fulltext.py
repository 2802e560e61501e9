"""The words of a text as the full-text index has them: the same tokens as on the embedded engine."""

from __future__ import annotations

import hashlib
import re
import threading
import time
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select, text

from harken.model.conversations import UNTRUSTED
from harken.storage.entries import scope_conditions
from harken.storage.ports import Holding, RowScope, Scored, TextIndex
from harken.storage.postgres.dialect import bare_rows
from harken.storage.tables import entries
from harken.text.words import day_in_words, spaced

_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")
_BETWEEN = re.compile(r"[\W_]+")
_ASCII_BETWEEN = re.compile(r"[^0-9A-Za-z]+")
# A tsvector holds a megabyte: of longer texts, each word once.
_LONG_CHARS = 150_000
_MOST_WORDS = 60_000


def plain_words(text: str) -> str:
    """The text's words with single spaces between them: no marks, no accents on Latin letters, CJK apart."""
    if text.isascii():
        words = _ASCII_BETWEEN.sub(" ", text).strip()
    else:
        bare = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", spaced(text))))
        words = _BETWEEN.sub(" ", bare).strip()
    if len(words) > _LONG_CHARS:
        return " ".join(list(dict.fromkeys(words.lower().split()))[:_MOST_WORDS])
    return words


# In stores with more entries the rarest words choose who is ranked, as many as so many entries hold: reading an entry's
# words from its row costs 4 µs.
ALL_RANKED_UP_TO = 20_000
MATCHES_TO_RANK = 2_500
_ROWS_AT_ONCE = 500
# How many entries there are and how long they are changes slowly; counting them among 100,000 takes 10 ms.
_RECOUNT_SECONDS, _SMALL = 30.0, 2_000

_NEIGHBOURS = """(SELECT string_agg(spoken, ' ') FROM (
    SELECT coalesce(n.author || ': ', '') || n.text AS spoken FROM entries n
    WHERE n.tenant = e.tenant AND n.conversation_id = e.conversation_id AND n.is_turn
        AND (n.position, n.id) {0} (e.position, e.id)
    ORDER BY n.position {1}, n.id {1} LIMIT 2) side)"""
_SPOKEN = text(f"""
    SELECT e.id, coalesce(e.author || ': ', '') || e.text AS own, e.created_at,
        CASE WHEN e.is_turn THEN concat_ws(' ', {_NEIGHBOURS.format("<", "DESC")}, {_NEIGHBOURS.format(">", "ASC")})
        ELSE '' END AS beside,
        concat_ws(' ', 'o:' || e.source, 'r:' || e.role, 'p:' || e.project_id, 'c:' || e.conversation_id,
            'g:' || e.segment_id, CASE WHEN e.trust = ANY (:untrusted) THEN 'u:1' END,
            (SELECT string_agg('f:' || md5(f.facet), ' ' ORDER BY f.facet) FROM entry_facets f
                WHERE f.tenant = e.tenant AND f.entry_id = e.id)) AS scope
    FROM entries e WHERE e.tenant = current_setting('harken.tenant') AND e.id = ANY (:ids)""")
_UNTRUSTED = [trust.value for trust in UNTRUSTED]
_INDEX = text("SELECT harken_index(:ids, :own, :beside, :scope, :lengths)")
_UNINDEX = text("SELECT harken_unindex(:ids)")
_DIFFERING = text("SELECT harken_differing(:ids, :own, :beside, :scope)")
_INDEXED = text("SELECT entries, average_length FROM harken_indexed()")
_SEARCH = text(
    "SELECT entry_id, score, quoting FROM harken_find("
    ":terms, CAST(:quoted AS text), :own_only, :scope, :since, :until, :at_most,"
    " CAST(:total AS bigint), CAST(:average AS float8), :all_ranked, :most)"
)
_HOLDERS = text(
    # As a text, which takes a fifth of the time that the driver takes for each number.
    "SELECT w.place, string_agg(f.entry_id::text, ',')"
    " FROM unnest(CAST(:words AS text[])) WITH ORDINALITY AS w (word, place)"
    " CROSS JOIN LATERAL harken_find("
    "ARRAY[w.word], NULL, true, :scope, :since, :until, :at_most, 1, 1, 1, 2147483647) AS f GROUP BY w.place"
)
_ALL = 2**31 - 1
_ALL_IDS = text("SELECT id FROM entries WHERE tenant = current_setting('harken.tenant') ORDER BY id")


class TsvectorIndex(TextIndex):
    """A `TextIndex` by tsvector."""

    def __init__(self) -> None:
        self._size: tuple[float, int, float] | None = None
        self._lock = threading.Lock()

    def add(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Index entries as their rows stand now."""
        for rows in _spoken(connection, entry_ids):
            columns = _columns(rows)
            spoken = zip(columns["own"], columns["beside"], columns["scope"], strict=True)
            columns["lengths"] = [sum(words.count(" ") for words in each) + 3 for each in spoken]
            connection.execute(_INDEX, columns)

    def remove(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out."""
        if entry_ids:
            connection.execute(_UNINDEX, {"ids": list(entry_ids)})

    def holders(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, few: int = -1, most: int | None = None
    ) -> Holding:
        """Who of a scope has each word in its own text, all words in one statement."""
        total = None if most is None or scope.is_narrow else self._counted(connection)[0]
        if total is not None and total > ALL_RANKED_UP_TO:
            # Each word's own row is read for its weight, 4 µs: too long where thousands have one.
            return Holding({}, total)
        found = dict.fromkeys(terms, np.empty(0, dtype=np.int64))
        words = {term: plain for term in terms if (plain := plain_words(_encodable(term)))}
        if words:
            scoped = {"scope": _scope_query(scope), "since": scope.since, "until": scope.until}
            asked = {"words": list(words.values()), "at_most": _ALL if most is None else most + 1} | scoped
            named = list(words)
            for row in bare_rows(connection, _HOLDERS, asked):
                found[named[row[0] - 1]] = np.sort(np.fromstring(row[1], dtype=np.int64, sep=","))
        if most is not None:
            found = {term: ids for term, ids in found.items() if len(ids) <= most}
            if total is not None:
                return Holding(found, total)
        if max(map(len, found.values()), default=0) <= few:
            return Holding(found, 0)
        tenant = entries.c.tenant == func.current_setting("harken.tenant")
        inside = select(func.count()).select_from(entries).where(tenant, *scope_conditions(scope))
        return Holding(found, int(connection.execute(inside).scalar_one()))

    def find(
        self,
        connection: Connection,
        terms: Sequence[str],
        quote: str,
        scope: RowScope,
        limit: int,
        with_context: bool = True,
    ) -> tuple[list[Scored], set[int]]:
        """Entries that hold any of the words, and who has the words of a quotation in their order, by one question."""
        words = [word for word in map(plain_words, map(_encodable, terms)) if word]
        if not words:
            return [], set()
        total, average = self._counted(connection)
        values = {
            "terms": words,
            "quoted": plain_words(_encodable(quote)) or None,
            "own_only": not with_context,
            "scope": _scope_query(scope),
            "since": scope.since,
            "until": scope.until,
            "at_most": limit,
            "total": total,
            "average": average,
            "all_ranked": ALL_RANKED_UP_TO,
            "most": MATCHES_TO_RANK,
        }
        found = bare_rows(connection, _SEARCH, values)
        scored = [(row[0], row[1]) for row in found if row[1] is not None]
        return scored, {row[0] for row in found if row[2]}

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""
        connection.execute(_UNINDEX, {"ids": None})
        self.add(connection, connection.execute(_ALL_IDS).scalars().all())

    def problems(self, connection: Connection) -> list[str]:
        """One sentence if the index differs from the rows."""
        ids = connection.execute(_ALL_IDS).scalars().all()
        total = connection.execute(_INDEXED).one().entries
        if total == len(ids) and not any(
            connection.execute(_DIFFERING, _columns(rows)).first() for rows in _spoken(connection, ids)
        ):
            return []
        return ["The full-text index differs from the rows."]

    def _counted(self, connection: Connection) -> tuple[int | None, float | None]:
        """How many entries the tenant has, and their average length in words; None where the search shall count."""
        with self._lock:
            size = self._size
        if size is None or time.monotonic() - size[0] > _RECOUNT_SECONDS:
            row = connection.execute(_INDEXED).one()
            size = (time.monotonic(), int(row.entries), float(row.average_length))
            with self._lock:
                self._size = size
        return (None, None) if size[1] < _SMALL else (size[1], size[2])


def _spoken(connection: Connection, entry_ids: Sequence[int]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(entry_ids), _ROWS_AT_ONCE):
        part = list(entry_ids[start : start + _ROWS_AT_ONCE])
        rows = connection.execute(_SPOKEN, {"ids": part, "untrusted": _UNTRUSTED}).all()
        if rows:
            yield rows


def _columns(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """What is indexed of entries: their ids, own words, those beside them with the date, and scopes."""
    days = [day_in_words(row.created_at) for row in rows]
    return {
        "ids": [row.id for row in rows],
        "own": [plain_words(row.own) for row in rows],
        "beside": [f"{plain_words(row.beside or '')} {day}".strip() for row, day in zip(rows, days, strict=True)],
        "scope": [row.scope for row in rows],
    }


def _encodable(term: str) -> str:
    return term.encode("utf-8", "ignore").decode().replace("\0", " ")


def _scope_query(scope: RowScope) -> str:
    groups = [
        [f"o:{source}" for source in scope.sources],
        [f"r:{role}" for role in scope.roles],
        [f"p:{scope.project_id}"] if scope.project_id is not None else [],
        [f"c:{scope.conversation_id}"] if scope.conversation_id is not None else [],
        [f"c:{conversation_id}" for conversation_id in scope.conversation_ids],
        [f"g:{scope.segment_id}"] if scope.segment_id is not None else [],
    ]
    for facet in scope.facets:
        # As a word of the index, which may hold no spaces and not be long.
        digest = hashlib.md5(facet.encode("utf-8", "surrogatepass"), usedforsecurity=False)
        groups.append([f"f:{digest.hexdigest()}"])
    parts = ["(" + " | ".join(_lexeme(token) for token in group) + ")" for group in groups if group]
    without = [f"o:{source}" for source in scope.without_sources]
    if scope.without_conversation_id is not None:
        without.append(f"c:{scope.without_conversation_id}")
    if scope.without_untrusted:
        without.append("u:1")
    without += [f"p:{project_id}" for project_id in scope.without_project_ids]
    parts += ["!" + _lexeme(token) for token in without]
    return " & ".join(parts)


def _lexeme(token: str) -> str:
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"
