"""What the conformance tests ask of a store, in one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from harken.model.conversations import Event, Message
from harken.storage.entries import load_entries
from harken.storage.events import Ingest
from harken.storage.ports import RowScope, Store, StoredSpace, Transaction
from harken.storage.tables import entries
from harken.storage.vectors import ensure_space, put_vectors
from harken.testing.talk import Talk
from harken.text.traits import traits_of

_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")
DIMS = 32
MIN_TOKENS = 10
TOOL_CHARS = 200
EVERYWHERE = RowScope()
LONG = "these words are many enough for a vector of their own, as most things that people say to agents are"


def apply(store: Store, events: Iterable[Event]) -> int:
    """Bring events into the rows in one transaction; how many messages were new."""
    with store.writing() as tx:
        return Ingest(tx, MIN_TOKENS, TOOL_CHARS).apply(list(events))


def keep(store: Store, talk: Talk, *others: Talk) -> Talk:
    """Bring whole conversations into the rows; the first of them."""
    for one in (talk, *others):
        apply(store, one.events)
    return talk


def read(
    store: Store, query: Callable[Concatenate[Transaction, _P], _Answer], *args: _P.args, **kwargs: _P.kwargs
) -> _Answer:
    """What a query answers in a transaction of its own."""
    with store.reading() as tx:
        return query(tx, *args, **kwargs)


def write(
    store: Store, change: Callable[Concatenate[Transaction, _P], _Answer], *args: _P.args, **kwargs: _P.kwargs
) -> _Answer:
    """What a change gives back, in a transaction of its own."""
    with store.writing() as tx:
        return change(tx, *args, **kwargs)


def found(
    store: Store, *terms: str, scope: RowScope = EVERYWHERE, limit: int = 100, with_context: bool = True
) -> list[str]:
    """Ids of the messages that a search for any of the words finds, best first."""
    with store.reading() as tx:
        scored = tx.text.search(tx.connection, terms, scope, limit, with_context)
        known = load_entries(tx, [entry_id for entry_id, _ in scored])
    return [known[entry_id].ref_uid for entry_id, _ in scored]


def differing_traits(store: Store) -> list[int]:
    """Entries with words that do not tell what their texts are like."""
    with store.reading() as tx:
        rows = tx.connection.execute(tx.select(entries.c.id, entries.c.text, entries.c.traits)).all()
    return [row.id for row in rows if row.traits != traits_of(row.text) or not row.traits]


def quoting(tx: Transaction, text: str, scope: RowScope = EVERYWHERE) -> list[int]:
    """The entries that have the words of a text in this order."""
    return sorted(tx.text.find(tx.connection, [text], text, scope, 100, with_context=False)[1])


def entry_ids(store: Store, messages: Sequence[Message]) -> list[int]:
    """The entries of messages, in the same order."""
    with store.reading() as tx:
        named = entries.c.ref_uid.in_([message.uid for message in messages])
        rows = tx.connection.execute(tx.select(entries.c.ref_uid, entries.c.id).where(named))
        known = {row.ref_uid: row.id for row in rows}
    return [known[message.uid] for message in messages]


def text_problems(store: Store) -> list[str]:
    """How the full text differs from the rows."""
    return write(store, lambda tx: tx.text.problems(tx.connection))


def space_of(store: Store, name: str = "words", dims: int = DIMS) -> StoredSpace:
    """The space of that name, made if it is new."""
    return write(store, ensure_space, name, dims, 0.5, {"name": name})


def unit_vectors(count: int, dims: int = DIMS, seed: int = 7) -> NDArray[np.float32]:
    """Vectors of length one in random directions, the same for the same seed."""
    matrix = np.random.default_rng(seed).standard_normal((count, dims)).astype(np.float32)
    unit: NDArray[np.float32] = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit


def embed(store: Store, space: StoredSpace, ids: Sequence[int], matrix: NDArray[np.float32]) -> int:
    """Store vectors in one transaction; how many were new."""
    return write(store, put_vectors, space, ids, matrix)


def spoken_at_length(name: str, count: int) -> Talk:
    """A conversation of so many messages that all get a vector, the newest last."""
    talk = Talk(name)
    for number in range(count):
        talk.say(f"Number {number}: {LONG}")
    return talk
