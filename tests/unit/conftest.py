from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recorded import RecordedHome


@pytest.fixture
def place(tmp_path: Path, empty_database: Path) -> Iterator[RecordedHome]:
    """An empty home with its store, journal and recorder."""
    place = RecordedHome(tmp_path / "home", empty_database)
    yield place
    place.close()
