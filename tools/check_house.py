"""Fail where the house is larger, deeper or more tangled than it may be.

Sizes: a file of the project may have 500 lines, a function 60, a function of SQL 100, a class of the product 15 public
methods. The house itself (`src/harken`): how many files and lines in all, how many modules at the top and in a folder,
how many files that are hardly worth one, no class name twice, no circle of imports, late ones included.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

FILE_LINES, FUNCTION_LINES, SQL_FUNCTION_LINES, PUBLIC_METHODS = 500, 60, 100, 15
FILES, LINES, TOP_MODULES, FOLDER_MODULES, SMALL_FILES, SMALL_LINES = 365, 70_940, 7, 14, 20, 60
ROOTS = ("src", "tests", "benchmarks", "tools")
HOUSE = Path("src/harken")
_SQL_FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION ", re.MULTILINE | re.IGNORECASE)


@cache
def _statements(path: Path) -> tuple[ast.AST, ...]:
    """All statements of a file, those inside of others included; what stands in expressions takes longest to walk."""
    found: list[ast.AST] = list(ast.parse(path.read_text(encoding="utf-8")).body)
    for node in found:
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            found += getattr(node, part, ())
    return tuple(found)


def _oversized(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    yield from _over(f"{path}: lines", text.count("\n"), FILE_LINES)
    for node in _statements(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            yield from _over(f"{path}:{node.lineno}: lines of {node.name}", length, FUNCTION_LINES)
        elif isinstance(node, ast.ClassDef) and path.parts[0] == "src":
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
            # A decorated part or property is an attribute to whoever reads the class.
            verbs = [m for m in methods if not {"property", "lazy_part"} & {ast.unparse(d) for d in m.decorator_list}]
            public = [m for m in verbs if not m.name.startswith(("_", "test_"))]
            yield from _over(f"{path}:{node.lineno}: public methods of {node.name}", len(public), PUBLIC_METHODS)


def _oversized_sql(path: Path) -> Iterator[str]:
    for part in _SQL_FUNCTION.split(path.read_text(encoding="utf-8"))[1:]:
        name, body = part.split("(", 1)[0], part[: part.rfind("$$")]
        yield from _over(f"{path}: lines of {name}", body.count("\n") + 1, SQL_FUNCTION_LINES)


def _over(what: str, count: int, limit: int) -> Iterator[str]:
    if count > limit:
        yield f"{what}: {count:,}, {limit:,} allowed"


def _crowded(modules: Mapping[str, Path]) -> Iterator[str]:
    """Whether there are too many files, lines, modules in a folder, or files that are hardly worth one."""
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in modules.values()}
    yield from _over("src/harken: files", len(lines), FILES)
    yield from _over("src/harken: lines", sum(lines.values()), LINES)
    folders = Counter(path.parent for path in lines if path.name != "__init__.py")
    yield from _over("src/harken: modules at the top", folders[HOUSE] + 1, TOP_MODULES)
    for folder, count in folders.items():
        yield from _over(f"{folder}: modules", count, FOLDER_MODULES)
    small = [path for path, count in lines.items() if count < SMALL_LINES and path.name != "__init__.py"]
    yield from _over(f"src/harken: files under {SMALL_LINES} lines", len(small), SMALL_FILES)


def _named_twice(modules: Mapping[str, Path]) -> Iterator[str]:
    places = defaultdict(list)
    for path in modules.values():
        for node in _statements(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    for name, where in places.items():
        if len(where) > 1:
            yield f"class {name} stands more than once: {', '.join(where)}"


def imports_of(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Every module's imports from the house, those inside of functions included."""
    imports: dict[str, set[str]] = {}
    for module, path in modules.items():
        found = imports[module] = set()
        for node in _statements(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name if name in modules else node.module for name in names} & modules.keys()
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names} & modules.keys()
    return imports


def _circles(imports: Mapping[str, set[str]]) -> Iterator[str]:
    """Modules that reach one another: what is left once all that imports nothing more, or is not imported, is out."""
    left = {module: set(found) - {module} for module, found in imports.items()}
    while True:
        used = set().union(*left.values()) if left else set()
        leaves = {module for module, found in left.items() if not found or module not in used}
        if not leaves:
            break
        left = {module: found - leaves for module, found in left.items() if module not in leaves}
    if left:
        yield f"imports run in a circle among: {', '.join(sorted(left))}"


def main() -> int:
    """Check every Python and SQL file of the project, and the house as a whole."""
    # All trees stay until the end.
    gc.disable()
    files = [path for root in ROOTS for path in sorted(Path(root).rglob("*.py"))]
    modules = {}
    for path in sorted(HOUSE.rglob("*.py")):
        parts = path.with_suffix("").parts[1:]
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found = [line for path in files for line in _oversized(path)]
    found += [line for path in sorted(HOUSE.rglob("*.sql")) for line in _oversized_sql(path)]
    found += [*_crowded(modules), *_named_twice(modules), *_circles(imports_of(modules))]
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in modules.values())
    print("\n".join(found) or f"The house: {len(modules)} files, {lines:,} lines, all within its limits.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
