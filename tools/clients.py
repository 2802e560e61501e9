"""Write the clients that are made of a team's OpenAPI: the types of `harken.client`, and the TypeScript client.

    python tools/clients.py

A test holds the files against the operations: run this whenever an operation that a team's server has changes.
"""

from __future__ import annotations

import json
import keyword
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harken import client
from harken.client import required_of
from harken.serve.http.openapi import team_openapi
from harken.serve.operations.operation import Effect
from harken.serve.operations.registry import TEAM_OPERATIONS

ROOT = Path(__file__).resolve().parents[1]
STUB = Path(client.__file__).with_suffix(".pyi")
TYPESCRIPT = ROOT / "clients" / "typescript"
_NOTE = "Written by tools/clients.py: change the operations, then run it again."
_PYTHON = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
_JAVASCRIPT = {
    "string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null",
    "object": "Record<string, unknown>",
}  # fmt: skip
Schema = Mapping[str, Any]


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def python_type(schema: Schema) -> str:
    """The type of a schema, for Python."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(python_type, schema["anyOf"])))
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if schema.get("type") == "array":
        return f"list[{python_type(schema.get('items', {}))}]"
    if isinstance(extra := schema.get("additionalProperties"), Mapping):
        return f"dict[str, {python_type(extra)}]"
    return _PYTHON.get(schema.get("type", ""), "Any")


def typescript_type(schema: Schema) -> str:
    """The type of a schema, for TypeScript."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(typescript_type, schema["anyOf"])))
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if schema.get("type") == "array":
        return f"Array<{typescript_type(schema.get('items', {}))}>"
    if isinstance(extra := schema.get("additionalProperties"), Mapping):
        return f"Record<string, {typescript_type(extra)}>"
    return _JAVASCRIPT.get(schema.get("type", ""), "unknown")


def _verbs(document: Schema) -> Iterator[tuple[str, str, str, str]]:
    """Of each verb its name, summary, and the schemas of what it takes and answers."""
    for name, operation in TEAM_OPERATIONS.items():
        verb = document["paths"][f"/v1/{name}"]["post"]
        asked, answered = (
            part["content"]["application/json"]["schema"]["$ref"]
            for part in (verb["requestBody"], verb["responses"]["200"])
        )
        yield name, operation.summary, _name(asked), _name(answered)


def python_stub() -> str:
    """The types of `harken.client`."""
    document = team_openapi()
    schemas = document["components"]["schemas"]
    asked = {form for _, _, form, _ in _verbs(document)}
    lines = [
        f'"""{_NOTE}"""',
        "from collections.abc import AsyncIterator, Iterator",
        "from typing import Any, Literal, NotRequired, Self, TypedDict",
        "import httpx",
        "from harken.errors import EndpointError",
        "from harken.serve.operations.operation import AnyOperation",
        "class ApiError(EndpointError):",
        "    status: int",
        "    kind: str",
        "    detail: str",
        "    def __init__(self, status: int, kind: str, detail: str) -> None: ...",
        "def required_of(operation: AnyOperation) -> list[str]: ...",
    ]
    for name, schema in schemas.items():
        if name in asked or name == "Problem":
            continue
        lines.append(f"class {name}(TypedDict):")
        fields = schema.get("properties", {})
        for field, each in fields.items():
            kind = python_type(each)
            lines.append(f"    {field}: {kind if field in schema.get('required', ()) else f'NotRequired[{kind}]'}")
        if not fields:
            lines.append("    pass")
    for kind, word in (("HarkenClient", "def"), ("AsyncHarkenClient", "async def")):
        lines += _python_class(document, kind, word)
    return "\n".join(lines) + "\n"


def _python_class(document: Schema, kind: str, word: str) -> Iterator[str]:
    prefix, is_async = ("Async", True) if word != "def" else ("", False)
    transport = f"httpx.{prefix}BaseTransport" if is_async else "httpx.BaseTransport"
    yield f"class {kind}:"
    yield (
        "    def __init__(self, url: str, key: str, space: str | None = ..., *, attempts: int = ..., "
        f"timeout_seconds: float = ..., transport: {transport} | None = ...) -> None: ..."
    )
    yield "    def in_space(self, space: str | None) -> Self: ..."
    yield f"    {word} call(self, verb: str, /, **given: Any) -> dict[str, Any]: ..."
    yield f"    def pages(self, verb: str, /, **given: Any) -> {prefix}Iterator[dict[str, Any]]: ..."
    yield f"    {word} close(self) -> None: ..."
    before, after = ("__aenter__", "__aexit__") if is_async else ("__enter__", "__exit__")
    yield f"    {word} {before}(self) -> Self: ..."
    yield f"    {word} {after}(self, *_error: object) -> None: ..."
    for name, _, form, answer in _verbs(document):
        fields = document["components"]["schemas"][form].get("properties", {})
        first = required_of(TEAM_OPERATIONS[name])
        given = [f"{each}: {python_type(fields[each])}" for each in first]
        rest = [f"{each}: {_optional(python_type(fields[each]))} = ..." for each in fields if each not in first]
        assert not any(map(keyword.iskeyword, fields)), name
        yield f"    {word} {name}({', '.join(['self', *given, *(['*', *rest] if rest else [])])}) -> {answer}: ..."


def _optional(kind: str) -> str:
    return kind if "None" in kind.split(" | ") else f"{kind} | None"


def typescript_types() -> str:
    """The types of the TypeScript client."""
    document = team_openapi()
    lines = [f"// {_NOTE}"]
    for name, schema in document["components"]["schemas"].items():
        lines.append(f"export interface {name} {{")
        for field, each in schema.get("properties", {}).items():
            if about := each.get("description"):
                lines.append(f"  /** {about} */")
            mark = "" if field in schema.get("required", ()) else "?"
            lines.append(f"  {field}{mark}: {typescript_type(each)};")
        lines.append("}")
    lines += (TYPESCRIPT / "client.d.ts.in").read_text(encoding="utf-8").splitlines()
    for name, summary, form, answer in _verbs(document):
        mark = "" if TEAM_OPERATIONS[name].has_required else "?"
        lines += [f"  /** {summary} */", f"  {name}(given{mark}: {form}): Promise<{answer}>;"]
    return "\n".join([*lines, "}"]) + "\n"


def typescript_code() -> str:
    """The TypeScript client, as JavaScript that any runtime takes as it is."""
    writes = [name for name, operation in TEAM_OPERATIONS.items() if operation.effect is not Effect.READS]
    once = [name for name, operation in TEAM_OPERATIONS.items() if operation.is_secret]
    template = (TYPESCRIPT / "client.js.in").read_text(encoding="utf-8")
    verbs = "".join(
        f"  {name}(given = {{}}) {{\n    return this.call({json.dumps(name)}, given);\n  }}\n"
        for name in TEAM_OPERATIONS
    )
    for mark, text in {
        "/*WRITES*/": json.dumps(writes),
        "/*ONCE*/": json.dumps(once),
        "  /*VERBS*/": verbs.rstrip(),
    }.items():
        template = template.replace(mark, text)
    return f"// {_NOTE}\n{template}"


def formatted(source: str) -> str:
    """Python as the house has it."""
    for words in (("check", "--select", "I", "--fix", "--quiet"), ("format",)):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(STUB), "-"]
        source = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return source


def files() -> dict[Path, str]:
    """What is written, and where."""
    return {
        STUB: formatted(python_stub()),
        TYPESCRIPT / "harken.js": typescript_code(),
        TYPESCRIPT / "harken.d.ts": typescript_types(),
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content, encoding="utf-8")
        print(path.relative_to(ROOT))
