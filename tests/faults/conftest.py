"""How long the fault tests go on, and disks of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from command_line import warm_start
from disks import disk
from warm_start import MEASURED

__all__ = ["disk"]


@pytest.fixture(scope="session")
def rounds() -> int:
    """How often a process is killed; HARKEN_TEST_ROUNDS=20 for the long run."""
    return int(os.environ.get("HARKEN_TEST_ROUNDS", "6"))


@pytest.fixture(scope="session")
def seconds() -> float:
    """How long processes record together; HARKEN_TEST_SECONDS=60 for the long run."""
    return float(os.environ.get("HARKEN_TEST_SECONDS", "4"))


@pytest.fixture
def ready_home(tmp_path: Path) -> Path:
    """None is made: a fault may strike on the first day."""
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure no coverage in processes that may be killed: what they have run would be lost."""
    # Whose own environment is that of its start.
    warm_start().open()
    for name in MEASURED:
        monkeypatch.delenv(name, raising=False)
