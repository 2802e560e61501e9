"""Definitions in forms that are found beside the plain ones: one parametrized claim for each language."""

from __future__ import annotations

import pytest

from harken.model.workspace import CodeUnit
from harken.sources.workspace.languages import language_of
from harken.sources.workspace.units import parse_units


def parsed(path: str, source: str) -> list[CodeUnit]:
    language = language_of(path)
    assert language is not None
    return parse_units(source.encode(), path, language)


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("a.py", "type Pairs[T] = list[tuple[T, T]]\ntype Name = str\n", ["class a.Pairs", "class a.Name"]),
        (
            "a.d.ts",
            "export declare function parse(text: string): Tree;\ndeclare function ready(): void;\n",
            ["function parse", "function ready"],
        ),
        (
            "a.ts",
            "function f(a: string): void;\nfunction f(a: number): void;\nfunction f(a: any) {}\n",
            ["function f", "function f", "function f"],
        ),
        (
            "a.ts",
            "class A { static readonly RETRIES = 3; private sum = 0; static make = () => 1 }\n",
            ["class A", "constant A.RETRIES", "method A.make"],
        ),
        (
            "a.tsx",
            "export const Card = memo(function Inner() { return <p/> });\nconst Row = forwardRef((p, r) => <b/>);\n",
            ["function Card", "function Row"],
        ),
        (
            "a.js",
            "exports.parse = function (q) {};\nmodule.exports.format = (o) => 1;\nqueue.drain = function () {};\n",
            ["function parse", "function format", "function drain"],
        ),
        (
            "a.js",
            "function Stack() {}\nStack.prototype.push = function push(item) {};\n",
            ["function Stack", "method Stack.push"],
        ),
        (
            "a.js",
            "function bind(el) { el.onclick = () => 1; const ids = items.map((i) => i.id); }\n",
            ["function bind"],
        ),
        (
            "a.c",
            "int (*handler(int x))(int) { return 0; }\ntypedef int (*compare)(const void *);\n"
            'typedef struct n *node_t;\nstatic const int TABLE[] = {1};\nstatic const char *const NAMES[] = {"a"};\n',
            ["function handler", "class compare", "class node_t", "constant TABLE", "constant NAMES"],
        ),
        ("a.c", 'int f(void) { const int n = 1; const char *p = "x"; return n; }\n', ["function f"]),
        (
            "a.cpp",
            "struct A { operator bool() { return true; } explicit operator int(); int operator()(int) const; };\n",
            ["class A", "method A::operator bool", "method A::operator int", "method A::operator()"],
        ),
        (
            "a.sql",
            "CREATE FUNCTION shop.add(p INT) RETURNS void LANGUAGE sql AS $$ SELECT 1 $$;\n"
            "CREATE FUNCTION every() RETURNS SETOF shop.orders LANGUAGE sql AS $$ SELECT 1 $$;\n"
            'CREATE TABLE `odd-name` (a INT);\nCREATE TABLE "shop"."two words" (a INT);\n',
            ["function shop.add", "function every", "table odd-name", "table shop.two words"],
        ),
    ],
)
def test_forms_of_definitions(path: str, source: str, expected: list[str]) -> None:
    assert [f"{unit.unit_type} {unit.qualified_name}" for unit in parsed(path, source)[1:]] == expected


def test_what_rust_says_of_a_file_is_not_said_of_its_first_item() -> None:
    module, most, _ = parsed("a.rs", "//! Money.\n//! And coins.\n/// The most.\npub const MOST: u8 = 9;\nfn f() {}\n")
    assert (module.docstring, most.docstring) == ("Money.\nAnd coins.", "The most.")
