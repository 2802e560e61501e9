"""The tool that renews the prefixes of vendors' tokens takes what a rule set says, and no words."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools/vendor_prefixes.py"
RULES = r"""# This file has been auto-generated. Do not edit manually.
[[rules]]
id = "two-prefixes"
regex = '''\b((?:acme|acmo)_(?i)[a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)'''
[[rules]]
id = "with-parts"
regex = '''\bax-[0-9a-f]{8}-[A-Za-z0-9_]{20,}\b'''
[[rules]]
id = "a-word"
regex = '''\bpage[a-z0-9]{20}\b'''
[[rules]]
id = "beside-a-name"
regex = '''(?i)[\w.-]{0,50}?(?:acme)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>)([a-z0-9]{32})'''
[[rules]]
id = "a-file"
path = '''\.p12$'''
"""


def test_prefixes_are_taken_from_a_rule_set_or_from_the_program_that_carries_it(tmp_path: Path) -> None:
    program, rules, out = tmp_path / "program", tmp_path / "rules.toml", tmp_path / "out.toml"
    rules.write_text(RULES, encoding="utf-8")
    program.write_bytes(b"\x7fELF\x00" + RULES.encode() + b"\x00more")
    for source in (rules, program):
        subprocess.run([sys.executable, TOOL, source, "--out", out], check=True, capture_output=True)
        assert tomllib.loads(out.read_text(encoding="utf-8"))["tokens"] == [
            ["A-Za-z0-9", 32, "acme_ acmo_"],
            ["A-Za-z0-9_-", 29, "ax-"],
        ]


def test_what_holds_no_rules_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    other, out = tmp_path / "other", tmp_path / "out.toml"
    other.write_text("no rules", encoding="utf-8")
    done = subprocess.run([sys.executable, TOOL, other, "--out", out], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n"), out.exists()) == (1, 1, False)
    assert "config/gitleaks.toml" in done.stderr
