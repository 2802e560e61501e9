"""ChatGPT's exports: `conversations.json`, its shards, or one conversation, each a tree of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harken.importers.parsed import ParsedConversation
from harken.importers.reading import call_text, known, listing, mapping, moment, spoken, string
from harken.importers.web_exports import WebExport, threaded
from harken.model.conversations import MessageType, Role
from harken.record.prepared import NewMessage
from harken.text.fence import without_recall

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}
# What nobody said: the model's thoughts, and instructions and memories that every request carries.
_SILENT = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")
# What an assistant writes to a tool; of other kinds the recipient says nothing reliable.
_WRITTEN = ("text", "code", "multimodal_text")
# Where the page shows sources, pictures and the like; of these a thing's name and a link's title are read as text.
_MARKED = r'\ue200(?:entity\ue202\["[^"]*", ?"([^"]*)"|url\ue202([^\ue200-\ue202]*))?[^\ue200\ue201]*\ue201'


def _head(value: Mapping[str, Any]) -> ParsedConversation:
    first = next(iter(value["mapping"]), "")
    return ParsedConversation(
        string(value.get("id")) or string(value.get("conversation_id")) or first,
        title=string(value.get("title")) or "",
        created_at=moment(value.get("create_time")),
        metadata=known(model=string(value.get("default_model_slug")), gizmo=string(value.get("gizmo_id"))),
    )


def _messages(value: Mapping[str, Any], conversation: str) -> Iterator[NewMessage | str]:
    nodes = {key: mapping(node) for key, node in value["mapping"].items()}
    # A node's parent as it says itself, else as another says of its children.
    listed = {child: key for key, node in nodes.items() for child in listing(node.get("children")) if string(child)}
    own = {key: string(node.get("parent")) for key, node in nodes.items()}
    parents = {key: parent if parent in nodes else listed.get(key) for key, parent in own.items()}
    times = {key: mapping(node.get("message")).get("create_time") for key, node in nodes.items()}
    calls: dict[str | None, str | None] = {}
    for key, branch in threaded(parents, times, string(value.get("current_node"))).items():
        # A result hangs on its call, on another result of it, or on thoughts in between.
        calls[key] = calls.get(parents[key])
        if not isinstance(value["mapping"][key], dict):
            yield "has a node that is not an object"
        message = nodes[key].get("message")
        if message is None or _is_silent(message):
            continue
        if not isinstance(mapping(mapping(message).get("author")).get("role"), str):
            yield "has a message without an author"
        elif not isinstance(message.get("content"), dict):
            yield "has a message without readable content"
        else:
            parsed = _message(message, conversation, key, branch, calls[key])
            calls[key] = parsed.call_id
            yield from [parsed] if parsed.text.strip() else []


def _is_silent(message: Any) -> bool:
    """True for a message that is nobody's: hidden, the system's, or of a kind that is not said."""
    facts = mapping(message)
    role = mapping(facts.get("author")).get("role")
    hidden = mapping(facts.get("metadata")).get("is_visually_hidden_from_conversation") is True
    kind = mapping(facts.get("content")).get("content_type")
    return hidden or kind in _SILENT or (isinstance(role, str) and role not in _ROLES)


def _message(message: Mapping[str, Any], talk: str, key: str, branch: str | None, call_id: str | None) -> NewMessage:
    content, author, facts = message["content"], message["author"], mapping(message.get("metadata"))
    parts = listing(content.get("parts"))
    # Its text parts, also those that were spoken aloud, else its one text.
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    words = spoken([text for text in texts if isinstance(text, str)])
    text = words or string(content.get("text")) or string(content.get("result")) or ""
    text = without_recall(re.sub(_MARKED, r"\1\2", text))
    # Names of attached files, and the places of pictures and sounds among the parts.
    attached = [mapping(file).get("name") for file in listing(facts.get("attachments"))]
    attached += [mapping(part).get("asset_pointer") for part in parts]
    role, kind, tool = _ROLES[author["role"]], MessageType.TEXT, None
    own_id = string(message.get("id")) or key
    recipient = string(message.get("recipient")) or "all"
    if role is Role.TOOL:
        kind, tool = MessageType.TOOL_RESULT, string(author.get("name"))
    elif role is Role.ASSISTANT and recipient != "all" and content.get("content_type") in _WRITTEN:
        kind, tool, call_id = MessageType.TOOL_CALL, recipient, own_id
        text = call_text(tool, text) if text.strip() else ""
    names = [name for name in attached if string(name)]
    return NewMessage(
        role,
        text,
        kind,
        conversation=talk,
        external_id=own_id,
        created_at=moment(message.get("create_time")),
        call_id=None if kind is MessageType.TEXT else call_id,
        tool_name=tool,
        metadata=known(model=string(facts.get("model_slug")), branch=branch, attachments=names or None),
    )


CHATGPT = WebExport("chatgpt", ("mapping", dict), _head, _messages)
