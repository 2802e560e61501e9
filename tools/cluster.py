"""A Citus cluster of this machine's own, to try the store on: coordinator, two workers, a plain server beside them.

It needs a PostgreSQL server with its headers (Debian: postgresql-15 postgresql-server-dev-15), a C compiler, and the
sources of Citus and pgvector in one folder (`citus-*.tar.*`, `pgvector-*.tar.*`). Both are built once, against a copy
of the server, so that nothing of the system changes:

    python tools/cluster.py build FOLDER_WITH_ARCHIVES
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

BUILT = Path(__file__).resolve().parents[1] / ".cluster"
COORDINATOR, WORKERS, PLAIN = "coordinator", ("worker1", "worker2"), "plain"
NODES = (COORDINATOR, *WORKERS, PLAIN)
SOURCES = (
    "There are no sources of {0} in {1}. Put citus-VERSION.tar.gz (github.com/citusdata/citus) and"
    " pgvector-VERSION.tar.gz (github.com/pgvector/pgvector) into a folder, archives of a release each:"
    " make test-cluster CLUSTER_ARCHIVES=FOLDER"
)
HEADERS = (
    "There is no PostgreSQL server with its headers here (pg_config --includedir-server tells of none)."
    " Debian: apt install postgresql-15 postgresql-server-dev-15 gcc make flex xz-utils libcurl4-openssl-dev liblz4-dev"
    " libzstd-dev libssl-dev libkrb5-dev. Another one: PG_CONFIG=/path/to/pg_config"
)
# What a trial loses when the machine dies does not matter; waiting for the disk does.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": 300,
    "max_prepared_transactions": 300,
    "max_worker_processes": 32,
    "wal_level": "logical",
    "shared_buffers": "256MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}
# As nobody is who may start a server as root.
_ACCOUNT = "nobody"


class ClusterError(Exception):
    """It cannot be built or started here; the message says what is missing."""


def build(archives: Path, built: Path = BUILT) -> Path:
    """The folder of PostgreSQL's programs with both extensions, made if it is not there yet: two minutes on a core.

    Raises:
        ClusterError: there are no sources, no server, or no compiler.
    """
    programs = built / _told(_pg_config(), "--bindir").relative_to("/")
    if (built / "ready").exists():
        return programs
    shutil.rmtree(built, ignore_errors=True)
    for name in ("--bindir", "--pkglibdir", "--sharedir"):
        # Its programs look for their libraries and data from where they lie themselves.
        at = _told(_pg_config(), name)
        shutil.copytree(at, built / at.relative_to("/"), symlinks=True, dirs_exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="harken-cluster-") as folder:
        for name, configure, target in (("pgvector", False, ()), ("citus", True, ("extension",))):
            source = _unpack(archives, name, Path(folder) / name)
            make = ["make", "-s", f"-j{os.cpu_count()}", f"PG_CONFIG={_pg_config()}", "with_llvm=no", "OPTFLAGS="]
            if configure:
                _run(source, "./configure", "-q", f"PG_CONFIG={_pg_config()}")
            _run(source, *make, *target)
            _run(source, *make, f"DESTDIR={built}", "install-extension" if configure else "install")
    (built / "ready").touch()
    return programs


def _pg_config() -> str:
    named = os.environ.get("PG_CONFIG")
    # Debian's own pg_config is of the client's library; that of each server lies with it.
    found = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_config")), reverse=True)
    for each in [named] if named else [*found, shutil.which("pg_config")]:
        # Debian has what builds extensions beside the client, without the server's headers.
        if each and (_told(each, "--includedir-server") / "postgres.h").is_file():
            return each
    raise ClusterError(HEADERS)


def _told(pg_config: str, what: str) -> Path:
    return Path(subprocess.run([pg_config, what], capture_output=True, text=True).stdout.strip())


def _unpack(archives: Path, name: str, target: Path) -> Path:
    found = sorted(archives.glob(f"{name}-*.tar.*"))
    if not found:
        raise ClusterError(SOURCES.format(name, archives))
    with tarfile.open(found[-1]) as archive:
        archive.extractall(target, filter="data")
    [source] = target.iterdir()
    header = source / "src" / "include" / "pg_version_compat.h"
    if header.exists():
        # Debian's servers export a function since 15.19 or so that Citus 13.2 defines itself: it would not compile.
        text, own = header.read_text(encoding="utf-8"), "\nown_createdb_privilege(void)\n"
        header.write_text(text.replace("\nhave_createdb_privilege(void)\n", own), encoding="utf-8")
    return source


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)}: {done.stderr[-2000:]}")


class Cluster:
    """Running servers, each with its rows in a folder that goes with them; the logins are `postgres` and those made.

    Attributes:
        folder: has a folder for the rows of each node.
        ports: of each node.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self.folder = programs, folder
        if os.getuid() == 0:
            shutil.chown(folder, _ACCOUNT)
        self.ports = dict(zip(NODES, _free_ports(len(NODES)), strict=True))
        for node in NODES:
            self._make(node)

    def start(self, node: str) -> None:
        """Start a node."""
        self._program("pg_ctl", "-w", "-D", str(self.folder / node), "-l", str(self.folder / f"{node}.log"), "start")

    def stop(self, node: str) -> None:
        """Stop a node, as an operator would, without waiting for its clients."""
        self._program("pg_ctl", "-w", "-D", str(self.folder / node), "-m", "fast", "stop")

    def execute(self, statement: str, database: str = "postgres", node: str = COORDINATOR) -> list[Any]:
        """Run one statement on a node as its superuser, outside of a transaction."""
        with psycopg.connect(self.url(database, node=node), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def url(self, database: str, user: str = "postgres", node: str = COORDINATOR) -> str:
        """The URL of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.ports[node]}/{database}"

    def create_database(self, name: str) -> None:
        """Make a database of the whole cluster."""
        for node in (*WORKERS, COORDINATOR):
            # Each is asked for its own, since only what is in a database of the cluster already is made everywhere.
            self.execute(f"CREATE DATABASE {name}", node=node)
            self.execute("CREATE EXTENSION citus", name, node)
            self.execute("CREATE EXTENSION vector", name, node)
        self.execute(f"SELECT citus_set_coordinator_host('127.0.0.1', {self.ports[COORDINATOR]})", name)
        for node in WORKERS:
            self.execute(f"SELECT citus_add_node('127.0.0.1', {self.ports[node]})", name)

    def drop_database(self, name: str) -> None:
        """Drop it everywhere."""
        for node in (COORDINATOR, *WORKERS):
            self.execute(f"DROP DATABASE {name} WITH (FORCE)", node=node)

    def close(self) -> None:
        """Stop all of them that run."""
        for node in NODES:
            if (self.folder / node / "postmaster.pid").exists():
                self.stop(node)

    def _make(self, node: str) -> None:
        data = self.folder / node
        plainly = ("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")
        self._program("initdb", "-D", str(data), "-U", "postgres", *plainly)
        settings = {**_SETTINGS, "port": self.ports[node]}
        if node != PLAIN:
            settings |= {"shared_preload_libraries": "citus", "citus.node_conninfo": "sslmode=disable"}
        with (data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            configuration.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.start(node)

    def _program(self, name: str, *arguments: str) -> None:
        command = [str(self._programs / name), *arguments]
        if os.getuid() == 0:
            command = ["setpriv", f"--reuid={_ACCOUNT}", "--regid=nogroup", "--clear-groups", *command]
        # A server that finds a person's certificates would offer them to the others.
        environment = {**os.environ, "HOME": str(self.folder)}
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise ClusterError(f"{name} {arguments}: {done.stderr}")


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


@contextmanager
def running_cluster(programs: Path) -> Iterator[Cluster]:
    """A cluster in a folder of its own, both gone afterwards."""
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="harken-cluster-", dir=room))
    folder.chmod(0o755)
    cluster = Cluster(programs, folder)
    try:
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(build(Path(sys.argv[2] if len(sys.argv) > 2 else ".")))
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
