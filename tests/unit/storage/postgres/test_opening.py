"""What can be wrong with a server's store gives one clear error each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import URL, make_url

from harken.config.settings import load_settings
from harken.engine import Harken
from harken.errors import (
    ConfigError,
    HarkenError,
    SchemaError,
    StoreBusyError,
    StoreError,
    StoreReadOnlyError,
    UsageError,
)
from harken.model.conversations import Role
from harken.serve.operations.operation import Caller
from harken.serve.operations.registry import operation_of
from harken.storage.conversations import messages_of
from harken.storage.migrations import HEAD, Migrated
from harken.storage.open import make_server_role, migrate_store, open_store
from harken.storage.ports import RowScope
from harken.storage.postgres.connection import make_engine, shown
from harken.storage.postgres.rights import make_role
from harken.testing.store_conformance.asking import differing_traits, found, keep, text_problems
from harken.testing.talk import START, Talk
from postgres_server import PostgresServer


def text_of(url: URL) -> str:
    return url.render_as_string(hide_password=False)


# What makes of a database one from before messages had positions.
WITHOUT_POSITIONS = (
    "DROP INDEX ix_messages_conversation, ix_entries_turns",
    "ALTER TABLE messages DROP COLUMN position",
    "ALTER TABLE entries DROP COLUMN position, DROP COLUMN traits",
    "ALTER TABLE segment_summaries RENAME COLUMN left_position TO left_at",
    "CREATE INDEX ix_messages_conversation ON messages (tenant, conversation_id, created_at, id)",
    "CREATE INDEX ix_entries_turns ON entries (tenant, conversation_id, is_turn, created_at, id)",
)


def refusal(url: URL | str, folder: Path, kind: type[HarkenError] = StoreError) -> str:
    with pytest.raises(kind) as error:
        open_store(url if isinstance(url, str) else text_of(url), folder).close()
    assert "Traceback" not in str(error.value)
    return str(error.value)


def migrate(url: URL, folder: Path, **options: object) -> Migrated:
    return migrate_store(text_of(url), "local", folder, **options)  # type: ignore[arg-type]


@pytest.fixture
def empty(postgres: PostgresServer) -> Iterator[URL]:
    """A database without a table."""
    postgres.execute("CREATE DATABASE bare")
    yield postgres.of("bare")
    postgres.execute("DROP DATABASE bare WITH (FORCE)")


@pytest.fixture
def role(postgres: PostgresServer) -> Iterator[str]:
    """A login that owns nothing."""
    postgres.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
    yield "guest"
    postgres.execute("DROP ROLE guest")


class TestReaching:
    def test_a_host_where_nothing_listens(self, tmp_path: Path) -> None:
        said = refusal("postgresql://ann:secret@127.0.0.1:9/team", tmp_path)
        assert "cannot be reached" in said
        assert "secret" not in said

    def test_a_host_that_does_not_exist(self, tmp_path: Path) -> None:
        assert "cannot be reached" in refusal("postgresql://ann@no-such-host.invalid/team", tmp_path)

    def test_a_wrong_password(self, postgres: PostgresServer, server_url: URL, role: str, tmp_path: Path) -> None:
        rules = postgres.folder / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"local all {role} scram-sha-256\n{before}")
        postgres.execute("SELECT pg_reload_conf()")
        try:
            said = refusal(server_url.set(username=role, password="wrong"), tmp_path)
        finally:
            rules.write_text(before)
            postgres.execute("SELECT pg_reload_conf()")
        assert "refuses the login" in said
        assert "wrong" not in said.replace("wrong password", "")

    def test_a_database_that_does_not_exist(self, postgres: PostgresServer, tmp_path: Path) -> None:
        assert "createdb" in refusal(postgres.of("nowhere"), tmp_path)

    def test_a_login_that_does_not_exist(self, server_url: URL, tmp_path: Path) -> None:
        said = refusal(server_url.set(username="nobody-of-that-name"), tmp_path)
        assert "refuses the login" in said
        assert "createdb" not in said

    def test_a_server_whose_connections_are_all_in_use(
        self, postgres: PostgresServer, server_url: URL, role: str, tmp_path: Path
    ) -> None:
        postgres.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
        said = refusal(server_url.set(username=role), tmp_path, StoreBusyError)
        assert "Is the server running" not in said

    def test_a_replica_is_no_matter_of_rights(
        self, postgres: PostgresServer, server_url: URL, role: str, tmp_path: Path
    ) -> None:
        migrate(server_url, tmp_path, role=role)
        postgres.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        settings = {"store": text_of(server_url.set(username=role)), "embedder": "none"}
        with Harken(tmp_path, settings=settings, env={}) as harken:
            with pytest.raises(StoreReadOnlyError) as error:
                harken.record_message("c", "user", "nothing of this is kept")
            for name in ("topics", "digest"):
                assert operation_of(name).call(harken, {}, Caller(tmp_path, is_owner=True))["topics"] == []
            with pytest.raises(StoreReadOnlyError):
                harken.topics.refresh()
        assert "Name the primary" in str(error.value)
        assert "migrate" not in str(error.value)
        postgres.execute(f"DROP OWNED BY {role}", server_url.database)

    def test_a_url_of_another_engine(self, tmp_path: Path) -> None:
        assert "postgresql://" in refusal("mysql://ann@host/team", tmp_path, ConfigError)

    def test_a_server_that_isolates_more_strictly_refuses_nobody_who_writes(
        self, postgres: PostgresServer, server_url: URL, tmp_path: Path
    ) -> None:
        postgres.execute(f"ALTER DATABASE {server_url.database} SET default_transaction_isolation = 'serializable'")
        settings = {"store": text_of(server_url), "embedder": "none"}
        with Harken(tmp_path, settings=settings, env={}) as harken, ThreadPoolExecutor(4) as threads:
            words = [f"heron {number}" for number in range(24)]
            assert len(list(threads.map(lambda said: harken.record_message("birds", "user", said), words))) == 24

    def test_a_machine_whose_programs_speak_latin_1_to_databases_keeps_every_text(
        self, server_url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
        with Harken(tmp_path, settings={"store": text_of(server_url), "embedder": "none"}, env={}) as harken:
            said = harken.record_message("birds", "user", "цапля 🌱")
            assert harken.show(said.uid).messages[0].text == "цапля 🌱"


class TestSchema:
    def test_pgvector_in_a_schema_that_a_login_does_not_look_into(
        self, postgres: PostgresServer, tmp_path: Path
    ) -> None:
        """As hosters have it, `extensions`: to upgrade the tables, which was advised, helps nobody."""
        postgres.execute("CREATE DATABASE hosted")
        try:
            postgres.execute("CREATE SCHEMA extensions", "hosted")
            postgres.execute("CREATE EXTENSION vector SCHEMA extensions", "hosted")
            with pytest.raises(SchemaError, match="search_path"):
                migrate(postgres.of("hosted"), tmp_path)
            postgres.execute("ALTER DATABASE hosted SET search_path = public, extensions")
            assert migrate(postgres.of("hosted"), tmp_path).schema == HEAD
        finally:
            postgres.execute("DROP DATABASE hosted WITH (FORCE)")

    def test_tables_in_a_schema_whose_name_has_to_be_quoted(
        self, postgres: PostgresServer, empty: URL, role: str, tmp_path: Path
    ) -> None:
        postgres.execute('CREATE SCHEMA "crew-Memory"', empty.database)
        postgres.execute(f'ALTER DATABASE {empty.database} SET search_path = "crew-Memory", public')
        for _ in range(2):
            assert migrate(empty, tmp_path, role=role).schema == HEAD
        settings = {"store": text_of(empty.set(username=role)), "embedder": "none"}
        with Harken(tmp_path, settings=settings, env={}) as harken:
            harken.record_message("birds", "user", "The heron waits in the reeds")
            assert [hit.entry.text for hit in harken.search("herons").hits] == ["The heron waits in the reeds"]
        postgres.execute(f"DROP OWNED BY {role}", empty.database)

    def test_a_database_that_does_not_hold_every_text(self, postgres: PostgresServer, tmp_path: Path) -> None:
        postgres.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        try:
            with pytest.raises(StoreError, match="createdb -E UTF8"):
                migrate(postgres.of("latin"), tmp_path)
        finally:
            postgres.execute("DROP DATABASE latin WITH (FORCE)")

    def test_no_tables(self, empty: URL, tmp_path: Path) -> None:
        assert "migrate" in refusal(empty, tmp_path, SchemaError)

    def test_an_older_schema(self, postgres: PostgresServer, server_url: URL, tmp_path: Path) -> None:
        postgres.execute("UPDATE alembic_version SET version_num = '0000'", server_url.database)
        said = refusal(server_url, tmp_path, SchemaError)
        assert "0000" in said
        assert "migrate" in said

    def test_what_was_indexed_before_learns_what_is_not_to_be_trusted(
        self, postgres: PostgresServer, server_url: URL, tmp_path: Path
    ) -> None:
        talk = Talk("town")
        talk.say("zebra one")
        talk.say("zebra code", Role.ASSISTANT)
        talk.say("zebra page", Role.TOOL)
        with closing(open_store(text_of(server_url), tmp_path)) as store:
            keep(store, talk)
        for statement in (
            "UPDATE entries SET trust = 'untrusted', source = 'code' WHERE text = 'zebra code'",
            "UPDATE entry_words SET words = ts_delete(words, 'o:message') || array_to_tsvector(ARRAY['o:code'])"
            " FROM entries e WHERE e.id = entry_id AND source = 'code'",
            "UPDATE entry_words SET words = ts_delete(words, 'u:1')",
            *WITHOUT_POSITIONS,
            "UPDATE alembic_version SET version_num = '0009'",
        ):
            postgres.execute(statement, server_url.database)
        migrate(server_url, tmp_path)
        with closing(open_store(text_of(server_url), tmp_path)) as store:
            assert text_problems(store) == []
            assert len(found(store, "zebra")) == 3
            assert len(found(store, "zebra", scope=RowScope(without_untrusted=True))) == 2

    def test_turns_whose_times_are_not_in_their_order_are_indexed_with_their_true_neighbours(
        self, postgres: PostgresServer, server_url: URL, tmp_path: Path
    ) -> None:
        talk = Talk("resumed")
        for number in range(4):
            talk.begin_exchange()
            talk.say(f"question {number} apple{number}")
            # As an agent writes it that resumes a session.
            talk.say(f"answer {number}", Role.ASSISTANT, at=START + timedelta(days=1))
        with closing(open_store(text_of(server_url), tmp_path)) as store:
            keep(store, talk)
        for statement in (*WITHOUT_POSITIONS, "UPDATE alembic_version SET version_num = '0010'"):
            postgres.execute(statement, server_url.database)
        # By time, all questions stood before all answers.
        forgotten = "UPDATE entry_words SET words = ts_delete(words, 'apple0') WHERE entry_id = 2"
        postgres.execute(forgotten, server_url.database)
        migrate(server_url, tmp_path)
        with closing(open_store(text_of(server_url), tmp_path)) as store:
            with store.reading() as tx:
                assert [one.text for one in messages_of(tx, talk.uid)] == [one.text for one in talk.messages]
            assert set(found(store, "apple0")) == {one.uid for one in talk.messages[:3]}
            assert text_problems(store) == []

    def test_russian_words_that_were_indexed_with_their_endings_lose_them(
        self, postgres: PostgresServer, server_url: URL, tmp_path: Path
    ) -> None:
        talks = {tenant: Talk(f"of {tenant}") for tenant in ("north", "south")}
        for tenant, talk in talks.items():
            for text in ("Мы были в гавани", "nothing of it here", "zebra one"):
                talk.say(text)
            with closing(open_store(text_of(server_url), tmp_path, tenant)) as store:
                keep(store, talk)
        for statement in (
            "UPDATE entry_words SET words = ts_delete(words, 'гаван') || to_tsvector('simple', 'гавани')",
            "UPDATE alembic_version SET version_num = '0015'",
        ):
            postgres.execute(statement, server_url.database)
        migrate(server_url, tmp_path)
        for tenant, talk in talks.items():
            with closing(open_store(text_of(server_url), tmp_path, tenant)) as store:
                assert text_problems(store) == []
                assert found(store, "гаванью", with_context=False) == [talk.messages[0].uid]

    def test_every_tenant_of_the_version_before_is_told_what_its_texts_are_like(
        self, postgres: PostgresServer, server_url: URL, tmp_path: Path
    ) -> None:
        for tenant in ("north", "south"):
            talk = Talk(f"of {tenant}")
            talk.say(f"Did {tenant} call you yesterday?")
            with closing(open_store(text_of(server_url), tmp_path, tenant)) as store:
                keep(store, talk)
        for statement in (
            "ALTER TABLE entries DROP COLUMN traits",
            "UPDATE alembic_version SET version_num = '0011'",
        ):
            postgres.execute(statement, server_url.database)
        assert migrate(server_url, tmp_path).before == "0011"
        for tenant in ("north", "south"):
            with closing(open_store(text_of(server_url), tmp_path, tenant)) as store:
                assert differing_traits(store) == []
                assert len(found(store, "call")) == 1

    def test_a_newer_schema_that_still_serves_this_harken(
        self, postgres: PostgresServer, server_url: URL, tmp_path: Path
    ) -> None:
        for statement in (
            "UPDATE alembic_version SET version_num = '9999'",
            f"COMMENT ON TABLE alembic_version IS 'serves Harken from schema {HEAD}'",
        ):
            postgres.execute(statement, server_url.database)
        talk = Talk("town")
        talk.say("zebra one")
        with closing(open_store(text_of(server_url), tmp_path)) as store:
            keep(store, talk)
            assert len(found(store, "zebra")) == 1

    def test_a_newer_schema(self, postgres: PostgresServer, server_url: URL, tmp_path: Path) -> None:
        postgres.execute("COMMENT ON TABLE alembic_version IS 'serves Harken from schema 9998'", server_url.database)
        postgres.execute("UPDATE alembic_version SET version_num = '9999'", server_url.database)
        assert "pip install -U" in refusal(server_url, tmp_path, SchemaError)
        with pytest.raises(SchemaError):
            migrate(server_url, tmp_path)

    def test_a_server_without_pgvector(self, postgres: PostgresServer, empty: URL, tmp_path: Path) -> None:
        if int(postgres.execute("SHOW server_version_num")[0][0]) < 180_000:
            pytest.skip("a server before 18 finds its extensions in one place alone")
        postgres.execute("ALTER DATABASE bare SET extension_control_path = '/nowhere'")
        with pytest.raises(StoreError, match="no pgvector"):
            migrate(empty, tmp_path)

    def test_a_role_that_may_not_enable_pgvector(self, empty: URL, role: str, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="superuser do it in this database, once: CREATE EXTENSION vector"):
            migrate(empty.set(username=role), tmp_path)

    def test_a_role_that_may_not_make_tables(
        self, postgres: PostgresServer, empty: URL, role: str, tmp_path: Path
    ) -> None:
        postgres.execute("CREATE EXTENSION vector", empty.database)
        with pytest.raises(StoreError, match="permission denied"):
            migrate(empty.set(username=role), tmp_path)

    def test_a_first_and_a_second_migration(self, empty: URL, tmp_path: Path) -> None:
        assert migrate(empty, tmp_path).before is None
        assert migrate(empty, tmp_path).before is not None
        open_store(text_of(empty), tmp_path).close()

    def test_a_role_that_two_make_at_once_is_made_by_one(
        self, postgres: PostgresServer, server_url: URL, tmp_path: Path
    ) -> None:
        engine = make_engine(server_url)
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        with ThreadPoolExecutor(1) as threads:
            try:
                with engine.begin() as first:
                    assert make_role(first, "twin", "secret")
                    second = threads.submit(make_server_role, text_of(server_url), "twin", "other")
                    while not second.done() and postgres.execute(waiting) == [(0,)]:
                        time.sleep(0.01)
                assert second.result()[1] is False
            finally:
                engine.dispose()
                postgres.execute("DROP ROLE twin")

    def test_a_role_that_does_not_exist(self, server_url: URL, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="CREATE ROLE"):
            migrate(server_url, tmp_path, role="nobody")

    def test_a_server_without_citus_spreads_nothing(self, server_url: URL, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="CREATE EXTENSION citus"):
            migrate(server_url, tmp_path, distribute=True)
        open_store(text_of(server_url), tmp_path).close()

    def test_an_embedded_store_has_no_roles(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            migrate_store(f"sqlite:///{tmp_path}/harken.db", "local", tmp_path, role="ann")


class TestLanguages:
    def test_word_forms_of_a_language_are_known(self, empty: URL, tmp_path: Path) -> None:
        migrate(empty, tmp_path, language="russian")
        settings = {"store": text_of(empty), "embedder": "none"}
        with Harken(tmp_path, settings=settings, env={}) as harken:
            said = harken.record_message("c", "user", "Завтра мы развернём три сервера")
            assert [hit.entry.ref_uid for hit in harken.search("сервер").hits] == [said.uid]

    def test_a_language_cannot_be_changed_under_the_words(self, server_url: URL, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="english"):
            migrate(server_url, tmp_path, language="german")

    def test_an_unknown_language_names_the_known(self, empty: URL, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="english"):
            migrate(empty, tmp_path, language="klingon")


class TestRights:
    def test_a_role_with_rights_uses_everything(
        self, postgres: PostgresServer, server_url: URL, role: str, tmp_path: Path
    ) -> None:
        migrate(server_url, tmp_path, role=role)
        settings = {"store": text_of(server_url.set(username=role)), "embedder": "none"}
        with Harken(tmp_path, settings=settings, env={}) as harken:
            said = harken.record_message("c", "user", "the kettle is on the stove")
            assert [hit.entry.ref_uid for hit in harken.search("kettle").hits] == [said.uid]
            assert harken.maintenance.doctor() == []
            harken.maintenance.forget(harken.maintenance.plan_forget(messages=[said.uid]))
            assert harken.search("kettle").hits == ()
        postgres.execute(f"DROP OWNED BY {role}", server_url.database)

    def test_a_role_that_may_only_read_is_told_so(
        self, postgres: PostgresServer, server_url: URL, role: str, tmp_path: Path
    ) -> None:
        migrate(server_url, tmp_path, role=role)
        postgres.execute(f"REVOKE INSERT ON ALL TABLES IN SCHEMA public FROM {role}", server_url.database)
        settings = {"store": text_of(server_url.set(username=role)), "embedder": "none"}
        with (
            Harken(tmp_path, settings=settings, env={}) as harken,
            pytest.raises(StoreReadOnlyError, match="refuses to write"),
        ):
            harken.record_message("c", "user", "nothing of this is kept")
        postgres.execute(f"DROP OWNED BY {role}", server_url.database)


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("postgresql://ann:secret@host/team", "postgresql://ann:***@host/team"),
        ("postgresql://host/team?user=ann&password=secret&a=b", "postgresql://host/team?user=ann&password=***&a=b"),
    ],
)
def test_the_password_is_not_among_what_is_shown(given: str, seen: str) -> None:
    values = load_settings("/tmp/x", {}, {"store": given}).values()
    assert {value.key: value.value for value in values}["store"] == seen
    assert "secret" not in shown(make_url(given))


def test_the_server_s_login_takes_nothing_of_the_owner_s_along(postgres: PostgresServer, server_url: URL) -> None:
    owner = server_url.update_query_dict({"user": str(server_url.username), "password": "owner's"})
    try:
        made, is_new = make_server_role(text_of(owner), "server_s_own", "its own")
        own = make_url(made)
        assert (is_new, own.username, own.password) == (True, "server_s_own", "its own")
        assert "owner" not in made
    finally:
        postgres.execute("DROP ROLE IF EXISTS server_s_own")
