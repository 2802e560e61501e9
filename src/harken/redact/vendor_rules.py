"""The rules that know a secret by its own shape, one line each in `data/vendor_rules.toml`.

A rule must stay linear on hostile input: bound every repeat that something has to follow.
`benchmarks/redaction.py --catalogue` lists what a maintained rule set knows and this one does not.

Source: docs/adr/0002-redaction-rules.md; prefixes as the vendors and the betterleaks, kingfisher and detect-secrets
catalogues publish them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from harken.redact.facts import is_in_digest, is_made_of_words
from harken.redact.values import SURE, Span, is_placeholder

_RULES: dict[str, Any] = tomllib.loads(
    resources.files(__package__).joinpath("data/vendor_rules.toml").read_text("utf-8")
)
# A shorter word holds no vendor's token.
MIN_WORD = 16
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


def _shape(kind: str, literal: str, back: int, pattern: str, program: str = "") -> Shape:
    for name, fragment in _RULES["fragments"].items():
        pattern = pattern.replace(f"{{{{{name}}}}}", fragment)
    return Shape(kind, literal, back, re.compile(pattern, re.I | re.A), program)


LINKS = tuple(_shape(*rule) for rule in _RULES["links"])
CONTEXT = tuple(_shape(*rule) for rule in _RULES["context"])
OPTIONS = tuple(
    _shape("password", f" {option}", 0, f" {pattern}", program) for program, option, pattern in _RULES["options"]
)


def _any_head(heads: Sequence[str]) -> re.Pattern[str]:
    """One alternation, the longest first, by first letter: five times as fast as the flat one."""
    groups: dict[str, list[str]] = {}
    for head in sorted(heads, key=len, reverse=True):
        groups.setdefault(head[0], []).append(re.escape(head[1:]))
    grouped = "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())
    # A token also begins after an escaped newline (`\n` in JSON inside JSON) and after a percent escape.
    return re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{{2}}))(?:{grouped})")


_BY_HEAD: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _kind, _heads, _body in _RULES["tokens"]:
    _rule = (_kind, re.compile(_body, re.ASCII))
    for _head in _heads.split():
        _BY_HEAD.setdefault(_head, []).append(_rule)
_HEADS = _any_head(tuple(_BY_HEAD))
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


def find_tokens(text: str, words: str) -> Iterator[Span]:
    """The tokens that begin with a vendor's prefix; `words` are the long words of the text, one blank between them."""
    at = place = 0
    while head := _HEADS.search(words, at):
        at = head.end()
        for kind, body in _BY_HEAD[head.group()]:
            if rest := body.match(words, at):
                secret = words[head.start() : rest.end()]
                place = text.find(secret, place)
                named = kind == "api-key" and _SNAKE.fullmatch(rest.group())
                if not named and not is_in_digest(text, place):
                    yield Span(place, place + len(secret), SURE, kind)
                at = rest.end()
                place += len(secret)
                break


def find_shapes(text: str, low: str, shapes: tuple[Shape, ...]) -> Iterator[Span]:
    """The secrets of these shapes; `low` is the text in lower case, of the same length."""
    for shape in shapes:
        if shape.literal not in low or shape.program not in low:
            continue
        at = low.find(shape.literal)
        while at >= 0:
            found = shape.pattern.match(text, max(0, at - shape.back))
            called = not shape.program or low.rfind(shape.program, max(0, at - _PROGRAM_CHARS), at) >= 0
            if found and called and not is_placeholder(found["secret"]):
                yield Span(*found.span("secret"), SURE, shape.kind)
            at = low.find(shape.literal, max(at + 1, found.end() if found else 0))


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
    if not _AWS_NAMED.search(low):
        return
    if max(map(len, words.split(" "))) < _AWS_SECRET_CHARS:
        return
    for found in _AWS_SECRET.finditer(text):
        if is_made_of_words(found.group()) or is_in_digest(text, found.start()):
            continue
        if _AWS_NEARBY.search(text, max(0, found.start() - _AWS_REACH), found.end() + _AWS_REACH):
            yield Span(found.start(), found.end(), SURE, "aws-secret-key")
