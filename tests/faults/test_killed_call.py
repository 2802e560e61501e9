"""kill -9 during a model call: the books say what is known, and nothing twice."""

from __future__ import annotations

import subprocess
import time
from decimal import Decimal
from pathlib import Path

from command_line import TIMEOUT_SECONDS, start_program
from harken.engine import Harken
from harken.storage.enrichment.spend import spent_in_all, spent_on_item
from harken.testing import ChatServer, Says

ANSWER = Says("Yes.", input_tokens=1000, output_tokens=100)
PRICE = Decimal("0.003")


def test_a_call_during_which_the_process_is_killed_is_open_in_the_books_and_charged_once_when_repeated(
    tmp_path: Path,
) -> None:
    program, home = Path(__file__).with_name("asking_process.py"), tmp_path / "home"
    with ChatServer(ANSWER, ANSWER, Says("late", delay_seconds=60)) as server:
        process = start_program(program, home, server.url, 3, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == ["0\n", "1\n"]
        while len(server.requests) < 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.communicate()
        with Harken(tmp_path / "home", settings={"embedder": "none"}, env={}) as harken:
            with harken.store.reading() as tx:
                spent = spent_in_all(tx)
            assert (spent.calls, spent.usd, spent.unsettled) == (2, 2 * PRICE, 1)
            server.script(ANSWER, ANSWER, ANSWER)
            with start_program(program, home, server.url, 3, stdout=subprocess.DEVNULL) as again:
                assert again.wait(TIMEOUT_SECONDS) == 0
            with harken.store.reading() as tx:
                spent, third = spent_in_all(tx), spent_on_item(tx, "exchange", "e2")
            # Five answers were received and five are charged; the third question's first try stays in doubt.
            assert (spent.calls, spent.usd, spent.unsettled) == (5, 5 * PRICE, 1)
            assert (third.calls, third.usd, third.unsettled) == (1, PRICE, 1)
            assert harken.maintenance.status().spent == spent
