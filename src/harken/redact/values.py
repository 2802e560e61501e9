"""Judges values: a secret or not, by its name, its notation and its characters; and spans of a text to be redacted."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from harken.redact.facts import is_fact
from harken.text.characters import with_letters
from harken.text.words import word_lists

SURE = 0
"""The rank of a secret that its own shape gives away."""
NAMED = 1
"""The rank of a secret that only its name gives away."""

_MARKER = re.compile(r"\[redacted:[\w-]+\]")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The characters `start` to `end` (exclusive) of a text; of two kinds that overlap, the lower rank names both."""

    start: int
    end: int
    rank: int
    kind: str


def merged(spans: Iterable[Span]) -> list[Span]:
    """Spans that do not overlap, in order; what overlapped is one span of the surest kind."""
    result: list[Span] = []
    for span in sorted(spans):
        last = result[-1] if result else None
        if last is None or span.start >= last.end:
            result.append(span)
            continue
        surest = min(last, span, key=lambda one: one.rank)
        result[-1] = Span(last.start, max(last.end, span.end), surest.rank, surest.kind)
    return result


def replaced(text: str, spans: Iterable[Span]) -> tuple[str, Counter[str]]:
    """The text with `[redacted:kind]` for each span, and how many of each kind; markers that stand there stay."""
    pieces: list[str] = []
    counts: Counter[str] = Counter()
    at = 0
    for span in _outside_markers(text, merged(spans)):
        pieces += (text[at : span.start], f"[redacted:{span.kind}]")
        counts[span.kind] += 1
        at = span.end
    pieces.append(text[at:])
    return "".join(pieces), counts


def _outside_markers(text: str, spans: list[Span]) -> Iterator[Span]:
    markers = deque(found.span() for found in _MARKER.finditer(text))
    for span in spans:
        start = span.start
        while markers and markers[0][0] < span.end:
            left, right = markers[0]
            if left > start:
                yield Span(start, left, span.rank, span.kind)
            start = max(start, right)
            if right > span.end:
                break
            markers.popleft()
        if start < span.end:
            yield Span(start, span.end, span.rank, span.kind)


class Secret(StrEnum):
    """The kind of secret that a name promises; the value is the word in `[redacted:kind]`."""

    PASSWORD = "password"  # noqa: S105
    SECRET = "secret"  # noqa: S105
    KEY = "api-key"
    TOKEN = "token"  # noqa: S105


class Style(IntEnum):
    """The firmness with which a value is tied to its name."""

    PROSE = 0
    """`the password is x`, `password x`, `| password | x |`."""
    LOOSE = 1
    """`name: x`, `name = x`."""
    TIGHT = 2
    """`NAME=x`, `?name=x`, `--name x`, `<name>x</name>`."""


_PLACEHOLDER = re.compile(
    r"""
      <[^<>]*>? | \{+[^{}]*\}*.? | \[[A-Za-z _-]*\]? | \(\w*\)? | \*+\(?\w*\)?\*+ | __\w+__           # in brackets
    | \$[{(].* | \$(?-i:[A-Z_][A-Z0-9_]*) | \$(?:[a-z_]+|\d|env:\w+|_?[a-z]+(?:\[|->).*)              # a variable
    | %\w+% | %\(\w+\)s | %[sdr] | @\w+@ | :(?:[a-z_]+.*|\*+) | %env\(.* | @Microsoft\.KeyVault\(.*       # a parameter
    | [*x.•#?_-]+ | … | (?:\\{1,4}u20[0-9a-f]{2})+                                                    # masked
    | (?:your|insert|enter|replace|redacted|hidden|masked|changeme|placeholder|example|dummy)
      (?:[-_ ].*|[A-Z].*|here|me)?
    | (?:my|the|a|some|current|new|old|user|db|api|access|auth|client|bearer|x|jwt|github|refresh|id|session|csrf)?
      [-_ ]?(?:password|passwd|pwd|pass|secret|token|jwt|key|api[-_ ]?key|credentials?)s?
      (?:[-_ ]?(?:here|key|value|name))?
    | (?:s|test)?key
    | (?:vault|arn|op|env|file|secretsmanager|ssm):/?/?.*                                             # a reference
    | /(?:[\w.-]+/)+[\w.-]* | ~?(?:\.{0,2}/)[\w./-]+ | [A-Za-z]:\\\S*                                 # a path
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WORDS = word_lists("secret_words")["values"]
_SENTENCE = word_lists("secret_words")["sentences"]
_TECHNICAL = re.compile(
    r"(?:base-?(?:32|58|64)|sha-?\d|hmac|aes-?\d|md5|utf-?\d|latin-?\d|argon2|bcrypt|pbkdf2|scrypt|rsa-?\d|rfc-?\d|oauth-?2|http|"
    r"(?:v|gpt|llama|claude|python|py|win|level|step|type|page|line|part|option|section|chapter|no|nr)-?\d+(?:[.-]\w+)?$|"
    r"x\d+$|\d+(?:st|nd|rd|th|px|ms|s|m|h|d|k|kb|mb|gb|x|%|chars?|bits?|-?bits?|bytes?|words?|min|days?|hours?)$|"
    r"\d+(?:-\w+){0,2}-(?:long|character|digit|bit|byte|word|day|hour|minute|char|letter)s?$)",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"""
      (?:new\s|await\s|&|\*|!)?\(?[A-Za-z_$][\w$]*(?:(?:\.|\?\.|::|->)[A-Za-z_$][\w$]*)*\s?[(\[].*  # a call
    | !?\(?(?:self|this|exports|creds|headers|err?|res|response|result|cls|os|process|env|config|conf|cfg|settings|req|
         request|args|opts|options|var|local|data|module|params|ctx|context|event|form|props|state|app|user|credentials|
         secrets|[Vv]alues|body|import|z|yup|Joi)
      \??(?:\.|::|->)\S*                                                                            # a member
    | !?\(?[A-Za-z_$][A-Za-z_$]*(?:(?:\.|\?\.|::|->)[A-Za-z_$]+)+                                   # a dotted path
    | [A-Za-z_.\[\]]+=(?:None|null|nil|undefined|True|False)\b.*                                    # a type, a default
    | \#\{.* | !(?i:vault|Ref|Sub|GetAtt|ImportValue|env\w*|secret\w*)
    | `.* | \(.* | \[.* | \{.* | [|>][-+]? | .*=> .* | \\[nrt].*
    """,
    re.VERBOSE,
)
# Names of members, variables, types and constants, and colours: never a token or key.
_NAME = re.compile(
    r"[A-Za-z_$][\w$]*(?:\.[\w$]*)*\.[A-Za-z_$]+\d{0,2}|[a-z]+\d?[a-z]*(?:_[a-z]+\d{0,2})+|(?:[A-Z][a-z]+){2,}"
)
_CONSTANT = re.compile(r"[A-Z]+(?:_[A-Z]+)+|#[0-9a-fA-F]{3,8}")
_PATTERN = re.compile(r"\(\?[:iP<=!]|\[\^?(?:a-z|A-Z|0-9)|\\[sdwb][+*{)\]]|[\])]\{\d")
_CAMEL = re.compile(r"[a-z]+[A-Z][A-Za-z]*$")
_NAMELIKE = re.compile(r"pass|pwd|secret|token|key|credential|auth", re.IGNORECASE)
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[^\W\d_]")
_SYMBOL = re.compile(r"[!@#$%^&*+=~|\\?](?=.*\w)")
_INNER_SYMBOL = re.compile(r"\w[!@#$%^&*+=~|\\?](?=.*\w)")
_NUMERIC = re.compile(r"[\d.,:/+-]+")

# The fewest characters of a value with letters and digits or symbols, by style (PROSE, LOOSE, TIGHT).
_MIN_MIXED = {Secret.PASSWORD: (4, 3, 2), Secret.SECRET: (6, 4, 3), Secret.KEY: (10, 6, 5), Secret.TOKEN: (12, 6, 4)}
_MIN_NUMBER = {Secret.PASSWORD: (4, 3, 2), Secret.SECRET: (8, 8, 6), Secret.KEY: (16, 10, 8), Secret.TOKEN: (16, 10, 8)}
# The fewest letters of a value without a digit or symbol; quoted, then unquoted. 0: never.
_MIN_QUOTED = {Secret.PASSWORD: (3, 2, 2), Secret.SECRET: (16, 4, 4), Secret.KEY: (16, 6, 6), Secret.TOKEN: (20, 12, 6)}
_MIN_BARE = {Secret.PASSWORD: (0, 4, 2), Secret.SECRET: (0, 6, 4), Secret.KEY: (0, 20, 6), Secret.TOKEN: (0, 20, 8)}


def is_placeholder(value: str) -> bool:
    """True for a stand-in: `<token>`, `${PASSWORD}`, `your-key`, `xxx`, a path or a reference."""
    value = value.rstrip(" :?")
    return not value or value.startswith("[redacted:") or _PLACEHOLDER.fullmatch(value) is not None


def _is_code(secret: Secret, value: str, *, quoted: bool) -> bool:
    """True for an expression: a call, a subscript, a name; in quotes, a regular expression."""
    if secret is not Secret.PASSWORD and (_CONSTANT.fullmatch(value) or (not quoted and _NAME.fullmatch(value))):
        return True
    return (_PATTERN.search(value) if quoted else _CODE.fullmatch(value)) is not None


def is_secret(secret: Secret, style: Style, value: str, *, quoted: bool) -> bool:
    """True where this value, given without quotes and to its first few hundred characters at least, is a secret."""
    if "\\u" in value:
        value = with_letters(value)
    if is_placeholder(value) or value.casefold().rstrip(".,:;") in _WORDS or _is_code(secret, value, quoted=quoted):
        return False
    if not _looks_secret(secret, style, value, quoted=quoted):
        return False
    return not is_fact(value, password=secret is Secret.PASSWORD, tight=style is Style.TIGHT, quoted=quoted)


def _looks_secret(secret: Secret, style: Style, value: str, *, quoted: bool) -> bool:
    if any(map(str.isspace, value)):
        return quoted and _is_phrase(secret, value)
    if _NUMERIC.fullmatch(value):
        return len(_DIGIT.findall(value)) >= _MIN_NUMBER[secret][style]
    if _is_mixed(value, style):
        return len(value) >= _MIN_MIXED[secret][style]
    return _is_secret_word(secret, style, value, quoted=quoted)


def _is_mixed(value: str, style: Style) -> bool:
    if style is Style.PROSE and _TECHNICAL.match(value):
        return False
    letters = _LETTER.search(value) is not None
    if _DIGIT.search(value) and letters:
        return True
    return (_INNER_SYMBOL if style is Style.PROSE else _SYMBOL).search(value) is not None


def _is_secret_word(secret: Secret, style: Style, value: str, *, quoted: bool) -> bool:
    """Letters alone, perhaps with dashes: a password may be one, a key hardly ever is."""
    named = _NAMELIKE.search(value) is not None
    if secret is not Secret.PASSWORD and named:
        return False
    if not quoted and style is Style.LOOSE and (named or "_" in value or _CAMEL.match(value)):
        return False
    least = (_MIN_QUOTED if quoted else _MIN_BARE)[secret][style]
    return 0 < least <= len(value)


def _is_phrase(secret: Secret, value: str) -> bool:
    """Several words in quotes: a passphrase, unless they read like a sentence or code."""
    words = value.split()
    if secret is Secret.TOKEN or not value[0].isalnum() or not 2 <= len(words) <= 12:
        return False
    if any(word.casefold().strip(".,:;!?") in _SENTENCE for word in words):
        return False
    return secret is Secret.PASSWORD or _DIGIT.search(value) is not None
