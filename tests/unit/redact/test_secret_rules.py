"""No secret passes, in whatever way it is written; ordinary words and code do."""

from __future__ import annotations

import base64
import itertools
import re
import tomllib
from importlib import resources

import pytest

from harken.redact.redactor import Redactor

redactor = Redactor()

# Built from parts, so that no scanner takes this file for a leak.
MIXED = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
HEX = "0123456789abcdef0123456789abcdef"
LONG = MIXED * 4
BEGIN, END = "-----BEGIN ", "-----END "

TOKENS = {
    "github-token": ["gh" + f"{letter}_{MIXED}" for letter in "pousr"] + ["github" + f"_pat_{LONG}"],
    "gitlab-token": ["glp" + f"at-{MIXED[:20]}"],
    "slack-token": ["xo" + f"x{letter}-123456789012-{MIXED}" for letter in "bpars"] + ["xa" + f"pp-1-A1B2-{MIXED}"],
    "anthropic-key": ["sk-" + f"ant-api03-{LONG}", "sk-" + f"ant-oat01-{MIXED}-{MIXED}"],
    "openai-key": [
        "s" + f"k-{LONG[:48]}",
        "sk-" + f"proj-{LONG}",
        "sk-" + f"svcacct-{LONG}",
        "sk-" + f"or-v1-{HEX}{HEX}",
    ],
    "stripe-key": ["sk" + f"_live_{MIXED[:24]}", "rk" + f"_live_{MIXED}", "wh" + f"sec_{MIXED}"],
    "aws-access-key": ["AK" + "IAZ7Q2XK4LMN5PRT6W", "AS" + "IAZ7Q2XK4LMN5PRT6W"],
    "gcp-api-key": ["AI" + f"zaSy{MIXED}Q"],
    "google-oauth": ["ya" + f"29.{LONG}", "GOC" + f"SPX-{MIXED[:28]}"],
    "huggingface-token": ["h" + f"f_{'aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH'}"],
    "twilio-key": ["S" + f"K{HEX}"],
    "sendgrid-key": ["S" + f"G.{MIXED[:22]}.{LONG[:43]}"],
    "npm-token": ["np" + f"m_{LONG[:36]}"],
    "pypi-token": ["py" + f"pi-AgEIcHlwaS5vcmc{LONG}"],
    "digitalocean-token": ["dop" + f"_v1_{HEX}{HEX}"],
    "discord-token": ["M" + f"TA{MIXED[:21]}.G{MIXED[:5]}.{MIXED}{MIXED[:6]}"],
    "telegram-token": ["1234567890:" + f"AA{MIXED}x"],
    "jwt": ["ey" + f"JhbGciOiJIUzI1NiJ9.ey{MIXED}.{MIXED}", "ey" + f"JhbGciOiJub25lIn0.ey{MIXED}."],
    "shopify-token": ["shp" + f"at_{HEX}"],
    "databricks-token": ["da" + f"pi{HEX}"],
    "azure-client-secret": ["abc8" + f"Q~{MIXED}"],
    "vault-token": ["hv" + f"s.{LONG}"],
    "mailgun-key": ["ke" + f"y-{HEX}"],
}
PLACES = [
    "{}",
    "use {}, please",
    'key: "{}"',
    "X={}\n",
    "({})",
    "a\\n{}\\nb",
    "`{}`",
    "url?x=1%3D{}",
    "*{}*",
    '{{"a": "{}"}}',
]


@pytest.mark.parametrize("kind", TOKENS)
def test_a_vendors_token_is_found_wherever_it_stands(kind: str) -> None:
    for token, place in itertools.product(TOKENS[kind], PLACES):
        found = redactor.redact(place.format(token))
        assert token not in found.text, (token, place)
        assert "[redacted:" in found.text, (token, place)
        if place == "{}":
            assert (found.text, dict(found.counts)) == (f"[redacted:{kind}]", {kind: 1})


# Of these a prefix of one or two characters says too little in base64, or the shape is not told by a prefix.
NOT_ENCODED = {"twilio-key", "discord-token", "telegram-token", "azure-client-secret", "jwt"}


@pytest.mark.parametrize("kind", [kind for kind in TOKENS if kind not in NOT_ENCODED])
def test_the_base64_of_a_vendors_token_is_a_secret(kind: str) -> None:
    for token in TOKENS[kind]:
        for coded in (base64.b64encode(token.encode()), base64.urlsafe_b64encode(f"{token}\nand more".encode())):
            for place in ("echo {} | base64 -d", "data:text/plain;base64,{}", "{}", 'atob("{}")', "a: {}\nb"):
                found = redactor.redact(place.format(coded.decode()))
                assert coded.decode()[:-4] not in found.text, (token, place)
                assert dict(found.counts) == {kind: 1}, (token, place)


@pytest.mark.parametrize(
    "text", ["a plain text and nothing more 123", "ghp_", "the ghp_ prefix is GitHub's, v2", "sk-learn 1.5.2"]
)
def test_the_base64_of_other_words_stays(text: str) -> None:
    line = f"echo {base64.b64encode(text.encode()).decode()} | base64 -d"
    assert redactor.redact(line).text == line


def published() -> list[tuple[str, int, str]]:
    data = resources.files("harken.redact").joinpath("data/published_prefixes.toml").read_text("utf-8")
    return [(chars, least, prefix) for chars, least, heads in tomllib.loads(data)["tokens"] for prefix in heads.split()]


def test_tokens_of_every_published_prefix_are_found() -> None:
    assert len(published()) > 100
    for chars, least, prefix in published():
        drawn = [char for char in "7Q4mX9bV2kT6wR1zL8dF3hN5c-_./" if re.match(f"[{chars}]", char)]
        token = prefix + "".join(itertools.islice(itertools.cycle(drawn[:18]), least))
        assert token not in redactor.redact(f"use {token} today").text, token


# The secret of each line stands after the last `~`.
NAMED = r"""
password=hunter2~hunter2
DB_PASSWORD: "s3cr3t!pass"~s3cr3t!pass
export DB_PASSWORD=swordfish~swordfish
MYSQL_ROOT_PASSWORD='sword fish'~sword fish
password: swordfish~swordfish
passwd: x9!~x9!
pw: hunter2~hunter2
credentials: admin / hunter2~hunter2
  "password": "swordfish",~swordfish
{"db": {"passwd": "kittens"}}~kittens
{\"password\": \"kittens99\"}~kittens99
{\\\"password\\\": \\\"kittens99\\\"}~kittens99
api_key = 'abc123def456'~abc123def456
"apiKey": "abcdef123456",~abcdef123456
X-Api-Key: abc123def456~abc123def456
SEARCH_KEY=q1w2e3r4t5y6u7i8~q1w2e3r4t5y6u7i8
secret: s3cr3tvalue~s3cr3tvalue
client_secret: "abcDEF123"~abcDEF123
DJANGO_SECRET_KEY='7%x!aa-bb'~7%x!aa-bb
secret_key_base: 3f9a77aabbccdd~3f9a77aabbccdd
token=abc123def456~abc123def456
refresh_token: "1a2b3c4d5e"~1a2b3c4d5e
https://x.io/cb?access_token=9f8e7d6c5b4a&x=1~9f8e7d6c5b4a
//registry.example.org/:_authToken=0a1b2c3d~0a1b2c3d
_auth=YWRtaW46c3dvcmRmaXNo~YWRtaW46c3dvcmRmaXNo
Server=db;User Id=sa;Password=Pa$$w0rd;Database=x~Pa$$w0rd
jdbc:sqlserver://h;user=sa;password=Pa55;~Pa55
Pwd=abc!;Trusted=no~abc!
AccountKey=abcdEFGH1234abcdEFGH1234==;EndpointSuffix=core~abcdEFGH1234
https://a.blob.core.windows.net/c?sv=1&sig=aBcD1234efGH5678ijKL%3D~aBcD1234efGH5678ijKL
--password hunter2 --host x~hunter2
--token=abc123def456~abc123def456
PGPASSWORD=swordfish psql -h x~swordfish
curl -u admin:Sup3rS3cret https://x.io~Sup3rS3cret
mysql -u root -phunter2 shop~hunter2
sshpass -p 'hunter2' ssh x~hunter2
docker login -u bob -p hunter2 reg.io~hunter2
redis-cli -h x -a hunter2 ping~hunter2
ENV DB_PASSWORD hunter2~hunter2
<password>swordfish</password>~swordfish
<add key="Password" value="swordfish" />~swordfish
{"name": "DB_PASSWORD", "value": "swordfish"}~swordfish
setPassword("swordfish")~swordfish
os.environ["DB_PASSWORD"] = "swordfish"~swordfish
os.getenv("DB_PASSWORD", "swordfish")~swordfish
password := "swordfish"~swordfish
password: str = "swordfish"~swordfish
String password = "swordfish";~swordfish
if password == "swordfish":~swordfish
define('DB_PASSWORD', 'swordfish');~swordfish
'password' => 'swordfish',~swordfish
${DB_PASSWORD:-swordfish}~swordfish
ALTER USER bob WITH PASSWORD 'swordfish';~swordfish
CREATE USER x IDENTIFIED BY 'swordfish'~swordfish
machine x login bob password swordfish~swordfish
| password | hunter2 |~hunter2
**Password:** hunter2~hunter2
Password: `hunter2`~hunter2
spring.datasource.password=swordfish~swordfish
password=correct,horse!42~correct,horse!42
password%3Dhunter2~hunter2
my password is hunter2~hunter2
the password for the staging db is Tr0ub4dor&3, don't lose it~Tr0ub4dor&3
login with password hunter2 please~hunter2
my api key is abc123def456ghi~abc123def456ghi
passphrase: "correct horse battery staple"~correct horse battery staple
wifi password: Blue-Monkey-42~Blue-Monkey-42
пароль: hunter2~hunter2
пароль от базы hunter2~hunter2
密码是hunter2~hunter2
密码：hunter2~hunter2
API-Schlüssel: Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
Mein API-Schlüssel ist Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
Zugangsschlüssel: Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
ключ API: Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
мой API-ключ — Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
clé d'API : Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
la clé API est Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
clave de API: Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
chiave dell'API: Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
chave da API: Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
API密钥：Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
API 密鑰是 Zx81kQp0aL93mN4t~Zx81kQp0aL93mN4t
postgres://app:pa55w0rd@db/prod~pa55w0rd
postgres://app:p@ss/w0rd@db/prod~p@ss/w0rd
mongodb+srv://u:p%40ss@c.example.net/x~p%40ss
redis://:pa55@cache:6379/0~pa55
mysql://root:swordfish@localhost:3306/x~swordfish
amqp://guest:gu3st@mq:5672//~gu3st
https://user:s3cret@example.com/x/y.git~s3cret
Authorization: Bearer abcDEF123456ghiJKL789~abcDEF123456ghiJKL789
curl -H "Authorization: Bearer opaquetoken" http://x~opaquetoken
{"Authorization": "Basic dXNlcjpwYXNz"}~dXNlcjpwYXNz
headers={'Authorization': f'Token abc123def456'}~abc123def456
Cookie: session=abc123def456ghi789jkl~abc123def456ghi789jkl
aws_secret_access_key = wJalrXUtnFEMI1K7MDENG2bPxRfiCYzzzzzzzzzz~wJalrXUtnFEMI1K7MDENG2bPxRfiCYzzzzzzzzzz
the AWS secret is wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzzzzzzzz~wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzzzzzzzz
"""


@pytest.mark.parametrize("line", NAMED.strip().splitlines())
def test_a_value_whose_name_promises_a_secret_goes_and_its_name_stays(line: str) -> None:
    text, _, secret = line.rpartition("~")
    found = redactor.redact(text)
    assert secret not in found.text
    assert found.text.split("[redacted:")[0] == text.split(secret)[0]
    assert sum(found.counts.values()) == 1


ORDINARY = r"""
the password is required
the password is wrong, try again
the password is at least 12 characters long
the password is base64-encoded
passwords are hashed with sha256 and the token is 1024 dims
def login(user: str, password: str) -> None:
password: Optional[str] = None
password = getpass()
password = getpass.getpass("Password: ")
password = input("password: ")
token = tokens[i]
token = next(tokens)
token = "identifier"
if token == "(":
const token = await getToken(user);
api_key=os.environ["X"]
api_key = os.getenv("API_KEY")
const apiKey = process.env.API_KEY || "";
api_key: ${{ secrets.API_KEY }}
password=${DB_PASSWORD}
password=$DB_PASSWORD
password: <your-password>
"password": "<password>"
"password": "string"
password: "{{ vault_password }}"
password: "********"
password=xxxxx
the secret_key_base of Rails
id 123e4567-e89b-12d3-a456-426614174000
session_id: 123e4567-e89b-12d3-a456-426614174000
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
max_tokens=400
"max_tokens": 4096,
prompt_tokens: 1234, completion_tokens: 55
input_tokens=100 output_tokens=200 cache_read_input_tokens=18234
token_count = 512
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: Bearer your-token-here
I use sk-learn and sk-learn-contrib daily
connect(user=user, password=password)
self.password = password
this.password = opts.password;
token: string;
password: string | null
password: z.string().min(8)
{ username, password, email }
fields = ["username", "password", "email2"]
<input type="password" name="password" autocomplete="current-password" />
password VARCHAR(255) NOT NULL,
reset-password flow and forgot password? click here
The key point is that the author passed the test: 42 items
"secret": false
eos_token="</s>"
password: Enter your password
"password": "Enter your password"
password_min_length: 8
password_file: /run/secrets/db
PWD=/home/bob/src
sort(key=lambda x: x[1])
STATS_KEY = "_hypothesis_stats"
cache_key=user:123
bearer of bad news 2024
Basic knowledge of HTTP
http://localhost:3000/@fs/x
https://example.com/@user/post
git@github.com:owner/repo.git
docker run -u 1000:1000 -p 8080:80 nginx
mysql -u root -p shop
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4Ab8AAd8B
auth: required
bypass=true1
cat /etc/passwd
FATAL: password authentication failed for user "app1"
secrets: inherit
next_token: null
private: yes, and a <privateer> too
toolu_01A09q90qw90lq917835lq9
password=[redacted:password] and [redacted:jwt]
"""


@pytest.mark.parametrize("line", ORDINARY.strip().splitlines())
def test_ordinary_words_and_code_are_left_as_they_are(line: str) -> None:
    found = redactor.redact(line)
    assert found.text == line
    assert not found.counts


@pytest.mark.parametrize("name", ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
@pytest.mark.parametrize("newline", ["\n", "\\n", "\r\n", "\n> "])
def test_a_private_key_goes_whole_also_when_its_end_is_cut_off(name: str, newline: str) -> None:
    lines = [f"{BEGIN}{name}-----", *[f"{number:02}{MIXED}{MIXED}" for number in range(9)], "Ab3dE5fG"]
    whole = newline.join([*lines, f"{END}{name}-----"])
    assert redactor.redact(f"before {whole} after").text == "before [redacted:private-key] after"
    cut = redactor.redact(f"before {newline.join(lines)}").text
    assert cut.startswith("before [redacted:private-key]")
    assert not any(line in cut for line in lines[1:])


def test_a_service_account_loses_its_key_and_keeps_its_name() -> None:
    account = {"type": "service_account", "project_id": "p", "private_key": f"{BEGIN}PRIVATE KEY-----\nMII{LONG}\n"}
    clean, counts = redactor.redact_value(account)
    assert clean == {**account, "private_key": "[redacted:private-key]\n"}
    assert dict(counts) == {"private-key": 1}


FIRST = "sword" + "fish99"


@pytest.mark.parametrize(
    "text",
    [
        "| Option | Password |\n|---|---|\n| --user | required |\n| --host | not used |\n",
        "| Method | Token | Password |\n|---|---|---|\n| basic | no | yes |\n| OAuth | refreshed | none |\n",
        "| token | count |\n|---|---|\n| the | 400 |\n| house | 12 |\n",
        "token,count\nthe,400\nhouse,12\n",
        "| key | value |\n|---|---|\n| colour | blue42 |\n",
        "password_length,users\n12,400\n",
        "r'source|pass|true|'\nr'times|trap|type|'\n",
        "Enter user, password, and email.\nThen a1b2c3, d4e5f6, and go on.\n",
        "def login(user, password, role):\n    call(maya1, second2, admin3)\n",
        "user,password\nmaya,<password>\nben,[redacted:password]\nkim,****\n",
        "user,password",
        "password\n",
    ],
)
def test_tables_without_secrets_stay(text: str) -> None:
    assert redactor.redact(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        f"db.example.com:5432:orders:svc:{FIRST}",
        f"localhost:*:*:postgres:{FIRST}\n",
        f"sqlcmd -S host -U sa -P {FIRST}",
        f"7z x -p{FIRST} all.7z",
        f"htpasswd -Bbn maya {FIRST} > auth",
        f"htpasswd -cb file maya {FIRST}",
    ],
)
def test_where_passwords_stand_without_a_name(text: str) -> None:
    assert FIRST not in redactor.redact(text).text


def test_places_in_code_are_no_password_files() -> None:
    text = "src/app.py:5432:10: E501 line too long\nhttp://localhost:5432: refused"
    assert redactor.redact(text).text == text
