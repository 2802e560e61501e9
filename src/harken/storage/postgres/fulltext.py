"""The words of a text as the full-text index has them: the same tokens as on the embedded engine."""

from __future__ import annotations

import hashlib
import re
import threading
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, Connection, TextualSelect, column, func, select, text

from harken.model.conversations import UNTRUSTED
from harken.storage.entries import NEIGHBOURS, scope_conditions
from harken.storage.ports import Holding, Question, RowScope, Scored, TextIndex, Transaction, WordLists, WordsAsked
from harken.storage.postgres.connection import WORK_CHANNEL
from harken.storage.postgres.dialect import PostgresDialect, bare_rows
from harken.storage.tables import entries, to_microseconds
from harken.text.words import as_indexed, day_in_words

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
        bare = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", as_indexed(text))))
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
# Of up to so many entries the ids of a part are asked for: sooner than to have the server compare their vectors.
_MOST_LISTED = 10_000
_NAMED_IN = re.compile(r":(\w+)")

# What is indexed of an entry, but for those beside it; see `_Indexed`.
_INDEXED_OF = """e.id, e.is_turn, e.author, e.text, e.created_at, e.source, e.role, e.project_id, e.conversation_id,
    e.segment_id, e.trust,
    ARRAY(SELECT f.facet FROM entry_facets f WHERE f.tenant = :of_tenant AND f.entry_id = e.id)"""
_NEIGHBOURS = """(SELECT string_agg(spoken, ' ') FROM (
    SELECT coalesce(n.author || ': ', '') || n.text AS spoken FROM entries n
    WHERE n.tenant = :of_tenant AND n.conversation_id = e.conversation_id AND n.is_turn
        AND (n.position, n.id) {0} (e.position, e.id)
    ORDER BY n.position {1}, n.id {1} LIMIT 2) side)"""
_SPOKEN = text(f"""
    SELECT CASE WHEN e.is_turn THEN
            concat_ws(' ', {_NEIGHBOURS.format("<", "DESC")}, {_NEIGHBOURS.format(">", "ASC")})
        ELSE '' END AS beside, {_INDEXED_OF}
    FROM entries e WHERE e.tenant = :of_tenant AND e.id = ANY (:ids)""")
# Whoever comes next stands beside the last two, beside which stand the two before.
_LAST_SPOKEN = text(f"""
    SELECT e.position, {_INDEXED_OF} FROM entries e WHERE e.tenant = :of_tenant AND e.is_turn AND e.conversation_id = (
        SELECT c.id FROM conversations c WHERE c.tenant = :of_tenant AND c.uid = :of_uid)
    ORDER BY e.position DESC, e.id DESC LIMIT {2 * NEIGHBOURS}""")
_UNTRUSTED_NAMES = frozenset(trust.value for trust in UNTRUSTED)
_INDEX = text("SELECT harken_index(:of_tenant, :ids, :own, :beside, :scope, :lengths)")
_SIGNAL = text("SELECT pg_notify(:channel, :of_tenant)")
_UNINDEX = text("SELECT harken_unindex(:of_tenant, :ids)")
_DIFFERING = text("SELECT harken_differing(:of_tenant, :ids, :own, :beside, :scope)")
_INDEXED = text("SELECT entries, average_length FROM harken_indexed(:of_tenant)")
_SEARCH = text(
    "SELECT entry_id, score, quoting FROM harken_find(:of_tenant, "
    ":terms, CAST(:quoted AS text), :own_only, :scope, :since, :until, :at_most,"
    " CAST(:total AS bigint), CAST(:average AS float8), :all_ranked, :most)"
)
_HOLDERS = text(
    "SELECT place, holders FROM harken_holders(:of_tenant, CAST(:words AS text[]), :scope, :since, :until, :at_most)"
)
_IDS = "SELECT count(*), coalesce(string_agg({0}::text, ','), '') FROM {1} WHERE tenant = :of_tenant"
_NUMBER_AND_IDS: tuple[ColumnElement[Any], ...] = column("number"), column("ids")
_HAVING = text(_IDS.format("entry_id", "entry_facets") + " AND facet = :of_facet").columns(*_NUMBER_AND_IDS)
_ALL = 2**31 - 1
_ALL_IDS = text("SELECT id FROM entries WHERE tenant = :of_tenant ORDER BY id")


class TsvectorIndex(TextIndex):
    """A `TextIndex` of a tenant by tsvector."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._size: tuple[float, int, float] | None = None
        self._lock = threading.Lock()

    def add(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Index entries as their rows stand now."""
        for rows in self._spoken(connection, entry_ids):
            self._put(connection, rows)

    def foresee_end(self, tx: Transaction, conversation_uid: str) -> None:
        """Have the last turns come with what is asked next."""
        tx.dialect.foresee(tx.connection, (_LAST_SPOKEN, {"of_tenant": tx.tenant, "of_uid": conversation_uid}))

    def end_of(
        self,
        tx: Transaction,
        conversation_uid: str,
        rows: Sequence[Mapping[str, Any]],
        new_conversations: frozenset[int],
    ) -> Any:
        """The last turns, first the first, where all rows stand behind them and in their order."""
        if not conversation_uid:
            return None
        is_new = rows[0]["conversation_id"] in new_conversations
        positions = [row["position"] for row in rows]
        asked = {"of_tenant": tx.tenant, "of_uid": conversation_uid}
        found = [] if is_new else tx.dialect.bare_rows(tx.connection, _LAST_SPOKEN, asked)
        if positions != sorted(positions) or any(row[0] > positions[0] for row in found):
            return None
        return [_Indexed(*row[1:]) for row in reversed(found)]

    def append(
        self, tx: Transaction, end: Any, rows: Mapping[int, Mapping[str, Any]], facets: Sequence[Sequence[str]]
    ) -> None:
        """Index new entries with the last two turns before them, of which everything is known."""
        each = zip(rows.items(), facets or repeat((), len(rows)), strict=False)
        fresh = [_Indexed.of(entry_id, row, said) for (entry_id, row), said in each]
        turns = [*end, *(one for one in fresh if one.is_turn)]
        place_of = {one.id: place for place, one in enumerate(turns)}
        touched = end[-NEIGHBOURS:] if len(turns) > len(end) else []
        spoken = []
        for one in (*touched, *fresh):
            place = place_of.get(one.id)
            beside: list[str] = []
            if place is not None:
                before = turns[max(0, place - NEIGHBOURS) : place]
                beside = [each.own for each in (*reversed(before), *turns[place + 1 : place + 1 + NEIGHBOURS])]
            spoken.append((" ".join(beside), *one))
        self._put(tx.connection, spoken)

    def _put(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        columns = _columns(rows)
        words = zip(columns["own"], columns["beside"], columns["scope"], strict=True)
        lengths = [sum(said.count(" ") for said in each) + 3 for each in words]
        mine = {"of_tenant": self._tenant}
        PostgresDialect().execute_each(connection, _INDEX, [{**mine, **columns, "lengths": lengths}])
        # By itself: the words of a cluster's tenant are on another machine, where nobody listens.
        PostgresDialect().execute_each(connection, _SIGNAL, [{**mine, "channel": WORK_CHANNEL}])

    def remove(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out."""
        if entry_ids:
            connection.execute(_UNINDEX, {"of_tenant": self._tenant, "ids": list(entry_ids)})

    def holders(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, few: int = -1, most: int | None = None
    ) -> Holding:
        """Who of a scope has each word in its own text, all words in one statement."""
        total = None if most is None or scope.is_narrow else self._counted(connection)[0]
        if total is not None and total > ALL_RANKED_UP_TO:
            # Each word's own row is read for its weight, 4 µs: too long where thousands have one.
            return Holding({}, total)
        found = dict.fromkeys(terms, np.empty(0, dtype=np.int64))
        words, total_inside = _words_of(terms), None
        if words:
            named = list(words)
            for row in bare_rows(connection, *self._who_holds(words, scope, most)):
                if row[0]:
                    found[named[row[0] - 1]] = np.sort(np.fromstring(row[1], dtype=np.int64, sep=","))
                else:
                    total_inside = int(row[1])
        if most is not None:
            found = {term: ids for term, ids in found.items() if len(ids) <= most}
            if total is not None:
                return Holding(found, total)
        if max(map(len, found.values()), default=0) <= few:
            return Holding(found, 0)
        if total_inside is not None:
            return Holding(found, total_inside)
        if self.lists(connection, scope) and not scope.facets:
            return Holding(found, bare_rows(connection, *_entries_inside(self._tenant, scope))[0][0])
        mine = entries.c.tenant == self._tenant
        inside = select(func.count()).select_from(entries).where(mine, *scope_conditions(scope))
        return Holding(found, int(connection.execute(inside).scalar_one()))

    def foresee(self, tx: Transaction, asked: WordsAsked, holders: WordLists) -> None:
        """The questions of `find` and `holders`."""
        connection, scope = tx.connection, asked[2]
        questions = [self._question(connection, *asked)]
        for words, most in holders:
            is_asked = most is None or scope.is_narrow or (self._counted(connection)[0] or 0) <= ALL_RANKED_UP_TO
            if (plain := _words_of(words)) and is_asked:
                questions.append(self._who_holds(plain, scope, most))
            # Of an open scope who holds the words is told with how many there are.
            is_counted = bool(plain) and scope.is_open
            if is_asked and most is not None and self._counted(connection)[0] is None and not scope.facets:
                questions += [] if is_counted else [_entries_inside(self._tenant, scope)]
        tx.dialect.foresee(connection, *filter(None, questions))

    def lists(self, connection: Connection, scope: RowScope) -> bool:
        """Whether the ids of all entries of a scope may be asked for: they are as good as few."""
        if scope.is_narrow or replace(scope, facets=()).is_open:
            return True
        return (self._counted(connection)[0] or 0) <= _MOST_LISTED

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
        asked = self._question(connection, terms, quote, scope, limit, with_context)
        found = bare_rows(connection, *asked) if asked else []
        scored = [(row[0], row[1]) for row in found if row[1] is not None]
        return scored, {row[0] for row in found if row[2]}

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""
        connection.execute(_UNINDEX, {"of_tenant": self._tenant, "ids": None})
        self.add(connection, self._all_ids(connection))

    def problems(self, connection: Connection) -> list[str]:
        """One sentence if the index differs from the rows."""
        mine = {"of_tenant": self._tenant}
        ids = self._all_ids(connection)
        total = connection.execute(_INDEXED, mine).one().entries
        if total == len(ids) and not any(
            connection.execute(_DIFFERING, {**mine, **_columns(rows)}).first() for rows in self._spoken(connection, ids)
        ):
            return []
        return ["The full-text index differs from the rows."]

    def _all_ids(self, connection: Connection) -> Sequence[int]:
        return connection.execute(_ALL_IDS, {"of_tenant": self._tenant}).scalars().all()

    def _spoken(self, connection: Connection, entry_ids: Sequence[int]) -> Iterator[Sequence[Sequence[Any]]]:
        for start in range(0, len(entry_ids), _ROWS_AT_ONCE):
            part = {"of_tenant": self._tenant, "ids": list(entry_ids[start : start + _ROWS_AT_ONCE])}
            if rows := connection.execute(_SPOKEN, part).all():
                yield rows

    def _who_holds(self, words: Mapping[str, str], scope: RowScope, most: int | None) -> Question:
        scoped = {"scope": _scope_query(scope), "since": scope.since, "until": scope.until}
        asked = {"words": list(words.values()), "at_most": _ALL if most is None else most + 1}
        return _HOLDERS, {"of_tenant": self._tenant, **asked, **scoped}

    def _question(
        self, connection: Connection, terms: Sequence[str], quote: str, scope: RowScope, limit: int, with_context: bool
    ) -> Question | None:
        words = [word for word in map(plain_words, map(_encodable, terms)) if word]
        if not words:
            return None
        total, average = self._counted(connection)
        return _SEARCH, {
            "of_tenant": self._tenant,
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

    def _counted(self, connection: Connection) -> tuple[int | None, float | None]:
        """How many entries the tenant has, and their average length in words; None where the search shall count."""
        with self._lock:
            size = self._size
        if size is None or time.monotonic() - size[0] > _RECOUNT_SECONDS:
            row = connection.execute(_INDEXED, {"of_tenant": self._tenant}).one()
            size = (time.monotonic(), int(row.entries), float(row.average_length))
            with self._lock:
                self._size = size
        return (None, None) if size[1] < _SMALL else (size[1], size[2])


class _Indexed(NamedTuple):
    """What is indexed of an entry: its own words, and those of its scope."""

    id: int
    is_turn: bool
    author: str | None
    text: str
    created_us: int
    source: str
    role: str | None
    project_id: int | None
    conversation_id: int | None
    segment_id: int | None
    trust: str
    facets: Sequence[str]

    @classmethod
    def of(cls, entry_id: int, row: Mapping[str, Any], facets: Sequence[str]) -> _Indexed:
        """Of a row that is being added."""
        named = ("source", "role", "project_id", "conversation_id", "segment_id", "trust")
        moment = to_microseconds(row["created_at"])
        said = (entry_id, row["is_turn"], row["author"], row["text"], moment)
        return cls._make((*said, *map(row.__getitem__, named), facets))

    @property
    def own(self) -> str:
        """What is said, and by whom."""
        return self.text if self.author is None else f"{self.author}: {self.text}"

    @property
    def scope(self) -> str:
        """As words of the index."""
        named = ("o", self.source), ("r", self.role), ("p", self.project_id), ("c", self.conversation_id)
        words = [f"{name}:{value}" for name, value in (*named, ("g", self.segment_id)) if value is not None]
        words += ["u:1"] if self.trust in _UNTRUSTED_NAMES else []
        return " ".join([*words, *(_facet(facet) for facet in sorted(self.facets))])


def _facet(facet: str) -> str:
    # As a word of the index, which may hold no spaces and not be long.
    return f"f:{hashlib.md5(facet.encode('utf-8', 'surrogatepass'), usedforsecurity=False).hexdigest()}"


def _columns(rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """What is indexed of entries: their ids, own words, those beside them with the date, and scopes.

    Each row is what is said beside one, and the fields of a `_Indexed`.
    """
    said = [_Indexed(*row[1:]) for row in rows]
    beside = [
        f"{plain_words(row[0] or '')} {day_in_words(one.created_us)}" for row, one in zip(rows, said, strict=True)
    ]
    return {
        "ids": [one.id for one in said],
        "own": [plain_words(one.own) for one in said],
        "beside": [words.strip() for words in beside],
        "scope": [one.scope for one in said],
    }


def _words_of(terms: Sequence[str]) -> dict[str, str]:
    return {term: plain for term in terms if (plain := plain_words(_encodable(term)))}


def entries_inside(tenant: str, scope: RowScope) -> list[Question]:
    """What tells the ids of a scope's entries: each how many, and all as one text; they are those that every one has.

    None for an open scope.
    """
    plain = replace(scope, facets=())
    having: list[Question] = [(_HAVING, {"of_tenant": tenant, "of_facet": facet}) for facet in scope.facets]
    return having if plain.is_open else [_entries_inside(tenant, plain), *having]


def _entries_inside(tenant: str, scope: RowScope) -> Question:
    asked = {
        "conversation_id = CAST(:of_conversation AS bigint)": scope.conversation_id,
        "conversation_id = ANY (CAST(:of_conversations AS bigint[]))": scope.conversation_ids,
        "conversation_id IS DISTINCT FROM CAST(:no_conversation AS bigint)": scope.without_conversation_id,
        "segment_id = CAST(:of_segment AS bigint)": scope.segment_id,
        "project_id = CAST(:of_project AS bigint)": scope.project_id,
        "(project_id IS NULL OR project_id <> ALL (CAST(:no_projects AS bigint[])))": scope.without_project_ids,
        "source = ANY (CAST(:sources AS text[]))": scope.sources,
        "source <> ALL (CAST(:no_sources AS text[]))": scope.without_sources,
        "role = ANY (CAST(:roles AS text[]))": scope.roles,
        "trust <> ALL (CAST(:no_trust AS text[]))": sorted(_UNTRUSTED_NAMES) if scope.without_untrusted else (),
        "created_at >= CAST(:since AS bigint)": scope.since,
        "created_at < CAST(:until AS bigint)": scope.until,
    }
    wanted = {condition: value for condition, value in asked.items() if value not in (None, ())}
    values = {_NAMED_IN.findall(condition)[0]: value for condition, value in wanted.items()}
    given = {name: value if isinstance(value, int) else list(value or ()) for name, value in values.items()}
    return _ids_where(tuple(wanted)), {"of_tenant": tenant, **given}


@cache
def _ids_where(conditions: tuple[str, ...]) -> TextualSelect:
    asked = _IDS.format("id", "entries") if conditions else "SELECT count(*), '' FROM entries WHERE tenant = :of_tenant"
    return text(" AND ".join([asked, *conditions])).columns(*_NUMBER_AND_IDS)


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
    groups += [[_facet(facet)] for facet in scope.facets]
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
