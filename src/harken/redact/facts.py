"""Values that are facts by their grammar, whatever name stands before them.

`"auth0": "^5.0.0"` names a package and `auth  src/auth.ts:35:11` a place: a word that promises a secret stands there by
chance. A value is a fact only if all of it follows one of these grammars, so that a secret which merely begins like one
stays a secret. For a password fewer count: `24.12.1985` may be one, `^5.0.0` is none.

Source: docs/adr/0002-redaction-rules.md.
"""

from __future__ import annotations

import re

# Versions: npm, PEP 440, Cargo, Maven, Debian, Go; `2.0.0-next.7+build.1848`, `1:4.13+dfsg1-1ubuntu1`, `1.0.post2`.
_STAGES = (
    "alpha|beta|rc|a|b|c|cr|m|p|dev|post|pre|preview|canary|next|nightly|snapshot|final|ga|release|experimental|build|rev|"
    "insiders|ubuntu|debian|deb|dfsg|fc|el|alpine|slim|bookworm|bullseye|trixie|jammy|noble|jre|jdk|x86|amd64|arm64|noarch"
)
_PIECE = rf"(?:\d{{0,14}}(?:{_STAGES})\d{{0,14}}|g?[0-9a-f]{{7,40}}|\d{{1,14}})(?=[-+._~\s,|()@:\]]|$)"
_VERSION = (
    rf"v?(?:\d:)?\d{{1,5}}(?:\.(?:\d{{1,9}}|[x*])(?![0-9a-z])|\.\d{{1,9}}(?=(?:{_STAGES})\d{{0,9}}(?:\W|$)))"
    rf"{{0,4}}+(?:(?:{_STAGES})\d{{0,9}}(?!\w))?(?:[-+._~]{_PIECE})*+"
)
_RANGE = rf"(?:[~^<>=!]{{1,3}}\s?)?{_VERSION}"
_FLAGS = re.IGNORECASE | re.ASCII
_VERSIONS = re.compile(rf"{_RANGE}(?:(?:\s?(?:\|\|?|,)\s?|\s-\s|\s){_RANGE}){{0,8}}+", _FLAGS)
# The package before it has no digits but at its end, and the version is no address: `auth: s3cr3t@10.0.0.1`.
_NAME = r"@?[a-z]{1,30}\d{0,2}(?:[./_-]{1,2}[a-z]{1,30}\d{0,2}){0,8}"
_OF_PACKAGE = re.compile(
    rf"(?:{_NAME}[:@]){{0,2}}(?!\d+(?:\.\d+){{3}}$)(?=[~^]?v?\d+\.)[~^]?{_VERSION}(?::(?:compile|runtime|test|provided))?"
    rf"(?:\({_NAME}@{_VERSION}\)?){{0,8}}",
    _FLAGS,
)
_PACKAGE_SOURCE = re.compile(
    r"(?:workspace|npm|jsr|catalog|link|portal|github|gitlab|bitbucket):[@\w./^~*<>=+-]{0,200}(?:#[\w.:^~/-]{1,80})?"
    r"|dev-[a-z]{1,20}#[0-9a-f]{7,40}",
    re.ASCII,
)

# Places: `src/auth.ts:35:11`, `Token.cs(35,11)`, `src/auth.ts#L35`, `src/v2/auth.ts`.
_KINDS_OF_FILES = (
    "pyi?|ipynb|[cm]?[jt]sx?|vue|svelte|go|rs|rb|php|java|kts?|scala|groovy|gradle|cs|fs|vb|[ch]|cc|cpp|cxx|hpp|hh|mm?|"
    "swift|dart|exs?|erl|hs|mli?|clj|lua|p[lm]|jl|sh|bash|zsh|ps1|bat|sql|x?html?|css|s[ac]ss|less|json[5cl]?|ya?ml|toml|"
    "ini|cfg|conf|properties|lock|mdx?|rst|txt|xml|tf|tfvars|hcl|proto|graphql|gql|csv|log|el|nim|zig|sol|gemspec|cmake|"
    "mk|bzl|erb|csproj"
)
_FILE = rf"[\w.@$+~\[\]-]{{1,100}}\.(?:{_KINDS_OF_FILES})"
_LINE = (
    r"(?::\d{1,6}(?:[:-]\d{1,6}){0,2}|\(\d{1,6}(?:,\d{1,6})?\)?|#L\d{1,6}(?:-L?\d{1,6})?|:\(\.text\+0x[0-9a-f]{1,8}\)?)"
)
_FOLDERS = r"(?:[\w.@$+~()\[\]-]{1,80}/)"
_PLACE = re.compile(
    rf"(?:{_FOLDERS}{{0,20}}{_FILE}{_LINE}|{_FOLDERS}{{1,20}}{_FILE}(?:#[\w-]{{1,60}})?):?(?:in)?", _FLAGS
)

# Addresses of which no part is drawn by lot: each step of the path has at most one short number.
_STEP = r"/[A-Za-z@._~-]{0,40}\d{0,4}(?:\.\d{1,2}|[A-Za-z._~-]{0,40})"
_HOST = r"(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|[a-z][a-z-]{0,30}\d{0,4}(?:[.-][a-z]{1,20}\d{0,3}){1,6}|[a-z]{1,20}\d?)"
_URL = re.compile(
    rf"(?:git\+)?[a-z]{{2,10}}://{_HOST}(?::\d{{2,5}})?(?:{_STEP}){{0,10}}(?:#[\w.:^~-]{{1,40}})?", re.ASCII
)
_ADDRESS = re.compile(rf"(?:{_HOST}:\d{{2,5}}|\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d{{2,5}})?)(?:/\d{{1,3}})?", re.ASCII)
_RESOURCE = re.compile(
    r"[a-z]{1,30}(?:/(?:[a-z]{1,30}(?:[_-][a-z]{1,30}){0,4}(?:[_-]?v?\d{1,3})?|\d{1,12})){2,10}", re.ASCII
)

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_QUANTITY = re.compile(
    r"(?:\d{1,9}(?:\.\d{1,6})?(?:[nuµm]?s|m|min|h|d|w|days?|hours?|[kKMGT]?i?B|[kKMGT]b|%|px|em|fps|k|x)){1,3}"
    r"|\d{1,5}-(?:characters?|digits?|bits?|bytes?|words?|days?|hours?|minutes?|chars?|letters?)"
)
_IDENTIFIER = re.compile(
    r"CVE-\d{4}-\d{4,7}|GHSA(?:-[0-9a-z]{4}){3}|(?:RFC|ISO|IEEE)-?\d{3,6}|[A-Z](?:\.\d{1,2}){2,4}", re.ASCII
)
# What can only be a word, a number with its unit, or an identifier.
_PLAIN = re.compile(r"[\w!@$&*?+-]+", re.ASCII)
_ARCHITECTURES = frozenset(
    ["amd64", "arm64", "armhf", "aarch64", "x86_64", "x64", "i386", "i686", "ppc64le", "ppc64el", "s390x", "riscv64"]
)
_FORM_RULE = re.compile(
    r"(?:required|nullable|sometimes|bail|string|present)(?:\|[a-z_]{1,30}(?::[\w.,]{1,60})?){1,12}", re.ASCII
)
_LINK = re.compile(r"[\w`-]{0,40}\]\((?:https?:|#|\.{0,2}/)\S*")
_TEMPLATE = re.compile(r"\$?\{[^{}]{1,100}\}|%\(?\w{0,30}\)?[sdrfxi]", re.ASCII)

# The length of a digest in base64 without its padding, and in hexadecimal.
_DIGEST_CHARS = {
    "sha1": (27, 40),
    "sha256": (43, 64),
    "sha384": (64, 96),
    "sha512": (86, 128),
    "md5": (22, 32),
    "h1": (43,),
}
_DIGEST = re.compile(
    r"(?<!\w)(?P<kind>sha1|sha256|sha384|sha512|md5|h1)[-:=](?P<sum>[\w+/-]{22,128})(?![\w+/-])={0,2}", _FLAGS
)
_DIGEST_REACH = 140

# Digits of these belong to a word of the trade: `OAuth2Config`, `jwt-rs256`, `ecdsa-sha2-nistp256`.
_TRADE = re.compile(
    r"(?<![A-Za-z0-9])(?:o?auth[02]|saml2|(?:rs|hs|es|ps)(?:256|384|512)k?|ed(?:25519|448)|x(?:25519|448|509)|sha-?[123]?(?:-?"
    r"(?:256|384|512))?|aes-?(?:128|192|256)?|(?:nist)?p(?:256|384|521)|secp\w{4,6}|md5|argon2(?:id|i|d)?|pbkdf2|utf-?8|"
    r"base-?(?:32|58|62|64)(?:url)?|k8s|k3s|i18n|s3|ec2|http[123]|tls1|ipv[46]|[iu](?:8|16|32|64|128)|"
    r"u?int(?:8|16|32|64|128)|bytes(?:16|20|32|64)|float(?:16|32|64)|gcm|hmac)(?![a-z0-9])"
    r"|(?:OAuth2|Auth0|Ed25519|Ed448|X25519|X448|X509|Sha(?:1|256|512)|Aes(?:128|256)|P256|Utf8|Base(?:58|64)|Uint(?:8|16|32)|"
    r"Int(?:8|16|32|64)|Float(?:32|64)|S3|Http2)(?![a-z0-9])",
)
_TRADE_ANY_CASE = re.compile(_TRADE.pattern, re.IGNORECASE)
_WORDS = re.compile(r"[A-Za-z]{0,40}(?:[-_.:]{1,2}[A-Za-z]{0,40}){0,8}")
_TYPE = re.compile(
    r"(?=\w{0,40}(?:Token|Secret|Key|Auth|Cred))(?:[A-Z]{1,5}[a-z]{2,20}){1,5}(?:V?\d{1,2})?(?:[A-Z][a-z]{2,20}){0,3}(?:\$?\d)?\??"
)
_NAME_WITH_VERSION = re.compile(
    r"(?=[a-z-]{0,60}(?:auth|token|secret|key|cred))[a-z]{2,20}(?:-[a-z]{2,20}){0,5}-v\d{1,2}"
)

# Behind `name:` inside of a longer id: the tag of an image, a part of an ARN, the key of a cache.
_TAG = re.compile(r"(?:sha-)?(?:[0-9a-f]{7,8}|[0-9a-f]{12}|[0-9a-f]{40})")
_CACHE_KEY = re.compile(
    r"(?!admin|root|sa:|guest)(?:[a-z]{1,20}|v?\d{1,9})(?::(?:[a-z]{1,20}|v?\d{1,9}|\*)){1,8}", re.ASCII
)
_ARN = re.compile(r"(?:^|[^\w])arn:[\w:/-]{0,90}\Z", re.ASCII)
# `pass` counts tests, `checksum/secret` annotates, `existingSecret` names one, PGP's keys have public ids.
_COUNT = re.compile(r"\d{1,6}")
_COUNTED = re.compile(r"fail|skip|warn|total|todo", re.IGNORECASE)
_DEFINITION = re.compile(
    r"\b(?:def|fn|func|fun|function|constructor|public|private|protected|static|async)\b[^\n]*\([^\n]*\Z"
)
_TYPE_NAME = re.compile(r"(?:[A-Z][a-z]{1,20}){2,6}|[A-Z][a-z]{2,20}")
_FIELD = re.compile(r"(?:\A|\n)[ \t]{2,40}\Z")
_FIELD_TYPE = re.compile(r"(?:[A-Z]{1,4}[a-z]{1,20}){2,6}")
_FIELD_END = re.compile(r"[,;][ \t]*(?:\n|\Z)")
_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.:-]{0,40}=[^=].*", re.ASCII)


def is_part_of_id(before: str, value: str) -> bool:
    """True for a part of a longer id: `acme/auth:3f2ab1c`, `arn:aws:…:secret:prod/db-AbCdEf`, `auth:user:1250`.

    A bare colon stands between what is before the name and the value, which is not in quotes of its own.
    """
    tagged = before.endswith("/") and _TAG.fullmatch(value) is not None
    return tagged or _ARN.search(before) is not None or _CACHE_KEY.fullmatch(value) is not None


def is_about_something_else(before: str, name: str, value: str, after: str) -> bool:
    """True where an unquoted value, seen with what is around it, tells something else than its name promises."""
    if name.lower() == "pass":
        return _COUNT.fullmatch(value) is not None and _COUNTED.search(before + after) is not None
    if name.startswith("existingSecret") or before.endswith(("checksum/", "using RSA ")):
        return True
    if value[0] == "?" and before.endswith("${"):
        return True
    if not value[0].isupper():
        return False
    if _FIELD_TYPE.fullmatch(value) and _FIELD_END.match(after) and _FIELD.search(before):
        return True
    return _TYPE_NAME.fullmatch(value) is not None and _DEFINITION.search(before) is not None


def is_attribute(value: str) -> bool:
    """True where the value begins an assignment of its own: `maxLength={12}`, `user=maya`."""
    return _ATTRIBUTE.fullmatch(value) is not None


def is_fact(value: str, *, password: bool, tight: bool, quoted: bool) -> bool:
    """True where the whole value is a version, a place, an address, a time, a digest or another fact.

    The value is without quotes, its first few hundred characters. For a `password` only what nobody chooses as one
    counts; where it is `tight`, tied to its name as in `NAME=x`, a name made of words may be the secret itself.
    """
    if _PLAIN.fullmatch(value):
        return value in _ARCHITECTURES or (not password and _is_word(value, tight=tight, quoted=quoted))
    # A bare number is no version; what may be a password needs a dot and a sign of one.
    is_version = _VERSIONS.fullmatch(value) and ("." in value or (not password and value[0] in "^~<>="))
    if is_version and (not password or re.search(r"[A-Za-z^~<>=*|]", value)):
        return True
    rest, count = _TEMPLATE.subn("", value)
    if count and not any(map(str.isalnum, rest)):
        return True
    if any(one.fullmatch(value) for one in (_PLACE, _PACKAGE_SOURCE, _TIME, _FORM_RULE, _LINK)):
        return True
    if password:
        return False
    if any(one.fullmatch(value) for one in (_URL, _ADDRESS, _RESOURCE, _OF_PACKAGE)):
        return True
    return _is_digest(value) or _is_word(value, tight=tight, quoted=quoted)


def is_in_digest(text: str, start: int) -> bool:
    """True where the characters at `start` belong to a digest, as in `sha512-…`."""
    found = next((one for one in _DIGEST.finditer(text, max(0, start - _DIGEST_REACH)) if one.end() > start), None)
    return found is not None and found.start() <= start and _is_digest(found.group())


def is_made_of_words(value: str) -> bool:
    """True for a long name (`V1OrganizationExternalKeysPostRequest`); random characters have short runs of letters."""
    runs = re.findall(r"[a-z]+", value)
    return len(re.findall(r"[0-9]+", value)) <= 2 and sum(map(len, runs)) >= 4 * len(runs) > 0


def _is_digest(value: str) -> bool:
    found = _DIGEST.fullmatch(value)
    return found is not None and len(found["sum"]) in _DIGEST_CHARS[found["kind"].lower()]


def _is_word(value: str, *, tight: bool, quoted: bool) -> bool:
    if _QUANTITY.fullmatch(value) or _IDENTIFIER.fullmatch(value):
        return True
    rest, count = _TRADE_ANY_CASE.subn("", value)
    if count and not rest.strip("-_.:/"):
        return True
    if tight:
        return False
    if (count and _WORDS.fullmatch(rest)) or _NAME_WITH_VERSION.fullmatch(value):
        return True
    return not quoted and (_TYPE.fullmatch(value) is not None or _WORDS.fullmatch(_TRADE.sub("", value)) is not None)
