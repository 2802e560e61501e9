"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import URL

from command_line import CommandLine
from harken.storage.open import open_store
from postgres_server import PostgresServer, running_server

# A slow machine is no bug: no time limits on examples.
settings.register_profile("harken", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("harken")


def pytest_configure() -> None:
    """Let a run that is told to end stop what it started, as it does on Ctrl-C: a server outlives its process."""
    signal.signal(signal.SIGTERM, _interrupted)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background jobs ignore Ctrl-C, and so would all that they start; nobody's terminal does.
        signal.signal(signal.SIGINT, _passed_over)


def _passed_over(number: int, frame: object) -> None:
    """Do what ignoring does, and leave its meaning to the commands under test."""


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real sample data, which is no part of the project."""
    named = os.environ.get("HARKEN_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no sample data in {folder}; set HARKEN_TEST_DATA to a folder that has it")
    return folder


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file without a record, to copy: making its tables takes longer than most tests."""
    folder = tmp_path_factory.mktemp("empty")
    open_store(folder / "harken.db", folder / "cache").close()
    return folder / "harken.db"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server with pgvector, started for these tests alone."""
    if os.environ.get("HARKEN_TEST_POSTGRES") == "0":
        pytest.skip("HARKEN_TEST_POSTGRES=0: NOTHING IS TESTED ON POSTGRESQL")
    with running_server() as server:
        yield server


@pytest.fixture
def server_url(postgres: PostgresServer) -> Iterator[URL]:
    """A fresh database with Harken's schema."""
    with postgres.database() as url:
        yield url


@pytest.fixture(params=["a file", "a server"])
def engine_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings that choose a store, once on each engine."""
    if request.param == "a file":
        return {}
    return {"store": request.getfixturevalue("server_url").render_as_string(hide_password=False)}


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """The real command line on an empty home, without an embedding model."""
    person = tmp_path / "person"
    person.mkdir()
    return CommandLine(tmp_path / "home", person, {"HARKEN_EMBEDDER": "none"})
