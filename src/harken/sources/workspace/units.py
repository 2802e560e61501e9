"""From source code to its units."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from harken.model.workspace import CodeUnit
from harken.sources.workspace.languages import Language

if TYPE_CHECKING:
    from tree_sitter import Node


_TYPES = ("function", "method", "class", "constant", "table", "view", "scope", "namespace")
_LENDS_ITS_NAME = ("scope", "namespace")
# What stands around a unit and belongs to its signature; decorators may be long, and only stand before it.
_WRAPPERS = (
    *("export_statement", "template_declaration", "lexical_declaration", "variable_declaration", "type_declaration"),
    *("const_declaration", "expression_statement", "statement", "ambient_declaration"),
)
_DECORATED = "decorated_definition"
_ATTRIBUTES = ("attribute_item", "decorator")
_UNNAMED_DECLARATORS = ("reference_declarator", "parenthesized_declarator")
_MAX_SIGNATURE, _MAX_DOCSTRING, _MAX_BODY = 600, 3000, 2000
_MAX_SHORT_COMMENT_LINES = 40
# The bars of a private key are no mark: they are what it is known by.
_COMMENT_MARK = re.compile(r"^\s*(?:/\*+!?|///?!?|--+(?!-|(?:BEGIN|END) )|\*+/?|#+!?)\s?|\s*\*+/\s*$")
_SOURCE_FOLDERS = ("src", "lib", "python")


@dataclass(slots=True)
class _FoundUnit:
    """A unit in the making, with those directly inside."""

    kind: str
    node: Node
    name: str
    body: Node | None
    names: tuple[str, ...] = ()
    children: list[str] = field(default_factory=list)
    is_top: bool = True


def parse_units(source: bytes, path: str, language: Language) -> list[CodeUnit]:
    """Every unit of a file, the module itself first, in the order of the lines.

    The source is UTF-8; what is none is replaced. The path, relative to the project and with forward slashes, names the
    module.

    Raises:
        MissingExtraError: the language's grammar is not installed.
    """
    root, matches = language.matches(source)
    module = _module_name(path, language)
    prefix = module.split(".") if language.has_docstrings else []
    found = _nested([unit for captures in matches if (unit := _unit(captures))], prefix)
    units = [_record(unit, path, language) for unit in found if unit.kind not in _LENDS_ITS_NAME]
    return _finished([_module(root, path, language, found), *units], language.separator)


def _unit(captures: Mapping[str, list[Any]]) -> _FoundUnit | None:
    kind = next(kind for kind in _TYPES if kind in captures)
    named = captures["name"][0]
    name = _declared_name(named).strip().strip("'\"`").replace('"."', ".").replace("`.`", ".")
    if kind == "scope":
        name = name.partition("<")[0]
    if "receiver" in captures:
        receiver = re.findall(r"\w+", _text(captures["receiver"][0]).partition("[")[0])
        name = ".".join(filter(None, [*receiver[-1:], name]))
    body = captures.get("body")
    return _FoundUnit(kind, captures[kind][0], name, body[0] if body else None) if name else None


def _declared_name(node: Node) -> str:
    """The name inside a declarator of C, which wraps it in pointers, parentheses and parameters."""
    while node.type != "operator_cast":
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type in _UNNAMED_DECLARATORS and node.named_children:
            inner = node.named_children[0]
        if inner is None:
            return _text(node)
        node = inner
    return f"operator {_text(node.named_children[0])}"


def _nested(found: list[_FoundUnit], prefix: list[str]) -> list[_FoundUnit]:
    """The same in the order of the lines, each with its qualified name, none twice."""
    kept: list[_FoundUnit] = []
    stack: list[_FoundUnit] = []
    seen: set[tuple[int, str]] = set()
    for unit in sorted(found, key=lambda unit: (unit.node.start_byte, -unit.node.end_byte, _TYPES.index(unit.kind))):
        while stack and stack[-1].node.end_byte <= unit.node.start_byte:
            stack.pop()
        parent = stack[-1] if stack else None
        # `typedef struct s {…} s` is one class; a constant of a function is that function's own.
        is_alias = parent is not None and parent.node.type == "type_definition" and parent.name == unit.name
        is_local = parent is not None and unit.kind == "constant" and parent.kind in ("function", "method")
        # `const F = () => …` is a function before it is a constant.
        if (unit.node.start_byte, unit.name) in seen or is_alias or is_local:
            continue
        seen.add((unit.node.start_byte, unit.name))
        if parent is not None:
            parent.children.append(unit.name)
            unit.is_top = parent.is_top and parent.kind == "namespace"
            if unit.kind == "function" and parent.kind in ("class", "scope"):
                unit.kind = "method"
        unit.names = (*(parent.names if parent else prefix), unit.name)
        kept.append(unit)
        stack.append(unit)
    return kept


def _record(unit: _FoundUnit, path: str, language: Language) -> CodeUnit:
    outer = _outer(unit.node)
    whole = outer.text or b""
    cut = len(whole) if unit.body is None else unit.body.start_byte - outer.start_byte
    # A type is known by what it consists of, a constant by its value: they have no body apart.
    is_short = unit.kind in ("constant", "table", "view") or (unit.kind == "class" and not unit.children)
    docstring, body = _documented(unit, outer, language)
    shown = whole if is_short and not language.has_docstrings else whole[:cut]
    signature = inspect.cleandoc(shown.decode(errors="replace")).strip()
    if not is_short:
        signature = signature.rstrip("{").rstrip().removesuffix("=>").rstrip()
    if len(signature) > _MAX_SIGNATURE:
        signature = signature[:_MAX_SIGNATURE].rstrip() + " …"
    if unit.children and unit.kind == "class":
        body = ", ".join(dict.fromkeys(unit.children))
    separator = language.separator
    kind = "method" if unit.kind == "function" and separator == "::" and "::" in unit.name else unit.kind
    return CodeUnit(
        path=path,
        unit_type=kind,
        name=re.split(r"::|\.", unit.name)[-1],
        qualified_name=separator.join(unit.names),
        language=language.searched_name,
        signature=signature,
        docstring=docstring[:_MAX_DOCSTRING],
        start_line=outer.start_point.row + 1,
        end_line=_last_row(outer) + 1,
        body=body[:_MAX_BODY],
    )


def _outer(node: Node) -> Node:
    """The node with what belongs to it around it: decorators, `export`, `template <…>`, `const`."""
    while (around := node.parent) is not None and around.type in _WRAPPERS:
        if [child for child in around.named_children if child.type == node.type] != [node]:
            break
        node = around
    return node


def _last_row(node: Node) -> int:
    """The row of a node's last character; some nodes take the line's end in."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _documented(unit: _FoundUnit, outer: Node, language: Language) -> tuple[str, str]:
    """The docstring, and the body without it."""
    string = _docstring_node(unit.body) if language.has_docstrings else None
    if string is None or unit.body is None:
        return _comment_before(outer), "" if unit.body is None else _text(unit.body, _MAX_BODY)
    after = (unit.body.text or b"")[string.end_byte - unit.body.start_byte :]
    return _unquoted(_text(string)), after[:_MAX_BODY].decode(errors="replace").strip()


def _docstring_node(body: Node | None) -> Node | None:
    first = next((child for child in body.named_children if child.type != "comment"), None) if body else None
    if first is None or first.type != "expression_statement" or not first.named_children:
        return None
    return first.named_children[0] if first.named_children[0].type == "string" else None


def _unquoted(literal: str) -> str:
    text = literal.lstrip("rRbBuUfF")
    quote = text[:3] if text[:3] in ('"""', "'''") else text[:1]
    return inspect.cleandoc(text.removeprefix(quote).removesuffix(quote)).strip()


def _comment_before(node: Node) -> str:
    """The comment that ends on the line before a node, without its marks."""
    if node.parent is not None and node.parent.type == _DECORATED:
        node = node.parent
    lines: list[str] = []
    row, before = node.start_point.row, node.prev_sibling
    while before is not None and row - _last_row(before) <= 1 and len(lines) < _MAX_SHORT_COMMENT_LINES:
        if "comment" in before.type:
            # A comment behind code of the same line is that code's.
            is_behind = before.prev_sibling is not None and _last_row(before.prev_sibling) == before.start_point.row
            if is_behind or _is_of_its_file(before):
                break
            lines[:0] = _text(before).rstrip().splitlines()
        elif before.type not in _ATTRIBUTES:
            break
        row, before = before.start_point.row, before.prev_sibling
    return _unmarked(lines)


def _is_of_its_file(comment: Node) -> bool:
    """True for a comment on what it stands in rather than on what comes after it: `//!` of Rust."""
    return comment.child_by_field_name("inner") is not None


def _unmarked(lines: list[str]) -> str:
    return "\n".join(_COMMENT_MARK.sub("", _COMMENT_MARK.sub("", line)).rstrip() for line in lines).strip()


def _module(root: Node, path: str, language: Language, found: list[_FoundUnit]) -> CodeUnit:
    name = _module_name(path, language)
    string = _docstring_node(root) if language.has_docstrings else None
    documented = {_outer(unit.node).start_byte for unit in found}
    docstring = _unquoted(_text(string)) if string is not None else _opening_comment(root, documented)
    top = [unit.name for unit in found if unit.is_top and unit.kind not in _LENDS_ITS_NAME]
    return CodeUnit(
        path=path,
        unit_type="module",
        name=re.split(r"[./]", name)[-1],
        qualified_name=name,
        language=language.searched_name,
        signature=f"module {name}",
        docstring=docstring[:_MAX_DOCSTRING],
        start_line=1,
        end_line=max(1, root.end_point.row + (root.end_point.column > 0)),
        body=", ".join(dict.fromkeys(top))[:_MAX_BODY],
    )


def _opening_comment(root: Node, documented: set[int]) -> str:
    """The file's first comments, but for those that stand right before its first unit, and are that one's."""
    lines: list[str] = []
    pending: list[str] = []
    for before, child in pairwise([*root.children[: _MAX_SHORT_COMMENT_LINES + 1], None]):
        if before is None or "comment" not in before.type:
            break
        pending += _text(before).rstrip().splitlines()
        if child is None or _is_of_its_file(before) or child.start_point.row - _last_row(before) > 1:
            lines, pending = [*lines, *pending], []
        elif "comment" not in child.type:
            lines += [] if child.start_byte in documented or child.type in _ATTRIBUTES else pending
    return _unmarked(lines)


def _module_name(path: str, language: Language) -> str:
    """`harken.context.builder` in a language of dotted modules, else the path without its suffix."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if not language.has_docstrings:
        return "/".join(parts)
    if len(parts) > 1 and parts[0] in _SOURCE_FOLDERS:
        parts = parts[1:]
    if len(parts) > 1 and parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def _finished(units: list[CodeUnit], separator: str) -> list[CodeUnit]:
    """Units with what is said first of what they stand in, and a number where a name is given twice.

    The first one is the module. Overloads have one name, as do definitions for each platform.
    """
    summaries = {unit.qualified_name: unit.docstring.partition("\n")[0] for unit in units if unit.docstring}
    module = summaries.get(units[0].qualified_name, "")
    seen: Counter[str] = Counter()
    finished = []
    for place, unit in enumerate(units):
        name = unit.qualified_name
        about = summaries.get(name.rpartition(separator)[0]) or module if place else unit.about
        finished.append(replace(unit, about=about, number=seen[name]))
        seen[name] += 1
    return finished


def _text(node: Node, limit: int | None = None) -> str:
    return (node.text or b"")[:limit].decode(errors="replace")
