"""The rules that know a secret by its own shape, one line each.

To add a vendor: one line in `_TOKENS` (kind, prefixes, the rest as a regular expression), and its prefix in the test's
list. A rule must stay linear on hostile input: bound every repeat that something has to follow.
`benchmarks/redaction.py --catalogue` lists what a maintained rule set knows and this one does not.

Source: docs/adr/0002-redaction-rules.md; prefixes as the vendors and the betterleaks, kingfisher and detect-secrets
catalogues publish them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harken.redact.facts import is_in_digest, is_made_of_words
from harken.redact.values import SURE, Span, is_placeholder

_MIN_WORD = 16

_W = r"[\w-]{10,}(?:\.[\w-]+)*"
_HEX = r"[A-Fa-f0-9]{20,}"

_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", _W),
    ("gitlab-token", "glpat- gldt- glrt- glptt- glcbt- glffct- glft- glimt- glagent- gloas- glsoat- GR1348941", _W),
    ("slack-token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxc- xoxd- xoxe- xoxe.xox xapp-", r"[\w%+/.=-]{8,}"),
    ("anthropic-key", "sk-ant-", _W),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None- sk-or- sk-lf-", _W),
    ("openai-key", "sk-", r"(?!ssh-|ecdsa-)(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Za-z])[\w-]{16,}"),
    ("stripe-key", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_", r"[\w+/=]{8,}"),
    ("aws-access-key", "AKIA", r"[A-Z0-9]{12,}"),
    ("aws-access-key", "ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("aws-bedrock-key", "ABSK bedrock-api-key-", r"[A-Za-z0-9+/]{28,}={0,2}"),
    ("gcp-api-key", "AIza AQ.Ab", r"[\w-]{28,}"),
    ("google-oauth", "ya29. GOCSPX- 1//0", r"[\w.-]{16,}"),
    ("huggingface-token", "hf_ api_org_", r"[A-Za-z0-9]{16,}"),
    ("twilio-key", "SK", r"[0-9a-fA-F]{32}(?![A-Za-z0-9])"),
    ("sendgrid-key", "SG.", r"(?<![_-]SG\.)[\w-]{12,}\.[\w-]{12,}"),
    ("npm-token", "npm_", r"[A-Za-z0-9]{20,}"),
    ("pypi-token", "pypi-", r"(?:Ag|(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Z]))[\w-]{16,}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"[A-Za-z0-9]{16,}"),
    ("discord-token", "M N O", r"[\w-]{22,28}\.[\w-]{6}\.[\w-]{27,}"),
    ("jwt", "eyJ", r"(?<![_-]eyJ)[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)*+"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_", _HEX),
    ("docker-token", "dckr_pat_ dckr_oat_ SWMTKN-1- SWMKEY-1-", _W),
    ("vault-token", "hvs. hvb. hvr.", r"[\w-]{20,}"),
    ("databricks-token", "dapi", r"[a-f0-9]{32}(?:-\d)?"),
    ("sentry-token", "sntrys_ sntryu_", r"[\w+/=]{20,}"),
    ("grafana-token", "glsa_ glc_ eyJrIjoi", r"[\w+/=]{20,}"),
    ("circleci-token", "CCIPAT_ CCIPRJ_", _W),
    ("atlassian-token", "ATATT3 ATCTT3 ATBB BBDC-", r"[\w+/=-]{20,}"),
    ("vercel-token", "vck_ vcp_ vci_ vca_ vcr_", r"[\w-]{24,}"),
    ("1password-token", "ops_eyJ", r"[A-Za-z0-9+/=_-]{40,}"),
    ("1password-key", "A3-", r"[A-Z0-9]{6}-[A-Z0-9-]{20,}"),
    ("age-key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{20,}"),
    ("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{40,}"),
    ("cloudflare-token", "cfut_ cfat_ v1.0-", r"[A-Za-z0-9]{24,}(?:-[a-f0-9]{20,})?"),
    ("supabase-token", "sbp_ sb_secret_", r"[\w-]{20,}"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w=.-]{20,}"),
    ("square-token", "sq0atp- sq0csp- EAAA", r"[\w-]{22,}"),
    ("facebook-token", "EAAM EAAC EAAG", r"[A-Za-z0-9]{60,}"),
    ("linear-key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{20,}"),
    ("notion-token", "ntn_ secret_", r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{32,}"),
    ("figma-token", "figd_ figdr_", r"[\w-]{20,}"),
    ("postman-key", "PMAK- PMAT-", r"[A-Za-z0-9-]{20,}"),
    ("tailscale-key", "tskey-", r"[\w-]{16,}"),
    ("mailgun-key", "key-", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    ("salesforce-token", "00D", r"[A-Za-z0-9]{12}![\w.-]{40,}"),
    ("dropbox-token", "sl.", r"(?<![_-]sl\.)[\w=-]{100,}"),
    ("mapbox-token", "sk.eyJ", r"[\w-]{20,}\.[\w-]{16,}"),
    ("buildkite-token", "bkaa_ bkaj_ bkar_ bkct_ bkpt_ bkpat_ bkps_ bkua_", r"[\w-]{32,}"),
    ("artifactory-key", "AKCp cmVmd", r"[A-Za-z0-9]{59,70}(?![A-Za-z0-9+/=])"),
    ("harness-key", "pat. sat.", r"[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    ("voyage-key", "pa- al-", r"[\w-]{43}(?![\w-])"),
    ("resend-key", "re_", r"[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,}"),
    ("datastax-token", "AstraCS:", r"[\w:]{20,}"),
    ("octopus-key", "API-", r"[A-Z0-9]{26}(?![A-Za-z0-9])"),
    ("exoscale-key", "EXO", r"[a-zA-Z0-9]{24,30}(?![A-Za-z0-9])"),
    ("packagist-token", "packagist_ort_ packagist_out_ packagist_acs_", r"[0-9a-f]{40,}"),
    ("jwt", "ZXlK", r"[A-Za-z0-9+/]{60,}={0,2}"),
    ("api-key", "gsk_ pplx- xai- nvapi- r8_ tvly- tgp_v1_ csk- llx- lsv2_ pcsk_ napi_ rpa_ wandb_v1_ fw_", r"\w{20,}"),
    ("api-key", "dp.pt. dp.st. dp.ct. dt0c01. mlsn. NRAK- HRKU- pul- phx_ pnu_ ddp_ ddo_ sgp_ apk_", r"[\w.+/-]{24,}"),
    ("api-key", "EZAK EZTK xkeysib- xsmtpsib- apify_api_ rubygems_ p8e- cnvca cog_ ico- ion_ nyk_", r"[\w-]{32,}"),
    ("api-key", "shippo_live_ duffel_live_ duffel_test_ FLWSECK_ FLWSECK_TEST- samsara_api_ sk_car_ CLOJARS_", _W),
    ("api-key", "AIK_CI_ AIK_SECRET_ gcntfy- csa_ CCDB1_ dvc_server_ essu_ tk-us- rdme_ m0-", r"[\w-]{20,}"),
    ("api-key", "$aact_prod_ $aact_hmlg_ configcat-sdk-1/", r"[\w/-]{20,}"),
    ("api-key", "mdb_sa_sk_ mercury_production_ mergify_application_key_ os_v2_app_ os_v2_org_ api_live.", _W),
    ("api-key", "sha256~ pdl_live_apikey_ persona_production_ pina_ polar_at_ polar_oat_ polar_pat_ rootly_", _W),
    ("api-key", "sm_aat_ sm_pat_ sm_sat_ tss_ unkey_ ucat_ vtwn_ waka_ xnd_production_ zpka_", r"\w{16,}"),
    ("api-key", "rnd_ lip_ fio-u- prf_ ramp_sec_ api_live_ca. api_live_us.", r"\w{16,}"),
)

# kind, a literal that every match holds (lower case), how many characters before it the match begins, the pattern; the
# group `secret` is what goes. These lie inside one long word.
_LINKS: tuple[tuple[str, str, int, str], ...] = (
    ("slack-webhook", "hooks.slack", 0, r"hooks\.slack(?:-gov)?\.com/\w{6,12}/(?P<secret>[\w/+-]{12,})"),
    ("discord-webhook", "/webhooks/", 0, r"/webhooks/(?P<secret>\d{6,}/[\w-]{12,})"),
    ("teams-webhook", "webhook.office", 0, r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{20,})"),
    ("azure-sas", "sig=", 1, r"[?&;]sig=(?P<secret>[\w%+/=-]{16,})"),
    ("azure-client-secret", "q~", 4, r"(?P<secret>[\w~.-]{3}\dQ~[\w~.-]{24,})"),
    ("session-cookie", "_session=", 0, r"_session=(?P<secret>[\w%+/=-]{24,})"),
    ("maxmind-key", "_mmk", 36, r"(?P<secret>[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)"),
    ("telegram-token", ":aa", 10, r"\D{0,2}(?P<secret>\d{8,10}:AA[\w-]{30,})"),
    ("terraform-token", ".atlasv1.", 14, r"(?P<secret>[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,})"),
    ("mailchimp-key", "-us", 32, r"(?P<secret>[0-9a-f]{32}-us\d{1,2})(?![A-Za-z0-9])"),
    ("password-hash", "$2", 0, r"(?P<secret>\$2[abxy]?\$[./A-Za-z0-9$]{20,})"),
    ("password-hash", "$6$", 0, r"(?P<secret>\$6\$[./A-Za-z0-9$=]{20,})"),
    ("password-hash", "$apr1$", 0, r"(?P<secret>\$apr1\$[./A-Za-z0-9$]{20,})"),
    ("password-hash", "$argon2", 0, r"(?P<secret>\$argon2(?:id|i|d)\$[./A-Za-z0-9$=,+_-]{20,})"),
    ("twilio-token", "twilio", 0, r"twilio[^\n]{0,60}?(?<![A-Za-z0-9])(?P<secret>[0-9a-f]{32})(?![A-Za-z0-9])"),
    ("fly-token", "flyv1 ", 0, r"FlyV1 (?P<secret>[\w=,/+-]{40,})"),
    ("url-token", "://", 0, r"://(?P<secret>(?=[\w-]{0,60}\d)[\w-]{20,200})@(?=[\w\[-])"),
    ("url-password", "jdbc:oracle", 0, r"jdbc:oracle:\w{2,8}:[^/\s:]{1,64}/(?P<secret>[^\s@\"']{1,100})@"),
)

_AUTH = r"(?:\\{0,3}[\"'])?\]?\s{0,4}[:=,]\s{0,4}(?:[rbf]?\\{0,3}[\"'`])?\s{0,4}"
# A line of `.pgpass` on the ports that PostgreSQL and its poolers have.
_PGPASS = r":(?:5432|5433|6432|\*):[\w*.-]{1,64}:[\w*.@+-]{1,64}:(?P<secret>[^\s:]{3,})(?=\s|$)"
_CONTEXT: tuple[tuple[str, str, int, str], ...] = (
    *(("password", literal, 0, _PGPASS) for literal in (":5432:", ":5433:", ":6432:", ":*:")),
    # `user:password@`. Outside the web a password may hold a bare slash, but `host:80/` is a port.
    (
        "url-password",
        "://",
        5,
        r"[\s\S]{0,5}?(?P<web>https?)?://(?=[^\s@\"'`<>]{0,360}+@)[^\s:/@\"'`<>]{0,100}:(?![<$*{]|%[({])"
        r"(?P<secret>(?(web)(?!)|(?!\d{1,5}/)[^\s\"'`<>?#]{1,256})|[^\s/\"'`<>]{1,256})@(?=[\w\[-])",
    ),
    (
        "bearer-token",
        "authorization",
        0,
        rf"authorization{_AUTH}"
        r"(?:bearer|token|api-?key|jwt|oauth|digest)[ :=]\s{0,4}(?P<secret>[\w.~+/=:-]{4,})",
    ),
    ("basic-auth", "authorization", 0, rf"authorization{_AUTH}basic\s{{1,4}}(?P<secret>[\w+/=-]{{4,}})"),
    ("bearer-token", "bearer", 0, r"bearer[ :=]\s{0,4}(?=[\w.~+/=-]{0,60}\d)(?P<secret>[\w.~+/=-]{8,})"),
    (
        "basic-auth",
        "basic",
        2,
        r"(?:.?[\"'`:=]|[:=] )basic\s{1,4}(?=[A-Za-z0-9+/_-]{0,60}[0-9=])(?P<secret>[A-Za-z0-9+/_-]{8,}={0,2})",
    ),
    (
        "password",
        "cred",
        0,
        r"cred(?:ential)?s?\b[^\n:=]{0,30}[:=]\s{0,3}[\w.@+-]{1,64}\s?[/:]\s?(?!/)(?P<secret>(?=\S{0,60}\d)[^\s,;]{4,})",
    ),
    (
        "session-cookie",
        "cookie",
        0,
        r"cookie(?:\\{0,3}[\"'])?\s{0,2}[:=]\s{0,2}\\{0,3}[\"']?[\w.-]{1,64}=(?=[^\s\"';]{0,60}\d)(?P<secret>[^\s\"';\\]{16,})",
    ),
)

# Passwords as options: the program that must stand before, the option, the pattern. A variable or a port is none.
_NOT_HERE = r"(?![\d:]{1,12}(?:[\s\"']|$)|[$<{-])"
_USER = r"(?:-u|--user|--proxy-user)[ =]?[\"']?[\w.@+\\-]{1,64}:" + _NOT_HERE + r"(?P<secret>[^\s\"']{2,})"
_PASS = r"(?:-p|-a|--pass)\s{0,4}[\"']?" + _NOT_HERE + r"(?P<secret>[^\s\"']{3,})"
_IDENTIFIED = r"identified by (?:password )?[\"'](?P<secret>[^\"'\n]{1,200})"
_OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("curl", "-u", _USER),
    ("curl", "--user", _USER),
    ("curl", "--proxy-user", _USER),
    ("mysql", "-p", r"-p" + _NOT_HERE + r"(?P<secret>[^\s\"']{3,})"),
    ("sshpass", "-p", _PASS),
    ("login", "-p ", _PASS),
    ("sqlcmd", "-p", _PASS),
    ("7z", "-p", r"-p" + _NOT_HERE + r"(?P<secret>[^\s\"']{3,})"),
    ("htpasswd", "-", r"-(?=\w{0,6}b)(?=\w{0,6}n)\w{2,6}\s{1,4}[\w.@+-]{1,64}\s{1,4}[\"']?(?P<secret>[^\s\"']{2,})"),
    (
        "htpasswd",
        "-",
        r"-(?=\w{0,6}b)(?!\w{0,6}n)\w{1,6}\s{1,4}\S{1,200}\s{1,4}[\w.@+-]{1,64}\s{1,4}[\"']?(?P<secret>[^\s\"']{2,})",
    ),
    ("redis-cli", "-a ", _PASS),
    ("redis-cli", "--pass ", _PASS),
    ("user", "identified by ", _IDENTIFIED),
    ("grant", "identified by ", _IDENTIFIED),
)
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


def _shapes(table: tuple[tuple[str, str, int, str], ...]) -> tuple[Shape, ...]:
    return tuple(Shape(kind, literal, back, re.compile(rule, re.I | re.A)) for kind, literal, back, rule in table)


LINKS, CONTEXT = _shapes(_LINKS), _shapes(_CONTEXT)
OPTIONS = tuple(
    Shape("password", f" {option}", 0, re.compile(f" {pattern}", re.I | re.A), program)
    for program, option, pattern in _OPTIONS
)


def _by_head() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    rules: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for kind, heads, body in _TOKENS:
        compiled = re.compile(body, re.ASCII)
        for head in heads.split():
            rules.setdefault(head, []).append((kind, compiled))
    return rules


def _any_head(heads: Sequence[str]) -> re.Pattern[str]:
    """One alternation, the longest first, by first letter: five times as fast as the flat one."""
    groups: dict[str, list[str]] = {}
    for head in sorted(heads, key=len, reverse=True):
        groups.setdefault(head[0], []).append(re.escape(head[1:]))
    grouped = "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())
    # A token also begins after an escaped newline (`\n` in JSON inside JSON) and after a percent escape.
    return re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{{2}}))(?:{grouped})")


_BY_HEAD = _by_head()
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
_AWS_SECRET_CHARS = 40
_AWS_REACH = 200


def long_words(text: str) -> str:
    """The words long enough to hold a vendor's token, in order, one blank between them; ordinary prose gives none."""
    return " ".join([word for word in text.split() if len(word) >= _MIN_WORD])


def find_tokens(text: str, words: str) -> Iterator[Span]:
    """The tokens that begin with a vendor's prefix.

    Args:
        text: where the spans point into.
        words: `long_words(text)`.
    """
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
    """What the shapes find.

    Args:
        text: where the spans point into.
        low: the same text in lower case, of the same length.
        shapes: one of the tables of this module.
    """
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
            start = begin if begin >= 0 else _headless_start(text, mark.start())
            if start < mark.start():
                yield Span(start, mark.end(), SURE, "private-key")
            begin = -1
            continue
        begin = mark.start()
        body = _PEM_BODY.match(text, mark.end())
        if body and body.group():
            yield Span(begin, body.end(), SURE, "private-key")


def _headless_start(text: str, end: int) -> int:
    """Where the base64 lines before an END begin; at the END itself where there are none."""
    start = end
    while start > 0 and (line := _PEM_LINE.search(text, max(0, start - _LINE_CHARS), start)):
        start = line.start("body")
    return start


def find_aws_secrets(text: str, low: str, words: str) -> Iterator[Span]:
    """Secret keys of AWS, 40 characters without a prefix: only where a word or an access key nearby names them.

    Args:
        text: where the spans point into.
        low: the same text in lower case, of the same length.
        words: `long_words(text)`.
    """
    if not any(word in low for word in ("aws", "secret", "akia", "asia", "amazon")):
        return
    if max(map(len, words.split(" "))) < _AWS_SECRET_CHARS:
        return
    for found in _AWS_SECRET.finditer(text):
        if is_made_of_words(found.group()) or is_in_digest(text, found.start()):
            continue
        if _AWS_NEARBY.search(text, max(0, found.start() - _AWS_REACH), found.end() + _AWS_REACH):
            yield Span(found.start(), found.end(), SURE, "aws-secret-key")
