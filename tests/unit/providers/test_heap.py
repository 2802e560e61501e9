from __future__ import annotations

import subprocess
import sys

import pytest

_FRAGMENTED = """
import os
from pathlib import Path
from harken.providers.embedder import HeapTrimmer

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

trimmer = HeapTrimmer()
trimmer.look()
before = held()
blocks = [bytes(3_000) for _ in range(20_000)]
kept = blocks[::200]
grown = held()
del blocks
trimmer.look()
print(before, grown, held())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is asked to give memory back")
def test_memory_that_is_free_between_what_is_kept_goes_back_to_the_system() -> None:
    said = subprocess.run([sys.executable, "-c", _FRAGMENTED], capture_output=True, text=True, check=True).stdout
    before, grown, after = map(float, said.split())
    assert grown - before > 40
    assert after - before < 10
