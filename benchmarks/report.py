"""How benchmarks show and keep what they measure."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
DATE = datetime.now(UTC).date().isoformat()


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of the same keys as a table."""
    names = list(rows[0])
    widths = [max(len(name), *(len(str(row[name])) for row in rows)) for name in names]
    print(f"\n{title}")
    for row in ({name: name for name in names}, *rows):
        print("  ".join(str(row[name]).rjust(width) for name, width in zip(names, widths, strict=True)))


def keep(name: str, result: Mapping[str, Any], target: Path | None = None) -> None:
    """Write a result with its date and the commit it was measured at, to the target or among the results."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    target = target or RESULTS / f"{name}.json"
    dated = {"date": DATE, "commit": done.stdout.strip(), **result}
    target.write_text(json.dumps(dated, indent=1) + "\n", encoding="utf-8")
    print(f"\n{target}")
