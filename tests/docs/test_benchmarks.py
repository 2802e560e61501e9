"""Every benchmark finds what it measures, and the one of contexts goes its whole way at its smallest size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_each_can_be_imported() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert "retrieval" in names
    _run("-c", f"import importlib; [importlib.import_module(name) for name in {names!r}]")


def test_that_of_contexts_goes_its_whole_way() -> None:
    _run("speed_context.py", "--queries", "3", "--rounds", "1")


def _run(*words: str) -> None:
    done = subprocess.run([sys.executable, *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
