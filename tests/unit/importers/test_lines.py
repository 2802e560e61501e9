"""Lines keep their numbers and offsets, and none of them stops the reading."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harken.importers.reading import decoded, numbered


def test_lines_carry_their_number_and_the_offset_behind_them() -> None:
    raw = b'{"a": 1}\n\n{"b": 2}'
    read = list(numbered(io.BytesIO(raw)))
    assert [(line.number, line.end, line.value) for line in read] == [
        (1, 9, {"a": 1}),
        (2, 10, None),
        (3, 18, {"b": 2}),
    ]
    assert not any(line.torn or line.fault for line in read)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"{no json}\n", "is not JSON"),
        (b'"massive error"\n', "is not a JSON object"),
        (b"42\n", "is not a JSON object"),
        (b"[1]\n", "is not a JSON object"),
        (b"[" * 100_000 + b"\n", "is nested too deeply"),
        (b"9" * 5_000 + b"\n", "is not JSON"),
        (b"\x00\xff\xfe\n", "is not JSON"),
        (b" \t\r\n", ""),
    ],
)
def test_what_is_no_object_says_why_without_quoting_it(raw: bytes, fault: str) -> None:
    assert decoded(raw) == (None, fault)


@pytest.mark.parametrize(
    "half", [b'{"parentUuid": "u0", "message": {"content": [{"text": "cut', b'{"a": {"b": 1}', b"\0" * 9]
)
def test_what_stands_behind_a_half_that_a_crash_left_is_read(half: bytes) -> None:
    whole = b'{"parentUuid":"u1","message":{"content":[{"type":"text"}]}}\n'
    value, fault = decoded(half + whole)
    assert value == {"parentUuid": "u1", "message": {"content": [{"type": "text"}]}}
    assert fault == ("" if half.startswith(b"\0") else "is not JSON")
    torn = list(numbered(io.BytesIO(half + whole[:-9])))
    assert [(line.value, line.torn) for line in torn] == [(None, True)]


def test_only_a_last_line_without_an_end_counts_as_torn() -> None:
    whole, torn = numbered(io.BytesIO(b'{"a\n{"a'))
    assert (whole.torn, torn.torn) == (False, True)


def test_a_line_whose_other_half_comes_while_it_is_read_is_left_to_the_next_reading(tmp_path: Path) -> None:
    file = tmp_path / "growing.jsonl"
    file.write_bytes(b'{"a": 1}\n{"b"')
    with file.open("rb") as stream:
        read = []
        for line in numbered(stream):
            read.append((line.value, line.torn))
            with file.open("ab") as writer:
                writer.write(b': 2}\n{"c": 3}\n' if line.torn else b"")
    assert read == [({"a": 1}, False), (None, True)]


def test_wrong_bytes_alone_make_no_line_unreadable() -> None:
    assert decoded(b'{"a": "caf\xe9"}\n') == ({"a": "caf�"}, "")
    assert decoded(b'\xef\xbb\xbf{"a": 1}\n') == ({"a": 1}, "")


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_kept() -> None:
    value, _ = decoded(rb'{"\ud800k": ["\ud83c\udf89", {"x": "\udc00"}]}')
    assert value == {"?k": ["🎉", {"x": "?"}]}
