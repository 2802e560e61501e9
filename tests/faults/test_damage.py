"""Damaged files: one clear message, and nothing lost."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from command_line import CommandLine
from harken.testing import EmbeddingServer

TALK = [
    {"conversation": f"c{number % 2}", "role": role, "content": text, "ts": f"2026-05-08T09:0{number}:00Z"}
    for number, (role, text) in enumerate(
        [
            ("user", "Where is the key of the boathouse kept?"),
            ("user", "Which rope holds the red dinghy at the pier?"),
            ("assistant", "The boathouse key hangs behind the clock."),
            ("assistant", "The dinghy is held by the braided nylon rope."),
        ]
    )
]


@pytest.fixture(scope="module")
def told_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the talk, to copy."""
    place = tmp_path_factory.mktemp("told")
    path = place / "talk.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in TALK), encoding="utf-8")
    cli = CommandLine(place / "home", place, {"HARKEN_EMBEDDER": "none"})
    cli("import", path)
    return cli.home


@pytest.fixture
def told(cli: CommandLine, told_home: Path) -> CommandLine:
    shutil.copytree(told_home, cli.home)
    return cli


def journal_file(home: Path, words: bytes) -> Path:
    [file] = [file for file in (home / "conversations").glob("*/*.jsonl") if words in file.read_bytes()]
    return file


def assert_whole(cli: CommandLine) -> None:
    assert cli("doctor").out.startswith("All agrees")
    assert {hit["text"] for hit in cli.search("boathouse dinghy")} == {line["content"] for line in TALK}


def test_a_line_that_a_dead_writer_left_half_is_set_aside_and_reported(told: CommandLine) -> None:
    file = journal_file(told.home, b"dinghy")
    half = b'{"event":"message","id":"01970000-0000-7000-8000-000000000000","text":"half a li'
    file.write_bytes(file.read_bytes() + half)
    outcome = told("search", "dinghy")
    [torn] = (told.home / "torn").iterdir()
    place = f"{file.parent.name}/{file.name}"
    assert outcome.err == f"Set aside a broken journal line ({len(half)} bytes of {place}) in {torn}\n"
    assert "The dinghy is held" in outcome.out
    assert torn.read_bytes() == half
    assert f"torn lines     1 set aside in {told.home / 'torn'}\n" in told("status").out
    assert_whole(told)


@pytest.mark.parametrize("damage", ["cut short", "overwritten", "deleted"])
def test_a_journal_that_lost_what_the_rows_hold_gets_it_back(told: CommandLine, damage: str) -> None:
    file = journal_file(told.home, b"boathouse")
    content = file.read_bytes()
    if damage == "cut short":
        file.write_bytes(content[:-25])
    elif damage == "overwritten":
        middle = content.index(b"hangs behind")
        file.write_bytes(content[:middle] + b"\xff\x00\xfe" + content[middle + 3 :])
    else:
        file.unlink()
    found = told("doctor", "--json", code=1).json()
    assert {finding["check"] for finding in found["findings"]} == {"journal"}
    told("doctor", "--fix")
    assert_whole(told)
    told("reindex", "--from-journal")
    assert_whole(told)


def test_a_later_state_that_the_journal_alone_lost_holds(told: CommandLine) -> None:
    saved = told("memory", "add", "The slipway is closed on Mondays").out.split()[-1]
    told("memory", "edit", saved, "--importance", "0.9")
    talk = told.search("boathouse")[0]["conversation_id"]
    for tag in ("boats", "harbour"):
        told("tag", "add", "--on", talk, tag)
    for later in (b'"importance":0.9', b'"boats","harbour"'):
        file = journal_file(told.home, later)
        file.write_bytes(file.read_bytes()[:-25])
    told("doctor", code=1)
    told("doctor", "--fix")
    for repaired in ("doctor", "reindex --from-journal"):
        told(*repaired.split())
        [memory] = told("memory", "list", "--json").json()
        assert memory["importance"] == 0.9
        assert {each["tag"] for each in told("tag", "list", "--json").json()["tags"]} == {"boats", "harbour"}


def in_journal(cli: CommandLine, old: bytes, new: bytes) -> None:
    file = journal_file(cli.home, old)
    file.write_bytes(file.read_bytes().replace(old, new))


def test_a_memory_that_search_sees_otherwise_than_it_is_is_found_and_set_right(told: CommandLine) -> None:
    told("memory", "add", "The slipway is closed on Mondays")
    in_rows(told, "UPDATE entries SET text = 'The slipway is open' WHERE source = 'memory'")
    assert "Search sees 1 records of memories otherwise than they are." in told("doctor", code=1).out
    told("doctor", "--fix")
    assert told("doctor").out.startswith("All agrees")
    assert [hit["text"] for hit in told.search("slipway")] == ["The slipway is closed on Mondays"]


def in_rows(cli: CommandLine, statement: str) -> None:
    with closing(sqlite3.connect(cli.home / "harken.db")) as database, database:
        assert database.execute(statement).rowcount == 1


def without_checksums(cli: CommandLine) -> None:
    """As an older Harken wrote it."""
    for file in (cli.home / "conversations").glob("*/*.jsonl"):
        file.write_bytes(re.sub(rb',"crc":"[0-9a-f]{8}"}\n', b"}\n", file.read_bytes()))
    cli("reindex", "--from-journal")


def said_in_journal(cli: CommandLine) -> list[str]:
    lines = [line for file in (cli.home / "conversations").glob("*/*.jsonl") for line in file.read_bytes().splitlines()]
    return sorted(event["text"] for line in lines if (event := json.loads(line))["event"] == "message")


def assert_found_and_repaired(cli: CommandLine, *words: str) -> None:
    """The doctor finds it, says who is right, and repairs it in both places; nothing is doubled."""
    found = cli("doctor", code=1)
    assert all(part in found.out for part in words), found.out
    cli("doctor", "--fix")
    assert_whole(cli)
    assert said_in_journal(cli) == sorted(line["content"] for line in TALK)
    assert cli.status()["messages"] == len(TALK)


def test_a_word_changed_in_a_whole_line_of_the_journal_is_found_and_no_reindex_believes_it(told: CommandLine) -> None:
    in_journal(told, b"hangs behind", b"stood behind")
    assert_found_and_repaired(told, "1 lines of the journal", "are damaged.", "lacks 1 messages")
    in_journal(told, b"hangs behind", b"stood behind")
    told("reindex", "--from-journal")
    assert_whole(told)
    assert said_in_journal(told) == sorted(line["content"] for line in TALK)


@pytest.mark.parametrize("sealed", [True, False], ids=["with checksums", "of an older Harken"])
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE messages SET text = 'The key is lost.' WHERE text LIKE '%clock%'", "differ from the journal, which"),
        ("UPDATE entries SET text = 'The key is lost.' WHERE text LIKE '%clock%'", "otherwise than they are"),
        ("UPDATE messages SET position = 7 WHERE text LIKE '%clock%'", "differ from the journal, which is right"),
        ("UPDATE messages SET role = 'usfr' WHERE text LIKE '%clock%'", "cannot be read; the journal is right"),
        ("UPDATE messages SET metadata = '{' WHERE text LIKE '%clock%'", "cannot be read; the journal is right"),
        ("UPDATE messages SET text = CAST(x'FF6E' AS TEXT) WHERE text LIKE '%clock%'", "cannot be read; the journal"),
        ("UPDATE entries SET text = CAST(x'FF6E' AS TEXT) WHERE text LIKE '%clock%'", "cannot be read; the journal"),
        ("UPDATE messages SET uid = 'x' || uid WHERE text LIKE '%clock%'", "differ from the journal, which is right"),
        ("UPDATE exchanges SET uid = 'x' || uid WHERE id = (SELECT min(id) FROM exchanges)", "differ from the journal"),
        ("UPDATE segments SET uid = 'x' || uid WHERE id = (SELECT min(id) FROM segments)", "differ from the journal"),
        ("UPDATE messages SET tenant = 'locam' WHERE text LIKE '%clock%'", "1 rows belong to nothing"),
        ("UPDATE entries SET tenant = 'locam' WHERE text LIKE '%clock%'", "1 rows belong to nothing"),
        ("UPDATE messages SET conversation_id = 77 WHERE text LIKE '%clock%'", "1 rows belong to nothing"),
        (
            "UPDATE messages SET conversation_id = (SELECT id FROM conversations WHERE id <> conversation_id)"
            " WHERE text LIKE '%clock%'",
            "The rows lack 1 messages",
        ),
        (
            "UPDATE conversations SET uid = 'x' || uid WHERE id = (SELECT min(id) FROM conversations)",
            "The rows lack 2 messages",
        ),
    ],
)
def test_a_row_that_was_changed_behind_harken_is_found_and_set_right_from_the_journal(
    told: CommandLine, sealed: bool, statement: str, words: str
) -> None:
    if not sealed:
        without_checksums(told)
    in_rows(told, statement)
    assert_found_and_repaired(told, words)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"text":"The boathouse key', b'"text":"The boathousg key'),
        (b'"at":"2026-05-08T09:02:00', b'"at":"2026-05-08T09:03:00'),
        (
            b'"role":"assistant","type":"text","at":"2026-05-08T09:02',
            b'"role":"asshstant","type":"text","at":"2026-05-08T09:02',
        ),
    ],
    ids=["text", "time", "role"],
)
def test_of_a_line_without_a_checksum_the_rows_are_right_that_agree_among_each_other(
    told: CommandLine, old: bytes, new: bytes
) -> None:
    without_checksums(told)
    file = journal_file(told.home, b"hangs behind")
    file.write_bytes(
        b"".join(
            line.replace(old, new) if b"hangs" in line else line for line in file.read_bytes().splitlines(keepends=True)
        )
    )
    assert_found_and_repaired(told)


@pytest.mark.parametrize(
    ("statement", "command"),
    [
        ("UPDATE entries SET trust = 'ownes' WHERE text LIKE '%clock%'", ["search", "clock"]),
        ("UPDATE entries SET created_at = 1 << 62 WHERE text LIKE '%clock%'", ["search", "clock"]),
        ("UPDATE entries SET text = CAST(x'FF6E' AS TEXT) WHERE text LIKE '%clock%'", ["search", "clock"]),
        ("UPDATE messages SET role = 'usfr' WHERE text LIKE '%clock%'", ["show", "ID"]),
        ("UPDATE messages SET metadata = '{' WHERE text LIKE '%clock%'", ["show", "ID"]),
        ("UPDATE messages SET created_at = 1 << 62 WHERE text LIKE '%clock%'", ["show", "ID"]),
        ("UPDATE settings SET value = '{' WHERE name = 'store.origin'", ["status"]),
    ],
)
def test_a_value_that_cannot_be_is_called_damage_in_one_line_that_names_the_repair(
    told: CommandLine, statement: str, command: list[str]
) -> None:
    uid = told.search("clock")[0]["id"]
    in_rows(told, statement)
    said = told.fails(*[uid if word == "ID" else word for word in command])
    assert "is damaged: " in said
    assert "harken doctor --fix" in said or "harken reindex --from-journal" in said


@pytest.mark.parametrize(
    ("statement", "command"),
    [
        ("UPDATE memories SET trust = 'ownes'", ["memory", "list"]),
        ("UPDATE memories SET importance = 'h`lf'", ["memory", "search", "slipway"]),
        ("UPDATE exchanges SET status = 'done' WHERE id = (SELECT min(id) FROM exchanges)", ["export"]),
    ],
)
def test_values_of_memories_and_of_exchanges_that_cannot_be_are_called_damage_too(
    told: CommandLine, tmp_path: Path, statement: str, command: list[str]
) -> None:
    told("memory", "add", "The slipway is closed on Mondays")
    in_rows(told, statement)
    words = [*command, tmp_path / "all.jsonl"] if command == ["export"] else command
    assert "is damaged: " in told.fails(*words)
    told("doctor", "--fix")
    told(*words)


def newer_line(**fields: object) -> bytes:
    line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
    return line[:-2] + f',"crc":"{zlib.crc32(line):08x}"}}\n'.encode()


@pytest.mark.parametrize("sealed", [True, False], ids=["with checksums", "without"])
def test_what_a_newer_harken_wrote_outlives_every_rewrite(told: CommandLine, sealed: bool) -> None:
    file = journal_file(told.home, b"dinghy")
    conversation = file.parent.name
    mood = newer_line(event="mood", id="m1", conversation=conversation, mood={"of": "FUTUREEVENT"}, at="2026-05-08")
    role = newer_line(
        **{"event": "message", "id": "m2", "conversation": conversation, "segment": "s", "exchange": "e"},
        **{"role": "narrator", "type": "text", "trust": "owner", "text": "FUTUREROLE", "at": "2026-05-08T09:00:00Z"},
    )
    first, *others = file.read_bytes().splitlines(keepends=True)
    head = newer_line(**{key: value for key, value in json.loads(first).items() if key != "crc"}, shade="FUTUREKEY")
    lines = [head, mood, role]
    if not sealed:
        lines = [re.sub(rb',"crc":"[0-9a-f]{8}"', b"", line) for line in lines]
    file.write_bytes(b"".join([lines[0], *others, *lines[1:]]))
    told("search", "dinghy")
    assert told("doctor").out.startswith("All agrees")
    told("reindex", "--from-journal")
    told("forget", "--query", "nylon", "--yes")
    told("doctor", "--fix")
    assert not (told.home / "torn").exists()
    assert set(lines) <= set(file.read_bytes().splitlines(keepends=True))
    assert b"nylon" not in file.read_bytes()
    told("forget", "--conversation", conversation, "--yes")
    assert [path for path in told.home.rglob("*") if path.is_file() and b"FUTURE" in path.read_bytes()] == []


def test_what_a_newer_harken_says_of_a_forgotten_message_goes_with_it(told: CommandLine) -> None:
    file = journal_file(told.home, b"nylon")
    [hit] = [hit for hit in told.search("nylon") if "nylon" in hit["text"]]
    note = newer_line(event="reaction", id="r1", conversation=file.parent.name, message=hit["id"], text="nylon!")
    file.write_bytes(file.read_bytes() + note)
    told("forget", hit["id"], "--yes")
    assert [path for path in told.home.rglob("*") if path.is_file() and b"nylon" in path.read_bytes()] == []


def test_a_bit_of_a_messages_id_doubles_nothing(told: CommandLine) -> None:
    uid = told.search("clock")[0]["id"].encode()
    in_journal(told, b'"id":"' + uid, b'"id":"' + uid[:-1] + bytes([uid[-1] ^ 1]))
    assert_found_and_repaired(told, "are damaged.", "lacks 1 messages")
    without_checksums(told)
    in_journal(told, b'"id":"' + uid, b'"id":"' + uid[:-1] + bytes([uid[-1] ^ 1]))
    assert_found_and_repaired(told, "differ from the rows, which are right")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"garbage over the header" * 50 + content[1150:],
        lambda content: content[:4096] + b"\x5a" * (len(content) - 4096),
        lambda content: content[: len(content) // 2],
        lambda content: b"",
    ],
    ids=["garbage over the header", "garbage over the pages", "cut in half", "emptied"],
)
def test_a_damaged_database_names_the_command_that_makes_it_anew(
    told: CommandLine, damage: Callable[[bytes], bytes]
) -> None:
    assert_whole(told)
    before = told.search("boathouse dinghy")
    database = told.home / "harken.db"
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    content = damage(database.read_bytes())
    database.write_bytes(content)
    if content:
        assert "Rebuild it from the journal: harken reindex --from-journal" in told.fails("search", "boathouse")
    outcome = told("reindex", "--from-journal")
    assert outcome.out == "The database holds 4 messages of the journal.\n"
    assert_whole(told)
    assert told.search("boathouse dinghy") == before
    database.write_bytes(content)
    if content:
        assert "is damaged" in told("doctor", code=1).out
        fixed = told("doctor", "--fix")
        assert "fixed: " in fixed.out
        assert "has to be given again: what `harken config set` kept, webhooks" in fixed.err
        assert_whole(told)


@pytest.mark.parametrize("command", [("doctor", "--fix"), ("reindex", "--from-journal")])
def test_settings_that_a_damaged_database_can_still_tell_outlive_it(
    told: CommandLine, command: tuple[str, str]
) -> None:
    told("config", "set", "llm.max_usd_per_day", "3")
    database = told.home / "harken.db"
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = opened.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()
        [size] = opened.execute("PRAGMA page_size").fetchone()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x5a" * size)
    assert "again: webhooks" in told(*command).err
    assert "max_usd_per_day 3 config set, kept" in " ".join(told("config").out.split())
    assert_whole(told)


def test_a_damaged_database_that_was_set_aside_goes_with_what_is_forgotten(told: CommandLine) -> None:
    database = told.home / "harken.db"
    database.write_bytes(b"garbage over the header" * 50 + database.read_bytes()[1150:])
    aside = [line for line in told("reindex", "--from-journal").err.splitlines() if "damaged" in line]
    assert len(aside) >= 1
    assert any(b"nylon" in file.read_bytes() for file in told.home.glob("harken.db*damaged*"))
    told("forget", "--query", "nylon", "--yes")
    assert [file for file in told.home.rglob("*") if file.is_file() and b"nylon" in file.read_bytes()] == []


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")
@pytest.mark.parametrize(
    ("settings", "files", "words"),
    [
        (
            {"HARKEN_EMBEDDING__PATH": "/no/such/model"},
            False,
            "/no/such/model/model.onnx is missing. Set embedding.path",
        ),
        ({}, True, "model.onnx is not the pinned one: its SHA-256 is "),
    ],
    ids=["missing", "wrong hash"],
)
def test_a_model_that_is_not_the_right_one_is_named_and_words_go_on_working(
    told: CommandLine, settings: dict[str, str], files: bool, words: str
) -> None:
    folder = told.home / "models" / "bge-small-en-v1.5"
    if files:
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(b"not a model")
        (folder / "tokenizer.json").write_bytes(b"{}")
    local = replace(told, settings=settings)
    assert words in local.fails("worker", "run", "--until-idle")
    more = told.home.parent / "more.jsonl"
    more.write_text(json.dumps({"conversation": "c0", "role": "user", "content": "The oars lie in the shed of Jan"}))
    imported = local("import", more)
    assert imported.out.startswith("1 new message")
    assert f"Not embedded, so search goes by words alone for now: {'/no' if not files else folder}" in imported.err
    found = local("search", "oars")
    assert "The oars lie" in found.out
    assert found.err.count("\n") == 1
    status = local.status()
    assert (status["embedded"], status["failed"], status["queue"]) == (0, 0, status["embeddable"])


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=16) as running:
        yield running


@pytest.mark.skipif(find_spec("turbovec") is None, reason="needs harken[local]")
def test_a_corrupt_vector_cache_is_made_anew_and_every_search_stays_the_same(
    cli: CommandLine, server: EmbeddingServer, tmp_path: Path
) -> None:
    remote = with_many_vectors(cli, server, tmp_path)
    query = ("topic77 topic78", "--mode", "semantic", "--limit", "5")
    before = remote.search(*query)
    [cache] = remote.home.glob("cache/vectors-*.tvim")
    whole = cache.read_bytes()
    for damage in (whole[: len(whole) // 3], b"garbage" * 5000, b"", whole[:200] + b"\xff" * (len(whole) - 200)):
        [cache] = remote.home.glob("cache/vectors-*.tvim")
        cache.write_bytes(damage)
        searched = remote("search", *query, "--json")
        assert searched.json()["hits"] == before
        assert searched.err == ""
    assert remote("doctor").out.startswith("All agrees")
    [cache] = remote.home.glob("cache/vectors-*.tvim")
    cache.write_bytes(b"garbage")
    assert remote("doctor", "--fix").out == f"fixed: The vector cache {cache.name} is damaged.\n"
    assert remote.search(*query) == before


def with_many_vectors(cli: CommandLine, server: EmbeddingServer, folder: Path) -> CommandLine:
    """A store with more vectors than are searched without an index of their own."""
    path = folder / "many.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(5100):
            words = f"A note about topic{number} and topic{number + 1} for the archive of the museum in town"
            line = {"conversation": f"c{number // 100}", "role": "user", "content": words}
            file.write(json.dumps(line) + "\n")
    settings = {
        "HARKEN_EMBEDDER": "openai-compatible",
        "HARKEN_EMBEDDING__URL": server.url,
        "HARKEN_EMBEDDING__MODEL": "words",
        "HARKEN_EMBEDDING__DIMS": "64",
        "HARKEN_EMBEDDING__THRESHOLD": "0.1",
        "HARKEN_WORKER__BATCH_SIZE": "100",
    }
    remote = replace(cli, settings=settings)
    remote("import", path)
    remote("search", "topic1", "--mode", "semantic")
    return remote
