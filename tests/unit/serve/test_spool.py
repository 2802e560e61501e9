"""Reports of transcripts survive whoever writes them."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harken.serve.daemon import spool
from harken.serve.daemon.spool import Transcript

TALK = Transcript("claude-code", "/somewhere/talk.jsonl")


def test_what_many_report_at_once_waits_once_and_whole(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for reported in [pool.submit(spool.put, str(tmp_path), TALK) for _ in range(400)]:
            reported.result()
            for report in spool.waiting(tmp_path):
                taken, transcript = spool.take(report)
                assert transcript == TALK
                taken.unlink()
    left = spool.waiting(tmp_path)
    assert len(left) <= 1
    assert spool.is_waiting(tmp_path) is bool(left)


def test_what_a_dead_daemon_took_waits_again_and_what_a_dead_hook_began_goes(tmp_path: Path) -> None:
    spool.put(str(tmp_path), TALK)
    spool.take(*spool.waiting(tmp_path))
    dead, alive = tmp_path / "one.7.7.draft", tmp_path / "two.8.8.draft"
    dead.touch()
    alive.touch()
    os.utime(dead, (time.time() - 3600,) * 2)
    spool.restore(tmp_path)
    assert [spool.take(report)[1] for report in spool.waiting(tmp_path)] == [TALK]
    assert (dead.exists(), alive.exists()) == (False, True)
