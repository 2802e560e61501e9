"""What stands below the heading of a secret goes; tables of anything else stay as they are."""

from __future__ import annotations

import pytest

from harken.redact.redactor import Redactor

redactor = Redactor()
FIRST, SECOND = "sword" + "fish99", "Tr0ub" + "4dor"
TABLES = [
    f"| user | password |\n|---|---|\n| maya | {FIRST} |\n| ben | `{SECOND}` |\n",
    f"user | Password\n:--- | ---:\nmaya | {FIRST}\nben | {SECOND}",
    f" id | user | db_password \n----+------+-------------\n  1 | maya | {FIRST}\n  2 | ben  | {SECOND}\n(2 rows)\n",
    f"+------+----------+\n| user | passwd   |\n+------+----------+\n| maya | {FIRST} |\n| ben  | {SECOND} |\n",
    f"│ user │ password │\n├──────┼──────────┤\n│ maya │ {FIRST} │\n│ ben │ {SECOND} │",
    f"user,password,role\nmaya,{FIRST},admin\nben,{SECOND},user\n",
    f'"user","password","role"\r\n"O\'Neil, Maya","{FIRST}","admin"\r\n"ben","{SECOND}","user"\r\n',
    f"user\tpassword\nmaya\t{FIRST}\nben\t{SECOND}\n",
    f"name;api_key;note\none;k3y{FIRST};x\ntwo;k3y{SECOND};y",
    f"What the file has:\n\nuser,pwd\nmaya,{FIRST}\nben,{SECOND}\n\nThat is all.",
    f"| Пользователь | Пароль |\n|---|---|\n| Майя | {FIRST} |\n| Бен | {SECOND} |",
]


@pytest.mark.parametrize("table", TABLES)
def test_secrets_below_a_heading_go_and_the_rest_stays(table: str) -> None:
    left = redactor.redact(table).text
    assert FIRST not in left
    assert SECOND not in left
    assert left.count("[redacted:") == 2
    assert left.count("\n") == table.count("\n")
    assert redactor.redact(left).text == left
    for cell in ("maya", "ben", "Майя", "Бен", "Maya", "admin", "(2 rows)", "That is all."):
        assert (cell in left) == (cell in table)


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
