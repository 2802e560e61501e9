from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.errors import ExportError, StoreError, UsageError
from harken.journal.export import export, is_export, read_export
from harken.model.conversations import ExchangeStatus, Message, ProjectIdentity, Role, Segment, Tombstone
from harken.record.recorder import NewMessage
from harken.testing import HashingEmbedder
from recorded import RecordedHome


def written(place: RecordedHome) -> bytes:
    stream = io.BytesIO()
    export(place.store, stream, lambda _done, _all: None)
    return stream.getvalue()


def kept(place: RecordedHome, content: bytes) -> Path:
    file = place.home / "export.jsonl"
    file.write_bytes(content)
    return file


def test_an_empty_store_gives_an_export_of_nothing(place: RecordedHome) -> None:
    content = written(place)
    assert content == b'{"format":"harken-export","version":3}\n{"end":"harken-export","lines":0}\n'
    assert list(read_export(kept(place, content))) == []


def test_the_same_records_give_the_same_bytes_whenever_they_are_written(place: RecordedHome) -> None:
    place.talk("a", "one", "two")
    place.talk("b", "three")
    first = written(place)
    place.clock.go_on(days=9)
    place.reindex()
    assert written(place) == first


def test_it_holds_every_kind_of_record_as_it_stands_now(place: RecordedHome) -> None:
    project = ProjectIdentity("git:host/owner/name", "name", ("path:/b", "path:/a"))
    place.record("a", NewMessage(Role.USER, "one"), title="old", project=project, metadata={"z": 1, "a": [2]})
    place.record("a", NewMessage(Role.ASSISTANT, "two"), title="new", parent_external_id="b")
    place.recorder.end_exchange(place.uid("a"), ExchangeStatus.FAILED, "broke")
    place.recorder.new_segment(place.uid("a"))
    gone = place.say("a", "three")
    place.forget(gone)
    events = [line.event for line in read_export(kept(place, written(place)))]
    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        "Conversation",
        *("Segment", "Segment", "Exchange", "Exchange", "Message", "Message", "ExchangeEnd", "Tombstone"),
    ]
    head = events[0]
    assert head.title == "new"
    assert head.project == project
    assert head.metadata == {"z": 1, "a": [2]}
    assert [event.number for event in events if isinstance(event, Segment)] == [1, 2]
    assert [event.text for event in events if isinstance(event, Message)] == ["one", "two"]
    assert [event.uid for event in events if isinstance(event, Tombstone)] == [gone.uid]
    assert b"three" not in written(place)


def test_what_is_left_of_a_forgotten_conversation_is_its_tombstone(place: RecordedHome) -> None:
    place.talk("a", "one", "two")
    place.forget(conversation="a")
    (line,) = read_export(kept(place, written(place)))
    assert line.event == Tombstone(place.uid("a"), place.uid("a"), "conversation", place.clock())


@pytest.fixture
def harken(place: RecordedHome) -> Iterator[Harken]:
    with Harken(place.home, embedder=HashingEmbedder(), env={}) as opened:
        yield opened


def test_a_file_appears_only_when_it_is_whole(place: RecordedHome, harken: Harken, tmp_path: Path) -> None:
    place.talk("a", "one", "two")
    target = tmp_path / "out" / "export.jsonl"

    def stop(_done: int, _all: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harken.maintenance.export(target, stop)
    assert list(target.parent.iterdir()) == []
    done = harken.maintenance.export(target)
    assert (done.conversations, done.messages, done.forgotten) == (1, 2, 0)
    assert done.bytes == target.stat().st_size
    assert target.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="exists"):
        harken.maintenance.export(target)


def test_a_place_that_cannot_be_written_is_named(harken: Harken, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"file/export\.jsonl cannot be written"):
        harken.maintenance.export(tmp_path / "file" / "export.jsonl")


def test_an_export_is_told_from_other_files_by_its_first_line(place: RecordedHome) -> None:
    assert is_export(kept(place, written(place)))
    assert is_export(kept(place, b'{"format":"harken-export","version":99}'))
    for other in (b"", b"\xff\xfe\n", b"[]\n", b'{"conversation":"c","role":"user","content":"x"}\n', b"{" * 5000):
        assert not is_export(kept(place, other))


def test_a_newer_version_is_refused_before_anything_is_read(place: RecordedHome) -> None:
    content = written(place).replace(b'"version":3', b'"version":4')
    with pytest.raises(ExportError, match=r"newer Harken \(version 4 of the format; this one reads 3\)"):
        list(read_export(kept(place, content)))


@pytest.mark.parametrize("version", [1, 2])
def test_an_earlier_version_is_read(place: RecordedHome, version: int) -> None:
    place.talk("a", "one", "two")
    content = written(place)
    earlier = content.replace(b'"version":3', b'"version":%d' % version)
    assert earlier != content
    whole = [line.event for line in read_export(kept(place, content))]
    assert [line.event for line in read_export(kept(place, earlier))] == whole


def test_what_a_harken_of_version_2_cannot_read_is_of_a_later_version(tmp_path: Path) -> None:
    with Harken(tmp_path / "home", embedder=HashingEmbedder(), env={}) as harken:
        harken.core.update("user", "pet", "okapi")
        harken.core.delete("user", "pet")
        harken.maintenance.export(tmp_path / "export.jsonl")
    header, deleted, _end = map(json.loads, (tmp_path / "export.jsonl").read_text().splitlines())
    assert "value" not in deleted
    assert header["version"] > 2


def test_every_cut_is_noticed_and_what_came_before_it_is_given(place: RecordedHome) -> None:
    place.talk("a", "one", "two", "three")
    content = written(place)
    whole = [line.event for line in read_export(kept(place, content))]
    header = content.index(b"\n") + 1
    for end in range(header, len(content)):
        file = kept(place, content[:end])
        found = []
        with pytest.raises(ExportError, match=r"cut short|no whole line"):
            found.extend(line.event for line in read_export(file))
        found = []
        lines = read_export(file)
        try:
            for line in lines:
                found.append(line.event)
        except ExportError:
            pass
        assert found == whole[: len(found)]
        assert len(found) == content[:end].count(b"\n") - 1


def test_a_line_that_is_gone_from_the_middle_is_noticed(place: RecordedHome) -> None:
    place.talk("a", "one", "two")
    lines = written(place).splitlines(keepends=True)
    file = kept(place, b"".join(lines[:4] + lines[5:]))
    with pytest.raises(ExportError, match="has 4 lines where its end says 5"):
        list(read_export(file))


@pytest.mark.parametrize(
    "changed",
    [
        {"conversation": "../../etc"},
        {"id": "a/b"},
        {"id": ".hidden"},
        {"exchange": ""},
        {"role": "nobody"},
        {"at": "yesterday"},
        {"text": 7},
    ],
)
def test_a_message_that_cannot_be_one_is_refused_by_its_line(place: RecordedHome, changed: dict[str, object]) -> None:
    place.talk("a", "one")
    lines = written(place).splitlines()
    line = json.loads(lines[4])
    assert line["event"] == "message"
    lines[4] = json.dumps({**line, **changed}).encode()
    with pytest.raises(ExportError, match=r"export\.jsonl, line 5 is no whole line"):
        list(read_export(kept(place, b"\n".join(lines) + b"\n")))


@pytest.mark.parametrize(
    "line",
    [
        {"event": "segment", "id": "s", "conversation": "c", "number": 2**40, "at": "2023-05-08T12:00:00Z"},
        {"event": "exchange_end", "id": "e", "conversation": "c", "status": "in_progress", "at": "2023-05-08T12:00Z"},
        {"event": "tombstone", "id": "t", "conversation": "c", "kind": "conversation", "at": "2023-05-08T12:00:00Z"},
        {"event": "tombstone", "id": "t", "conversation": "c", "kind": "project", "at": "2023-05-08T12:00:00Z"},
        {"event": "title", "conversation": "c", "title": "t", "at": "2023-05-08T12:00:00Z"},
        {"event": "core", "section": "rules", "key": "m.0", "value": "adored", "at": "2023-05-08T12:00:00Z"},
        {"event": "core", "section": "laws", "key": "m.0", "value": "dropped", "at": "2023-05-08T12:00:00Z"},
        {
            "event": "conversation",
            **{"id": "c", "channel": "x", "at": "2023-05-08T12:00:00Z"},
            "project": {"key": "k", "name": 3, "aliases": []},
        },
    ],
)
def test_a_record_that_no_export_holds_is_refused(place: RecordedHome, line: dict[str, object]) -> None:
    content = b'{"format":"harken-export","version":1}\n' + json.dumps(line).encode() + b"\n"
    with pytest.raises(ExportError, match="line 2 is no whole line"):
        list(read_export(kept(place, content)))
