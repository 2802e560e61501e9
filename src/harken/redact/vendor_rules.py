"""The rules that know a secret by its own shape, one line each in `data/vendor_rules.toml`.

A rule must stay linear on hostile input: bound every repeat that something has to follow.
`benchmarks/redaction.py --catalogue` lists what a maintained rule set knows and this one does not;
`data/published_prefixes.toml` has the prefixes of another, which `tools/vendor_prefixes.py` renews.

Source: docs/adr/0002-redaction-rules.md; prefixes as the vendors and the betterleaks,
gitleaks, kingfisher and detect-secrets catalogues publish them.
"""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from typing import Any

from harken.redact.assignments import find_assignments
from harken.redact.facts import is_in_digest, is_made_of_words
from harken.redact.values import SURE, Span, is_placeholder


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(f"data/{name}.toml").read_text("utf-8"))


_RULES = _data("vendor_rules")
# Patterns that users add: the kind, the pattern, and the group that goes.
Extra = tuple[tuple[str, re.Pattern[str], int], ...]
# A shorter word holds no vendor's token.
_MIN_WORD = 16
# Of plain text whatever is no blank as an x: whether it has a longer word is told in an eighth of the time.
_SOLID, _LONG = bytes(32 if chr(code).isspace() else 120 for code in range(256)), b"x" * _MIN_WORD
_PROGRAM_CHARS = 300


@dataclass(frozen=True, slots=True)
class Shape:
    """A secret that its surroundings give away.

    Attributes:
        kind: the word in `[redacted:kind]`.
        literal: lower case, in every match.
        back: the pattern is matched this many characters before the literal.
        pattern: the group `secret` is what goes.
        program: must stand in the 300 characters before the literal, unless empty.
    """

    kind: str
    literal: str
    back: int
    pattern: re.Pattern[str]
    program: str = ""


Shapes = tuple[tuple[str, list[Shape]], ...]


def _shape(kind: str, literal: str, back: int, pattern: str, program: str = "") -> Shape:
    for name, fragment in _RULES["fragments"].items():
        pattern = pattern.replace(f"{{{{{name}}}}}", fragment)
    return Shape(kind, literal, back, re.compile(pattern, re.I | re.A), program)


def _by_mark(rules: list[Any]) -> Shapes:
    """Shapes by the mark in their literal, if it has one: a text without that mark need not be asked for each."""
    found: dict[str, list[Shape]] = {}
    for shape in (_shape(*rule) for rule in rules):
        found.setdefault(next((mark for mark in ":$=" if mark in shape.literal), ""), []).append(shape)
    return tuple(found.items())


LINKS = _by_mark(_RULES["links"])
CONTEXT = _by_mark(_RULES["context"])
# What an option begins with, and how many characters of it find its shapes: a text has more signs than options.
_SIGNS = ((" -", 3), ("pass", 6), (" identified by ", 15), (" /", 3))
_OPTIONS: dict[str, list[Shape]] = {}
for _program, _option, _back, _pattern in _RULES["options"]:
    _width = next(width for sign, width in _SIGNS if _option.startswith(sign))
    _OPTIONS.setdefault(_option[:_width], []).append(_shape("password", _option, _back, _pattern, _program))


def _any_head(heads: Iterable[str]) -> str:
    """One alternation, the longest first, by first letter: five times as fast as the flat one."""
    groups: dict[str, list[str]] = {}
    for head in sorted(heads, key=len, reverse=True):
        groups.setdefault(head[0], []).append(re.escape(head[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())


_TOKENS = [
    *_RULES["tokens"],
    *(["api-key", heads, rf"[{chars}]{{{least},}}"] for chars, least, heads in _data("published_prefixes")["tokens"]),
]
_BY_HEAD: dict[str, list[tuple[int, str, int, re.Pattern[str]]]] = {}
for _order, (_kind, _heads, _body) in enumerate(_TOKENS):
    _pattern = re.compile(_body, re.ASCII)
    for _head in _heads.split():
        _BY_HEAD.setdefault(_head, []).append((_order, _kind, len(_head), _pattern))
# Right behind other letters these are known as well.
_GLUED = tuple(_RULES["glued"].split())
# Our own rules first, and a longer prefix does not hide the rules of a shorter one that it begins with.
_RULES_OF = {
    head: [rule[1:] for rule in sorted(chain(*(_BY_HEAD.get(head[:size], ()) for size in range(1, len(head) + 1))))]
    for head in {*_BY_HEAD, *_GLUED}
}
# How these prefixes begin in base64: what stands for whole characters of them. A jwt is base64 already.
_MIN_ENCODED = 3
_ENCODED = {
    base64.b64encode(head.encode()).decode()[: len(head) * 8 // 6]
    for head in _BY_HEAD
    if len(head) >= _MIN_ENCODED and not head.startswith("eyJ")
}.difference(_BY_HEAD)
_URL_SAFE = str.maketrans("-_", "+/")
# A long run is decoded in part: each of a thousand heads in it would decode it again.
_ENCODED_RUN = re.compile(r"[\w+/-]{16,400}", re.ASCII)
_ENCODED_REST = re.compile(r"[\w+/-]*={0,2}", re.ASCII)
# A token also begins after an escaped newline (`\n` in JSON inside JSON) and after a percent escape.
_HEADS = re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{{2}}))(?:{_any_head({*_BY_HEAD, *_ENCODED})})")
_GLUED_HEADS = re.compile(
    rf"(?<=[A-Za-z0-9])(?:{_any_head(_GLUED)})(?=[A-Za-z_-]{{0,40}}[0-9])(?=[0-9a-z_-]{{0,40}}[A-Z])"
)
# Behind a short prefix (`prf_`, `rnd_`) a name of code; what is drawn by lot has digits or capitals.
_SNAKE = re.compile(r"[a-z]+(?:_[a-z]+)+")

_PEM = re.compile(r"-{4,5} ?(?P<what>BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-{4,5}|Private-Lines: \d+(?=\s)")
# What may follow a BEGIN that has no END: headers and base64 words, whatever quotes, numbers or escapes the lines.
_PEM_BODY = re.compile(
    r"(?:(?:\s|\\[nrt]|[>|#*\"'+,]){0,80}+(?:[A-Z][\w-]{1,30}: [^\n\\]{1,200}|[A-Za-z0-9+/=]{16,}))*+"
    r"(?:(?:\r?\n|\\n)[ \t>|\"']{0,20}[A-Za-z0-9+/=]{1,80}(?=\s|\\|\"|'|$))?"
)
_LINE_CHARS = 120
# The last line of what stands before an END, with what numbers or quotes it.
_PEM_LINE = re.compile(
    r"(?:\A|\n|\\n|[\"'\s])(?P<body>[A-Za-z0-9+/=]{8,80})(?:\s|\\[nr]|[\"'>|+*#,\u2192]|(?<=\s)\d{1,6}){0,24}\Z"
)
# Behind a redacted token: a break of the line, or another string; a word that is no word of a language.
_CONTINUED = re.compile(
    r"\[redacted:[\w-]{1,40}\]"
    r"(?:[\"']\s{0,9}(?:\+|\.{1,2}|&)?\s{0,40}[\"']|\\\r?\n[ \t]{0,80}"
    r"|\r?\n(?=[ \t]{0,40}[\w+/=-]{8,200}[ \t]{0,9}(?:[\"',;)]|\r?\n|\Z))[ \t]{0,40})"
    r"(?P<secret>(?=[\w+/=-]{0,200}\d)(?=[\w+/=-]{0,200}[A-Z])(?=[\w+/=-]{0,200}[a-z])[\w+/=-]{8,200})"
)
_AWS_SECRET = re.compile(
    r"(?<![A-Za-z0-9/+=])(?=[a-z0-9/+]{0,39}[A-Z])(?=[A-Z0-9/+]{0,39}[a-z])(?=[A-Za-z/+]{0,39}\d)[A-Za-z0-9/+]{40}(?![\w/+=])"
)
_AWS_NEARBY = re.compile(r"aws|amazon|secret|\b(?:AKIA|ASIA)[A-Z0-9]{14}", re.IGNORECASE)
_AWS_NAMED = re.compile("aws|secret|akia|asia|amazon")
_AWS_SECRET_CHARS = 40
_AWS_REACH = 200


def find_secrets(text: str, low: str, extra: Extra) -> list[Span]:
    """The secrets of a text by all rules, in no order; `low` is the text in lower case, of the same length."""
    spans = [*find_assignments(text, low), *find_shapes(text, low, CONTEXT), *find_options(text, low)]
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        spans += find_private_keys(text)
    if "[redacted:" in text:
        spans += find_continued(text)
    if words := _long_words(text):
        spans += find_tokens(text, words, _HEADS)
        if [head for head in _GLUED if head in words]:
            spans += find_tokens(text, words, _GLUED_HEADS)
        spans += find_shapes(text, low, LINKS)
        spans += find_aws_secrets(text, low, words)
    for kind, pattern, group in extra:
        spans += [Span(*found.span(group), SURE, kind) for found in pattern.finditer(text) if found[group]]
    return spans


def _long_words(text: str) -> str:
    """The words long enough to hold a vendor's token, in order, one blank between them; ordinary prose has none."""
    has_any = not text.isascii() or _LONG in text.encode().translate(_SOLID)
    return " ".join([word for word in text.split() if len(word) >= _MIN_WORD]) if has_any else ""


def find_tokens(text: str, words: str, heads: re.Pattern[str]) -> Iterator[Span]:
    """The tokens that begin with a vendor's prefix; `words` are the long words of the text, one blank between them."""
    at = place = 0
    while head := heads.search(words, at):
        at = head.end()
        if kind_and_end := _token_end(words, head):
            kind, at = kind_and_end
            secret = words[head.start() : at]
            place = text.find(secret, place)
            if kind and not is_in_digest(text, place):
                yield Span(place, place + len(secret), SURE, kind)
            place += len(secret)


def _token_end(words: str, head: re.Match[str]) -> tuple[str, int] | None:
    """The kind of the token with this prefix and its end; no kind for what merely looks like one."""
    if head.group() in _ENCODED:
        return _encoded_end(words, head.start())
    for kind, size, body in _RULES_OF[head.group()]:
        if rest := body.match(words, head.start() + size):
            return "" if kind == "api-key" and _SNAKE.fullmatch(rest.group()) else kind, rest.end()
    return None


def _encoded_end(words: str, start: int) -> tuple[str, int] | None:
    """The same of base64 that begins with a token."""
    run = _ENCODED_RUN.match(words, start)
    if run is None:
        return None
    coded = run.group().translate(_URL_SAFE)
    try:
        plain = base64.b64decode(coded + "A=="[: -len(coded) % 4]).decode("latin-1")
    except binascii.Error:
        return None
    head = _HEADS.match(plain)
    token = _token_end(plain, head) if head else None
    rest = _ENCODED_REST.match(words, run.end()) if token else None
    return (token[0], rest.end()) if token and rest else None


def find_shapes(text: str, low: str, shapes: Shapes) -> Iterator[Span]:
    """The secrets of these shapes; `low` is the text in lower case, of the same length."""
    for shape in [one for mark, several in shapes if mark in low for one in several if one.literal in low]:
        at = low.find(shape.literal)
        while at >= 0:
            found = shape.pattern.match(text, max(0, at - shape.back))
            if found and not is_placeholder(found["secret"]):
                yield Span(*found.span("secret"), SURE, shape.kind)
            at = low.find(shape.literal, max(at + 1, found.end() if found else 0))


def find_options(text: str, low: str) -> Iterator[Span]:
    """The passwords that programs take as options or from a pipe."""
    for sign, width in _SIGNS:
        if sign not in low:
            continue
        at = low.find(sign)
        while at >= 0:
            for shape in _OPTIONS.get(low[at : at + width], ()):
                if (
                    low.startswith(shape.literal, at)
                    and low.rfind(shape.program, max(0, at - _PROGRAM_CHARS), at + width) >= 0
                ):
                    found = shape.pattern.match(text, max(0, at - shape.back))
                    if found and not is_placeholder(found["secret"]):
                        yield Span(*found.span("secret"), SURE, shape.kind)
            at = low.find(sign, at + 1)


def find_continued(text: str) -> Iterator[Span]:
    """The other halves of tokens that were broken at a line's end or put together from two strings."""
    for found in _CONTINUED.finditer(text):
        yield Span(*found.span("secret"), SURE, "token")


def find_private_keys(text: str) -> Iterator[Span]:
    """PEM, OpenSSH, PGP and PuTTY private keys, also cut ones that have no END or no BEGIN."""
    begin = -1
    for mark in _PEM.finditer(text):
        if mark["what"] == "END":
            start = begin if begin >= 0 else mark.start()
            # Without a BEGIN, back over the base64 lines before it.
            while begin < 0 < start and (line := _PEM_LINE.search(text, max(0, start - _LINE_CHARS), start)):
                start = line.start("body")
            if start < mark.start():
                yield Span(start, mark.end(), SURE, "private-key")
            begin = -1
            continue
        begin = mark.start()
        body = _PEM_BODY.match(text, mark.end())
        if body and body.group():
            yield Span(begin, body.end(), SURE, "private-key")


def find_aws_secrets(text: str, low: str, words: str) -> Iterator[Span]:
    """Secret keys of AWS, 40 characters without a prefix: only where a word or an access key nearby names them."""
    if max(map(len, words.split(" "))) < _AWS_SECRET_CHARS or not _AWS_NAMED.search(low):
        return
    for found in _AWS_SECRET.finditer(text):
        if is_made_of_words(found.group()) or is_in_digest(text, found.start()):
            continue
        if _AWS_NEARBY.search(text, max(0, found.start() - _AWS_REACH), found.end() + _AWS_REACH):
            yield Span(found.start(), found.end(), SURE, "aws-secret-key")
