"""Who may call the functions of the schema: those who may use its tables, and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL

from command_line import CommandLine
from harken.engine import Harken
from postgres_server import PostgresServer

# All that the schema has, but what extensions brought.
OURS = """
    SELECT p.oid::regprocedure::text,
        'SELECT * FROM ' || p.oid::regproc || '(' || (
            SELECT coalesce(string_agg('NULL::' || format_type(t.kind, NULL), ', ' ORDER BY t.place), '')
            FROM unnest(p.proargtypes) WITH ORDINALITY AS t (kind, place)
        ) || ')', p.provolatile = 'v'
    FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace AND c.oid = 'entry_words'::regclass
    WHERE NOT EXISTS (
        SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
    ORDER BY 1"""
TOLD = "Every login of the server may call harken_asked, harken_bound, harken_count_again, harken_differing"


@pytest.fixture
def logins(postgres: PostgresServer, server_url: URL) -> Iterator[tuple[str, str]]:
    """An application's login, and one that was given nothing."""
    made = ("application", "stranger")
    for name in made:
        postgres.execute(f"CREATE ROLE {name} LOGIN")
    yield made
    for name in made:
        postgres.execute(f"DROP OWNED BY {name}", server_url.database)
        postgres.execute(f"DROP ROLE {name}")


@pytest.fixture
def as_owner(cli: CommandLine, server_url: URL) -> CommandLine:
    return on(cli, server_url)


def on(cli: CommandLine, url: URL) -> CommandLine:
    """The command line on a server."""
    store = url.render_as_string(hide_password=False)
    return CommandLine(cli.home, cli.person, {**cli.settings, "HARKEN_STORE": store})


def refused(postgres: PostgresServer, url: URL, login: str) -> tuple[set[str], set[str]]:
    """The functions that a login is refused, and those that it may call, each called as a tenant of its choice."""
    denied, allowed = set(), set()
    as_login = url.set(username=login).render_as_string(hide_password=False)
    for function, call, _ in postgres.execute(OURS, url.database):
        with psycopg.connect(as_login) as connection:
            connection.execute("SELECT set_config('harken.tenant', 'local', false)")
            try:
                connection.execute(call)
            except psycopg.Error as error:
                # Any other: it began to work on what it was given.
                is_denied = "permission denied for function" in str(error)
                (denied if is_denied else allowed).add(function)
            else:
                allowed.add(function)
            connection.rollback()
    return denied, allowed


def names(postgres: PostgresServer, url: URL, changing: bool | None = None) -> set[str]:
    """The functions of the schema; those that change something, or the others."""
    return {row[0] for row in postgres.execute(OURS, url.database) if changing in (None, row[2])}


def uses_everything(url: URL, login: str, folder: Path) -> None:
    settings: dict[str, Any] = {"store": url.set(username=login).render_as_string(False), "embedder": "none"}
    with Harken(folder, settings=settings, env={}) as harken:
        said = harken.record_message("c", "user", "the kettle is on the stove")
        assert [hit.entry.ref_uid for hit in harken.search("kettle").hits] == [said.uid]
        assert harken.maintenance.doctor() == []
        harken.maintenance.forget(harken.maintenance.plan_forget(messages=[said.uid]))


def as_it_was(postgres: PostgresServer, url: URL, login: str) -> None:
    """The rights that an older Harken left: everybody's, and the login's by that alone."""
    for function in names(postgres, url):
        postgres.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM {login}", url.database)
        postgres.execute(f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC", url.database)


def test_a_login_without_rights_is_refused_by_every_function(
    postgres: PostgresServer, server_url: URL, as_owner: CommandLine, logins: tuple[str, str], tmp_path: Path
) -> None:
    application, stranger = logins
    as_owner("migrate", "--role", application)
    every = names(postgres, server_url)
    assert len(every) >= 7
    assert refused(postgres, server_url, stranger) == (every, set())
    assert refused(postgres, server_url, application) == (set(), every)
    uses_everything(server_url, application, tmp_path / "one")
    # One that is made anew has the rights that everybody gives it.
    for function in every:
        postgres.execute(f"DROP FUNCTION {function}", server_url.database)
    as_owner("migrate")
    assert refused(postgres, server_url, stranger) == (every, set())
    uses_everything(server_url, application, tmp_path / "two")
    assert as_owner("doctor").out.startswith("All agrees")


@pytest.mark.parametrize("repair", [("doctor", "--fix"), ("migrate",)])
def test_what_an_older_version_left_open_is_told_and_closed(
    postgres: PostgresServer,
    server_url: URL,
    cli: CommandLine,
    as_owner: CommandLine,
    logins: tuple[str, str],
    tmp_path: Path,
    repair: tuple[str, ...],
) -> None:
    application, stranger = logins
    as_owner("migrate", "--role", application)
    as_it_was(postgres, server_url, application)
    assert TOLD in as_owner("doctor", code=1).out
    # The login may not change it, and is told who may.
    for words in (("doctor",), ("doctor", "--fix")):
        said = on(cli, server_url.set(username=application))(*words, code=1).out
        assert TOLD in said
        assert "As their owner: harken --store URL migrate" in said
    [found] = [each for each in as_owner("doctor", "--json", code=1).json()["findings"] if TOLD in each["problem"]]
    assert (found["check"], found["fixed"]) == ("rights", False)
    said = as_owner(*repair).out
    assert ("fixed: " + TOLD in said) is (repair[0] == "doctor")
    assert refused(postgres, server_url, stranger) == (names(postgres, server_url), set())
    uses_everything(server_url, application, tmp_path / "used")
    assert as_owner("doctor").out.startswith("All agrees")


def test_a_role_that_should_not_is_told_and_who_only_reads_may_search(
    postgres: PostgresServer, server_url: URL, as_owner: CommandLine, logins: tuple[str, str]
) -> None:
    reader, stranger = logins
    postgres.execute(f"GRANT SELECT ON entries TO {reader}", server_url.database)
    for function in names(postgres, server_url):
        postgres.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {stranger}", server_url.database)
    told = as_owner("doctor", code=1).out
    assert f"The role {stranger}, which has no such rights to the tables, may call harken_asked, harken_bound" in told
    assert f"The role {reader} may use the tables and not call harken_bound, harken_differing" in told
    as_owner("doctor", "--fix")
    assert refused(postgres, server_url, stranger) == (names(postgres, server_url), set())
    changing, reading = names(postgres, server_url, changing=True), names(postgres, server_url, changing=False)
    assert refused(postgres, server_url, reader) == (changing, reading)
    # The first of them only reads, but keeps plans, and who only reads does without.
    assert {"harken_asked", "harken_count_again", "harken_index", "harken_unindex"} == {
        function.partition("(")[0] for function in changing
    }
