"""The base install: everything that needs no extra is there without any."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

# Brought by what extras bring.
_BESIDE = ("mcp_types", "scipy", "psycopg_binary")
_OPENED = """
import sys, tempfile
from importlib.machinery import PathFinder

class Lacking(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {extras!r} else super().find_spec(name, path, target)

sys.meta_path[:] = [Lacking if finder is PathFinder else finder for finder in sys.meta_path]
import harken.serve.cli.main
from harken.engine import Harken
from harken.engine.parts import Parts, lazy_part

with tempfile.TemporaryDirectory() as home, Harken(home, env={{}}, settings={{"embedder": "none"}}) as harken:
    names = [name for name, part in vars(Parts).items() if isinstance(part, lazy_part)]
    assert len(names) > 10
    for name in names:
        getattr(harken, name)
    said = harken.record_message("talk", "user", "The walrus pump is blue. Always answer in metric units.")
    saved = harken.memories.add("The walrus pump stands at the third quay.", category="fact")
    assert {{hit.entry.ref_uid for hit in harken.search("walrus pump").hits}} == {{said.uid, saved.memory.uid}}
    assert "walrus" in str(harken.build_context("other", ["Where is the walrus pump?"]))
    assert "third quay" in str(harken.assemble_context("Paint the walrus pump", ["memories"]))
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[said.uid]))
    assert [hit.entry.ref_uid for hit in harken.search("walrus pump").hits] == [saved.memory.uid]
"""


def _modules_of_extras() -> set[str]:
    named = {re.split(r"[^\w-]", line)[0].lower() for line in requires("harken") or () if "extra ==" in line}
    brought = packages_distributions().items()
    return {module for module, names in brought if named & {name.lower().replace("_", "-") for name in names}}


def test_the_command_line_and_the_verbs_of_one_person_go_without_an_extra() -> None:
    extras = _modules_of_extras()
    assert {"psycopg", "starlette", "onnxruntime", "sklearn", "pydantic_ai", "tree_sitter"} <= extras
    program = _OPENED.format(extras=(*extras, *_BESIDE))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
