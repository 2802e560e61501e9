"""The four agents' transcripts read by plain JSON, knowing nothing of Harken: what people and agents said in them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Token = tuple[str, str]
Texts = Counter[Token]
# What somebody said is a token of role and text; a tool's call or result one of this and the call's id.
TOOL = "tool"

_NOBODY = ("isMeta", "isCompactSummary", "isApiErrorMessage")
# Commands and their output, which the agent writes in the person's name.
_COMMAND = re.compile(r"\s*(<command-name>|<local-command-|Caveat: The messages below)")
_THOUGHTS = ("thoughts", "reasoning_recap")
_REMINDER = re.compile(r"<system-reminder>(.*?)</system-reminder>", re.DOTALL)


@dataclass
class Plain:
    """What the files of one agent hold.

    Attributes:
        said: how often each (role, text) occurs.
        tools: how many tool calls and results there are.
        injected: texts that nobody said and that must not be kept.
    """

    said: Texts = field(default_factory=Counter)
    tools: int = 0
    injected: list[str] = field(default_factory=list)

    def take(self, tokens: list[Token]) -> None:
        """Count what was said."""
        self.tools += sum(kind == TOOL for kind, _ in tokens)
        self.said.update(token for token in tokens if token[0] != TOOL)


def read_plain(agent: str, folder: Path) -> Plain:
    """Everything in the agent's sample files."""
    return {"claude-code": _claude_code, "codex": _codex, "chatgpt": _chatgpt, "claude-ai": _claude_ai}[agent](folder)


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.jsonl")):
        yield from lines_of(path)


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The readable lines of a file."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _claude_code(folder: Path) -> Plain:
    plain = Plain()
    for line in _lines(folder):
        plain.injected += _injected(line)
        plain.take(claude_code_tokens(line))
    return plain


def claude_code_tokens(line: dict[str, Any]) -> list[Token]:
    """What a line of Claude Code's says."""
    message = line.get("message")
    if line.get("type") not in ("user", "assistant") or not isinstance(message, dict):
        return []
    if any(line.get(flag) for flag in _NOBODY):
        return []
    blocks = message.get("content")
    blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks or []
    blocks = [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    tools = [block for block in blocks if block.get("type") in ("tool_use", "tool_result")]
    texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
    texts = [text for text in texts if text.strip() and not _COMMAND.match(text)]
    said = [(str(line["type"]), "\n\n".join(texts))] if texts else []
    return [*said, *((TOOL, block.get("id") or block.get("tool_use_id") or "") for block in tools)]


def _injected(line: dict[str, Any]) -> Iterator[str]:
    attachment = line.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") != "queued_command":
        yield from _strings({key: value for key, value in attachment.items() if key not in ("type", "toolUseID")})
    if str(line.get("type")).startswith("api-"):
        yield from _strings(line)
    if any(line.get(flag) for flag in _NOBODY):
        yield from _strings(line.get("message"))
    for text in _strings(line.get("message")):
        yield from _REMINDER.findall(text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _codex(folder: Path) -> Plain:
    plain = Plain()
    for line in _lines(folder):
        payload = line.get("payload") or {}
        if payload.get("type") == "message" and payload.get("role") == "developer":
            plain.injected += [part["text"] for part in payload["content"]]
        plain.take(codex_tokens(line))
    return plain


def codex_tokens(line: dict[str, Any]) -> list[Token]:
    """What a line of a rollout says."""
    payload = line.get("payload") or {}
    kind = payload.get("type")
    if line.get("type") == "event_msg" and kind == "user_message":
        # The rollouts' texts were masked; the model's copy and the event's differ in the mask alone.
        return [("user", payload["message"])]
    if kind == "message" and payload.get("role") == "assistant":
        return [("assistant", "\n\n".join(part["text"] for part in payload["content"]))]
    # A web search says neither what it looked for nor what it found: there is nothing to keep of it.
    is_tool = str(kind).endswith(("_call", "_call_output")) and payload.get("call_id")
    return [(TOOL, payload["call_id"])] if is_tool else []


def _chatgpt(folder: Path) -> Plain:
    plain = Plain()
    for path in sorted(folder.glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        for conversation in value if isinstance(value, list) else [value]:
            for node in conversation["mapping"].values():
                _chatgpt_node(plain, node.get("message") or {})
    return plain


def _chatgpt_node(plain: Plain, message: dict[str, Any]) -> None:
    content = message.get("content") or {}
    if (message.get("author") or {}).get("role") == "system" or content.get("content_type") in _THOUGHTS:
        plain.injected += _strings(content)
    plain.take(chatgpt_tokens(message))


def chatgpt_tokens(message: dict[str, Any]) -> list[Token]:
    """What a message of ChatGPT's says."""
    role, content = (message.get("author") or {}).get("role"), message.get("content") or {}
    parts = [part for part in content.get("parts") or [] if isinstance(part, str) and part.strip()]
    text = "\n\n".join(parts) or content.get("text") or ""
    to_tool = role == "assistant" and "." in message.get("recipient", "all")
    if role == "system" or content.get("content_type") in _THOUGHTS:
        return []
    if role == "tool" or to_tool:
        return [(TOOL, "")]
    return [(str(role), text)] if text.strip() else []


def _claude_ai(folder: Path) -> Plain:
    plain = Plain()
    for path in sorted(folder.glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        for conversation in value if isinstance(value, list) else [value]:
            for message in conversation["chat_messages"]:
                plain.take(claude_ai_tokens(message))
                blocks = message.get("content") or []
                plain.injected += [block["thinking"] for block in blocks if block.get("type") == "thinking"]
    return plain


def claude_ai_tokens(message: dict[str, Any]) -> list[Token]:
    """What a message of Claude.ai's says."""
    blocks = message.get("content") or []
    texts = [block["text"] for block in blocks if block.get("type") == "text" and block.get("text")]
    text = "\n\n".join(texts) or message.get("text") or ""
    role = {"human": "user"}.get(message["sender"], message["sender"])
    tools = [block for block in blocks if block.get("type") in ("tool_use", "tool_result")]
    said = [(str(role), text)] if text.strip() else []
    return [*said, *((TOOL, block.get("id") or block.get("tool_use_id") or "") for block in tools)]
