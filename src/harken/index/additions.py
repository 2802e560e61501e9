"""What commits added to code: read from their patches, by the lines that begin a definition in most languages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harken.indexed import Addition

_FILE = re.compile(r"\+\+\+ \"?b/(.*?)\"?\t?$")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")
_BEFORE = (
    r"(?:export|default|declare|public|private|protected|internal|static|final|abstract|async|unsafe|extern|inline|"
    r"pub(?:\([^)]*\))?)\s+"
)
_KINDS = "def|class|function|func|fn|interface|struct|enum|trait|union|record|type|table|view|procedure"
_DEFINITION = re.compile(
    rf"\s*(?:{_BEFORE})*(?:create\s+(?:or\s+replace\s+)?)?(?:{_KINDS})\b\*?\s*(?:\([^)]*\)\s*)?([A-Za-z_]\w*)",
    re.IGNORECASE,
)
_STRING = re.compile(r"\s*[rR]?(?:\"\"\"|''')(.*)")
_COMMENT = re.compile(r"\s*(?://+!?|/\*+|\*+/?|--+)(.*)")
_MARKS = "\"'*/ \t\r"
_LONGEST_LINE = 400
# Parameters may stand on lines of their own between a definition and what is said of it.
_LINES_TO_DOCSTRING = 12


def parse_patch(patch: str) -> Iterator[Addition]:
    """What a patch adds to each file: names of definitions, each with the first line that is said of it."""
    path, lines, begins = "", list[str](), False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            yield from _addition(path, lines, begins)
            path, lines, begins = "", [], False
        elif not path and (named := _FILE.match(line)):
            path = named[1]
        elif path and (hunk := _HUNK.match(line)):
            begins = begins or hunk[1] == "1"
            lines.append("")
        elif path and line.startswith("+"):
            lines.append(line[1 : _LONGEST_LINE + 1])
    yield from _addition(path, lines, begins)


def _addition(path: str, lines: list[str], begins: bool) -> Iterator[Addition]:
    """The file's addition, if it defines anything."""
    definitions = tuple(
        (found[1], _said(lines, at)) for at, line in enumerate(lines) if (found := _DEFINITION.match(line))
    )
    if definitions:
        first = next((line for line in lines if line.strip()), "") if begins else ""
        yield Addition(path, _words(_STRING.match(first)) or _words(_COMMENT.match(first)), definitions)


def _said(lines: list[str], at: int) -> str:
    """The first line of a definition's docstring, or of the comment right before it; empty where there is none."""
    for line in lines[at + 1 : at + _LINES_TO_DOCSTRING]:
        if not line.strip() or _DEFINITION.match(line):
            break
        if said := _words(_STRING.match(line)):
            return said
    said = ""
    while at > 0 and (comment := _COMMENT.match(lines[at - 1])):
        said, at = _words(comment) or said, at - 1
    return said


def _words(found: re.Match[str] | None) -> str:
    return found[1].strip(_MARKS) if found else ""
