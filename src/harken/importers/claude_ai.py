"""Claude.ai's exports: `conversations.json`, or one conversation, each a list or a tree of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from harken.importers.blocks import ParsedContent, Piece, claude_ai_words, read_content
from harken.importers.parsed import ParsedConversation
from harken.importers.reading import known, listing, mapping, moment, string
from harken.importers.web_exports import WebExport, threaded
from harken.model.conversations import MessageType, Role
from harken.record.prepared import NewMessage

_SENDERS = {"human": Role.USER, "assistant": Role.ASSISTANT}


def _head(value: Mapping[str, Any]) -> ParsedConversation:
    first = next(iter(value["chat_messages"]), None)
    return ParsedConversation(
        string(value.get("uuid")) or string(mapping(first).get("uuid")) or "",
        title=string(value.get("name")) or "",
        created_at=moment(value.get("created_at")),
    )


def _messages(value: Mapping[str, Any], conversation: str) -> Iterator[NewMessage | str]:
    keyed: dict[str, Mapping[str, Any]] = {}
    for place, each in enumerate(map(mapping, value["chat_messages"])):
        own_id = string(each.get("uuid"))
        keyed[own_id if own_id and own_id not in keyed else f"message {place}"] = each
    tools: dict[str | None, str | None] = {}
    for key, branch in _branches(keyed, string(value.get("current_leaf_message_uuid"))).items():
        message = keyed[key]
        sender = message.get("sender")
        speaker = _SENDERS.get(sender) if isinstance(sender, str) else None
        if speaker is None:
            yield "has a message whose sender is neither human nor assistant"
            continue
        content = _content(message)
        tools |= {piece.call_id: piece.tool_name for piece in content.pieces if piece.call_id and piece.tool_name}
        for number, piece in enumerate(content.pieces, 1):
            named = replace(piece, tool_name=piece.tool_name or tools.get(piece.call_id))
            attached = _attachments(message) if piece.type is MessageType.TEXT else None
            own_id = piece.external_id(string(message.get("uuid")), number)
            time = message.get("created_at")
            yield named.message(speaker, conversation, own_id, time, branch=branch, attachments=attached or None)
        yield from content.faults


def _branches(keyed: Mapping[str, Mapping[str, Any]], leaf: str | None) -> dict[str, str | None]:
    """The messages' keys in order, each with its branch; older exports are flat."""
    parents = {key: string(message.get("parent_message_uuid")) for key, message in keyed.items()}
    if not any(parents.values()):
        return dict.fromkeys(keyed)
    return threaded(parents, {key: message.get("created_at") for key, message in keyed.items()}, leaf)


def _content(message: Mapping[str, Any]) -> ParsedContent:
    """Read a message's content; where no block gives a text, its plain `text` does."""
    content = read_content(message.get("content") or [], claude_ai_words)
    plain = claude_ai_words(string(message.get("text")) or "")
    if not plain.strip() or any(piece.type is MessageType.TEXT for piece in content.pieces):
        return content
    return replace(content, pieces=(Piece(MessageType.TEXT, plain), *content.pieces))


def _attachments(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The names and sizes of what was attached; its text is the file's, not the person's."""
    files = [mapping(file) for key in ("attachments", "files") for file in listing(message.get(key))]
    return [known(name=name, size=file.get("file_size")) for file in files if (name := string(file.get("file_name")))]


CLAUDE_AI = WebExport("claude-ai", ("chat_messages", list), _head, _messages)
