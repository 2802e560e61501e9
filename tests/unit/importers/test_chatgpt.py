"""ChatGPT's exports: every branch of a conversation, without what the system and the model's thoughts add."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.errors import TranscriptError
from harken.importers.chatgpt import CHATGPT
from harken.importers.parsed import ParsedConversation, ParsedItem, Unreadable
from harken.record.recorder import NewMessage

Said = Callable[..., list[tuple[str, str, str]]]
CHATGPT = CHATGPT


def node(role: str, text: Any, parent: str | None = None, **message: Any) -> dict[str, Any]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    return {"parent": parent, "message": {"author": {"role": role}, "content": content, **message}}


def talk(current: str | None = None, **nodes: Any) -> dict[str, Any]:
    return {"id": "c", "title": "Tea", "create_time": 1.5, "current_node": current, "mapping": nodes}


def read(tmp_path: Path, value: Any, name: str = "conversations.json") -> list[ParsedItem]:
    path = tmp_path / name
    path.write_text(json.dumps(value))
    return list(CHATGPT.parse(path))


def messages(items: list[ParsedItem]) -> list[NewMessage]:
    return [item for item in items if isinstance(item, NewMessage)]


def test_all_branches_are_kept_and_those_not_in_use_are_marked(tmp_path: Path) -> None:
    nodes = {
        "root": {"parent": None, "message": None},
        "q": node("user", "tea?", "root", create_time=10),
        "old": node("assistant", "no", "q", create_time=11),
        "new": node("assistant", "yes", "q", create_time=12, metadata={"model_slug": "m"}),
        "more": node("user", "why?", "old", create_time=13),
    }
    items = read(tmp_path, [talk("new", **nodes)])
    head = items[0]
    assert isinstance(head, ParsedConversation)
    assert (head.external_id, head.title, head.created_at is None) == ("c", "Tea", False)
    assert [(m.text, m.external_id, m.metadata) for m in messages(items)] == [
        ("tea?", "q", {}),
        ("no", "old", {"branch": "old"}),
        ("yes", "new", {"model": "m"}),
        ("why?", "more", {"branch": "old"}),
    ]


def test_what_nobody_said_is_left_out(tmp_path: Path, said: Said) -> None:
    hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
    kinds = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
    silent = {kind: node("assistant", {"content_type": kind, "parts": ["x"], "text": "x"}) for kind in kinds}
    nodes = {"s": node("system", "rules"), "h": node("user", "hidden", **hidden), "u": node("user", "said"), **silent}
    assert said(read(tmp_path, talk(**nodes, e=node("user", " ")))) == [("user", "text", "said")]


def test_marks_of_sources_are_no_words_and_names_in_them_are(tmp_path: Path, said: Said) -> None:
    text = (
        "It is 4810 m high.\ue200cite\ue202turn0search1\ue202turn0search3\ue201 Go from "
        '\ue200entity\ue202["city","Chamonix","France"]\ue201, says \ue200url\ue202the guide\ue202https://a.example\ue201.'
    )
    items = read(tmp_path, [talk(a=node("assistant", text), b=node("assistant", "\ue200navlist\ue202News\ue201", "a"))])
    assert [text for _, _, text in said(items)] == ["It is 4810 m high. Go from Chamonix, says the guide."]


def test_tools_are_called_and_answer(tmp_path: Path) -> None:
    nodes = {
        "q": node("user", "weather?"),
        "call": node("assistant", {"content_type": "code", "text": "rain()"}, "q", recipient="python", id="m1"),
        "think": node("assistant", {"content_type": "thoughts"}, "call"),
        "run": node("tool", {"content_type": "execution_output", "text": "wet"}, "think"),
        "page": node("tool", {"content_type": "tether_browsing_display", "result": "[1] rain"}, "run"),
        "a": node("assistant", "it rains", "page"),
    }
    nodes["run"]["message"]["author"]["name"] = "python"
    found = messages(read(tmp_path, [talk("a", **nodes)]))
    assert [(m.role, m.type, m.text, m.call_id, m.tool_name) for m in found[1:]] == [
        ("assistant", "tool_call", "python rain()", "m1", "python"),
        ("tool", "tool_result", "wet", "m1", "python"),
        ("tool", "tool_result", "[1] rain", "m1", None),
        ("assistant", "text", "it rains", None, None),
    ]


def test_pictures_and_files_are_named_and_spoken_words_are_read(tmp_path: Path) -> None:
    parts = [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://p"},
        {"content_type": "audio_transcription", "text": "hear this"},
        "and see",
    ]
    content = {"content_type": "multimodal_text", "parts": parts}
    found = messages(read(tmp_path, talk(q=node("user", content, metadata={"attachments": [{"name": "a.txt"}, 3]}))))
    assert found[0].text == "hear this\n\nand see"
    assert found[0].metadata == {"attachments": ["a.txt", "file-service://p"]}


def test_parents_are_found_from_either_side_and_circles_end(tmp_path: Path, said: Said) -> None:
    nodes = {
        "a": node("assistant", "later", create_time=1),
        "q": {**node("user", "first", create_time=2), "children": ["a"]},
    }
    nodes["x"], nodes["y"] = node("user", "x", "y"), node("user", "y", "x")
    texts = [text for _, _, text in said(read(tmp_path, talk("gone", **nodes)))]
    assert texts.index("first") < texts.index("later")
    assert sorted(texts) == ["first", "later", "x", "y"]


def test_broken_parts_are_counted_by_conversation(tmp_path: Path, said: Said) -> None:
    broken = {
        "n": "no node",
        "m": {"message": "no message"},
        "c": node("user", "x", content=3),
        "u": node("user", "ok"),
    }
    broken["a"] = {"message": {"content": {"parts": ["x"]}}}
    items = read(tmp_path, [{"other": 1}, talk(**broken), 7])
    assert said(items) == [("user", "text", "ok")]
    assert [item.line for item in items if isinstance(item, Unreadable)] == [1, 2, 2, 2, 2, 3]


def test_zips_shards_folders_and_single_files_are_read(tmp_path: Path, said: Said) -> None:
    first, second = talk(q=node("user", "one")), {**talk(q=node("user", "two")), "id": "d"}
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("in/conversations-001.json", json.dumps([second]))
        packed.writestr("in/conversations-000.json", json.dumps([first]))
        packed.writestr("in/user.json", "{}")
    assert [text for _, _, text in said(CHATGPT.parse(archive))] == ["one", "two"]
    shard = tmp_path / "conversations-000.json"
    shard.write_text(json.dumps([first]))
    (tmp_path / "user.json").write_text("{}")
    assert set(CHATGPT.files(tmp_path)) == {archive, shard}
    assert CHATGPT.files(archive) == [archive]
    alone = tmp_path / "saved" / "talk.json"
    alone.parent.mkdir()
    alone.write_text(json.dumps(first))
    assert CHATGPT.files(alone.parent) == [alone]
    assert said(CHATGPT.parse(alone)) == [("user", "text", "one")]


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"[{", b'"text"', b"[1]", b'{"chat_messages": []}', b"[" * 100_000])
def test_a_file_of_something_else_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(TranscriptError, match=r"x\.json"):
        list(CHATGPT.parse(path))


def test_a_zip_without_conversations_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("user.json", "{}")
    with pytest.raises(TranscriptError, match="no conversations"):
        list(CHATGPT.parse(path))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("conversations.json", json.dumps([talk(q=node("user", str(n))) for n in range(500)]))
    raw = bytearray(path.read_bytes())
    raw[60:80] = bytes(20)
    path.write_bytes(raw)
    with pytest.raises(TranscriptError):
        list(CHATGPT.parse(path))


def test_a_list_that_breaks_off_gives_what_came_before(tmp_path: Path, said: Said) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([talk(q=node("user", "one")), talk(q=node("user", "two"))])[:-30])
    items = list(CHATGPT.parse(path))
    assert said(items) == [("user", "text", "one")]
    assert items[-1] == Unreadable(path, 2, "is where the document breaks off")


def test_a_value_without_an_end_is_given_up_before_memory_is(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harken.importers.web_exports._LONGEST_CHARS", 3 << 20)
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("conversations.json", json.dumps([talk(q=node("user", "one")), "x" * (9 << 20)]))
    items = list(CHATGPT.parse(path))
    assert said(items) == [("user", "text", "one")]
    assert items[-1] == Unreadable(path, 2, "is longer than 3,145,728 characters; nothing behind it was read")


def test_long_lists_are_read_piece_by_piece(tmp_path: Path, said: Said) -> None:
    talks = [{**talk(q=node("user", f"{number} " + "é" * 3_000)), "id": str(number)} for number in range(900)]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(talks, ensure_ascii=False, indent=1), "utf-8")
    assert path.stat().st_size > 5_000_000
    assert [int(text.split()[0]) for _, _, text in said(CHATGPT.parse(path))] == list(range(900))


def test_real_samples_give_every_text_once(shared_data: Path, said: Said) -> None:
    folder = shared_data / "transcripts" / "chatgpt"
    assert [path.name for path in sorted(CHATGPT.files(folder))] == ["native-conversation-v1.json", "sample-00.json"]
    for path in CHATGPT.files(folder):
        spoken = [
            part
            for each in json.loads(path.read_text("utf-8"))["mapping"].values()
            if each["message"] and each["message"]["author"]["role"] in ("user", "assistant")
            if each["message"]["content"]["content_type"] not in ("thoughts", "reasoning_recap")
            for part in each["message"]["content"]["parts"]
            if isinstance(part, str)
        ]
        read_back = "\n\n".join(text for role, _, text in said(CHATGPT.parse(path)) if role != "tool")
        assert all(read_back.count(text) == spoken.count(text) for text in spoken), path.name
    counts = [len(messages(list(CHATGPT.parse(path)))) for path in sorted(CHATGPT.files(folder))]
    assert counts == [5, 3]
