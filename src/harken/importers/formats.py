"""Every format that is read, by name; and which one a transcript is of, told by its first lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from harken.errors import TranscriptError
from harken.importers.chatgpt import CHATGPT
from harken.importers.claude_ai import CLAUDE_AI
from harken.importers.claude_code import ClaudeCode
from harken.importers.codex import Codex
from harken.importers.jsonl import Jsonl
from harken.importers.parsed import TranscriptFormat
from harken.importers.reading import files_below, objects
from harken.importers.web_exports import WebExport, read_values
from harken.journal.export import FORMAT


def formats(environment: Mapping[str, str], home: Path) -> dict[str, TranscriptFormat]:
    """Every transcript format by the name that the command line uses.

    Agents keep their histories under the person's home, unless the environment names a folder.
    """
    known: tuple[TranscriptFormat, ...] = (
        ClaudeCode(Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")),
        Codex(Path(environment.get("CODEX_HOME") or home / ".codex")),
        CHATGPT,
        CLAUDE_AI,
        Jsonl(),
    )
    return {each.name: each for each in known}


_COMPRESSED = ".jsonl.zst"
_SUFFIXES = (".jsonl", _COMPRESSED, ".json", ".zip")
_LINES, _VALUES = 20, 3
_CODEX_LINES = ("session_meta", "response_item", "event_msg", "turn_context")
_CODEX_NAME = "rollout-"
_EXCHANGE_KEYS = {"conversation", "role", "content"}
_CLAUDE_KEYS = {"sessionId", "parentUuid", "leafUuid", "isSnapshotUpdate"}


@dataclass(slots=True)
class Sorted:
    """Files by the name of their format, in the order that it wants, and those that look like no transcript."""

    files: dict[str, list[Path]] = field(default_factory=dict)
    unknown: list[Path] = field(default_factory=list)


def sort_by_format(paths: Sequence[Path], formats: Mapping[str, TranscriptFormat]) -> Sorted:
    """Every transcript under the paths, by format; folders are looked through whole."""
    found = Sorted()
    for path in paths:
        files = [path] if path.is_file() else sorted(f for f in files_below(path, "*") if f.name.endswith(_SUFFIXES))
        guesses: dict[str | None, list[Path]] = {}
        for file in files:
            guesses.setdefault(guess_format(file, formats), []).append(file)
        found.unknown += guesses.pop(None, [])
        for name in (name for name in formats if name in guesses):
            wanted = guesses[name]
            if formats[name].appends:
                # The format knows its own order, and which of two copies counts.
                known = set(wanted)
                wanted = [file for file in formats[name].files(path) if file in known]
            if wanted:
                found.files.setdefault(name, []).extend(wanted)
    found.files = {name: found.files[name] for name in formats if name in found.files}
    return found


def guess_format(path: Path, formats: Mapping[str, TranscriptFormat]) -> str | None:
    """The name of a file's format, or None for a file that is no transcript, or cannot be read."""
    try:
        if path.name.endswith(_COMPRESSED):
            return "codex"
        if path.suffix == ".jsonl":
            return _of_lines(path)
        for value, _ in islice(read_values(path), _VALUES):
            for name, known in formats.items():
                if isinstance(known, WebExport) and known.recognises(value):
                    return name
    except (OSError, TranscriptError):
        pass
    return None


def _of_lines(path: Path) -> str | None:
    for value in objects(path, lines=_LINES):
        if "payload" in value or value.get("type") in _CODEX_LINES or path.name.startswith(_CODEX_NAME):
            return "codex"
        if value.keys() >= _EXCHANGE_KEYS or value.get("format") == FORMAT:
            return "jsonl"
        if not value.keys().isdisjoint(_CLAUDE_KEYS) or isinstance(value.get("message"), dict):
            return "claude-code"
    return None
