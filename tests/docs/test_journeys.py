"""The counting of journeys goes on working as the house changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "journeys.py"


def test_every_journey_is_taken_and_counted() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    assert set(rows) == {"search", "hook", "chat turn", "import to vectors", "remember"}
    # Whatever a journey does, it goes through the store at least, and reaches it by several calls.
    assert all(row["files"] > 5 and row["depth"] > 5 for row in rows.values())
