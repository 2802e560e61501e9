"""Speed of what comes in: recording one message, importing many, embedding them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import embedding
import real
from harken.engine import Harken
from harken.providers.model_files import BGE_SMALL, find_model
from harken.providers.onnx_session import OnnxModel
from measuring import Figure, Times, harken_command, run_process, times_of
from synthetic import Talk, Talks, write_jsonl

RECORD_P95_MS, SEARCHABLE_SECONDS, EMBED_RATIO = 1.0, 12.0, 1.0
# 1.3 times what the fastest peer only stores, and half of what rows and words alone would be.
IMPORT_PER_SECOND, IMPORT_RATIO, IMPORT_PEAK_MB = 9_600, 0.5, 250.0
BESIDE_P95_MS, HELD_MS, BETWEEN_SECONDS = 60.0, 30.0, 0.02
SEED = 1
_BULK = 2_000
_BARE_TEXTS = 20_000
# A chat holds the write lock as well, but not for as long as this.
_AN_IMPORT_HOLDS_MS = 5.0
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "cache_size=-32768", "temp_store=MEMORY")
_BARE_SCHEMA = (
    "CREATE TABLE messages (id INTEGER PRIMARY KEY, uid TEXT UNIQUE, conversation_id INT, created_at INT, text TEXT)",
    "CREATE INDEX by_conversation ON messages (conversation_id, created_at, id)",
    "CREATE VIRTUAL TABLE words USING fts5(own, context, content='', tokenize='porter unicode61 remove_diacritics 2')",
)


def record_one(home: Path, size: int, count: int) -> Iterator[Figure]:
    """Recording into a conversation that goes on, message by message, beside the bare row, words and journal line."""
    texts = Talks(99).texts(count + 20)
    with Harken(home, settings={"embedder": "none"}) as harken:

        def say(place: int) -> None:
            harken.record_message("live", "assistant" if place % 2 else "user", texts[place])

        for place in range(20):
            say(place)
        times = times_of((lambda place=place: say(place)) for place in range(20, len(texts)))
    bare = bare_inserts(home.parent / "bare-single", texts, 1)
    ratio = float(np.median(times.wall)) / (1000 * bare)
    note = f"{ratio:.1f} x a bare row, its words and line ({1000 * bare:.2f} ms)"
    yield times.figure("record one message", size, RECORD_P95_MS, note)


def record_together(folder: Path, count: int) -> Iterator[Figure]:
    """As many messages by one thread as by several at once, each into its own conversation, each time in a new home."""
    texts = Talks(98).texts(count)
    for writers in (1, 4, 16):
        with Harken(folder / f"together-{writers}", settings={"embedder": "none"}) as harken:

            def say(number: int, writers: int = writers, harken: Harken = harken) -> None:
                for place, text in enumerate(texts[number::writers]):
                    harken.record_message(f"writer-{number}", "assistant" if place % 2 else "user", text)

            begin = time.perf_counter()
            with ThreadPoolExecutor(writers) as pool:
                list(pool.map(say, range(writers)))
            rate = count / (time.perf_counter() - begin)
            yield Figure(f"recorded by {writers} threads at once", 0, "/s", rate)


def import_file(home: Path, messages: int, is_real: bool = False) -> Iterator[Figure]:
    """`harken import` of one file in a process of its own, and the first search that finds its last message.

    Made-up talk, or messages as long and as mixed as real ones; the bare rows and words are of the same.
    """
    file = home.parent / f"{messages}.jsonl"
    last = "zanzibarquokka"
    write_jsonl(file, _said(is_real, messages - 1))
    with file.open("a", encoding="utf-8") as stream:
        said = f"the very last {last}"
        line = {"conversation": "last", "role": "user", "content": said, "ts": "2026-01-01T00:00:00Z"}
        stream.write(json.dumps(line) + "\n")
    ran = run_process(harken_command(home, "import", "jsonl", str(file), "--no-embed", "--json"))
    added = json.loads(ran.out)["added"]
    assert added == messages, f"{added} of {messages} messages came in"
    asked = run_process(harken_command(home, "search", last, "--json"))
    assert json.loads(asked.out)["hits"], "the last message is not found"
    texts = [text for talk in _said(is_real, min(messages, _BARE_TEXTS)) for text in talk.texts]
    bare = bare_inserts(home.parent / "bare-bulk", texts, _BULK)
    rate, own = messages / ran.wall, messages / ran.cpu
    note = real.name() if is_real else "made-up talk"
    yield Figure("import, process start included", messages, "/s", rate, None, own, IMPORT_PER_SECOND, note)
    note = f"of {1 / bare:,.0f}/s; {note}"
    yield Figure("import beside bare rows and words", messages, "ratio", rate * bare, None, None, IMPORT_RATIO, note)
    wall, cpu = ran.wall + asked.wall, ran.cpu + asked.cpu
    of_all = (SEARCHABLE_SECONDS, IMPORT_PEAK_MB) if messages == 100_000 and not is_real else (None, None)
    yield Figure("import until its last word is found", messages, "s", wall, None, cpu, of_all[0])
    yield Figure("import, peak memory", messages, "MB", ran.peak_mb, target=of_all[1])
    sizes = [sum(path.stat().st_size for path in home.rglob(name)) / 2**20 for name in ("harken.db*", "*.jsonl")]
    note = f"and the journal {sizes[1]:,.0f} MB, for a file of {file.stat().st_size / 2**20:,.0f} MB"
    if "HARKEN_STORE" not in os.environ:
        yield Figure("database on disk, no vectors", messages, "MB", sizes[0], note=note)
    file.unlink()


def _said(is_real: bool, messages: int) -> Iterator[Talk]:
    return real.talks(messages) if is_real else Talks(SEED).talks(messages)


def beside_import(home: Path, messages: int) -> Iterator[Figure]:
    """A chat's recording while `harken import` writes to the same home; how long that holds the write lock at once."""
    file = home.parent / f"beside-{messages}.jsonl"
    write_jsonl(file, Talks(SEED + 1).talks(messages))
    texts = Talks(97).texts(100)
    times = Times()
    with Harken(home, settings={"embedder": "none"}) as harken:
        harken.record_message("beside", "user", texts[0])
        before = harken.maintenance.status().counts.messages
        with (
            _lock_watched(home / "harken.db") as held,
            subprocess.Popen(
                harken_command(home, "import", "jsonl", str(file), "--no-embed"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as importing,
        ):
            while importing.poll() is None:
                if times.wall or harken.maintenance.status().counts.messages > before:
                    text = texts[len(times.wall) % len(texts)]
                    times.take(lambda text=text: harken.record_message("beside", "user", text))
                time.sleep(BETWEEN_SECONDS)
        assert importing.returncode == 0, "the import failed"
    file.unlink()
    if times.wall:
        note = f"{len(times.wall)} messages, the longest wait {max(times.wall):,.0f} ms"
        yield times.figure("record one message beside an import", messages, BESIDE_P95_MS, note)
    if held:
        p50, p95 = np.percentile(held, (50, 95))
        note = f"{len(held)} times, the longest {max(held):,.0f} ms"
        yield Figure("write lock held at once by an import", messages, "ms", p50, p95, None, HELD_MS, note)


@contextmanager
def _lock_watched(database: Path) -> Iterator[list[float]]:
    """While inside, for how many milliseconds at once the write lock was held, as somebody sees it who wants it."""
    held: list[float] = []
    is_over = threading.Event()

    def watch() -> None:
        since: float | None = None
        connection = sqlite3.connect(database, timeout=0, isolation_level=None)
        while not is_over.wait(0.0005):
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError:
                since = since or time.perf_counter()
                continue
            took = 0.0 if since is None else 1000 * (time.perf_counter() - since)
            held.extend([took] if took >= _AN_IMPORT_HOLDS_MS else ())
            since = None
        connection.close()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield held
    finally:
        is_over.set()
        watching.join()


def bare_inserts(folder: Path, texts: Sequence[str], batch: int) -> float:
    """Median seconds a message of the least that any store must do: a row, its words with context, a journal line."""
    folder.mkdir(exist_ok=True)
    database = folder / "bare.db"
    connection = sqlite3.connect(database, isolation_level=None)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    for statement in _BARE_SCHEMA:
        connection.execute(statement)
    now = int(datetime.now(UTC).timestamp())
    times = Times()
    with (folder / "bare.jsonl").open("ab", buffering=0) as journal:
        for start in range(0, len(texts), batch):
            part = range(start, min(len(texts), start + batch))
            rows = [(i + 1, f"{os.urandom(16).hex()}", 1, now + i, texts[i]) for i in part]
            words = [(i + 1, texts[i], " ".join(texts[max(0, i - 2) : i] + texts[i + 1 : i + 3])) for i in part]
            lines = "".join(f'{{"id": "{row[1]}", "text": "{row[4]}"}}\n' for row in rows).encode()
            times.take(lambda rows=rows, words=words, lines=lines: _bare_batch(connection, journal, rows, words, lines))
    connection.close()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return float(np.median(times.wall)) / 1000 / min(batch, len(texts))


def _bare_batch(connection: sqlite3.Connection, journal, rows, words, lines: bytes) -> None:  # noqa: ANN001
    journal.write(lines)
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?)", rows)
    connection.executemany("INSERT INTO words (rowid, own, context) VALUES (?, ?, ?)", words)
    connection.execute("COMMIT")


def embed_all(folder: Path, rounds: int, texts_a_round: int) -> Iterator[Figure]:
    """The whole pipeline (find, claim, embed, store) beside the bare model on the same texts, rounds in turn."""
    texts = real.texts(texts_a_round)
    files = find_model(BGE_SMALL, folder)
    session = embedding.bare_session(files, 2, spinning=False)
    ready = embedding.feeds(OnnxModel(files, 512), texts, embedding.BARE_AREA)
    embedding.run_all(session, ready[:4])
    bare, ours = Times(), Times()
    for number in range(rounds):
        home = folder / f"embed-{number}"
        with Harken(home, settings={"embedding.min_message_tokens": 0, "embedding.threads": 2}) as harken:
            for place, text in enumerate(texts):
                harken.record_message("talk", "assistant" if place % 2 else "user", text)
            harken.spaces.embedder().embed_query("warm")
            bare.take(lambda: embedding.run_all(session, ready))
            done = ours.take(harken.embed)
            assert done == len(texts), f"{done} of {len(texts)} embedded"
    ratios = np.array(bare.wall) / np.array(ours.wall)
    rates = [1000 * len(texts) / float(np.median(times.wall)) for times in (ours, bare)]
    cpu = float(np.median(np.array(bare.cpu) / np.array(ours.cpu)))
    note = f"{rates[0]:,.0f} against {rates[1]:,.0f} texts/s of {real.name()}"
    ratio = float(np.median(ratios))
    yield Figure("embedding beside the bare model", None, "ratio", ratio, None, cpu, EMBED_RATIO, note)


def main() -> None:
    """Print what importing and recording take: `speed_record.py [MESSAGES]`."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("empty", "large", "real", "beside")]
        for place in places:
            place.mkdir()
        empty, large, mixed, beside = (place / "home" for place in places)
        for figures in (
            record_one(empty, 0, 300),
            record_together(empty.parent, 1_600),
            import_file(large, messages),
            record_one(large, messages, 300),
            import_file(mixed, messages // 4, is_real=True),
            beside_import(beside, min(messages, 20_000)),
        ):
            for figure in figures:
                print(*figure.row().values(), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
