"""Units of every language, from code as people write it."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import dedent
from typing import NoReturn

import pytest

from harken.errors import MissingExtraError
from harken.model import workspace as indexed
from harken.model.workspace import CodeUnit
from harken.sources.workspace.languages import GRAMMARS, Language, language_of
from harken.sources.workspace.units import parse_units

PYTHON = '''
"""What a budget is."""

LIMIT: int = 3
lower = 4


class Budget:
    """Tokens to give away."""

    SHARE = 0.25

    @property
    def left(self) -> int:
        """What is left."""
        return self.total - self.spent

    async def spend(
        self,
        tokens: int,
    ) -> None:
        def inner() -> None: ...
        self.spent += tokens


# Divides evenly.
@cache
def divide(total: int) -> int:
    return total // 2
'''
TYPESCRIPT = """
/** Talks to a server. */
export class Client<T> extends Base {
  private retry = async (times: number) => { await this.get(times); };
  /** Fetches one. */
  get(id: number): T { return this.cache[id]; }
}
export interface Options { url: string; open(): void }
export enum Mode { On, Off }
export type Id = string | number;
export const MAX_TRIES = 3;
const local = 1;
// Adds two.
export const add = (a: number, b: number): number => { const inner = () => a; return a + b; };
export default function main() { return add(1, 2); }
namespace Deep { export function dive() {} }
"""
JAVASCRIPT = """
class Store { #items = []; add(item) { this.#items.push(item); } handler = () => 1; }
function* walk(tree) { yield tree; }
const fetchAll = async function (urls) { return urls; };
export const LIMITS = { most: 3 };
"""
RUST = """
//! Money, and what it does.

use std::fmt;

/// A purse.
/// It holds coins.
#[derive(Debug)]
pub struct Purse<T> { coins: Vec<T> }

impl<T> Purse<T> {
    pub const MOST: usize = 9;
    /// Takes one out.
    pub fn take(&mut self) -> Option<T> {
        fn helper() {}
        self.coins.pop()
    }
}

pub trait Spend { fn spend(&self) -> u8; }
enum Coin { Gold }
mod vault { pub fn lock() {} }
static NAME: &str = "x";
"""
GO = """
package store

// Limit is how many are kept.
const Limit = 3

const (
	A = 1
	B = 2
)

// Store keeps things.
type Store[T any] struct { items []T }

// Get finds one.
func (s *Store[T]) Get(key string) (T, error) { return s.items[0], nil }

type Reader interface { Read() int }

func main() { run := func() {}; run() }
"""
JAVA = """
package a.b;

/**
 * Keeps accounts.
 */
@Deprecated
public class Account<T> {
    public static final int MOST = 3;
    private int sum;
    /** Opens one. */
    Account(int sum) { this.sum = sum; }
    @Override
    public int sum() { return sum; }
    enum Kind { OPEN }
    interface Rule { int WEIGHT = 1; boolean holds(); }
    record Line(int amount) {}
}
"""
C = """
/* Counts things. */

#ifndef COUNT_H
#define COUNT_H
#define MOST 10
#define TWICE(x) ((x) * 2)
/* Opens it. */
int *open_it(const char *name);
typedef struct node { int value; } node;
struct list { node *first; };
enum color { RED };
static const int limit = 3;

/* Adds. */
static int add(int a, int b)
{
    return a + b;
}
#endif
"""
CPP = """
namespace geo {
/// A shape of any kind.
template <typename T>
class Shape : public Base {
 public:
  explicit Shape(int sides);
  ~Shape() = default;
  virtual double area() const = 0;
  T *get() { return item; }
  static constexpr int kMost = 3;
  bool operator==(const Shape &other) const { return true; }
};
double Shape::area() const { return 1; }
enum class Color { Red };
using Id = int;
}
"""
SQL = """
-- People who log in.
CREATE TABLE app.users (id INT PRIMARY KEY, name TEXT);

CREATE VIEW active AS SELECT * FROM app.users;
CREATE OR REPLACE FUNCTION add_one(a INT) RETURNS INT AS $$ BEGIN RETURN a + 1; END; $$ LANGUAGE plpgsql;
CREATE TYPE mood AS ENUM ('glad');
"""


def units(source: str, path: str) -> dict[str, CodeUnit]:
    language = language_of(path)
    assert language is not None
    found = parse_units(dedent(source).lstrip("\n").encode(), path, language)
    assert len({(unit.qualified_name, unit.number) for unit in found}) == len(found)
    return {unit.qualified_name + ("" if unit.number == 0 else f"#{unit.number}"): unit for unit in found}


def kinds(source: str, path: str) -> dict[str, str]:
    return {name: unit.unit_type for name, unit in units(source, path).items()}


def test_python() -> None:
    found = units(PYTHON, "src/shop/budget.py")
    assert {name.removeprefix("shop.budget"): unit.unit_type for name, unit in found.items()} == {
        "": "module",
        ".LIMIT": "constant",
        ".Budget": "class",
        ".Budget.SHARE": "constant",
        ".Budget.left": "method",
        ".Budget.spend": "method",
        ".Budget.spend.inner": "function",
        ".divide": "function",
    }
    module, left, spend = found["shop.budget"], found["shop.budget.Budget.left"], found["shop.budget.Budget.spend"]
    assert (module.docstring, module.name, module.body) == ("What a budget is.", "budget", "LIMIT, Budget, divide")
    assert (left.signature, left.docstring) == ("def left(self) -> int:", "What is left.")
    assert left.body == "return self.total - self.spent"
    assert (left.start_line, left.end_line) == (13, 15)
    assert spend.signature.startswith("async def spend(\n")
    assert spend.signature.endswith(") -> None:")
    assert found["shop.budget.divide"].docstring == "Divides evenly."
    assert found["shop.budget.Budget"].docstring == "Tokens to give away."


def test_typescript() -> None:
    found = units(TYPESCRIPT, "web/client.ts")
    assert {name: unit.unit_type for name, unit in found.items()} == {
        "web/client": "module",
        "Client": "class",
        "Client.retry": "method",
        "Client.get": "method",
        "Options": "class",
        "Options.open": "method",
        "Mode": "class",
        "Id": "class",
        "MAX_TRIES": "constant",
        "add": "function",
        "add.inner": "function",
        "main": "function",
        "Deep.dive": "function",
    }
    assert found["Client"].docstring == "Talks to a server."
    assert found["Client.get"].docstring == "Fetches one."
    assert found["add"].signature == "export const add = (a: number, b: number): number"
    assert found["add"].docstring == "Adds two."
    assert {unit.language for unit in found.values()} == {"typescript"}
    assert kinds("export const App = () => <div/>;", "views/page.tsx")["App"] == "function"


def test_javascript() -> None:
    assert kinds(JAVASCRIPT, "store.js") == {
        "store": "module",
        "Store": "class",
        "Store.add": "method",
        "Store.handler": "method",
        "walk": "function",
        "fetchAll": "function",
        "LIMITS": "constant",
    }


def test_rust() -> None:
    found = units(RUST, "purse.rs")
    assert {name: unit.unit_type for name, unit in found.items()} == {
        "purse": "module",
        "Purse": "class",
        "Purse::MOST": "constant",
        "Purse::take": "method",
        "Purse::take::helper": "function",
        "Spend": "class",
        "Spend::spend": "method",
        "Coin": "class",
        "vault::lock": "function",
        "NAME": "constant",
    }
    assert found["purse"].docstring == "Money, and what it does."
    assert found["Purse"].docstring == "A purse.\nIt holds coins."
    assert found["Purse"].signature == "pub struct Purse<T> { coins: Vec<T> }"
    assert (found["Purse::take"].docstring, found["Purse::take"].name) == ("Takes one out.", "take")
    assert (found["Purse::take"].start_line, found["Purse::take"].end_line) == (13, 16)


def test_go() -> None:
    found = units(GO, "store.go")
    assert {name: unit.unit_type for name, unit in found.items()} == {
        "store": "module",
        "Limit": "constant",
        "A": "constant",
        "B": "constant",
        "Store": "class",
        "Store.Get": "method",
        "Reader": "class",
        "Reader.Read": "method",
        "main": "function",
    }
    assert found["Limit"].docstring == "Limit is how many are kept."
    assert found["Store"].signature == "type Store[T any] struct { items []T }"
    assert found["Store.Get"].signature == "func (s *Store[T]) Get(key string) (T, error)"
    assert (found["Store.Get"].docstring, found["Store.Get"].name) == ("Get finds one.", "Get")


def test_java() -> None:
    found = units(JAVA, "Account.java")
    assert {name: unit.unit_type for name, unit in found.items()} == {
        "Account#1": "class",
        "Account": "module",
        "Account.MOST": "constant",
        "Account.Account": "method",
        "Account.sum": "method",
        "Account.Kind": "class",
        "Account.Rule": "class",
        "Account.Rule.WEIGHT": "constant",
        "Account.Rule.holds": "method",
        "Account.Line": "class",
    }
    assert found["Account#1"].docstring == "Keeps accounts."
    assert found["Account.Account"].docstring == "Opens one."


def test_c() -> None:
    found = units(C, "count.h")
    assert {name: unit.unit_type for name, unit in found.items()} == {
        "count": "module",
        "MOST": "constant",
        "TWICE": "function",
        "open_it": "function",
        "node": "class",
        "list": "class",
        "color": "class",
        "limit": "constant",
        "add": "function",
    }
    assert found["count"].docstring == "Counts things."
    assert found["open_it"].docstring == "Opens it."
    assert found["add"].signature == "static int add(int a, int b)"
    assert (found["add"].start_line, found["add"].end_line) == (15, 18)


def test_cpp() -> None:
    found = units(CPP, "shape.cpp")
    assert {name: unit.unit_type for name, unit in found.items()} == {
        "shape": "module",
        "geo::Shape": "class",
        "geo::Shape::Shape": "method",
        "geo::Shape::~Shape": "method",
        "geo::Shape::area": "method",
        "geo::Shape::get": "method",
        "geo::Shape::kMost": "constant",
        "geo::Shape::operator==": "method",
        "geo::Shape::area#1": "method",
        "geo::Color": "class",
        "geo::Id": "class",
    }
    assert found["geo::Shape"].docstring == "A shape of any kind."
    assert found["geo::Shape"].signature == "template <typename T>\nclass Shape : public Base"
    assert found["geo::Shape::area#1"].signature == "double Shape::area() const"


def test_sql() -> None:
    found = units(SQL, "schema.sql")
    assert {name: unit.unit_type for name, unit in found.items()} == {
        "schema": "module",
        "app.users": "table",
        "active": "view",
        "add_one": "function",
        "mood": "class",
    }
    assert (found["app.users"].docstring, found["app.users"].name) == ("People who log in.", "users")
    assert found["app.users"].signature == "CREATE TABLE app.users (id INT PRIMARY KEY, name TEXT)"


@pytest.mark.parametrize("path", ["a.py", "a.ts", "a.rs", "a.go", "a.java", "a.c", "a.cpp", "a.sql", "a.js"])
def test_broken_and_empty_files_still_have_their_module(path: str) -> None:
    language = language_of(path)
    assert language is not None
    for source in (b"", b"\xff\xfe\x00def (((", b"class class { fn def ((( }\n" * 50):
        assert parse_units(source, path, language)[0].unit_type == "module"


def test_one_name_defined_twice_is_two_units() -> None:
    found = units("if x:\n    def f(): ...\nelse:\n    def f(): ...\n", "a.py")
    assert [name for name in found if ".f" in name] == ["a.f", "a.f#1"]


def test_a_package_is_named_by_its_folder() -> None:
    assert next(iter(units("", "src/shop/__init__.py"))) == "shop"
    assert next(iter(units("", "tools/run.py"))) == "tools.run"


def test_a_missing_grammar_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'harken\[code\]'"):
        Language("cobol", "tree_sitter_no_such_language", "").matches(b"")


def test_every_language_has_its_grammar_installed() -> None:
    for language in GRAMMARS.values():
        assert language.matches(b"")[1] == []


def test_every_language_that_can_be_named_has_a_grammar() -> None:
    assert {*indexed.LANGUAGES} == {*GRAMMARS} - {"tsx"}


def test_ctrl_c_while_a_language_is_being_opened_is_no_error_of_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> NoReturn:
        raise KeyboardInterrupt

    opening = replace(GRAMMARS["python"])
    with monkeypatch.context() as patched:
        # Where it arrived: the grammar's library has this compile what a query's patterns say.
        patched.setattr(re, "_compile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            opening.matches(b"x = 1")
