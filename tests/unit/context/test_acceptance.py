"""The acceptance lines of SPEC-002-18 that are about how contexts are built rather than about one context.

The others are named where they are tested, by their list and number.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import random
import tomllib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pytest

import harken.context
import harken.sources
from harken import Harken
from harken.model.arguments import CONTEXT_TYPES
from harken.testing import HashingEmbedder

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = (harken.context, harken.sources)
MEGABYTE = 2**20


def public() -> Iterator[tuple[str, Any]]:
    """Every public class, function and method behind a context, with its name."""
    for package in PACKAGES:
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            for name, thing in vars(module).items():
                if name.startswith("_") or getattr(thing, "__module__", "") != found.name:
                    continue
                if inspect.isfunction(thing):
                    yield f"{found.name}.{name}", thing
                elif inspect.isclass(thing):
                    yield f"{found.name}.{name}", thing
                    for method, body in vars(thing).items():
                        if not method.startswith("_") and inspect.isfunction(body):
                            yield f"{found.name}.{name}.{method}", body


def test_every_public_function_has_type_hints() -> None:
    """Quality 6: type hints for all public APIs."""
    bare = []
    for name, thing in public():
        if inspect.isfunction(thing):
            signature = inspect.signature(thing)
            named = [one for one in signature.parameters.values() if one.name != "self"]
            if any(one.annotation is one.empty for one in named) or signature.return_annotation is signature.empty:
                bare.append(name)
    assert bare == []


def test_every_public_class_and_method_has_a_docstring() -> None:
    """Quality 7: docstrings for all classes and methods."""
    assert [name for name, thing in public() if not (thing.__doc__ or "").strip()] == []


def test_contexts_were_measured_within_the_seeds_times() -> None:
    """Performance 1 and 2: under 1 s with five sources, a premortem under 1.5 s; `benchmarks/assemble.py` measures."""
    kept = json.loads((ROOT / "benchmarks/results/assemble.json").read_text(encoding="utf-8"))
    p95_ms = {line["what"]: float(line["p95"]) for line in kept["contexts"] if line["unit"] == "ms"}
    assert p95_ms["assemble_context, five sources"] < 1000
    assert p95_ms["get_premortem_context"] < 1500


def test_a_context_takes_little_memory(tmp_path: Path) -> None:
    """Performance 4: less than 50 MB per assembly."""
    with Harken(tmp_path, embedder=HashingEmbedder(), env={}) as opened:
        drawn = random.Random(7)
        for number in range(100):
            words = " ".join("".join(drawn.choices(ascii_lowercase, k=6)) for _ in range(60))
            opened.memories.add(f"Note {number} of the budget: {words}", "event")
        opened.embed()
        opened.assembler.assemble_context("budget", CONTEXT_TYPES, limit=50)
        tracemalloc.start()
        context = opened.assembler.assemble_context("notes of the budget", CONTEXT_TYPES, limit=50, max_tokens=20_000)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(context.items) > 20
    assert most < 50 * MEGABYTE


@pytest.mark.parametrize("command", ["ruff format --check .", "ruff check .", "mypy", "lint-imports"])
def test_the_build_holds_the_code_to_types_and_style(command: str) -> None:
    """Testing 4 and 5: type checking passes (strict) and linting passes, or the build does not."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check = makefile.partition("\ncheck:")[2].partition("\n\n")[0]
    assert f"/{command}\n" in f"{check}\n"
    assert PROJECT["tool"]["mypy"]["strict"] is True
    assert {"ANN", "D", "BLE", "C90"} <= set(PROJECT["tool"]["ruff"]["lint"]["select"])


def test_the_build_asks_for_nine_tenths_of_coverage() -> None:
    """Testing 1: unit test coverage of 90 % and more."""
    assert PROJECT["tool"]["coverage"]["report"]["fail_under"] >= 90
