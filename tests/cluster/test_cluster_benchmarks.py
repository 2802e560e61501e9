"""The benchmarks of a cluster go their whole way at their smallest size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cluster_server import ClusterServer

FOLDER = Path(__file__).parents[2] / "benchmarks"


def run(kept: Path, program: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark keeps."""
    command = [sys.executable, program, *arguments, "--out", str(kept)]
    environment = {**os.environ, "HARKEN_HOME": str(kept.parent / "home")}
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def test_that_beside_one_server_finds_the_same(cluster: ClusterServer, tmp_path: Path) -> None:
    sizes = ("--sizes", "60", "--questions", "4", "--rounds", "1")
    rows = run(tmp_path / "kept.json", "cluster.py", *sizes)["figures"]
    assert [(row["search"], row["same hits"]) for row in rows] == [
        (mode, "4 of 4") for mode in ("hybrid", "keyword", "semantic")
    ]


def test_that_of_scale_tells_what_a_user_costs(cluster: ClusterServer, tmp_path: Path) -> None:
    sizes = ("--tenants", "8", "--days", "1", "--sizes", "10", "30")
    told = run(tmp_path / "kept.json", "scale.py", *sizes)
    assert told["tenants"] == 8
    assert {row["what"] for row in told["days"]} == {"open a tenant", "record", "search"}
    # Both templates, what was recorded into the larger one, the copies, and the day's.
    assert told["bytes"]["messages"] == f"{40 + 210 + 6 * 10 + 2 * 240:,}"
