"""Four processes record into one store at once, one of them is killed: what was acknowledged is there, once."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path

from command_line import TIMEOUT_SECONDS, CommandLine, start_program
from harken.engine import Harken

PROGRAM = Path(__file__).with_name("recording_process.py")
FOR_EVER_SECONDS = 1e6


def start(cli: CommandLine, name: str, seconds: float, folder: Path) -> subprocess.Popen[str]:
    with (folder / f"{name}.out").open("w") as out, (folder / f"{name}.err").open("w") as err:
        return start_program(PROGRAM, cli.home, name, seconds, env=cli.environment(), stdout=out, stderr=err)


def test_every_message_that_was_acknowledged_is_there_once(cli: CommandLine, tmp_path: Path, seconds: float) -> None:
    # All of them make the store at the same moment.
    lives = {"ann": seconds, "bob": seconds, "cat": seconds, "dan": FOR_EVER_SECONDS}
    processes = {name: start(cli, name, life, tmp_path) for name, life in lives.items()}
    try:
        time.sleep(min(seconds / 2, 20))
        processes["dan"].kill()
        processes["eve"] = start(cli, "eve", seconds / 3, tmp_path)
        ends = {name: process.wait(seconds + TIMEOUT_SECONDS) for name, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    errors = {name: (tmp_path / f"{name}.err").read_text() for name in processes}
    assert ends == {"ann": 0, "bob": 0, "cat": 0, "eve": 0, "dan": -9}, errors
    acknowledged = dict(acknowledgements(tmp_path))
    print(len(acknowledged), "acknowledged;", "".join(errors.values()))
    assert {text.split()[0] for text in acknowledged.values()} >= {"ann", "bob", "cat", "eve"}
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        assert harken.maintenance.doctor() == []
        with harken.store.reading() as tx:
            rows = {row[0]: row[1] for row in tx.connection.exec_driver_sql("SELECT uid, text FROM messages")}
    journalled = Counter(event["id"] for event in journal(cli.home) if event["event"] == "message")
    assert rows.items() >= acknowledged.items()
    # Whoever is killed between keeping a message and saying so has kept it all the same: one at most.
    assert len(rows) - len(acknowledged) <= 1
    assert journalled == Counter(rows.keys())
    assert_exchanges_consistent(cli.home)
    cli("reindex", "--from-journal")
    assert cli("doctor").out.startswith("All agrees")
    assert cli.status()["messages"] == len(rows)


def acknowledgements(folder: Path) -> list[tuple[str, str]]:
    lines = [line for file in folder.glob("*.out") for line in file.read_text().splitlines(keepends=True)]
    return [tuple(line.rstrip("\n").split("\t")) for line in lines if line.endswith("\n")]


def journal(home: Path) -> list[dict[str, str]]:
    files = sorted((home / "conversations").glob("*/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def assert_exchanges_consistent(home: Path) -> None:
    with Harken(home, settings={"embedder": "none"}, env={}) as harken, harken.store.reading() as tx:
        query = tx.connection.exec_driver_sql
        numbers = defaultdict(list)
        for conversation, number, status in query("SELECT conversation_id, number, status FROM exchanges ORDER BY 2"):
            numbers[conversation].append((number, status))
        roles = defaultdict(list)
        spoken = query("SELECT exchange_id, role FROM messages ORDER BY id")
        for exchange, role in spoken:
            roles[exchange].append(role)
        astray = query(
            "SELECT count(*) FROM messages m JOIN exchanges e ON e.id = m.exchange_id"
            " WHERE e.conversation_id != m.conversation_id OR e.segment_id != m.segment_id"
        ).scalar()
        segments = query("SELECT count(*), count(DISTINCT conversation_id) FROM segments").one()
        status = {row[0]: row[1] for row in query("SELECT id, status FROM exchanges")}
    assert astray == 0
    assert segments[0] == segments[1]
    for found in numbers.values():
        assert [number for number, _ in found] == list(range(1, len(found) + 1))
        assert all(state != "in_progress" for _, state in found[:-1])
    for exchange, speakers in roles.items():
        # A question, or several before the first reply; then replies alone.
        replies = speakers.index("assistant") if "assistant" in speakers else len(speakers)
        assert set(speakers[replies:]) <= {"assistant"}
        if status[exchange] == "completed":
            assert "assistant" in speakers
