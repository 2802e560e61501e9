"""Takes private passages and secrets out of texts and names before anything keeps them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harken.errors import ConfigError
from harken.model.conversations import EMPTY, ProjectIdentity
from harken.text.characters import valid_utf8, with_letters

if TYPE_CHECKING:
    from harken.redact.values import Span
    from harken.redact.vendor_rules import Extra

_MAX_PASSES = 4
_MAX_DEPTH = 100

# JSON, HTML and URLs escape each other's marks, editors and pages leave invisible characters in what is copied, and a
# token with one in its midst is as good as the token itself.
_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
# Most texts have none: to look takes a tenth of taking them out.
_IS_WIDE = re.compile("[\uff01-\uff5e]")
# Not the quote and the backslash: taking them out of their escapes would end the text that they stand in.
_BYTE = r"(?!22|5c|7f)[2-7][0-9a-f]"
# Colours and other orders to a terminal; `_ESCAPED` has them as JSON and shells write them.
_ORDER = r"\[[0-9;?]{0,20}[A-Za-z]"
_TERMINAL = re.compile(rf"\x1b{_ORDER}")
_ESCAPED = re.compile(
    rf"\\{{1,8}}(?:u00(?P<unicode>{_BYTE})|x(?P<hex>{_BYTE})|(?P<slash>/)|(?P<order>(?:u001b|x1b|033|e){_ORDER}))"
    rf"|(?:&amp;|&)#(?:x0{{0,4}}(?P<entity>{_BYTE})|0{{0,4}}(?P<number>\d{{2,3}}));|(?P<amp>&amp;)",
    re.IGNORECASE,
)
# Every escape by a backslash has one of these; to look for them takes an eighth of the whole pattern.
_BEGINS_ESCAPE = re.compile(r"\\[uUxX/0eE]")
_IN_URL = re.compile(rf"%(?P<percent>{_BYTE})", re.IGNORECASE)
# Escaped `:`, `<` and `=`: without one of them there is neither a tag, nor credentials, nor a value with its name.
_TELLING_IN_URL = re.compile(r"%3[acd]", re.IGNORECASE)
_STANDS_FOR = {"slash": "/", "amp": "&", "order": ""}
_PRINTABLE = range(0x20, 0x7F)

_KIND = re.compile(r"[\w-]+")
_LOWER = {ord(upper): ord(upper) + 32 for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
# Also as HTML and JSON escape it. An unclosed tag (`<private` and no `>`) opens as well, `#include <private/x.h>` not.
_TAG = re.compile(
    r"(?:<|&lt;|\\{1,8}u003c)(?P<close>\\?/)?"
    r"(?:private(?=[\s<>]|/(?!\w)|&[lg]t;|\\{1,8}u003[ce]|\Z)|\s{1,9}private(?=\s{0,9}>))"
    r"(?P<attributes>[^>]*?)(?:>|&gt;|\\{1,8}u003e|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text with `[redacted:kind]` where a secret stood, without private passages; and how many of each kind went."""

    text: str
    counts: Mapping[str, int] = EMPTY


class Redactor:
    """Redacts texts and JSON-like values; safe to share between threads.

    Args:
        extra_patterns: kind to regular expression; its first group is the secret, or the whole match without a group.
        enabled: False leaves secrets alone. Private passages go all the same: their author asked for it.
    Raises:
        ConfigError: an extra pattern does not compile, or its kind has other characters than letters, digits, `-`, `_`.
    """

    def __init__(self, extra_patterns: Mapping[str, str] = EMPTY, enabled: bool = True) -> None:
        self._extra = tuple(_compiled(kind, pattern) for kind, pattern in extra_patterns.items())
        self._enabled = enabled

    @property
    def rules(self) -> str:
        """What tells these rules from others; empty of the built-in ones alone."""
        told = repr((self._enabled, [(kind, each.pattern) for kind, each, _ in self._extra]))
        return "" if self._enabled and not self._extra else sha256(told.encode()).hexdigest()[:8]

    def redact(self, text: str) -> Redacted:
        """The text without private passages and secrets; redacting it again changes nothing.

        Where escapes or invisible characters hid one, the text goes on without them.

        Source: docs/adr/0002-redaction-rules.md.
        """
        if not text:
            # Without its patterns, which take as long to compile as a hundred messages to redact.
            return Redacted(text)
        found = self._redacted(text)
        plain = _unescape(text)
        if plain == text:
            return found
        shown = self._redacted(plain)
        if not shown.counts:
            return Redacted(text)
        return found if shown.text == _unescape(found.text) else shown

    def _redacted(self, text: str) -> Redacted:
        counts: dict[str, int] = {}
        low = _lowered(text)
        if "private" in low and _TAG.search(text):
            text = _without_private(text, counts)
            low = _lowered(text)
        find_secrets, replaced, _ = _finder()
        # What is put in place of a secret changes what its neighbours look like, so look until nothing is found.
        for _ in range(_MAX_PASSES if self._enabled else 0):
            spans = find_secrets(text, low, self._extra)
            text, taken = replaced(text, spans) if spans else (text, EMPTY)
            if not taken:
                break
            for kind, amount in taken.items():
                counts[kind] = counts.get(kind, 0) + amount
            low = _lowered(text)
        return Redacted(text, MappingProxyType(counts)) if counts else Redacted(text)

    def redact_value(self, value: Any) -> tuple[Any, Mapping[str, int]]:
        """The same for JSON-like data (tool inputs, metadata): its strings, and fields whose name is a secret's.

        Args:
            value: dicts, lists and tuples of scalars; anything else is passed through. What lies deeper than 100 levels
                goes whole.
        Returns:
            A new value of the same shape, and how many of each kind went.
        """
        counts: Counter[str] = Counter()
        return self._walk(None, value, counts, 0), counts

    def _walk(self, name: Any, value: Any, counts: Counter[str], depth: int) -> Any:
        if self._enabled and isinstance(name, str) and isinstance(value, (str, int)) and not isinstance(value, bool):
            from harken.redact.assignments import is_secret_field

            if secret := is_secret_field(name, str(value)):
                counts[secret.value] += 1
                return f"[redacted:{secret.value}]"
        if isinstance(value, str):
            redacted = self.redact(value)
            counts.update(redacted.counts)
            return redacted.text
        if not isinstance(value, (Mapping, list, tuple)):
            return value
        if depth >= _MAX_DEPTH:
            counts["too-deep"] += 1
            return "[redacted:too-deep]"
        if isinstance(value, Mapping):
            # `{"name": "DB_PASSWORD", "value": "…"}` names the secret in its other field.
            named = value.get("name", value.get("key")) if "value" in value else None
            fields: dict[Any, Any] = {}
            for key, item in value.items():
                own = named if key == "value" and isinstance(named, str) else key
                fields[self._walk(None, key, counts, depth)] = self._walk(own, item, counts, depth + 1)
            return fields
        items: list[Any] = []
        option: Any = None
        for item in value:
            # `["--password", "…"]`: an option names the item after it.
            own = option if isinstance(option, str) and option.startswith("-") else None
            items.append(self._walk(own, item, counts, depth + 1))
            option = item
        return items


@cache
def _finder() -> tuple[
    Callable[[str, str, Extra], list[Span]],
    Callable[[str, list[Span]], tuple[str, Counter[str]]],
    Callable[[str], bool],
]:
    """What finds secrets, what replaces them, and what tells where escapes spell the name of one.

    Imported with the first text: the patterns take as long to compile as the rest of the recorder to import.
    """
    from harken.redact.assignments import is_spelled
    from harken.redact.values import replaced
    from harken.redact.vendor_rules import find_secrets

    return find_secrets, replaced, is_spelled


def _unescape(text: str) -> str:
    """The text without invisible characters, wide forms and escapes of plain characters; itself where it has none."""
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
        if _IS_WIDE.search(text):
            text = text.translate(_WIDE)
    if "\x1b" in text:
        text = _TERMINAL.sub("", text)
    if "\\" in text or "&" in text:
        if "\\u" in text and _finder()[2](text):
            text = with_letters(text)
        if "&#" in text or "&a" in text or "&A" in text or _BEGINS_ESCAPE.search(text):
            text = _ESCAPED.sub(_plain, text)
    if "%3" in text and _TELLING_IN_URL.search(text):
        text = _IN_URL.sub(_plain, text)
    return text


def _plain(found: re.Match[str]) -> str:
    """The character that an escape stands for."""
    kind = found.lastgroup or ""
    value = found[kind or 0]
    if kind in _STANDS_FOR:
        return _STANDS_FOR[kind]
    code = int(value, 10 if kind == "number" else 16)
    return chr(code) if code in _PRINTABLE else found[0]


def _lowered(text: str) -> str:
    """The text in lower case, of the same length: positions in one are positions in the other."""
    low = text.lower()
    return low if len(low) == len(text) else text.translate(_LOWER)


def _compiled(kind: str, pattern: str) -> tuple[str, re.Pattern[str], int]:
    if not _KIND.fullmatch(kind):
        raise ConfigError(f"redaction.patterns: the kind {kind!r} may hold letters, digits, '-' and '_' only")
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ConfigError(f"redaction.patterns: {kind!r} is not a regular expression: {error}") from error
    return kind, compiled, 1 if compiled.groups else 0


def _without_private(text: str, counts: dict[str, int]) -> str:
    for _ in range(_MAX_PASSES):
        ranges = list(_private_ranges(text))
        if not ranges:
            return text
        counts["private"] = counts.get("private", 0) + len(ranges)
        ends = [0, *(end for _, end in ranges)]
        starts = [*(start for start, _ in ranges), len(text)]
        # What is left may close up into a new tag around its neighbours: look again.
        text = "".join(text[left:right] for left, right in zip(ends, starts, strict=True))
    opened = next(_private_ranges(text), None)
    return text[: opened[0]] if opened else text


def _private_ranges(text: str) -> Iterator[tuple[int, int]]:
    """The bounds of the outermost private passages; an unclosed one goes to the end of the text."""
    depth = start = 0
    for tag in _TAG.finditer(text):
        if tag["attributes"].strip() == "/":
            continue
        if not tag["close"]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                yield start, tag.end()
    if depth:
        yield start, len(text)


_REMEMBERED = 4096
# What agents number their messages and calls with holds nothing, and there are as many as messages.
_NUMBER = re.compile(
    r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:toolu|call|msg|fc|fco)_\w{1,60})?(?:#\d{1,9})?", re.ASCII
)


class CleanNames:
    """Takes secrets, private passages and characters that no database knows out of names.

    Ids of records are made from the names as they were given, so that what is called by one is found again.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redact = lru_cache(_REMEMBERED)(redactor.redact)

    def text(self, name: str) -> str:
        """The name as it is kept."""
        return name if _NUMBER.fullmatch(name) else self._redact(valid_utf8(name)).text

    def optional(self, name: str | None) -> str | None:
        """The same of what may have no name."""
        return None if name is None else self.text(name)

    def project(self, project: ProjectIdentity | None) -> ProjectIdentity | None:
        """A project with its names as they are kept."""
        if project is None:
            return None
        return ProjectIdentity(self.text(project.key), self.text(project.name), tuple(map(self.text, project.aliases)))
