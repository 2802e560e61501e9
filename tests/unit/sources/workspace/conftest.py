from __future__ import annotations

from pathlib import Path

import pytest

from repositories import Repository, new_repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "shop")
