"""The base install: everything that needs no extra is there without any."""

from __future__ import annotations

import subprocess
import sys

# Named as their users import them.
_EXTRAS = (
    *("prompt_toolkit", "starlette", "uvicorn", "mcp", "mcp_types", "pypdf", "tree_sitter", "sklearn", "scipy"),
    *("pydantic_ai", "genai_prices", "onnxruntime", "tokenizers", "fastembed"),
)
_OPENED = f"""
import importlib.abc, sys, tempfile

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in {_EXTRAS!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import harken.serve.cli.main
from harken.engine import Harken
from harken.engine.parts import Parts, lazy_part

with tempfile.TemporaryDirectory() as home, Harken(home, env={{}}, settings={{"embedder": "none"}}) as harken:
    names = [name for name, part in vars(Parts).items() if isinstance(part, lazy_part)]
    assert len(names) > 10
    for name in names:
        getattr(harken, name)
"""


def test_the_command_line_and_every_part_of_the_engine_open_without_an_extra() -> None:
    done = subprocess.run([sys.executable, "-c", _OPENED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
