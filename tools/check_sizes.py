"""Fail on files, functions and classes that are larger than the house allows.

A file may have 400 lines, a function 60, a class of the product 15 public methods. An exemption needs an ADR, and its
line here.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

FILE_LINES, FUNCTION_LINES, PUBLIC_METHODS = 400, 60, 15
ROOTS = ("src", "tests", "benchmarks", "tools")


def problems_of(path: Path) -> list[str]:
    """One line for each thing in the file that is too large."""
    text = path.read_text(encoding="utf-8")
    found = []
    count = text.count("\n")
    if count > FILE_LINES:
        found.append(f"{path}: {count} lines, {FILE_LINES} allowed")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines, {FUNCTION_LINES} allowed")
        elif isinstance(node, ast.ClassDef) and path.parts[0] == "src":
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
            public = [m for m in methods if not m.name.startswith(("_", "test_"))]
            if len(public) > PUBLIC_METHODS:
                count = len(public)
                found.append(f"{path}:{node.lineno}: {node.name} has {count} public methods, {PUBLIC_METHODS} allowed")
    return found


def main() -> int:
    """Check every Python file of the project."""
    found = [line for root in ROOTS for path in sorted(Path(root).rglob("*.py")) for line in problems_of(path)]
    print("\n".join(found) or "Sizes: all within the house's limits.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
