"""ChatGPT: an export with every conversation as a tree of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harken.importers.parsed import ParsedConversation, Unreadable
from harken.importers.reading import call_text, known, listing, mapping, moment, spoken, string
from harken.importers.web_exports import ExportFormat, ExportMember, Tree
from harken.model.conversations import MessageType, Role
from harken.record.recorder import NewMessage
from harken.text.fence import without_recall

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}
# What nobody said: the model's thoughts, and instructions and memories that every request carries.
_SILENT = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
# What an assistant writes to a tool; of other kinds the recipient says nothing reliable.
_WRITTEN = ("text", "code", "multimodal_text")


class ChatGPT(ExportFormat):
    """ChatGPT's exports: `conversations.json`, its shards, or one conversation."""

    name = "chatgpt"

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """True for a JSON object with ChatGPT's tree of messages."""
        return isinstance(value.get("mapping"), dict)

    def head(self, value: Mapping[str, Any]) -> ParsedConversation:
        """Read the facts of a conversation as a whole."""
        first = next(iter(value["mapping"]), "")
        return ParsedConversation(
            string(value.get("id")) or string(value.get("conversation_id")) or first,
            title=string(value.get("title")) or "",
            created_at=moment(value.get("create_time")),
            metadata=known(model=string(value.get("default_model_slug")), gizmo=string(value.get("gizmo_id"))),
        )

    def messages(
        self, value: Mapping[str, Any], conversation: str, place: ExportMember
    ) -> Iterator[NewMessage | Unreadable]:
        """Yield a conversation's messages, those on abandoned branches too, each after the one it answers."""
        nodes = {key: mapping(node) for key, node in value["mapping"].items()}
        parents = _parents(nodes)
        tree = Tree(parents, _times(nodes))
        beside = tree.branches(string(value.get("current_node")))
        calls: dict[str | None, str | None] = {}
        for key in tree.order():
            # A result hangs on its call, on another result of it, or on thoughts in between.
            calls[key] = calls.get(parents[key])
            if not isinstance(value["mapping"][key], dict):
                yield place.unreadable("has a node that is not an object")
            message = nodes[key].get("message")
            if message is None or _silent(message):
                continue
            if fault := _fault(message):
                yield place.unreadable(fault)
                continue
            parsed = _message(message, conversation, key, beside.get(key), calls[key])
            calls[key] = parsed.call_id
            if parsed.text.strip():
                yield parsed


def _parents(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str | None]:
    """Every node's parent, as it says itself, else as a node says of its children."""
    listed = {child: key for key, node in nodes.items() for child in listing(node.get("children")) if string(child)}
    own = {key: string(node.get("parent")) for key, node in nodes.items()}
    return {key: parent if parent in nodes else listed.get(key) for key, parent in own.items()}


def _times(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    written = {key: moment(mapping(node.get("message")).get("create_time")) for key, node in nodes.items()}
    return {key: time.timestamp() for key, time in written.items() if time}


def _silent(message: Any) -> bool:
    """True for a message that is nobody's: hidden, the system's, or of a kind that is not said."""
    facts = mapping(message)
    role = mapping(facts.get("author")).get("role")
    hidden = mapping(facts.get("metadata")).get("is_visually_hidden_from_conversation") is True
    kind = mapping(facts.get("content")).get("content_type")
    return hidden or kind in _SILENT or (isinstance(role, str) and role not in _ROLES)


def _fault(message: Any) -> str:
    if not isinstance(mapping(mapping(message).get("author")).get("role"), str):
        return "has a message without an author"
    return "" if isinstance(message.get("content"), dict) else "has a message without readable content"


def _message(
    message: Mapping[str, Any], conversation: str, key: str, branch: str | None, call_id: str | None
) -> NewMessage:
    content, author, facts = message["content"], message["author"], mapping(message.get("metadata"))
    text = without_recall(_words(content))
    role, kind, tool = _ROLES[author["role"]], MessageType.TEXT, None
    own_id = string(message.get("id")) or key
    recipient = string(message.get("recipient")) or "all"
    if role is Role.TOOL:
        kind, tool = MessageType.TOOL_RESULT, string(author.get("name"))
    elif role is Role.ASSISTANT and recipient != "all" and content.get("content_type") in _WRITTEN:
        kind, tool, call_id = MessageType.TOOL_CALL, recipient, own_id
        text = call_text(tool, text) if text.strip() else ""
    return NewMessage(
        role,
        text,
        kind,
        conversation=conversation,
        external_id=own_id,
        created_at=moment(message.get("create_time")),
        call_id=None if kind is MessageType.TEXT else call_id,
        tool_name=tool,
        metadata=known(
            model=string(facts.get("model_slug")), branch=branch, attachments=_attachments(content, facts) or None
        ),
    )


def _words(content: Mapping[str, Any]) -> str:
    """The words of a message: its text parts, also those that were spoken aloud, else its one text."""
    parts = [part.get("text") if isinstance(part, dict) else part for part in listing(content.get("parts"))]
    said = spoken([part for part in parts if isinstance(part, str)])
    return said or string(content.get("text")) or string(content.get("result")) or ""


def _attachments(content: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """The names of attached files, and where pictures and sounds among the parts are kept."""
    names = [mapping(file).get("name") for file in listing(facts.get("attachments"))]
    names += [mapping(part).get("asset_pointer") for part in listing(content.get("parts"))]
    return [name for name in names if isinstance(name, str) and name]
