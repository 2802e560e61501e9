"""Finds secrets by their names: `password=…`, `"api_key": "…"`, `--token …`, `my password is …`.

The name stays, the value goes. What a value must look like is judged in `values`; this module finds the name,
what ties the value to it, and where the value ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from harken.redact.facts import is_about_something_else, is_attribute, is_part_of_id
from harken.redact.values import NAMED, Secret, Span, Style, is_secret
from harken.text.words import word_lists

# What the name of a secret holds, what it promises, and the whole word where the name is one.
_ASCII_STEMS = (
    ("pass", Secret.PASSWORD, r"pass(?:word|wort|wd|phrase|code|e)?"),
    ("pw", Secret.PASSWORD, "pwd?"),
    ("secret", Secret.SECRET, "secret"),
    ("cred", Secret.SECRET, r"cred(?:ential)?s?"),
    ("token", Secret.TOKEN, "token"),
    ("auth", Secret.TOKEN, r"auth(?:orization|tok)?"),
    ("key", Secret.KEY, "key"),
    ("senha", Secret.PASSWORD, "senha"),
    *((word, Secret.PASSWORD, word) for word in ("kennwort", "wachtwoord", "haslo", "psk")),
    ("clave", Secret.KEY, "clave"),
    ("chiave", Secret.KEY, r"chiave(?: dell['’]| )?(?:api)?"),
    ("chave", Secret.KEY, r"chave(?: d[ae])?(?: api)?"),
    ("parola d", Secret.PASSWORD, r"parola d['’]ordine"),
)
_STEMS = (
    *_ASCII_STEMS,
    ("парол", Secret.PASSWORD, "парол[а-яі]{0,3}"),
    ("contraseñ", Secret.PASSWORD, "contraseña"),
    ("hasł", Secret.PASSWORD, "hasł[aoe]m?"),
    ("гасл", Secret.PASSWORD, "гасл[оа]"),
    ("schlüssel", Secret.KEY, "schlüssel"),
    ("clé", Secret.KEY, r"clés?(?: d['’]| de l['’]| )?(?:api)?"),
    ("ключ", Secret.KEY, "ключ(?: для| от)?(?: api)?"),
    *((word, Secret.KEY, word) for word in ("密钥", "密鑰")),
    *((word, Secret.PASSWORD, word) for word in ("密码", "密碼", "口令", "パスワード", "비밀번호")),
)
_SPELLED = tuple(json.dumps(stem)[1:-1] for stem, _, _ in _STEMS if not stem.isascii())
_WHOLE = {stem: re.compile(word) for stem, _, word in _STEMS}
# Names that are words in themselves, or parts of other words: they must stand alone or after a separator.
_ALONE = frozenset({"pass", "pwd", "pw", "auth", "senha", "cred", "creds", "psk", "clave", "passe"})
# A key opens doors as well: so it must be of something (`api_key`), before it or behind it (`clé d'API`).
_OF_SOMETHING = ("key", "chiave", "chave", "schlüssel", "clé", "ключ", "密钥", "密鑰")
# … or after these: `requirepass`, `mot de passe`.
_GLUED = tuple(word_lists("secret_words")["glued"])
_FRENCH = re.compile(r"(?:mots? de |palavras?-)\Z", re.IGNORECASE)
_KEY_QUALIFIERS = tuple(word_lists("secret_words")["keys"])
_QUALIFIER_CHARS = 16

_REST = re.compile(r"[\w-]{0,40}", re.ASCII)
_REST_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Words in the rest of a name that say it holds something about the secret, not the secret.
_ABOUT = word_lists("secret_words")["about"]

_CLOSERS = r"""(?:\\{0,3}["'`]|\*\*|__|\)|\]|\[\d{0,4}\]|&quot;|\s\([^()\n]{0,30}\)){0,4}"""
_QUOTE_AHEAD = r"""(?=[rbfuRBFU]{0,2}\\{0,3}["'`])"""
# What a password is for, in the languages that its names are known in.
_OF = (
    "(?:for|to|of|on|at|in|from|für|zu[mr]?|vo[nm]|pour|d[eu]|des|del|della|dello|par?a|per|d[aoi]|d[ao]s|na|dla|voor|van|op"
    "|от|для|к|до|від|на)"
)
_TIE = re.compile(
    rf"""
      (?P<typed>\s{{0,3}}:?\s{{0,3}}[&*]?(?:'static\s)?
         (?:str|string|bytes|Optional\[str\]|Secret\w{{0,6}}|text|Any|char|varchar)(?:\s?\|\s?\w{{1,10}})?
         \s{{0,3}}=\s{{0,3}}{_QUOTE_AHEAD})
    | (?P<valued>{_CLOSERS}\s{{0,4}},?\s{{0,60}}\\{{0,3}}["']?value\\{{0,3}}["']?\s{{0,4}}[:=]\s{{0,4}})
    | (?P<assign>{_CLOSERS}(?P<before>\s{{0,16}})
         (?:=>|={{1,3}}|!={{1,2}}|:=|\?=|\+=|:[-=](?=[^\s}}])|:|：|＝|%3[aAdD])
         (?:\*\*)?(?P<after>[ \t]{{0,16}}(?:[|>][-+]?[ \t]{{0,4}}\r?\n[ \t]{{1,20}})?)(?P<wrap>\r?\n[ \t]{{0,16}})?)
    | (?P<inside>>)(?=[^<\n]{{1,300}}</)
    | (?P<call>(?:{_CLOSERS}\s{{0,3}}(?:\|\||\?\?|or\b)|\()\s{{0,3}}{_QUOTE_AHEAD})
    | (?P<pair>\\{{0,3}}["'`],\s{{0,4}}{_QUOTE_AHEAD})
    | (?P<prose>{_CLOSERS}(?P<adjective>\s[^\W\d_]{{2,12}}(?=\s?:\s|\s(?:est|es|é|è|to|is)\s))??
         (?:\s{{1,2}}{_OF}\s[^\n:="'|]{{1,60}}?)?
         (?:\s{{1,3}}(?:is|was|are|will\sbe|has\sbeen|should\sbe|equals|это|це|ist|lautet|es|est|é|è|to|set\sto|changed\sto)
           (?:\s(?:now|currently|still|just|set\sto|changed\sto|actually|simply|literally))?\s{{0,2}}:?\s{{1,3}}
         |\s{{0,2}}(?::|：|->|—|–|→|是|为|爲|は)\s{{0,3}}))
    | (?P<phrase>\s(?:for|to|of|on|от|для|к|до|від)(?:\s[^\W\d_]{{1,20}}){{1,4}}\s)
    | (?P<pipe>\*{{0,2}}`?(?:[ \t]{{1,20}}\|[ \t]{{0,20}}|\|[ \t]{{1,20}}))
    | (?P<space>{_CLOSERS}[ \t]{{1,4}}(?:[057][ ](?=[0-9A-F$]{{6}}))?)
    """,
    re.VERBOSE,
)
_OPEN_QUOTE = re.compile(r"""[rbfuRBFU]{0,2}(?P<quote>\"{3}|'{3}|\\{0,3}["'`]|&quot;|“|«|„)""")
_CLOSING = {"“": "”", "«": "»", "„": "“"}
_HEAD_CHARS = 300
_BARE = re.compile(r"[^\s\"'`]{1,300}")
_BARE_REST = re.compile(r"[^\s\"'`;]*")
_CUT = re.compile(r"[,&](?=$|[\w.\[\]-]{1,40}[=:])|;|\\[nrt]|\\+$|</?\w|[<)](?!.*[>(])|&(?:quot|amp|lt|gt);")
_TRAILING = ".,:)]}>*|"
_END_OF_LINE = re.compile(r"[^\n]*")
_ESCAPED = re.compile(r"[^\"\\\n]*(?:\\.[^\"\\\n]*)*")
_AFTER_WORD = re.compile(
    r"[ \t]{0,40}(?:[,;.}\])](?:[ \t]{0,40}$|\s{1,4}[\w\"'-]{1,40}[\"']?\s?[=:])|#|//|$)", re.MULTILINE
)
_PAIR_LEAD = re.compile(r"(?P<f>\w)?\(\s*\\*[\"'`](?:[\w.-]*\.)?$")
_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_COMMANDS = (["env"], ["arg"], ["setenv"], ["export"], ["set"], ["#define"])
_SAID = re.compile(r"\b(?:chang|set|reset|updat|rotat)[a-z]{0,3}\b[^.\n]{0,40}\Z")
# In these languages an adjective may stand behind the name: `mot de passe wifi : …`.
_NOUN_FIRST = ("passe", "contraseña", "senha", "hasło", "haslo", "clave")
_LOGINS = (["login"], ["user"], ["username"], ["-u"], ["--user"], ["--username"])
_SQL_WORDS = frozenset({"with", "alter", "create", "set"})
# An upper-case variable `…_KEY` is often a name for a name: only what looks drawn by lot is a secret.
_RANDOM = re.compile(r"(?=[A-Za-z+/=-]*[0-9])(?=[0-9+/=-]*[A-Za-z])[A-Za-z0-9+/=-]{16,}|[A-Za-z0-9+/=]{40,}")
_BEFORE_CHARS = 100


@dataclass(frozen=True, slots=True)
class _Value:
    """A value; of a long one only the head is read until it proves to be a secret.

    Where the head did not reach the end, `closing` is what ends it.
    """

    start: int
    end: int
    head: str
    quoted: bool
    closing: str | None = None


def find_assignments(text: str, low: str) -> Iterator[Span]:
    """The values of names that promise a secret; `low` is the text in lower case, of the same length."""
    for stem, secret, _ in _ASCII_STEMS if text.isascii() else _STEMS:
        if stem not in low:
            continue
        at = low.find(stem)
        while at >= 0:
            stop = at + 1
            end = _name_end(text, low, at, stem)
            tie = None if end is None else _TIE.match(text, end)
            value = _value_at(text, tie.end()) if tie else None
            if tie and value and _is_held(text, at, tie, value, secret):
                stop = _true_end(text, value)
                yield Span(value.start, stop, NAMED, secret.value)
            at = low.find(stem, stop)


def is_spelled(text: str) -> bool:
    """True where the escapes of JSON spell the name of a secret in other letters."""
    low = text.lower()
    return any(name in low for name in _SPELLED)


def is_secret_field(name: str, value: str) -> Secret | None:
    """The kind of secret in a field, judged as if it stood in JSON; None when it is none."""
    low = name.lower() if len(name.lower()) == len(name) else name
    for stem, secret, _ in _STEMS:
        at = low.find(stem)
        while at >= 0:
            if _name_end(name, low, at, stem) == len(name) and is_secret(secret, Style.LOOSE, value, quoted=True):
                return secret
            at = low.find(stem, at + 1)
    return None


def _name_end(text: str, low: str, at: int, stem: str) -> int | None:
    """The end of the name that holds the stem; None when it is not the name of a secret."""
    found = _WHOLE[stem].match(low, at)
    end = found.end() if found else at + len(stem)
    word = low[at:end]
    rest = _REST.match(text, end)
    after = text[end : rest.end()] if rest else ""
    before = text[at - 1] if at else " "
    is_inside = word in _ALONE and before.isalpha() and not (before.islower() and text[at].isupper())
    if is_inside and not low.endswith(_GLUED, max(0, at - _QUALIFIER_CHARS), at):
        return None
    if after and not _is_continued(text[end - 1], after, word):
        return None
    if word == "passe" and not _FRENCH.search(low, max(0, at - _QUALIFIER_CHARS), at):
        return None
    is_of_something = word.endswith("api") or text.startswith("_KEY", at - 1) or _is_qualified(text, at)
    if word.startswith(_OF_SOMETHING) and not is_of_something:
        return None
    return end + len(after)


def _is_qualified(text: str, at: int) -> bool:
    """True for the key of something: `api_key`, `AccountKey`."""
    return text[max(0, at - _QUALIFIER_CHARS) : at].lower().rstrip("_-. ").endswith(_KEY_QUALIFIERS)


def _is_continued(last: str, after: str, word: str) -> bool:
    """True where the rest of a name still names the secret itself: `_old`, `Confirmation`, `2`."""
    glued = after[0].isalpha() and not (last.islower() and after[0].isupper())
    if glued and word not in {"password", "passwd", "passphrase"} and not word.startswith("парол"):
        return False
    words = _REST_WORDS.findall(after)
    return not any(one.lower() in _ABOUT for one in words) and (word not in _ALONE or not words)


def _value_at(text: str, at: int) -> _Value | None:
    opened = _OPEN_QUOTE.match(text, at)
    if opened:
        return _quoted_at(text, opened)
    bare = _BARE.match(text, at)
    if bare is None or bare.group()[0] in ")]},;|>":
        return None
    head = bare.group()
    cut = _CUT.search(head)
    whole = cut is None and len(head) == _HEAD_CHARS
    head = (head[: cut.start()] if cut else head).rstrip(_TRAILING)
    if not head:
        return None
    return _Value(at, at + len(head), head, quoted=False, closing="" if whole else None)


def _quoted_at(text: str, opened: re.Match[str]) -> _Value | None:
    quote, start = opened["quote"], opened.end()
    closing = _CLOSING.get(quote, quote)
    if quote == '"':
        found = _ESCAPED.match(text, start, start + _HEAD_CHARS)
        end = found.end() if found and text.startswith('"', found.end()) else -1
    else:
        end = text.find(closing, start, start + _HEAD_CHARS)
    line = text.find("\n", start, start + _HEAD_CHARS)
    if end < 0 or (0 <= line < end and len(quote) < 3):
        # No closing quote near: a cut text or a long value, of which the line's head is judged.
        end = line if line >= 0 else min(len(text), start + _HEAD_CHARS)
        return _Value(start, end, text[start:end].rstrip(), quoted=True, closing=closing)
    return _Value(start, end, text[start:end], quoted=True)


def _true_end(text: str, value: _Value) -> int:
    """The end of a value: a quoted one at its quote or the end of the line, a bare one before the next blank."""
    if value.closing is None:
        return value.end
    rest = (_END_OF_LINE if value.closing else _BARE_REST).match(text, value.end)
    stop = rest.end() if rest else value.end
    far = text.find(value.closing, value.start, stop) if value.closing else -1
    return far if far >= 0 else stop


def _is_held(text: str, at: int, tie: re.Match[str], value: _Value, secret: Secret) -> bool:
    lead = text[max(0, at - _BEFORE_CHARS) : at]
    before = lead.rstrip(_NAME_CHARS)
    name = lead[len(before) :] + text[at : tie.start()]
    if (value.quoted and value.head[:1] in " ,;)]}>+\n\t") or value.head == name:
        return False
    if text.startswith("_KEY", at - 1) and not _RANDOM.fullmatch(value.head) and not _is_qualified(text, at):
        return False
    style = _style(tie, before, name, value, secret)
    if style is Style.LOOSE and value.head.isalpha() and not value.quoted and not _AFTER_WORD.match(text, value.end):
        style = Style.PROSE
    if style is None or not is_secret(secret, style, value.head, quoted=value.quoted):
        return False
    return value.quoted or not _is_of_another(tie, before, name, value, secret)


def _is_of_another(tie: re.Match[str], before: str, name: str, value: _Value, secret: Secret) -> bool:
    """True where the value is that of another name, or the name a part of a longer one."""
    if name.lower() == "pass" and _follows_user(before):
        return False
    if tie[0] == ":" and secret is not Secret.PASSWORD and is_part_of_id(before, value.head):
        return True
    # `…(token) in C:\src`.
    if value.head[0] == "\\" and tie[0][-3:-2].isspace() and tie[0][-2:-1].isalpha():
        return True
    return is_about_something_else(before, name, value.head, tie.string[value.end : value.end + _BEFORE_CHARS])


def _follows_user(before: str) -> bool:
    return any(word.startswith(("user", "login")) for word in before.lower().split()[-3:])


def _style(tie: re.Match[str], before: str, name: str, value: _Value, secret: Secret) -> Style | None:
    """The style of a match of `_TIE`, with the line or more before the name; None when it does not hold."""
    kind = tie.lastgroup or ""
    if kind == "assign":
        return _assigned(tie, before, value)
    if before.endswith("/") or (name.lower() == "pass" and not _follows_user(before)):
        return None
    if kind == "call":
        return _called(tie, value, secret)
    if kind == "pair":
        return _paired(before, name, value, secret)
    if kind == "space":
        return _spaced(tie, before, name, value)
    if kind == "inside":
        return Style.TIGHT if before.endswith(("<", ":")) else None
    if tie["adjective"] and not name.endswith(_NOUN_FIRST):
        return None
    if tie[0].strip() == "to" and not (name.startswith("has") or _SAID.search(before)):
        return None
    if kind == "phrase":
        return Style.PROSE if value.head.isalnum() and not value.head.isdigit() else None
    return {"typed": Style.LOOSE, "valued": Style.TIGHT}.get(kind, Style.PROSE)


def _assigned(tie: re.Match[str], before: str, value: _Value) -> Style | None:
    if tie["wrap"] is not None:
        return Style.PROSE
    if tie["before"] or tie["after"] or tie[0].endswith((":", "：")):
        return Style.LOOSE
    # `f(…, password=value)`, where the value is a variable.
    is_ended = tie.string[value.end : value.end + 1] in {",", ")"}
    is_argument = before.rstrip().endswith(("(", ",")) and is_ended and value.head.isidentifier()
    if value.quoted or not is_argument:
        return Style.TIGHT
    return Style.LOOSE if _has_digit(value.head) and "_" not in value.head else None


def _called(tie: re.Match[str], value: _Value, secret: Secret) -> Style | None:
    """`setPassword("x")`, `password or "x"`: a class of tokens or keys is called with plain names.

    In prose `` `password` or `salt` `` are two names.
    """
    if tie[0].endswith("or ") and tie.string.startswith("`", tie.end()):
        return None
    return Style.LOOSE if secret is Secret.PASSWORD or _has_digit(value.head) else None


def _paired(before: str, name: str, value: _Value, secret: Secret) -> Style | None:
    """`getenv("PASSWORD", "x")`, `("password", "x1")`."""
    opened = _PAIR_LEAD.search(before)
    plain = not _has_digit(value.head) and (secret is not Secret.PASSWORD or not (opened and opened["f"]))
    return None if opened is None or plain or name in value.head else Style.LOOSE


def _spaced(tie: re.Match[str], before: str, name: str, value: _Value) -> Style | None:
    """`--password x`, `ENV DB_PASSWORD x`, `login bob password x`, `PASSWORD 'x'`; else prose."""
    words = before.rpartition("\n")[2].lower().split()
    bare = tie[0].isspace()
    if value.head.startswith("-") or (not bare and not value.quoted and is_attribute(value.head)):
        return None
    if bare and (name.startswith("-") or words in _COMMANDS or words[-2:-1] in _LOGINS):
        return Style.TIGHT if name.startswith("-") else Style.LOOSE
    if bare and value.quoted and not _SQL_WORDS.isdisjoint(words):
        return Style.LOOSE
    return Style.PROSE if _has_digit(value.head) else None


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))
