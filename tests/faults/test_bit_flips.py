"""Single bits of journal and database turned over: found where words or order changed, repaired, nothing doubled."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from bit_flips import Sides, flip, read_sides
from long_talk import write_long_talk

from command_line import CommandLine

MESSAGES = 400


@pytest.fixture(scope="session")
def flips() -> int:
    """How many bits are turned over; HARKEN_TEST_FLIPS=400 for the long run."""
    return int(os.environ.get("HARKEN_TEST_FLIPS", "6"))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("of_journal", [True, False], ids=["journal", "database"])
def test_each_bit_that_changes_words_or_order_is_found_and_set_right(
    cli: CommandLine, tmp_path: Path, flips: int, of_journal: bool
) -> None:
    rng = random.Random(int(os.environ.get("HARKEN_TEST_SEED", "20261123")) + of_journal)
    write_long_talk(tmp_path / "long.jsonl", MESSAGES, conversations=12)
    cli("import", "claude-code", tmp_path / "long.jsonl", "--no-embed")
    right = read_sides(cli.home)
    assert right.journal is not None
    assert right == Sides(right.journal, right.journal, right.journal)
    assert len(right.journal) == MESSAGES
    for _ in range((flips + of_journal) // 2):
        where = flip(rng, cli.home, of_journal)
        is_changed = read_sides(cli.home) != right
        first = cli.run("doctor")
        assert first.returncode in (0, 1), (where, first.stderr)
        assert first.returncode == 1 or not is_changed, f"unnoticed: {where}"
        fixed = cli.run("doctor", "--fix")
        assert fixed.returncode == 0, (where, first.stdout, fixed.stdout, fixed.stderr)
        assert cli.run("doctor").returncode == 0, (where, fixed.stdout)
        assert read_sides(cli.home) == right, (where, fixed.stdout)
    assert cli.status()["messages"] == MESSAGES
