"""A Citus cluster and one plain server for a benchmark, both gone afterwards; `tools/cluster.py` has built them."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from harken.storage.postgres.store import migrate

TOOL = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "cluster.py"))
ROLE, _DATABASE = "harken_app", "team"


@dataclass(frozen=True, slots=True)
class Servers:
    """Both, filled with nothing but Harken's schema.

    Attributes:
        nodes: what starts and stops them, and asks them as their superuser.
        cluster: the URL of the cluster's database as the application's role; `plain` that of the other.
    """

    nodes: Any
    cluster: str
    plain: str

    @property
    def owner(self) -> str:
        """The URL of the cluster's database as the owner of its tables."""
        return str(self.nodes.url(_DATABASE))

    def ask(self, statement: str) -> list[Any]:
        """Run one statement in the cluster's database as the owner."""
        rows: list[Any] = self.nodes.execute(statement, _DATABASE)
        return rows

    def processor_seconds(self) -> tuple[float, float]:
        """What coordinator and workers have taken of the processor, by processes that have ended as well."""
        taken = [_processor_seconds(self.nodes.folder / node) for node in (TOOL["COORDINATOR"], *TOOL["WORKERS"])]
        return taken[0], sum(taken[1:])


@contextmanager
def running_servers() -> Iterator[Servers]:
    """Start them."""
    with TOOL["running_cluster"](TOOL["build"](Path())) as nodes:
        nodes.create_database(_DATABASE)
        nodes.execute(f"CREATE ROLE {ROLE} LOGIN", _DATABASE)
        plain = TOOL["PLAIN"]
        for statement in (f"CREATE DATABASE {_DATABASE}", f"CREATE ROLE {ROLE} LOGIN"):
            nodes.execute(statement, node=plain)
        nodes.execute("CREATE EXTENSION vector", _DATABASE, plain)
        migrate(make_url(nodes.url(_DATABASE)), role=ROLE, distribute=True)
        migrate(make_url(nodes.url(_DATABASE, node=plain)), role=ROLE)
        yield Servers(nodes, nodes.url(_DATABASE, ROLE), nodes.url(_DATABASE, ROLE, plain))


def _processor_seconds(data: Path) -> float:
    main = int((data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
    # Its own, and that of its children that it has waited for; those that run are found by their parent.
    used = sum(_ticks(main)[1:])
    for other in Path("/proc").glob("[0-9]*"):
        try:
            parent, own, system, *_ = _ticks(int(other.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
        used += own + system if parent == main else 0
    return used / 100


def _ticks(process: int) -> tuple[int, int, int, int, int]:
    """The parent of a process, and hundredths of seconds: own, the system's for it, and both of its children."""
    told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(told[1]), int(told[11]), int(told[12]), int(told[13]), int(told[14])
