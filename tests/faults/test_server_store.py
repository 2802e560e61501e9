"""Many writers and workers on one server, a worker that is killed, a server that goes away and comes back."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from long_talk import write_long_talk
from sqlalchemy import URL, text

from command_line import TIMEOUT_SECONDS, CommandLine, start_program
from harken.engine import Harken
from harken.importers.workers import _WORTH_BYTES
from harken.testing import EmbeddingServer
from postgres_server import PostgresServer

HERE = Path(__file__).parent
DIMS = 32
WRITERS, WORKERS, MESSAGES = 16, 4, 24


@pytest.fixture
def endpoint() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=DIMS) as running:
        yield running


def start(program: str, log: Path, *arguments: object) -> subprocess.Popen[str]:
    with log.open("w", encoding="utf-8") as out, log.with_suffix(".err").open("w", encoding="utf-8") as err:
        return start_program(HERE / program, *arguments, stdout=out, stderr=err, stdin=subprocess.DEVNULL)


def test_sixteen_writers_and_four_workers_lose_and_double_nothing(
    server_url: URL, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    url = server_url.render_as_string(hide_password=False)
    writers, workers = [], []
    try:
        for number in range(WORKERS):
            log = tmp_path / f"worker-{number}.out"
            workers.append(start("embedding_process.py", log, tmp_path / "w", url, endpoint.url, DIMS))
        for number in range(WRITERS):
            log = tmp_path / f"writer-{number}.out"
            writers.append(start("writing_process.py", log, tmp_path / f"h{number}", url, f"ann{number}", MESSAGES))
        with Harken(tmp_path / "h", settings={"store": url, "embedder": "none"}, env={}) as harken:
            wait_until(lambda: harken.maintenance.status().counts.messages > WRITERS * MESSAGES // 2)
            workers[0].kill()
            ends = [writer.wait(TIMEOUT_SECONDS) for writer in writers]
            said = [line for n in range(WRITERS) for line in (tmp_path / f"writer-{n}.out").read_text().split()]
            assert ends == [0] * WRITERS, [(tmp_path / f"writer-{n}.err").read_text() for n in range(WRITERS)]
            wait_until(lambda: drained(harken, len(said)))
            assert len(said) == len(set(said)) == WRITERS * MESSAGES
            counts = harken.maintenance.status().counts
            assert (counts.messages, counts.embedded, counts.failed) == (len(said), len(said), 0)
            with harken.store.reading() as tx:
                kept = set(tx.connection.execute(text("SELECT uid FROM messages")).scalars())
                twice = "SELECT count(*) FROM (SELECT entry_id FROM vectors GROUP BY entry_id HAVING count(*) > 1) v"
                assert tx.connection.execute(text(twice)).scalar() == 0
            assert kept == set(said)
            assert harken.maintenance.doctor() == []
    finally:
        for process in (*workers, *writers):
            process.kill()
            process.wait()


def drained(harken: Harken, count: int) -> bool:
    status = harken.maintenance.status()
    return status.queue == 0 and status.counts.embedded == count


def wait_until(reached: object, poll_seconds: float = 0.1) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not reached():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(poll_seconds)


def test_a_worker_is_woken_by_what_another_process_records(
    server_url: URL, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    url = server_url.render_as_string(hide_password=False)
    settings = {
        "store": url,
        "embedder": "openai-compatible",
        "embedding.url": endpoint.url,
        "embedding.model": "words",
        "embedding.dims": DIMS,
        "embedding.min_message_tokens": 1,
        "worker.poll_seconds": 3000,
    }
    with (
        Harken(tmp_path / "a", settings=settings, env={}) as worker,
        Harken(tmp_path / "b", settings={**settings, "embedder": "none"}, env={}) as writer,
    ):
        worker.start_worker()
        for number in range(3):
            # Until it sleeps.
            time.sleep(0.5)
            writer.record_message("c", "user", f"thing number {number} of three")
            wait_until(lambda number=number: worker.maintenance.status().counts.embedded == number + 1)


def test_an_import_goes_on_where_a_server_that_was_restarted_left_it(
    postgres: PostgresServer, server_url: URL, cli: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "long.jsonl"
    # Long enough that another process reads it.
    said = write_long_talk(path, count=2_000, conversations=15, words=180)
    assert path.stat().st_size > _WORTH_BYTES
    store = server_url.render_as_string(hide_password=False)
    on_server = replace(cli, settings={**cli.settings, "HARKEN_STORE": store})
    on_server("status")
    with (tmp_path / "err").open("w") as err, on_server.running("import", "claude-code", path, stderr=err) as process:
        # Asked without a process in between, which might take as long as all the rest of the import.
        kept = "SELECT EXISTS (SELECT FROM messages)"
        wait_until(lambda: postgres.execute(kept, server_url.database)[0][0] or process.poll() is not None, 0.005)
        # Else it might be done before the server has stopped.
        process.send_signal(signal.SIGSTOP)
        postgres.stop()
        process.send_signal(signal.SIGCONT)
        try:
            code = process.wait(TIMEOUT_SECONDS)
        finally:
            postgres.start()
    last = (tmp_path / "err").read_text().strip().splitlines()[-1]
    assert (code, last.startswith("harken: "), "Traceback" in last) == (1, True, False)
    assert "cannot be reached" in last
    assert 0 < on_server.status()["messages"] < len(said)
    on_server("import", "claude-code", path)
    assert on_server.status()["messages"] == len(said)
    assert on_server("doctor").out.startswith("All agrees")
