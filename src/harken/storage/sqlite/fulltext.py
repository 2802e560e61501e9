"""Full text by FTS5 over a view, so that the context window is stored nowhere but in the index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from harken.storage.entries import scope_conditions
from harken.storage.ports import Holding, RowScope, Scored, TextIndex, Transaction, Values
from harken.storage.positions import TURNS_OUT_OF_TIME
from harken.storage.sqlite.indexed import (
    COLUMNS,
    INDEX,
    MARK,
    PUT_IN,
    TAKE_OUT,
    UNTRUSTED_NAMES,
    VIEW,
    append_rows,
    ends_of,
    words_of,
)
from harken.storage.statements import bare, bare_each
from harken.storage.tables import entries
from harken.text.words import CYRILLIC, STOP_WORDS, as_indexed

if TYPE_CHECKING:
    from harken.storage.sqlite.postings import Inside, Int64, RoleLists

# Own words count twice those of the two neighbours on each side (measured on LoCoMo); the scope's tokens count nothing.
_WEIGHTS = "2.0, 1.0, 1.0, 0.0"
_SEARCHED, _OWN, _BESIDE = "{own context day}", "{own}", "{context day}"
# A plain OR over common words costs half a second in a million entries. So in a store with more entries than this,
# only the rarest words choose the candidates: those that up to three times as many entries hold.
MATCHES_TO_RANK = 20_000
# A role's token is in half of all entries, which bm25 reads with every word; in more entries than this, who is of a
# role is listed once, and looked up among so many times as many of the best as are wanted; of a role with a smaller
# share than this the token tells it sooner.
_FEW_ENTRIES, _REACH, _LEAST_SHARE = 1_000, 3, 0.1
# Larger steps of merging than the defaults (4; 1 MB): imports index a sixth faster, searches are no slower. And no
# message is to merge all pieces of a level at once, where steps come too late: of 2,500 after an import of 30,000 the
# longest took 11 ms of the processor instead of 35, and all together three quarters; an absent word is looked for in up
# to 70 pieces instead of 36, 40 µs longer.
_SETTINGS = tuple(
    f"INSERT INTO entry_index(entry_index, rank) VALUES ('{name}', {value})"
    for name, value in (("automerge", 8), ("crisismerge", 64), ("hashsize", 8 << 20))
)
_CHANGES = "SELECT total_changes()"
_REBUILD = f"INSERT INTO {INDEX}({INDEX}) VALUES ('rebuild')"
_HAS_STEMS = f"SELECT 1 FROM entries WHERE coalesce(author, '') || text GLOB '*{CYRILLIC}*' LIMIT 1"
SCHEMA = (
    VIEW,
    f"""CREATE VIRTUAL TABLE {INDEX} USING fts5({COLUMNS},
    content='entry_words', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2')""",
    *_SETTINGS,
)
# Inside quotes nothing else means anything.
_NO_SYNTAX = str.maketrans('"\0', "  ")
_LETTER = re.compile(r"[^\W_]")
_ALL_TIME = 2**62
# Signed, or each of them would be looked up in the full text by itself.
_WITH_FACET = "(SELECT entry_id FROM entry_facets WHERE facet = ?)"
_LISTED_WITH_FACET = "SELECT group_concat(entry_id) FROM entry_facets WHERE facet = ?"
_LISTED = "(SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A scope as statements ask for it.

    Attributes:
        before: what its tokens put before the words of a query; likewise `behind` them.
        join: where the rows must be asked for what no token tells; empty where they need not.
        condition: for that; `values` are bound to it.
    """

    before: str
    behind: str
    join: str
    condition: str
    values: tuple[int | str, ...]

    def query(self, words: str, columns: str) -> str:
        """A query for words in some columns, among what the scope's tokens let through."""
        return f"{self.before}{columns} : ({words}){self.behind}"


def newest_entry(connection: Connection) -> int:
    """The highest id that an entry ever had: about how many there are."""
    found = bare(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'entries'")
    return int(found[0][0]) if found else 0


class Fts5Index(TextIndex):
    """A `TextIndex` by FTS5."""

    def __init__(self) -> None:
        self._others: dict[tuple[int, ...], tuple[int, Int64]] = {}
        self._roles: RoleLists | None = None

    def add(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Index entries as their rows stand now."""
        bare_each(connection, PUT_IN, words_of(connection, entry_ids))

    def end_of(
        self, tx: Transaction, conversation_uid: str, rows: Sequence[Values], new_conversations: frozenset[int]
    ) -> Any:
        """The last turns of each conversation by its row, where all new ones stand behind them and in their order."""
        return ends_of(tx.connection, rows, new_conversations)

    def append(self, tx: Transaction, end: Any, rows: Mapping[int, Values], facets: Sequence[Sequence[str]]) -> None:
        """Index new entries with the last two turns before them, of which everything is known."""
        append_rows(tx.connection, end, rows)

    def remove(self, connection: Connection, entry_ids: Sequence[int]) -> None:
        """Take entries out; their rows and their neighbours' must still be as they were indexed."""
        bare_each(connection, TAKE_OUT, words_of(connection, entry_ids))

    def before_change(self, connection: Connection, entry_ids: Sequence[int]) -> Callable[[Sequence[int]], None]:
        """See there; what they are indexed with now is kept, without which they could not be taken out."""
        before = list(words_of(connection, entry_ids)) if entry_ids else []

        def index(added: Sequence[int]) -> None:
            rows = words_of(connection, [*entry_ids, *added])
            for old, row in zip(before, rows, strict=False):
                if old != row:
                    bare(connection, TAKE_OUT, old)
                    bare(connection, PUT_IN, row)
            bare_each(connection, PUT_IN, rows)

        return index

    def find(
        self,
        connection: Connection,
        terms: Sequence[str],
        quote: str,
        scope: RowScope,
        limit: int,
        with_context: bool = True,
    ) -> tuple[list[Scored], set[int]]:
        """Entries that hold any of the words, best first, and who has the words of a quotation in their order."""
        asked, quoted = _asked(scope), _phrase(quote)
        others = self._listed_others(connection, scope)
        inside = self._inside(connection, scope)
        wide = asked if others is None and inside is None else _asked(_widened(scope, others, inside))
        quoting: list[Scored] = []
        if quoted and _may_quote(connection, quote, wide):
            quoting = _match(connection, quoted, _OWN, asked, limit)
        phrases = list(filter(None, map(_phrase, terms)))
        found = _by_lists(connection, phrases, scope, wide, limit, with_context, others, inside) if phrases else []
        if found is None:
            which = connection, " OR ".join(phrases), _SEARCHED if with_context else _OWN, asked, limit
            # What others have saved is soon looked through, all that they have said is not.
            apart = others if inside is None and scope.outside_conversations else None
            if apart is not None:
                from harken.storage.sqlite import postings

                inside = postings.none_of(apart, newest_entry(connection))
            if inside is None:
                found = _match(*which)
            else:
                found = _match_inside(*which, _asked(_widened(scope, apart, inside)), inside)
        return found, {entry_id for entry_id, _ in quoting}

    def holders(
        self, connection: Connection, terms: Sequence[str], scope: RowScope, few: int = -1, most: int | None = None
    ) -> Holding:
        """Who of a scope has each word in its own text, all words in one statement."""
        from harken.storage.sqlite import postings

        others = self._listed_others(connection, scope)
        inside, newest = self._inside(connection, scope), newest_entry(connection)
        wide, asked = _widened(scope, others, None), _widened(scope, others, inside)
        if scope.conversation_ids and most is None and newest <= MATCHES_TO_RANK:
            # Once, and not for each word: by tokens that takes two to three times as long.
            of_them = postings.of_conversations(connection, scope.conversation_ids, newest)
            inside, asked = of_them if inside is None else inside & of_them, replace(asked, conversation_ids=())
        found = _holding(connection, terms, _asked(asked), most)
        if inside is not None:
            # Which words are common is told by all entries: those of the role would have to be read for it.
            found = {
                term: ids if most is not None and len(ids) > most else ids[inside[ids]] for term, ids in found.items()
            }
        if others is not None:
            found = {term: ids[postings.outside(ids, others)] for term, ids in found.items()}
        # Of a scope without other projects its share of all: enough to tell which word is rare.
        share = 1.0 if others is None else 1.0 - len(others) / newest
        if most is not None:
            found = {term: ids for term, ids in found.items() if len(ids) <= most}
            exact = _count(connection, wide) if scope.segment_id is not None else 0
            return Holding(found, int(_about(connection, wide) * share), exact)
        is_counted = max(map(len, found.values()), default=0) > few
        return Holding(found, int(_count(connection, wide) * share) if is_counted else 0)

    def _listed_others(self, connection: Connection, scope: RowScope) -> Int64 | None:
        """The entries of projects that a scope leaves out; None where it leaves out none, or tokens tell it sooner."""
        few = _FEW_ENTRIES if scope.outside_conversations else MATCHES_TO_RANK
        if not scope.without_project_ids or newest_entry(connection) <= few:
            return None
        from harken.storage.sqlite import postings

        return postings.of_projects(connection, scope.without_project_ids, newest_entry(connection), self._others)

    def _inside(self, connection: Connection, scope: RowScope) -> Inside | None:
        inside = self.inside_roles(connection, scope.roles) if scope.roles else None
        if inside is None:
            return None
        from harken.storage.sqlite import postings

        return inside if postings.share_of(inside) >= _LEAST_SHARE else None

    def inside_roles(self, connection: Connection, roles: tuple[str, ...]) -> Inside | None:
        """Whether each entry is of some roles, by its id; None where tokens or rows tell it sooner."""
        newest = newest_entry(connection)
        if newest <= _FEW_ENTRIES:
            return None
        from harken.storage.sqlite import postings

        self._roles = self._roles or postings.RoleLists()
        return self._roles.inside(connection, roles, newest)

    def rebuild(self, connection: Connection) -> None:
        """Make the index anew from the rows."""
        connection.exec_driver_sql(_REBUILD)

    def merge(self, connection: Connection) -> bool:
        """Merge pieces of the index where four are of a size, for a hundredth of a second; whether that is not all.

        Each word of a query is looked for in every piece: of the 24 that an import of 100,000 messages leaves in 8 ms,
        of the three that are left then in 6.5.
        """
        before = connection.exec_driver_sql(_CHANGES).scalar_one()
        connection.exec_driver_sql("INSERT INTO entry_index(entry_index, rank) VALUES ('merge', 32)")
        # As SQLite has it: one more row is counted where nothing was to be merged.
        return bool(connection.exec_driver_sql(_CHANGES).scalar_one() - before > 1)

    def optimize(self, connection: Connection) -> None:
        """Merge the index into one piece, which drops the words of removed entries from it."""
        connection.exec_driver_sql("INSERT INTO entry_index(entry_index) VALUES ('optimize')")

    def renew(self, connection: Connection) -> None:
        """Bring what an older Harken has indexed up to date.

        Entries that are not to be trusted get their mark, and turns whose times are not in their order the words of
        their true neighbours. Each of the two views says what is in the index at its time; where Russian words stood
        with their endings, none does, and all is indexed anew.
        """
        untrusted = f"SELECT id FROM entries WHERE trust IN ({UNTRUSTED_NAMES})"
        marked = f"FROM entry_words WHERE id IN ({untrusted}) OR id IN ({TURNS_OUT_OF_TIME})"
        take_out = f"INSERT INTO entry_index(entry_index, rowid, {COLUMNS}) SELECT 'delete', id, {COLUMNS} {marked}"
        put_in = f"INSERT INTO entry_index(rowid, {COLUMNS}) SELECT id, {COLUMNS} {marked}"
        is_stemmed = bool(bare(connection, _HAS_STEMS))
        steps = (
            ("DROP VIEW entry_words", VIEW, _REBUILD)
            if is_stemmed
            else (take_out, "DROP VIEW entry_words", VIEW, put_in)
        )
        for statement in (*steps, *_SETTINGS):
            connection.exec_driver_sql(statement)

    def problems(self, connection: Connection) -> list[str]:
        """One sentence if the index differs from the rows."""
        try:
            connection.exec_driver_sql("INSERT INTO entry_index(entry_index, rank) VALUES ('integrity-check', 1)")
        except DBAPIError as error:
            # Comparing takes the right to write, which a store that is only read has not.
            if isinstance(error.orig, sqlite3.DatabaseError) and error.orig.sqlite_errorname != "SQLITE_READONLY":
                return ["The full-text index differs from the rows."]
            raise
        return []


def _may_quote(connection: Connection, text: str, asked: _Asked) -> bool:
    """Whether any entry has all words of a text that say something; a phrase reads the lists of its stop words."""
    words = text.split()
    telling = list(filter(None, map(_phrase, [word for word in words if word.lower() not in STOP_WORDS])))
    if not telling or len(telling) == len(words):
        return True
    statement = "SELECT 1 FROM entry_index WHERE entry_index MATCH ? LIMIT 1"
    return bool(bare(connection, statement, (asked.query(" AND ".join(telling), _OWN),)))


def _match(connection: Connection, words: str, columns: str, asked: _Asked, limit: int) -> list[Scored]:
    rows: list[Scored] = bare(
        connection,
        f"SELECT entry_index.rowid, -bm25(entry_index, {_WEIGHTS}) AS score FROM entry_index {asked.join} "
        f"WHERE entry_index MATCH ? {asked.condition} ORDER BY score DESC LIMIT ?",
        (asked.query(words, columns), *asked.values, limit),
    )
    return rows


def _match_inside(
    connection: Connection, words: str, columns: str, asked: _Asked, limit: int, wide: _Asked, inside: Inside
) -> list[Scored]:
    """The same by a scope less its roles, of whose best those inside are taken, where they are enough."""
    found = _match(connection, words, columns, wide, _REACH * limit)
    kept = [scored for scored in found if inside[scored[0]]]
    is_all = len(found) < _REACH * limit
    return kept[:limit] if is_all or len(kept) >= limit else _match(connection, words, columns, asked, limit)


def _by_lists(
    connection: Connection,
    phrases: Sequence[str],
    scope: RowScope,
    asked: _Asked,
    limit: int,
    with_context: bool,
    others: Int64 | None,
    inside: Inside | None,
) -> list[Scored] | None:
    """The way for many matches; None where there are few, or where it finds nothing and a plain search may."""
    from harken.storage.sqlite import postings

    newest = newest_entry(connection)
    if newest <= MATCHES_TO_RANK or scope.is_narrow:
        return None
    own, context, either = (partial(asked.query, columns=columns) for columns in (_OWN, _BESIDE, _SEARCHED))
    searched, beside = (either, context) if with_context else (own, None)
    counted_up_to = max(1, MATCHES_TO_RANK // 4)
    counted = [postings.count(connection, searched(phrase), phrase, counted_up_to, newest) for phrase in phrases]
    held_words = sorted((word for word in counted if word.entries), key=lambda word: word.entries)
    if sum(word.entries for word in held_words) <= MATCHES_TO_RANK // 8:
        return None
    # The rarest one, and as many more as so many entries hold.
    rarest, left = held_words[:1], 3 * MATCHES_TO_RANK - held_words[0].entries
    for word in held_words[1:]:
        left -= word.entries
        if left < 0:
            break
        rarest.append(word)
    most = 10 * MATCHES_TO_RANK
    held = [postings.list_holders(connection, word, own, beside, most) for word in rarest]
    ranking = postings.rank(held)
    if inside is not None:
        ranking = ranking.part(inside[ranking.ids])
    for facet in scope.facets:
        ranking = postings.with_ids(ranking, connection, _LISTED_WITH_FACET, facet)
    if others is not None:
        ranking = ranking.part(postings.outside(ranking.ids, others))
    if scope.since is not None or scope.until is not None:
        ranking = postings.of_days(connection, ranking, *_bounds(scope), limit)
    if not len(ranking.ids):
        return None
    return postings.look_at_best(connection, ranking.part(slice(limit)), held_words, held, with_context)


def _widened(scope: RowScope, others: Int64 | None, inside: Inside | None) -> RowScope:
    """The scope less what its lists tell."""
    wide = scope if others is None else replace(scope, without_project_ids=())
    return wide if inside is None else replace(wide, roles=())


def _holding(connection: Connection, terms: Sequence[str], asked: _Asked, most: int | None) -> dict[str, Int64]:
    """The entries that have each term in their own text, one more than `most` of them, ascending."""
    from harken.storage.sqlite import postings

    listed = (
        f"SELECT group_concat(id) FROM (SELECT entry_index.rowid AS id FROM entry_index {asked.join} "
        f"WHERE entry_index MATCH ? {asked.condition} LIMIT ?)"
    )
    found = dict.fromkeys(terms, postings.parsed_ids(None))
    named: list[str] = []
    parameters: list[str | int] = []
    for term in found:
        if phrase := _phrase(term):
            named.append(term)
            parameters += [asked.query(phrase, _OWN), *asked.values, -1 if most is None else most + 1]
    if named:
        # No more than a query has terms, of which SQLite joins up to 500.
        rows = bare(connection, " UNION ALL ".join([listed] * len(named)), parameters)
        found |= {term: postings.parsed_ids(row[0]) for term, row in zip(named, rows, strict=True)}
    return found


def _asked(scope: RowScope) -> _Asked:
    before = behind = ""
    # How rare a source is, bm25 would find out by reading all that it has; of a segment the rows tell it sooner.
    of_segment = scope.segment_id is not None
    for tokens in _scope_tokens(replace(scope, sources=()) if of_segment else scope):
        before = f"scope : ({tokens}) AND {before}"
    without = [f"o{source}" for source in scope.without_sources]
    if scope.without_conversation_id is not None:
        without.append(f"c{scope.without_conversation_id}")
    if scope.without_untrusted:
        without.append(MARK)
    unwanted = [_phrase(token) for token in without]
    if scope.without_project_ids:
        # One list, for the depth of a query is limited.
        unwanted.append(f"({_projects(scope)})")
    for tokens in unwanted:
        before, behind = f"({before}", f"{behind}) NOT scope : {tokens}"
    condition = f" AND +entry_index.rowid IN {_WITH_FACET}" * len(scope.facets)
    values: tuple[int | str, ...] = scope.facets
    if of_segment and scope.sources:
        condition += f" AND e.source IN ({', '.join('?' * len(scope.sources))})"
        values += scope.sources
    if scope.since is not None or scope.until is not None:
        condition += " AND e.created_at >= ? AND e.created_at < ?"
        values += _bounds(scope)
    join = "JOIN entries e ON e.id = entry_index.rowid" if " e." in condition else ""
    return _Asked(before, behind, join, condition, values)


def _projects(scope: RowScope) -> str:
    """The tokens of the projects that a scope leaves out."""
    return " OR ".join(_phrase(f"p{project_id}") for project_id in scope.without_project_ids)


def _bounds(scope: RowScope) -> tuple[int, int]:
    return (-_ALL_TIME if scope.since is None else scope.since, _ALL_TIME if scope.until is None else scope.until)


def _about(connection: Connection, scope: RowScope) -> int:
    """About how many entries a scope has: those of its conversations, or all."""
    if not scope.is_narrow:
        return newest_entry(connection)
    of_it = RowScope(
        conversation_id=scope.conversation_id, segment_id=scope.segment_id, conversation_ids=scope.conversation_ids
    )
    return _count(connection, of_it)


def _count(connection: Connection, scope: RowScope) -> int:
    """How many entries a scope has; from the index where it can tell, since rows lie far apart."""
    groups = [f"scope : ({tokens})" for tokens in _scope_tokens(scope)]
    beyond_tokens = (scope.since, scope.until, scope.without_conversation_id, scope.without_sources, scope.facets)
    if groups and not any(beyond_tokens) and not scope.without_untrusted:
        counted = "SELECT count(*) FROM entry_index WHERE entry_index MATCH ?"
        others = f" NOT scope : ({_projects(scope)})" if scope.without_project_ids else ""
        return int(bare(connection, counted, (f"({' AND '.join(groups)}){others}",))[0][0])
    inside = select(func.count()).select_from(entries).where(*scope_conditions(scope, has_tenants=False))
    return int(connection.execute(inside).scalar_one())


def _phrase(term: str) -> str:
    """A term as FTS5 has it, in quotes; empty where it has no letter and no digit."""
    text = term.encode("utf-8", "ignore").decode().translate(_NO_SYNTAX)
    inner = " ".join((text if text.isascii() else as_indexed(text)).split())
    return f'"{inner}"' if _LETTER.search(inner) else ""


def _scope_tokens(scope: RowScope) -> list[str]:
    """For each limit that the index knows, its tokens, of which an entry has one."""
    # A segment is of one conversation.
    conversation_id = scope.conversation_id if scope.segment_id is None else None
    named: tuple[tuple[str, tuple[str | int | None, ...]], ...] = (
        ("o", scope.sources),
        ("r", scope.roles),
        ("p", (scope.project_id,)),
        ("c", (conversation_id,)),
        ("c", scope.conversation_ids),
        ("g", (scope.segment_id,)),
    )
    groups = []
    for letter, values in named:
        if tokens := [_phrase(f"{letter}{value}") for value in values if value is not None]:
            groups.append(" OR ".join(tokens))
    return groups
