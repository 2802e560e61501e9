"""Values that nobody means well with, as JSON writes them: some no parser takes, and no client library would send."""

from __future__ import annotations

import json
from pathlib import Path

SECRET = "launch_codes_of_nobody"

_WORDS = (
    "",
    "x" * 200_000,
    "a\0b\x1b[31mred\x07\r\n\u2028\u202equay\u0085\ufffe",
    "quay' OR '1'='1'; DROP TABLE messages; --",
    'NEAR(quay ship) AND "text:quay* ((',
    "$(touch owned); touch owned #`touch owned` %s{0.__class__}",
    "--output=owned",
    "December 9999",
)
_PLACES = ("../secrets", "link/secret.py", "~", "/etc/passwd", "file:///etc/passwd", "%2e%2e%2fsecrets", "x/" * 1900)
HALF_CHARACTER = r'"quay \ud83d"'
TOO_DEEP = "[" * 500 + "]" * 500
TOO_LONG_A_NUMBER = "1" + "0" * 5000
UNREADABLE = (HALF_CHARACTER, TOO_DEEP, TOO_LONG_A_NUMBER)
OTHER_KINDS = (
    "null",
    "true",
    "-1",
    "NaN",
    "1e999",
    "1" + "0" * 30,
    '{"$ne": 1}',
    json.dumps(["quay", 5, None] * 500),
    *UNREADABLE,
)


def texts(outside: Path) -> list[str]:
    """Texts: words, syntax of other languages, and ways out of a folder; one leads to what lies outside."""
    return [json.dumps(each) for each in (*_WORDS, *_PLACES, str(outside))]


def plant_secret(folder: Path) -> Path:
    """Put a secret there, in a file of each kind that is indexed."""
    (folder / "secret.py").write_text(f"def {SECRET}() -> None: ...\n", encoding="utf-8")
    (folder / "secret.md").write_text(f"# {SECRET}\n\nThe quay.\n", encoding="utf-8")
    return folder


def files_below(*folders: Path) -> dict[Path, bytes | None]:
    """Everything that is there, with its content."""
    found = [path for folder in folders for path in folder.rglob("*")]
    return {path: path.read_bytes() if path.is_file() and not path.is_symlink() else None for path in found}
