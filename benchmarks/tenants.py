"""How fast one tenant's search stays among many tenants of one PostgreSQL server.

    python benchmarks/tenants.py postgresql://OWNER@HOST/EMPTY [--tenants 1000] [--entries 1000] [--queries 300]

One tenant is made through the product's own code, but for its vectors, which are made up near those of real texts; the
others are copies of its rows inside the database, lying between each other's as they would had all talked at the same
time. The database must have Harken's schema (`harken migrate`) and nothing in it; `--loaded` takes one that an earlier
run filled. Prints one table and writes JSON.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import psycopg

from harken.engine import Harken
from harken.storage.tables import metadata
from measuring import Figure, times_of
from report import keep, show
from speed_search import fill_vectors
from synthetic import Talk, Talks, write_jsonl

SEARCH_P95_MS = 15.0
_FIRST = "tenant-0"
_WORDS = (
    "INSERT INTO entry_words (tenant, entry_id, words, length) SELECT name, entry_id,"
    " ts_delete(words, 't:' || %(first)s) || array_to_tsvector(ARRAY['t:' || name]), length"
    " FROM entry_words, (SELECT 'tenant-' || n AS name FROM generate_series(1, %(last)s) n) names"
    " WHERE tenant = %(first)s ORDER BY entry_id, name"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="URL of an empty database on a server, as the owner of its tables")
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--loaded", action="store_true", help="the database was filled by a run before")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    talks = list(Talks(3).talks(arguments.entries))
    queries = Talks(4).queries([text for talk in talks for text in talk.texts], arguments.queries)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if not arguments.loaded:
            fill(home, arguments.store, talks, arguments.tenants)
        figures = list(searches(home, arguments.store, arguments.tenants, queries))
    show("Tenants", [figure.row() for figure in figures])
    keep("tenants", {"tenants": arguments.tenants, "figures": [figure.row() for figure in figures]}, arguments.out)


def fill(home: Path, store: str, talks: list[Talk], tenants: int) -> None:
    """One tenant by the product's own code, then the others."""
    write_jsonl(home / "talk.jsonl", iter(talks))
    with Harken(home, settings={"store": store, "tenant": _FIRST}) as harken:
        harken.import_transcripts("jsonl", [home / "talk.jsonl"])
        harken.spaces.filled()
        fill_vectors(harken)
    begin = time.perf_counter()
    copy(store, tenants)
    print(f"  {tenants:,} tenants after {time.perf_counter() - begin:.0f} s", flush=True)


def copy(store: str, tenants: int) -> None:
    """Give every other tenant the first one's rows; ids are a tenant's own."""
    with psycopg.connect(store, autocommit=True) as connection:
        index = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'ix_entry_words'").fetchone()
        assert index is not None
        connection.execute("DROP INDEX ix_entry_words")
        values = {"first": _FIRST, "last": tenants - 1}
        for table in metadata.tables.values():
            names = ", ".join(f'"{column.name}"' for column in table.columns if column.name != "tenant")
            connection.execute(
                f"INSERT INTO {table.name} (tenant, {names}) SELECT 'tenant-' || n, {names}"
                f" FROM {table.name}, generate_series(1, %(last)s) n WHERE tenant = %(first)s ORDER BY id, n",
                values,
            )
        connection.execute(_WORDS, values)
        connection.execute("SET maintenance_work_mem = '512MB'")
        connection.execute(index[0])
        connection.execute("VACUUM ANALYZE")


def searches(home: Path, store: str, tenants: int, queries: list[str]) -> list[Figure]:
    """A few tenants far apart, each in a process's own store, warm."""
    chosen = sorted({0, 1, tenants // 3, tenants // 2, tenants - 1} & set(range(tenants)))
    opened = [Harken(home / str(n), settings={"store": store, "tenant": f"tenant-{n}"}) for n in chosen]
    try:
        for harken in opened:
            for query in queries[:10]:
                harken.search(query)
        figures = []
        for mode, target in (("hybrid", SEARCH_P95_MS), ("keyword", None), ("semantic", None)):
            works = (
                partial(opened[place % len(opened)].search, query, mode=mode) for place, query in enumerate(queries)
            )
            figures.append(times_of(works).figure(f"{mode} search of one tenant", None, target))
        return figures
    finally:
        for harken in opened:
            harken.close()


if __name__ == "__main__":
    main()
