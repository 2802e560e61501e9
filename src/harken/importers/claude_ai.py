"""Claude.ai: an export with every conversation as a list or a tree of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from harken.importers.blocks import ParsedContent, Piece, claude_ai_words, read_content
from harken.importers.parsed import ParsedConversation, Unreadable
from harken.importers.reading import known, listing, mapping, moment, string
from harken.importers.web_exports import ExportFormat, ExportMember, Tree
from harken.model.conversations import MessageType, Role
from harken.record.recorder import NewMessage

_SENDERS = {"human": Role.USER, "assistant": Role.ASSISTANT}


class ClaudeAI(ExportFormat):
    """Claude.ai's exports: `conversations.json`, or one conversation."""

    name = "claude-ai"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """True for a JSON object with Claude.ai's list of messages."""
        return isinstance(value.get("chat_messages"), list)

    def head(self, value: Mapping[str, Any]) -> ParsedConversation:
        """Read the facts of a conversation as a whole."""
        first = next(iter(value["chat_messages"]), None)
        return ParsedConversation(
            string(value.get("uuid")) or string(mapping(first).get("uuid")) or "",
            title=string(value.get("name")) or "",
            created_at=moment(value.get("created_at")),
        )

    def messages(
        self, value: Mapping[str, Any], conversation: str, place: ExportMember
    ) -> Iterator[NewMessage | Unreadable]:
        """Yield a conversation's messages, those on abandoned branches too, each after the one it answers."""
        keyed = _keyed(value["chat_messages"])
        order, beside = _ordered(keyed, string(value.get("current_leaf_message_uuid")))
        tools: dict[str | None, str | None] = {}
        for key in order:
            message = keyed[key]
            sender = message.get("sender")
            speaker = _SENDERS.get(sender) if isinstance(sender, str) else None
            if speaker is None:
                yield place.unreadable("has a message whose sender is neither human nor assistant")
                continue
            content = _content(message)
            tools |= {piece.call_id: piece.tool_name for piece in content.pieces if piece.call_id and piece.tool_name}
            for number, piece in enumerate(content.pieces, 1):
                named = replace(piece, tool_name=piece.tool_name or tools.get(piece.call_id))
                yield _message(message, conversation, named, number, speaker, beside.get(key))
            for fault in content.faults:
                yield place.unreadable(fault)


def _keyed(messages: list[Any]) -> dict[str, Mapping[str, Any]]:
    """The messages by their ids; those without one, or with one that was there before, by their number."""
    keyed: dict[str, Mapping[str, Any]] = {}
    for number, message in enumerate(messages):
        own_id = string(mapping(message).get("uuid"))
        keyed[own_id if own_id and own_id not in keyed else f"message {number}"] = mapping(message)
    return keyed


def _ordered(keyed: Mapping[str, Mapping[str, Any]], leaf: str | None) -> tuple[list[str], dict[str, str]]:
    """The messages' keys in order, and for those on abandoned branches the branch; older exports are flat."""
    parents = {key: string(message.get("parent_message_uuid")) for key, message in keyed.items()}
    if not any(parents.values()):
        return list(keyed), {}
    times = {
        key: written.timestamp() for key, message in keyed.items() if (written := moment(message.get("created_at")))
    }
    tree = Tree(parents, times)
    return tree.order(), tree.branches(leaf)


def _content(message: Mapping[str, Any]) -> ParsedContent:
    """Read a message's content; where no block gives a text, its plain `text` does."""
    content = read_content(message.get("content") or [], claude_ai_words)
    plain = claude_ai_words(string(message.get("text")) or "")
    if not plain.strip() or any(piece.type is MessageType.TEXT for piece in content.pieces):
        return content
    return replace(content, pieces=(Piece(MessageType.TEXT, plain), *content.pieces))


def _message(
    message: Mapping[str, Any], conversation: str, piece: Piece, number: int, speaker: Role, branch: str | None
) -> NewMessage:
    attached = _attachments(message) if piece.type is MessageType.TEXT else None
    return NewMessage(
        piece.role(speaker),
        piece.text,
        piece.type,
        conversation=conversation,
        external_id=piece.external_id(string(message.get("uuid")), number),
        created_at=moment(message.get("created_at")),
        call_id=piece.call_id,
        tool_name=piece.tool_name,
        metadata={**piece.facts, **known(branch=branch, attachments=attached or None)},
    )


def _attachments(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The names and sizes of what was attached; its text is the file's, not the person's."""
    files = [mapping(file) for key in ("attachments", "files") for file in listing(message.get(key))]
    return [known(name=name, size=file.get("file_size")) for file in files if (name := string(file.get("file_name")))]
