"""The counting of journeys goes on working as the house changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "journeys.py"


def test_every_journey_is_taken_and_counted_and_none_is_longer_than_it_may_be() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--json", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert set(rows) == {"search", "hook", "chat turn", "import to vectors", "remember"}
    # Whatever a journey does, it goes through the store at least, and reaches it by several calls.
    assert all(row["files"] > 5 and row["depth"] > 5 for row in rows.values())
