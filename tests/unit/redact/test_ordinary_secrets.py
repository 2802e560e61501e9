"""Nearly every secret that people paste goes, in the forms that the rules were made by and in others."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from harken.redact.redactor import Redactor

redactor = Redactor()
_BASE64 = re.compile(r"\{b64:([^}]*)\}")


def lines(name: str) -> list[tuple[str, str]]:
    """The texts of a list and the secret in each."""
    found = []
    for line in Path(__file__).with_name(f"{name}_secrets.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            plain = line.replace("¦", "").replace("⏎", "\n").replace("␛", "\x1b")
            plain = _BASE64.sub(lambda part: base64.b64encode(part[1].encode()).decode(), plain)
            text, _, secret = plain.rpartition("~")
            assert secret in text, line
            found.append((text, secret))
    return found


def passed(name: str) -> list[str]:
    """The texts of a list in which a half of the secret or more stays."""
    left = []
    for text, secret in lines(name):
        clean, half = redactor.redact(text).text, len(secret) // 2
        if any(part in clean for part in (secret, secret[:half], secret[half:])):
            left.append(f"{text!r} -> {clean!r}")
    return left


@pytest.mark.parametrize(("name", "least", "enough"), [("ordinary", 170, 0.98), ("heldout", 60, 0.92)])
def test_nearly_every_ordinary_secret_goes(name: str, least: int, enough: float) -> None:
    known, left = lines(name), passed(name)
    assert len({text for text, _ in known}) == len(known) >= least
    assert len(left) <= (1 - enough) * len(known), "\n".join(left)
