"""What all tests share."""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import shutil
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies
from sqlalchemy import URL

from cluster_server import ClusterServer, running_cluster
from command_line import FORKS, CommandLine, warm_start
from harken.storage.open import open_store
from postgres_server import CHOSEN, PostgresServer, running_server
from shared_statements import share_statements
from warm_start import MEASURED

# Before any test module imports a part of it.
pytest.register_assert_rewrite("harken.testing.store_conformance")

# A slow machine is no bug: no time limits on examples.
settings.register_profile("harken", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("harken")
share_statements()

_tenants = itertools.count(1)
_FURTHER_CASE = pytest.StashKey[bool]()
# Whose tests run the same lines in each case.
_MANIFOLD = {"cli", "engine_settings"}
# `make test-cluster`: what the tests have of a server is a Citus cluster.
ON_CLUSTER = bool(os.environ.get("HARKEN_TEST_CLUSTER"))
NO_CLUSTER = "there is no Citus cluster. Run them with: make test-cluster CLUSTER_ARCHIVES=FOLDER"
# Of these each takes ten seconds to a minute: begun last, one would go on alone.
_LONGEST = (
    "serve/test_team_access.py",
    "docs/test_benchmarks.py",
    "serve/test_viewer_browser.py",
    "faults/test_damage.py",
    "faults/test_killed.py",
    "faults/test_rolling_upgrade.py",
    "faults/test_server_store.py",
    "serve/test_mcp_hostile.py",
    "flow/test_project_scope.py",
    "faults/test_killed_clients.py",
    "faults/test_sessions_together.py",
    "faults/test_bit_flips.py",
)
_SERVER_FIXTURES = {"cluster", "postgres", "server_url", "shared_database"}


def pytest_configure() -> None:
    """Let a run that is told to end stop what it started, as it does on Ctrl-C: a server outlives its process.

    And have clients trust one authority: to read the machine's takes each 30 ms, and no test asks the world.
    """
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))
    signal.signal(signal.SIGTERM, _interrupted)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background jobs ignore Ctrl-C, and so would all that they start; nobody's terminal does.
        signal.signal(signal.SIGINT, _passed_over)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Have the processes of this run share one that forks commands; where coverage is measured, each has its own."""
    if FORKS and not getattr(config.option, "cov_source", None):
        warm_start().share()
    # Hypothesis keeps which characters there are: in a fresh clone each process would find out for 3 s.
    threading.Thread(target=strategies.characters(codec="utf-8").validate, daemon=True).start()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Look for no garbage among what is collected, for all of it stays: that took a sixth of collecting.

    And later as rarely as a command does: to look as often as is usual took a twelfth of the tests' time.
    """
    gc.disable()
    _import_share(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def _import_share(config: pytest.Config) -> None:
    """Import some of the test modules first, if this process is one of several that collect all of them.

    In a fresh clone each would rewrite the assertions of all of them else, at the same time, which is half of what
    collecting takes; so it finds what the others have rewritten and kept meanwhile.
    """
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not name or config.option.file_or_dir:
        return
    processes = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in sorted(Path(__file__).parent.rglob("test_*.py"))[int(name.removeprefix("gw")) % processes :: processes]:
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        # What cannot be imported, or not here, is told of where it is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(file.stem)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs no server where that is a cluster.

    Measure the first case alone where tests run commands or both engines: coverage takes nearly as long again.

    Nor measure the long tests that add no line to what all others run (`unmeasured.txt`). The longest come first.
    """
    if ON_CLUSTER:
        others = [item for item in items if not _is_of_server(item)]
        items[:] = [item for item in items if _is_of_server(item)]
        config.hook.pytest_deselected(items=others)
    seen = set()
    long = frozenset(Path(__file__).with_name("unmeasured.txt").read_text(encoding="utf-8").split())
    for item in items:
        name = _function(item)
        if name in long:
            item.add_marker("no_cover")
        if name in seen and not _MANIFOLD.isdisjoint(getattr(item, "fixturenames", ())):
            item.stash[_FURTHER_CASE] = True
            item.add_marker("no_cover")
        seen.add(name)
    # They are in random order by now, and stay in it.
    items[:] = _longest_first(items, long, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _longest_first(items: Sequence[pytest.Item], long: Collection[str], processes: int) -> list[pytest.Item]:
    """Each process begins with an equal part of all, in their order: let each begin with some of the long files.

    Files that have a long test come next, so that none goes on alone when the others have nothing left.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(_function(item).partition("::")[0], []).append(item)
    named = [name for name in _LONGEST if name in files]
    named += [name for name in files if name not in named and any(_function(item) in long for item in files[name])]
    by_length = [files.pop(name) for name in named]
    parts = [list(itertools.chain(*by_length[place::processes])) for place in range(processes)]
    rest = itertools.chain(*files.values())
    for part in parts[:-1]:
        part += itertools.islice(rest, max(0, len(items) // processes - len(part)))
    return [*itertools.chain(*parts), *rest]


def _function(item: pytest.Item) -> str:
    """The name of a test without its case, as `unmeasured.txt` has it."""
    return item.nodeid.partition("[")[0].removeprefix("tests/")


def _is_of_server(item: pytest.Item) -> bool:
    chosen = getattr(getattr(item, "callspec", None), "params", {})
    of_fixtures = not _SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    return of_fixtures or chosen.get("engine_settings") == "a server"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tried, whatever else is shown."""
    if not ON_CLUSTER and terminalreporter.stats.get("skipped"):
        told = [report for report in terminalreporter.stats["skipped"] if NO_CLUSTER in str(report.longrepr)]
        if told:
            terminalreporter.write_line(f"{len(told)} tests not run: {NO_CLUSTER}")


@pytest.fixture(autouse=True)
def unmeasured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure no coverage in the commands of further cases."""
    kept = {}
    if request.node.stash.get(_FURTHER_CASE, False) and any(name in os.environ for name in MEASURED):
        # Whose own environment is that of its start.
        warm_start().open()
        kept = {name: os.environ.pop(name) for name in MEASURED if name in os.environ}
    yield
    os.environ.update(kept)


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
def postgres() -> Iterator[PostgresServer | ClusterServer]:
    """A PostgreSQL server with pgvector, started for these tests alone; a cluster for `make test-cluster`."""
    if ON_CLUSTER:
        with running_cluster() as cluster:
            yield cluster
        return
    if CHOSEN == "0":
        pytest.skip("HARKEN_TEST_POSTGRES=0: NOTHING IS TESTED ON POSTGRESQL")
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> ClusterServer:
    """The cluster; tests of it alone are skipped where there is none."""
    if not ON_CLUSTER:
        pytest.skip(NO_CLUSTER)
    found: ClusterServer = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def server_url(postgres: PostgresServer) -> Iterator[URL]:
    """A fresh database with Harken's schema, for tests of the schema, of roles and of the server itself."""
    with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
def shared_database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database for all tests that need no more of a server than a tenant of their own.

    The login has the rights that `harken migrate --role` gives, so that the server itself holds tenants apart.
    """
    with postgres.database() as url, postgres.role("team", url) as team:
        yield team.render_as_string(hide_password=False)


@pytest.fixture
def tenant() -> str:
    """The name of a tenant that has no rows yet."""
    return f"tenant{next(_tenants)}"


@pytest.fixture(params=["a file", "a server"])
def engine_settings(request: pytest.FixtureRequest, tenant: str) -> dict[str, Any]:
    """Settings that choose an empty store, once on each engine."""
    if request.param == "a file":
        return {}
    return {"store": request.getfixturevalue("shared_database"), "tenant": tenant}


@pytest.fixture
def store_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The same for tests that use `engine_settings` as well; the embedded store for all others."""
    return request.getfixturevalue("engine_settings") if "engine_settings" in request.fixturenames else {}


@pytest.fixture
def ready_home(tmp_path: Path, empty_database: Path) -> Path:
    """A home whose database is made already and has no record."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(empty_database, home)
    return home


@pytest.fixture
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> CommandLine:
    """The real command line on an empty home, without an embedding model; on none yet where a test is marked so."""
    person = tmp_path / "person"
    person.mkdir()
    if not request.node.get_closest_marker("no_home"):
        request.getfixturevalue("ready_home")
    return CommandLine(tmp_path / "home", person, {"HARKEN_EMBEDDER": "none"})
