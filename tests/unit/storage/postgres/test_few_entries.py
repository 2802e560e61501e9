"""A tenant of few entries is searched without the inverted index, and finds what one of many would by it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, text

from harken.engine import Harken

TALK = (
    "the heron nests behind the old mill",
    "Paint the mill door blue, said the miller",
    "日本語の予定を確認する",
    "a heron and a kingfisher at the mill pond, heron again",
    "blue paint dries slowly in the rain",
    "who paints the old door of the mill",
)
_FIND = text(
    "SELECT entry_id, score, quoting FROM harken_find(:tenant, :terms, :quoted, :own_only, :scope, NULL, NULL,"
    " :at_most, CAST(:total AS bigint), CAST(:average AS float8), 20000, 2500)"
)


@pytest.fixture
def harken(server_url: URL, tmp_path: Path) -> Iterator[Harken]:
    settings = {"store": server_url.render_as_string(hide_password=False), "embedder": "none"}
    with Harken(tmp_path, settings=settings, env={}) as harken:
        for number, said in enumerate(TALK * 3):
            harken.record_message(f"talk {number // 4}", ("user", "assistant")[number % 2], said)
        yield harken


ASKED: list[tuple[list[str], str | None]] = [
    (["heron"], None),
    (["old", "mill", "door"], "the old mill"),
    (["heron", "paint", "blue", "pond", "rain", "miller", "door", "slowly"], "heron again"),
    (["日 本", "mill"], None),
    (["nowhere"], "nowhere at all"),
    (["paint", "dries"], "somewhere else"),
]


def test_few_entries_are_ranked_as_many_would_be(harken: Harken) -> None:
    cases = itertools.product(ASKED, ["", "('r:user')", "!'r:user'"], [False, True], [200, 2])
    with harken.store.reading() as tx:
        mine = {"tenant": tx.tenant}
        size = tx.connection.execute(text("SELECT entries, average_length FROM harken_indexed(:tenant)"), mine).one()
        for (terms, quoted), scope, own_only, at_most in cases:
            asked = {**mine, "terms": terms, "quoted": quoted, "own_only": own_only, "scope": scope, "at_most": at_most}
            few = tx.connection.execute(_FIND, {**asked, "total": None, "average": None}).all()
            many = tx.connection.execute(_FIND, {**asked, "total": size[0], "average": size[1]}).all()
            assert [row for row in few if row[1] is not None] == [row for row in many if row[1] is not None], asked
            assert {row[0] for row in few if row[2]} == {row[0] for row in many if row[2]}, asked
            assert few or terms == ["nowhere"] or scope or own_only, asked


def test_a_tenant_of_few_entries_sees_its_own_alone(harken: Harken, tmp_path: Path) -> None:
    settings = {"store": harken.settings.store, "tenant": "another", "embedder": "none"}
    with Harken(tmp_path / "another", settings=settings, env={}) as another:
        another.record_message("talk", "user", "another heron by the mill")
        assert [hit.entry.text for hit in another.search("heron mill").hits] == ["another heron by the mill"]
    assert "another heron by the mill" not in {hit.entry.text for hit in harken.search("heron mill", limit=50).hits}
