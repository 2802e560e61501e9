"""Facts that stand beside words like token, auth or key are kept; secrets that merely begin like a fact are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.redact.redactor import Redactor

redactor = Redactor()
# What developers' tools print and their files hold, by ecosystem; headings begin with `## `.
SECTIONS = [
    section.splitlines()[1:]
    for section in f"\n{Path(__file__).with_name('ordinary_lines.txt').read_text(encoding='utf-8')}".split("\n## ")[1:]
]
LINES = [line for section in SECTIONS for line in section if line.strip()]


def test_no_ordinary_line_is_changed() -> None:
    assert len(set(LINES)) >= 1_000
    assert [line for line in LINES if redactor.redact(line).text != line] == []


def test_no_ordinary_line_is_changed_inside_of_json() -> None:
    quoted = [json.dumps({"output": line}) for line in LINES]
    assert [line for line in quoted if redactor.redact(line).text != line] == []


@pytest.mark.parametrize("lines", SECTIONS, ids=lambda lines: lines[0][:20])
def test_whole_outputs_are_not_changed(lines: list[str]) -> None:
    text = "\n".join(lines)
    left = redactor.redact(text).text.splitlines()
    assert [line for line in left if line not in lines] == []


def test_fields_that_hold_facts_are_not_changed() -> None:
    manifest = {
        "dependencies": {"auth0": "^5.0.0", "next-auth": "5.0.0-beta.25", "token": ">=1.2,<2", "password": "~0.1.1"},
        "auth": "workspace:*",
        "token": "src/lib/token.ts:35:11",
        "secret": "https://vault.example.com:8200/v1/secret/data/prod",
    }
    assert redactor.redact_value(manifest) == (manifest, {})


# The secret of each line stands after the last `~`.
SECRETS = r"""
"auth0": "s3cr3tV4lueX9"~s3cr3tV4lueX9
"next-auth": "4f9aK2mQ8sX1"~4f9aK2mQ8sX1
"token": "1.2.3-Xy7QpLm9"~1.2.3-Xy7QpLm9
"token": "^7XyQ9zLm2"~^7XyQ9zLm2
password: ^7XyQ9z~^7XyQ9z
password: ~5zz!K~5zz!K
password: 24.12.1985~24.12.1985
password: 1.2.3~1.2.3
password=10.11.12~10.11.12
password: 3600s~3600s
password=package9~package9
password: Monkey.ts9~Monkey.ts9
password: sha256-hunter2~sha256-hunter2
secret: v2.hunter.7x~v2.hunter.7x
secret: Monkey12~Monkey12
auth: admin:hunter2~hunter2
auth: maya:123456~123456
auth:admin:123456~123456
auth: s3cr3t@10.0.0.1~s3cr3t
auth: hunter2@10.0.0.1~hunter2
token: sha256:notadigest99~notadigest99
token: sha512-short1~sha512-short1
token  zX9k2.Lm4:Qp7~zX9k2.Lm4:Qp7
auth  9fKx2LmQ8sZ1vB~9fKx2LmQ8sZ1vB
token=https://hooks.example.com/T0/9f8e7d6c5b4a3f~9f8e7d6c5b4a3f
secret: https://x.example.com/k/Zq7Wm2Xv9Rt4~Zq7Wm2Xv9Rt4
token: eu-9f8e7d6c5b4a~eu-9f8e7d6c5b4a
registry.example.com/auth:token: zX9k2Lm4Qp7~zX9k2Lm4Qp7
//registry.example.org/:_authToken=0a1b2c3d~0a1b2c3d
JWT_SECRET=my-jwt-secret-v2~my-jwt-secret-v2
SECRET=oauth2secret77~oauth2secret77
SECRET_KEY=acme-k8s-prod~acme-k8s-prod
api_key: Summer2024~Summer2024
token: Abc123Def456~Abc123Def456
login (user: maya, password: SwordFish)~SwordFish
wifi pass: 12345678~12345678
pass: 4711~4711
user=bob pass=1234 fail=0~1234
existing_password=hunter2~hunter2
${DB_PASSWORD:-swordfish1}~swordfish1
<input name="password" value="hunter22" minLength={12}>~hunter22
PASSWORD='%s3cr3t'~%s3cr3t
"password": "%d0g%c4t"~%d0g%c4t
api_key=123e4567-e89b-12d3-a456-426614174000~123e4567-e89b-12d3-a456-426614174000
aws secret wJalrXUtnFEMIzK7MDENGzbPxRfiCYzzzzzzzzzz~wJalrXUtnFEMIzK7MDENGzbPxRfiCYzzzzzzzzzz
"""


@pytest.mark.parametrize("line", SECRETS.strip().splitlines())
def test_what_only_resembles_a_fact_is_still_a_secret(line: str) -> None:
    text, _, secret = line.rpartition("~")
    assert secret not in redactor.redact(text).text


@pytest.mark.parametrize("digest", ["sha256={}", "sha256={}x", "sha512-{}", "sha999={}"])
def test_a_token_behind_the_name_of_a_digest_is_still_a_token(digest: str) -> None:
    token = "gh" + "p_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYaB3d"
    assert token not in redactor.redact(f"X-Sum: {digest.format(token)}").text


@pytest.mark.parametrize(
    "unit", ["1.0-a", "^1.", "a/", "a.b:", "x@1.0(", "{a", "v2-", "1h", "oauth2-", "a1b2-c", "sha1-"]
)
def test_long_values_that_almost_are_facts_end(unit: str) -> None:
    # A grammar that takes time by the square or worse would not come back from this.
    text = f'token="{(unit * 400)[:290]}!" ' * 200
    assert redactor.redact(redactor.redact(text).text).text == redactor.redact(text).text
