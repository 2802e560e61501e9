"""Write `src/harken/aio.pyi`: the types of the async classes, which `aio.py` makes when it is imported.

    python tools/async_stub.py

A verb's signature is that of the blocking one, read from its source; names are imported from where that source has
them. A test holds the file against the sources: run this whenever a verb of `Harken` or of one of its parts changes.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from harken import aio
from harken.engine import Harken

STUB = Path(aio.__file__).with_suffix(".pyi")
_HEADER = '"""Written by tools/async_stub.py: change the blocking classes, then run it again."""'
Method = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """A class's source, and where each name in it comes from."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
        self._imports = {"AsyncGenerator": "from collections.abc import AsyncGenerator"}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom):
                self._imports.update(
                    {each.asname or each.name: f"from {node.module} import {ast.unparse(each)}" for each in node.names}
                )
            elif isinstance(node, ast.Import):
                self._imports.update({each.name: f"import {each.name}" for each in node.names})

    def origin(self, name: str) -> str:
        """How to import a name that the class uses."""
        return self._imports.get(name, f"from {self._kind.__module__} import {name}")

    def methods(self) -> Iterator[Method]:
        """Its methods as a stub has them, in its own order: without words, defaults and bodies."""
        for found in self._tree.body:
            for node in found.body if isinstance(found, ast.ClassDef) and found.name == self._kind.__name__ else ():
                if isinstance(node, Method):
                    node.body = [ast.Expr(ast.Constant(...))]
                    node.args.defaults = [ast.Constant(...) for _ in node.args.defaults]
                    node.args.kw_defaults = [each and ast.Constant(...) for each in node.args.kw_defaults]
                    yield node


class Stub:
    """Collects classes and the imports that they need."""

    def __init__(self) -> None:
        self._origins = {"TypeVar": "from typing import TypeVar"}
        self._classes: list[str] = []

    def add(self, lines: list[str], members: Iterable[tuple[Source, Method]]) -> None:
        """A class.

        Args:
            lines: its head, and its attributes.
            members: its methods, each with the source that it is from.
        """
        for source, node in members:
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and not hasattr(builtins, name.id):
                    name.id = self._imported(name.id, source.origin(name.id))
            lines = lines + ast.unparse(node).splitlines()
        self._classes.append("\n    ".join(lines))

    def text(self) -> str:
        """The file, as it is formatted."""
        text = "\n".join([_HEADER, *self._origins.values(), 'Result = TypeVar("Result")', *self._classes])
        for command in (["check", "--select", "I", "--fix-only"], ["format"]):
            ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(STUB), "-"]
            text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
        return text

    def _imported(self, name: str, origin: str) -> str:
        """The name under which it is imported: another one where two modules call different things the same."""
        if origin.startswith(f"from {aio.__name__} "):
            return name
        if self._origins.setdefault(name, origin) != origin:
            name = origin.split()[1].rpartition(".")[2].title() + name
            self._origins[name] = f"{origin} as {name}"
        return name


def awaited(kind: type) -> Iterator[tuple[Source, Method]]:
    """The public verbs of a class, awaited, and its properties; each with the source that it is from."""
    for each in kind.__mro__[:-1]:
        source = Source(each)
        for node in source.methods():
            member = inspect.getattr_static(kind, node.name)
            if node.name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
                continue
            if inspect.isgeneratorfunction(member):
                node.returns = ast.Subscript(ast.Name("AsyncGenerator"), node.returns.slice)
            elif inspect.isfunction(member):
                node = ast.AsyncFunctionDef(**vars(node))
            yield source, node


def stub() -> str:
    """The file as it is to be."""
    made, calls, own = Stub(), Source(aio.Calls), Source(aio.AsyncHarken)
    made.add(["class Calls:"], ((calls, node) for node in calls.methods() if not node.name.startswith("_")))
    for kind in aio.PARTS.values():
        made.add([f"class Async{kind.__name__}:"], awaited(kind))
    opening = Source(Harken.__mro__[1])
    members = {node.name: (opening, node) for node in opening.methods() if node.name == "__init__"}
    members |= {node.name: (source, node) for source, node in awaited(Harken)}
    members |= {
        node.name: (own, node) for node in own.methods() if not node.name.startswith("_") or node.name[2:4] == "ae"
    }
    parts = [f"{name}: Async{kind.__name__}" for name, kind in aio.PARTS.items()]
    made.add(["class AsyncHarken:", *parts], members.values())
    return made.text()


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
