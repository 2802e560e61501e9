"""Several questions asked as one, as a cluster is asked; any server can answer them so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, Float, Text, bindparam, cast, func, literal_column, select, text
from sqlalchemy.dialects.postgresql import ARRAY

from harken.storage.open import open_store
from harken.storage.ports import Question, Store, Transaction
from harken.storage.postgres.dialect import PostgresDialect
from harken.storage.state import count_up
from harken.storage.tables import counters

SAID = ['it\'s "quoted"', "back\\slash", "{braces}, 100 %", "line\nand\ttab", "名前", "", "$1 ($2)[1] %(of_tenant)s"]
VALUES = select(
    cast(bindparam("said"), Text),
    cast(bindparam("number"), BigInteger),
    cast(bindparam("share"), Float(53)),
    cast(bindparam("nothing"), BigInteger),
    cast(bindparam("is_so"), Text) == "true",
    func.array_to_string(cast(bindparam("texts"), ARRAY(Text)), "|"),
    func.array_to_string(PostgresDialect().list_of("numbers"), "|"),
)
NAMED = (
    select(counters.c.name, counters.c.value)
    .where(counters.c.tenant == bindparam("of_tenant"), counters.c.name >= bindparam("named"))
    .order_by(counters.c.name.desc())
)
# 100 % of them, as a driver takes it.
ANY_LIKE = text("SELECT count(*), max(name) FROM counters WHERE tenant = :of_tenant AND name LIKE '%e%'").columns(
    counters.c.value, counters.c.name
)


@pytest.fixture
def store(shared_database: str, tenant: str, tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(shared_database, tmp_path, tenant=tenant)) as store:
        with store.writing(of=["one"]) as tx:
            count_up(tx, {"herons": 2**60, "storks": 4})
        yield store


def asked_apart(tx: Transaction, questions: list[Question]) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row) for row in tx.dialect.bare_rows(tx.connection, *each)] for each in questions]


def asked_as_one(tx: Transaction, questions: list[Question]) -> list[list[tuple[Any, ...]]]:
    together = replace(tx, dialect=PostgresDialect(asks_together=True))
    together.dialect.foresee(together.connection, *questions)
    return asked_apart(together, questions)


def plans(tx: Transaction) -> int:
    kept = text("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'harken\\_%'")
    return int(tx.connection.execute(kept).scalar_one())


def test_what_is_asked_as_one_is_answered_as_it_is_apart(store: Store) -> None:
    fixed = {"number": -(2**62), "share": 0.1 + 0.2, "nothing": None, "is_so": True, "texts": SAID}
    numbers = PostgresDialect().listing([3, 2**60])
    questions: list[Question] = [
        (VALUES, {"of_tenant": store.tenant, **fixed, "said": said, "numbers": numbers}) for said in SAID
    ]
    questions += [(NAMED, {"of_tenant": store.tenant, "named": name}) for name in ("a", "i", "z")]
    questions.append((ANY_LIKE, {"of_tenant": store.tenant}))
    with store.reading() as tx:
        apart = asked_apart(tx, questions)
    with store.reading() as tx:
        before = plans(tx)
        as_one = asked_as_one(tx, questions)
        assert plans(tx) == before + 1
    assert as_one == apart
    assert as_one[-4:] == [[("storks", 4), ("herons", 2**60)], [("storks", 4)], [], [(1, "herons")]]
    assert as_one[0][0][:6] == (SAID[0], -(2**62), 0.1 + 0.2, None, True, "|".join(SAID))


def test_who_asks_again_has_it_answered_by_the_plan_that_is_there(store: Store) -> None:
    questions: list[Question] = [(NAMED, {"of_tenant": store.tenant, "named": name}) for name in ("a", "i")]
    with store.reading() as tx:
        asked_as_one(tx, questions)
        made = plans(tx)
    with store.writing(of=["one"]) as tx:
        count_up(tx, {"ibises": 1})
    with store.reading() as tx:
        assert asked_as_one(tx, questions)[1] == [("storks", 4), ("ibises", 1)]
        assert plans(tx) == made


def test_a_session_keeps_a_hundred_plans(store: Store) -> None:
    for number in range(103):
        counted = select(literal_column(str(number)), counters.c.value).where(
            counters.c.tenant == bindparam("of_tenant"), counters.c.name == "storks"
        )
        with store.reading() as tx:
            asked: list[Question] = [(counted, {"of_tenant": store.tenant}), (ANY_LIKE, {"of_tenant": store.tenant})]
            assert asked_as_one(tx, asked)[0] == [(number, 4)]
            assert plans(tx) <= 100
