"""File systems of a test's own, to be filled or made read-only."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Disk:
    """A file system of its own, as small as it is said to be."""

    path: Path

    def remount(self, options: str) -> None:
        """Change its size, or make it read-only."""
        subprocess.run(["mount", "-o", f"remount,{options}", self.path], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Disk]]:
    """Mount a small file system in memory; skips where that is not allowed."""
    place = tmp_path / "disk"
    mounted = []

    def mounting(size: str) -> Disk:
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place]
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        except FileNotFoundError:
            pytest.skip("needs a file system of its own: there is no mount command")
        if done.returncode != 0:
            pytest.skip(f"needs a file system of its own, and may not mount one: {done.stderr.strip()}")
        mounted.append(place)
        return Disk(place)

    yield mounting
    for path in mounted:
        subprocess.run(["umount", "--lazy", path], check=True)
