"""Ranking where very much matches: by the bare lists of who holds a word, then by a look at the best.

FTS5's own bm25 looks up the length of every entry that matches, 1.2 µs each; reading a list takes a sixth of that. So
the lists of a query's rarest words choose the candidates and order them, as if all were of one length; the best of
them are then read and scored as bm25 would, now with the common words as well. Measured among 100,000 entries with
LoCoMo's conversations between them: twice as fast as bm25 over the rarest words, MRR 0.549 against 0.528.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from harken.storage.ports import Scored
from harken.storage.statements import bare

# As in FTS5's bm25, own words twice those of neighbours and k1; of the length less, which measured better (b 0.75).
_OWN, _CONTEXT = 2.0, 1.0
_SATURATION, _LENGTH_SHARE = 1.2, 0.4
_LEAST_RARITY = 1e-6
# A word that nearly every entry holds still tells equals apart.
_LEAST_SHARE = 0.1
LOOKED_AT = 60
_DAYS_LISTED, _DAYS_STEP = 50_000, 1_000
_LISTED = "(SELECT value FROM json_each(?))"
_MARKS = str.maketrans(string.punctuation, " " * len(string.punctuation))

Int64 = NDArray[np.int64]
_KEPT_LISTS = 8
_NO_ENTRIES = np.zeros(0, dtype=np.bool_)
# A search asks for words, for who holds which, and for what is near.
_FIRST_ASKED = 3
Floats = NDArray[np.float64]
Matching = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a query.

    Attributes:
        phrase: quoted, as FTS5 has it.
        entries: about how many hold it.
        rarity: what it weighs, above 0 (its inverse document frequency).
    """

    phrase: str
    entries: int
    rarity: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Entries with their scores, best first."""

    ids: Int64
    scores: Floats

    def part(self, kept: NDArray[np.bool_] | slice) -> Ranking:
        """Some of it, in the same order."""
        return Ranking(self.ids[kept], self.scores[kept])


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds a word: entries, ascending, and how much of it."""

    word: Word
    ids: Int64
    amounts: Floats

    def of(self, ids: Int64) -> Floats:
        """How much each of some entries holds."""
        if not len(self.ids):
            return np.zeros(len(ids))
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.amounts[places], 0.0)


Inside = NDArray[np.bool_]


class RoleLists:
    """Which entries are of some roles, listed once; threads may share it.

    No entry changes its role and no id is given twice, so lists only grow. A role's token in the full text stands in
    half of all entries: with it, a query reads each word's list against one as long as the store, which takes half as
    long again as the whole search, and a look at the rows of the nearest a quarter.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[str, ...], int] = {}
        self._known: dict[tuple[str, ...], Inside] = {}

    def inside(self, connection: Connection, roles: tuple[str, ...], newest: int) -> Inside | None:
        """Whether each entry is of the roles, by its id; None for who asks for the first time, and maybe the last."""
        self._asked[roles] = asked = self._asked.get(roles, 0) + 1
        if asked <= _FIRST_ASKED:
            return None
        inside = self._known.get(roles, _NO_ENTRIES)
        if len(inside) <= newest:
            statement = f"SELECT group_concat(id) FROM entries WHERE role IN {_LISTED} AND id >= ?"
            listed = bare(connection, statement, (json.dumps(roles), len(inside)))[0][0]
            known, inside = inside, np.zeros(newest + 1, dtype=np.bool_)
            inside[: len(known)] = known
            inside[parsed_ids(listed)] = True
            self._known[roles] = inside
        return inside


def share_of(inside: Inside) -> float:
    """The share of all entries that are inside, 0 to 1; `mean` takes ten times as long."""
    return float(np.count_nonzero(inside)) / len(inside)


def count(connection: Connection, query: str, phrase: str, at_most: int, newest: int) -> Word:
    """Count who holds a phrase; beyond the limit, by how far among all entries the count has come.

    The query is one that FTS5 answers with the phrase's entries; at least 1 is looked at; `newest` is the id of the
    newest entry, which is about how many there are.
    """
    chosen = "FROM (SELECT rowid FROM entry_index WHERE entry_index MATCH ? LIMIT ?)"
    counted, last = bare(connection, f"SELECT count(*), max(rowid) {chosen}", (query, at_most))[0]
    last = newest if counted < at_most else last
    entries = round(counted * max(1.0, newest / last))
    odds = (newest - entries + 0.5) / (entries + 0.5)
    return Word(phrase, entries, max(_LEAST_RARITY, math.log(odds)) if odds > 0 else _LEAST_RARITY)


def list_holders(connection: Connection, word: Word, own: Matching, context: Matching | None, at_most: int) -> Holders:
    """The entries that hold a word themselves, and those beside which it stands; of very many, the newest."""
    # Backwards costs half as much again, so only where it is needed.
    newest = "ORDER BY rowid DESC LIMIT ?" if word.entries > at_most else "LIMIT ?"
    lists = [_listed(connection, matching(word.phrase), newest, at_most) for matching in (own, context) if matching]
    amounts = [np.full(len(ids), amount) for ids, amount in zip(lists, (_OWN, _CONTEXT), strict=False)]
    return Holders(word, *_summed(lists, amounts))


def rank(held: Sequence[Holders]) -> Ranking:
    """Every entry that holds any of the words."""
    scores = [one.word.rarity * _saturated(one.amounts, 1.0) for one in held]
    ids, sums = _summed([one.ids for one in held], scores)
    order = np.argsort(-sums, kind="stable")
    return Ranking(ids[order], sums[order])


def of_days(connection: Connection, ranking: Ranking, since: int, until: int, limit: int) -> Ranking:
    """The first `limit` of a ranking that were said between two moments, the second excluded."""
    between = "created_at >= ? AND created_at < ?"
    inside = f"SELECT group_concat(id) FROM (SELECT id FROM entries WHERE {between} LIMIT ?)"
    listed = parsed_ids(bare(connection, inside, (since, until, _DAYS_LISTED))[0][0])
    if len(listed) < _DAYS_LISTED:
        return ranking.part(np.isin(ranking.ids, listed)).part(slice(limit))
    kept = np.zeros(len(ranking.ids), dtype=np.bool_)
    for start in range(0, len(ranking.ids), _DAYS_STEP):
        part = ranking.ids[start : start + _DAYS_STEP]
        inside = f"SELECT group_concat(id) FROM entries WHERE id IN {_LISTED} AND {between}"
        listed = parsed_ids(bare(connection, inside, (json.dumps(part.tolist()), since, until))[0][0])
        kept[start : start + _DAYS_STEP] = np.isin(part, listed)
        if kept.sum() >= limit:
            break
    return ranking.part(kept).part(slice(limit))


def with_ids(ranking: Ranking, connection: Connection, statement: str, value: str) -> Ranking:
    """Those of a ranking whose ids a statement lists (by `group_concat`) for a value."""
    listed = parsed_ids(bare(connection, statement, (value,))[0][0])
    return ranking.part(np.isin(ranking.ids, listed))


def of_projects(
    connection: Connection, project_ids: tuple[int, ...], newest: int, known: dict[tuple[int, ...], tuple[int, Int64]]
) -> Int64:
    """Ids of the entries of some projects, some of them gone; `known`, which threads may share, is brought up to date.

    No id is given twice and no entry changes its project, so lists only grow. To leave 39 of 40 projects out of 100,000
    entries takes 38 ms a search by their tokens, and 6 by this.
    """
    last, ids = known.get(project_ids, (0, np.empty(0, dtype=np.int64)))
    if last < newest:
        statement = f"SELECT group_concat(id) FROM entries WHERE project_id IN {_LISTED} AND id > ?"
        listed = bare(connection, statement, (json.dumps(project_ids), last))[0][0]
        ids = np.concatenate([ids, parsed_ids(listed)])
        if len(known) >= _KEPT_LISTS:
            known.clear()
        known[project_ids] = newest, ids
    return ids


def of_conversations(connection: Connection, conversation_ids: tuple[int, ...], newest: int) -> Inside:
    """Whether each entry up to the newest is of some conversations, by its id."""
    statement = f"SELECT group_concat(id) FROM entries WHERE conversation_id IN {_LISTED}"
    inside = np.zeros(newest + 1, dtype=np.bool_)
    inside[parsed_ids(bare(connection, statement, (json.dumps(conversation_ids),))[0][0])] = True
    return inside


def none_of(others: Int64, newest: int) -> Inside:
    """Whether each entry up to the newest is none of the others, by its id."""
    inside = np.ones(newest + 1, dtype=np.bool_)
    inside[others] = False
    return inside


def outside(ids: Int64, others: Int64) -> NDArray[np.bool_]:
    """Which ids are none of the others."""
    return ~np.isin(ids, others)


def look_at_best(
    connection: Connection, ranking: Ranking, words: Sequence[Word], held: Sequence[Holders], with_context: bool
) -> list[Scored]:
    """Score the best anew by their texts, all words counting; the others keep their order behind them."""
    head = ranking.ids[:LOOKED_AT]
    columns = "id, own, context" if with_context else "id, own, ''"
    read_out = f"SELECT {columns} FROM entry_words WHERE id IN {_LISTED}"
    rows = bare(connection, read_out, (json.dumps(head.tolist()),))
    texts = {row[0]: (_flat(row[1]), _flat(row[2])) for row in rows}
    read = [texts.get(entry_id, ("", "")) for entry_id in head.tolist()]
    lengths = np.array([1.0 + own.count(" ") + context.count(" ") for own, context in read])
    norms = 1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths / lengths.mean()
    listed = {one.word.phrase: one.of(head) for one in held}
    scores = np.zeros(len(head))
    least = _LEAST_SHARE * max(word.rarity for word in words)
    for word in words:
        # The index knows forms of a word that its beginning does not tell.
        amounts = np.maximum(_amounts(word.phrase, read), listed.get(word.phrase, 0.0))
        scores += max(word.rarity, least) * _saturated(amounts, norms)
    order = np.argsort(-scores, kind="stable")
    rest = ranking.part(slice(LOOKED_AT, None))
    lowered = rest.scores * min(1.0, scores[order[-1]] / rest.scores[0]) if len(rest.ids) else rest.scores
    ids = np.concatenate([head[order], rest.ids])
    return list(zip(ids.tolist(), np.concatenate([scores[order], lowered]).tolist(), strict=True))


def parsed_ids(listed: str | None) -> Int64:
    """The ids that a `group_concat` has put together; that and this take a fifth of what reading rows does."""
    return np.fromstring(listed, dtype=np.int64, sep=",") if listed else np.empty(0, dtype=np.int64)


def _listed(connection: Connection, query: str, which: str, at_most: int) -> Int64:
    listed = f"SELECT group_concat(rowid) FROM (SELECT rowid FROM entry_index WHERE entry_index MATCH ? {which})"
    return parsed_ids(bare(connection, listed, (query, at_most))[0][0])


def _summed(lists: Sequence[Int64], amounts: Sequence[Floats]) -> tuple[Int64, Floats]:
    """Each entry once, ascending, with the sum of its amounts."""
    ids, values = np.concatenate(lists), np.concatenate(amounts)
    # A stable sort merges what is in order already, which these lists are.
    order = np.argsort(ids, kind="stable")
    ids, values = ids[order], values[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    return ids[starts], np.add.reduceat(values, starts) if len(starts) else values


def _saturated(amounts: Floats, norms: float | Floats) -> Floats:
    saturated: Floats = amounts * (_SATURATION + 1) / (amounts + _SATURATION * norms)
    return saturated


def _amounts(phrase: str, texts: Sequence[tuple[str, str]]) -> Floats:
    word = phrase.strip('"').lower()
    # A word's beginning stands for its forms, as the index's stems do.
    start = " " + (word[:-2] if len(word) > 5 else word)
    return np.array([_OWN * own.count(start) + _CONTEXT * context.count(start) for own, context in texts])


def _flat(text: str) -> str:
    """Lower case, with a space before every word and no marks."""
    spaced = text.lower().translate(_MARKS)
    return " " + (spaced if spaced.isascii() else " ".join(spaced.split()))
