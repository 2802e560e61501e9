"""One file per foreign way of writing conversations down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harken.record.transcripts.chatgpt import ChatGPT
from harken.record.transcripts.claude_ai import ClaudeAI
from harken.record.transcripts.claude_code import ClaudeCode
from harken.record.transcripts.codex import Codex
from harken.record.transcripts.jsonl import Jsonl
from harken.record.transcripts.parsed import TranscriptFormat

__all__ = ["formats"]


def formats(environment: Mapping[str, str], home: Path) -> dict[str, TranscriptFormat]:
    """Every transcript format by the name that the command line uses.

    Args:
        environment: where agents are told their folders (`CLAUDE_CONFIG_DIR`, `CODEX_HOME`).
        home: the person's home, under which they keep them otherwise.
    """
    known: tuple[TranscriptFormat, ...] = (
        ClaudeCode(Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")),
        Codex(Path(environment.get("CODEX_HOME") or home / ".codex")),
        ChatGPT(),
        ClaudeAI(),
        Jsonl(),
    )
    return {each.name: each for each in known}
