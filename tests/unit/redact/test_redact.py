"""Private passages go, values keep their shape, and redacting again changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import ConfigError
from harken.redact.redactor import Redacted, Redactor

redactor = Redactor()

# Built from parts, so that no scanner takes this file for a leak.
MIXED = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
LONG = MIXED * 4
BEGIN, END = "-----BEGIN ", "-----END "


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("keep <private>my diary</private> this", "keep  this"),
        ("a <PRIVATE reason='x'>one\ntwo</Private> b", "a  b"),
        ("a <private>x <private>y</private> z</private> b", "a  b"),
        ("a <private>to the end", "a "),
        ("a <private", "a "),
        ("<private>x</private>\n<private>y</private>", "\n"),
        ("a &lt;private&gt;x&lt;/private&gt; b", "a  b"),
        ("a \\u003cprivate\\u003ex\\u003c/private\\u003e b", "a  b"),
        ("a </private> b <private/> c", "a </private> b <private/> c"),
        ("<privateKey>k</privateKey>", "<privateKey>k</privateKey>"),
        ("#include <private/qobject_p.h>\nint main() {}", "#include <private/qobject_p.h>\nint main() {}"),
        ("a <pri<private>x</private>vate>y</private> b", "a  b"),
    ],
)
def test_a_private_passage_goes_whole(text: str, left: str) -> None:
    found = redactor.redact(text)
    assert found.text == left
    assert ("private" in found.counts) == (left != text)


def test_private_passages_go_even_where_redaction_is_off() -> None:
    found = Redactor(enabled=False).redact("password=hunter2 <private>x</private>")
    assert (found.text, dict(found.counts)) == ("password=hunter2 ", {"private": 1})


def test_json_like_values_lose_their_secrets_and_keep_their_shape() -> None:
    value: dict[str, Any] = {
        "password": "swordfish",
        "pin_password": 12345,
        "nested": [{"note": "token=abc123def456", "count": 3, "on": True, "nothing": None}],
        "argv": ["login", "--password", "swordfish", "--verbose"],
        "env": [{"name": "DB_PASSWORD", "value": "swordfish"}],
        "max_tokens": 400,
        "session_id": "123e4567-e89b-12d3-a456-426614174000",
    }
    clean, counts = redactor.redact_value(value)
    assert clean == {
        "password": "[redacted:password]",
        "pin_password": "[redacted:password]",
        "nested": [{"note": "token=[redacted:token]", "count": 3, "on": True, "nothing": None}],
        "argv": ["login", "--password", "[redacted:password]", "--verbose"],
        "env": [{"name": "DB_PASSWORD", "value": "[redacted:password]"}],
        "max_tokens": 400,
        "session_id": "123e4567-e89b-12d3-a456-426614174000",
    }
    assert dict(counts) == {"password": 4, "token": 1}


def test_a_value_nested_without_end_never_fails() -> None:
    value: Any = "password=hunter2"
    for _ in range(900):
        value = [value]
    clean, counts = redactor.redact_value(value)
    assert "hunter2" not in str(clean)
    assert dict(counts) == {"too-deep": 1}


def test_extra_patterns_are_added_and_their_first_group_is_the_secret() -> None:
    extra = Redactor({"staff-id": r"EMP-(\d{6})", "word": "abracadabra"})
    found = extra.redact("EMP-123456 says abracadabra")
    assert found.text == "EMP-[redacted:staff-id] says [redacted:word]"
    assert dict(found.counts) == {"staff-id": 1, "word": 1}
    assert extra.redact(found.text).text == found.text


@pytest.mark.parametrize(("kind", "pattern"), [("x", "("), ("not a kind", "x"), ("number", 5), ("table", {})])
def test_an_extra_pattern_that_cannot_be_used_is_named(kind: str, pattern: Any) -> None:
    with pytest.raises(ConfigError, match=rf"redaction\.patterns.*{kind}"):
        Redactor({kind: pattern})


PIECES = st.lists(
    st.sampled_from(
        [
            *(
                "password",
                "token",
                "secret",
                "api_key",
                "=",
                ":",
                " ",
                "\n",
                '"',
                "'",
                "\\",
                "[redacted:x]",
                "[redacted:",
            ),
            *(
                "hunter2",
                "swordfish",
                "abc123def456ghi789",
                "://",
                "user",
                "@",
                "db",
                "/",
                "Bearer ",
                "Authorization",
                "|",
            ),
            *(
                "<private>",
                "</private>",
                "<private",
                "<pri",
                "vate>",
                "&lt;",
                ">",
                f"{BEGIN}PRIVATE KEY-----",
                MIXED,
                "is",
            ),
            *(
                f"{END}PRIVATE KEY-----",
                "ghp_",
                "eyJ",
                ".",
                "-p ",
                "login",
                "(",
                ")",
                "${X}",
                "пароль",
                "密码",
                "value",
                "İ",
            ),
        ]
    ),
    max_size=14,
)


@given(st.one_of(st.text(), PIECES.map("".join)))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redactor.redact(text)
    twice = redactor.redact(once.text)
    assert twice.text == once.text
    assert not twice.counts


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40), st.text(max_size=40))
def test_a_planted_secret_never_survives_whatever_surrounds_it(before: str, after: str) -> None:
    secrets = ("gh" + "p_" + LONG[:36], "sk-" + "ant-api03-" + LONG, "sw0rdfish!", "pa55w0rd")
    text = f"{before}\n{secrets[0]} {secrets[1]}\npassword={secrets[2]}\npostgres://a:{secrets[3]}@db/x\n{after}"
    clean = redactor.redact(text).text
    assert not any(secret in clean for secret in secrets)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
        lambda children: st.one_of(st.lists(children), st.dictionaries(st.text(), children)),
        max_leaves=20,
    )
)
def test_values_without_secrets_come_back_equal_and_with_secrets_stay_json(value: Any) -> None:
    clean, counts = redactor.redact_value(value)
    json.dumps(clean)
    assert counts or clean == value


HOSTILE = [
    *(
        "a",
        "eyJ",
        "-eyJ",
        "eyJaaaaaaaaaa.",
        "password=",
        'password="',
        "password for ",
        "key",
        "secret is ",
        "://a:",
        "sk-",
    ),
    *(
        "SG.aaaaaaaaaaaaa",
        "<private",
        "</private>",
        f"{BEGIN}PRIVATE KEY-----\n",
        "[redacted:x]",
        "password=[redacted:x]",
    ),
    *("password,", "user,password\n", "|password|\n|---|\n", "key  ", '"password",', "password\n---|\n"),
    *("curl -u ", "mysql -p", "Authorization: Bearer ", '\\"', "$2b$", "aB1/", "пароль для ", "M" * 25 + "."),
    *("Z2hwX/", "Z2hwX2 ", "ewogICJhdXRo", "aeyJhbGci", "\x1b[", "\\u001b[", "cio", "psk=", "login: a / ", "hasło do "),
    *(
        "echo a echo b sudo -s -s ",
        "echo a:b | chpasswd ",
        'wpa_passphrase "',
        " /user: net use",
        " docker --password-stdin",
    ),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_repetition_ends_and_stays_redacted(unit: str) -> None:
    # A rule that takes time by the square would not come back from this; benchmarks/redaction.py has the times.
    once = redactor.redact((unit * (50_000 // len(unit) + 1))[:50_000])
    assert redactor.redact(once.text).text == once.text


@pytest.mark.parametrize(
    "text",
    [
        "ghp_{0}\u200b{1}",
        "g\u00adhp_{0}{1}",
        "\\u0067hp_{0}{1}",
        "ghp_{0}\x1b[1;31m{1}\x1b[0m",
        "\x1b[32mghp_{0}{1}",
        "ghp_{0}\\u001B[0m{1}",
        "password=\\x1b[1m{0}{1}\\033[0m",
        "ghp_{0}\\\n  {1}",
        "ghp_{0}\n{1}",
        "token = 'ghp_{0}' + '{1}'",
        'token = "ghp_{0}"\n        "{1}"',
        "password\\u003d{0}{1}",
        '{{"pass\\u0077ord": "{0}{1}"}}',
        "https:\\/\\/bob:{0}{1}@example.org\\/x",
        "https%3A%2F%2Fbob%3A{0}{1}%40example.org%2Fx",
        "MIIEvgIBADANBgkqhkiG9w0\n{0}{1}\n-----END PRIVATE KEY-----",
        "  3\tMIIEvgIBADANBgkqhkiG9w0\n  4\t{0}{1}\n  5\t-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_secret_is_found_behind_escapes_breaks_and_what_nobody_sees(text: str) -> None:
    halves = ("Zq7Wm2Xv9Rt4Lp8Kd3", "Nf6Hs1Bj5Gc0YaTuEo")
    left = Redactor().redact(text.format(*halves)).text
    assert "[redacted:" in left
    assert not any(half in left for half in halves)
    assert Redactor().redact(left).text == left


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<\u200bprivate>", "</private>"),
        ("<pri\u200bvate>", "</private>"),
        ("\uff1cprivate\uff1e", "\uff1c/private\uff1e"),
        ("&#60;private&#62;", "&#60;/private&#62;"),
        ("&#x3C;private&#x3E;", "&#x3C;/private&#x3E;"),
        ("&amp;lt;private&amp;gt;", "&amp;lt;/private&amp;gt;"),
        ("\\\\u003cprivate\\\\u003e", "\\\\u003c/private\\\\u003e"),
        ("\\x3cprivate\\x3e", "\\x3c/private\\x3e"),
        ("%3Cprivate%3E", "%3C/private%3E"),
        ("< private >", "</ private >"),
    ],
)
def test_a_private_passage_goes_in_whatever_form_its_tags_come(begin: str, end: str) -> None:
    left = Redactor().redact(f"before {begin}the wedding is in Bruges{end}")
    assert left.text.startswith("before")
    assert "Bruges" not in left.text
    assert left.counts == {"private": 1}


@pytest.mark.parametrize(
    "text",
    [
        "caf\\u00e9 \\u003ctable\\u003e https:\\/\\/example.org\\/x",
        "a\u200bb \uff1c\uff1e &#60;b&#62; &amp;lt; %3Ca%3E 100%3d",
        "if x < private_key: pass",
        "-----END PRIVATE KEY----- is the last line",
        "see [redacted:token]\nNothing more",
        "\x1b[1mpassword\x1b[0m is required",
        "printf '\\033[31mred\\033[0m token2'",
    ],
)
def test_escapes_that_hide_nothing_stay_as_they_are(text: str) -> None:
    assert Redactor().redact(text) == Redacted(text)


def test_a_process_that_records_nothing_compiles_no_rules() -> None:
    code = "import harken.record.recorder, sys; print([name for name in sys.modules if 'harken.redact.' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['harken.redact.redactor']"
