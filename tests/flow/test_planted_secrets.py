"""Thirty secrets of fifteen kinds, and a private passage, planted wherever words come in: none reaches a file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, files_holding
from harken.engine import Harken
from harken.errors import UsageError
from harken.model.conversations import ExchangeStatus

# Put together here, so that no scanner takes this file for a leak. `{}` is where the secret stands in a sentence.
BODY = "Zq7Wm2Xv9Rt4Lp8Kd3Nf6Hs1Bj5Gc0YaTuEoIwQ"
OTHER = "b9Vh3Ty6Kw2Nx8Qs5Lf1Rz7Mj4Dp0CgHaUeOiXyW"
PEM = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSk" + BODY
SECRETS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "cloud access key": (
        ("the key is {} for the bucket", "AKIA" + "Q3EGRIPV5Y7ZTN2K"),
        ("export AWS_ACCESS_KEY_ID={}", "ASIA" + "X7DLWVQ2MZK4RT6B"),
    ),
    "cloud secret key": (
        ("aws_secret_access_key = {}", BODY + "/"),
        ("AWS_SECRET_ACCESS_KEY={}", OTHER[:38] + "+Z"),
    ),
    "github": (
        ("git clone with {} please", "ghp_" + BODY[:36]),
        ("use {} as the token", "github_pat_" + "11ABCDEFG0" + OTHER[:40]),
    ),
    "slack": (
        ("the bot has {}", "xoxb-" + "2345678901-3456789012-" + BODY[:24]),
        ("and the user {}", "xoxp-" + "2345678901-3456789012-4567890123-" + OTHER[:32].lower()),
    ),
    "openai": (("OPENAI_API_KEY={}", "sk-proj-" + BODY + OTHER), ("old one: {}", "sk-" + BODY + OTHER[:9])),
    "anthropic": (
        ("claude needs {}", "sk-ant-api03-" + BODY + OTHER),
        ("ANTHROPIC_API_KEY: {}", "sk-ant-admin01-" + OTHER + BODY),
    ),
    "jwt": (
        ("cookie {} expired", "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiI3MzE5In0." + BODY),
        ("token={}", "eyJhbGciOiJSUzI1NiJ9." + "eyJzdWIiOiI4ODIxIn0." + OTHER),
    ),
    "private key": (
        ("-----BEGIN PRIVATE" + " KEY-----\n{}\n-----END PRIVATE" + " KEY-----", PEM),
        ("-----BEGIN RSA PRIVATE" + " KEY-----\n{}\n-----END RSA PRIVATE" + " KEY-----", PEM + OTHER),
    ),
    "bearer header": (
        ("curl -H 'Authorization: Bearer {}' host", "q8" + OTHER[:30]),
        ("authorization: bearer {}", "w5" + BODY[:30]),
    ),
    "password": (
        ("password={}", "Tr0ub4dor&3x!"),
        ("postgresql://app:{}@db.internal:5432/app", "hunter2-Violet-99"),
    ),
    "a token in base64": (
        ("echo {} | base64 -d", base64.b64encode(("ghp_" + BODY[:36]).encode()).decode()),
        ("see data:text/plain;base64,{}", base64.b64encode(("npm_" + OTHER[:36]).encode()).decode()),
    ),
    "a token in colour": (
        ("it printed ghp_" + OTHER[:12] + "\x1b[1;31m{}\x1b[0m", BODY[:24]),
        ("it printed \x1b[32m{}\x1b[0m", "glpat-" + BODY[:20]),
    ),
    "option of a program": (
        ("unzip -P {} photos.zip", "Copper!Kettle42"),
        ("echo {} | sudo -S reboot", "KettleCopper-24"),
    ),
    "login and password": (
        ("login: maya@example.com / {}", "Lake-House-77"),
        ("the creds are admin / {}", "HouseLake!88"),
    ),
    "another language": (
        ("le mot de passe est {}", "Brugge-Violet-55"),
        ("hasło do bazy to {}", "Gdynia!Violet66"),
    ),
}
PLANTED = [pair for pairs in SECRETS.values() for pair in pairs]
PRIVATE = "the wedding is on Saturday in Bruges"


def sentences() -> Iterator[str]:
    for number, (sentence, secret) in enumerate(PLANTED):
        yield f"Before {number}. {sentence.replace('{}', secret)} After {number}. <private>{PRIVATE}</private>"


@pytest.fixture
def harken(cli: CommandLine) -> Iterator[Harken]:
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as opened:
        yield opened


def assert_clean(cli: CommandLine, at_least: int) -> None:
    assert cli("doctor").out.startswith("All agrees")
    for _, secret in PLANTED:
        for part in (secret, secret[len(secret) // 3 : len(secret) // 3 + 12]):
            assert files_holding(cli.home, part.encode()) == [], part
    for part in (PRIVATE, "Bruges", "wedding"):
        assert files_holding(cli.home, part.encode()) == []
    assert cli.status()["redactions"] >= at_least


def test_there_are_thirty_secrets_of_fifteen_kinds() -> None:
    assert len(SECRETS) == 15
    assert len({secret for _, secret in PLANTED}) == 30


def test_none_of_what_a_library_records_is_kept(cli: CommandLine, harken: Harken) -> None:
    for number, text in enumerate(sentences()):
        harken.record_message(f"c{number}", "user", text, author="Ada")
        harken.record_message(f"c{number}", "assistant", json.dumps({"command": text}), type="tool_call", call_id="1")
        harken.record_message(f"c{number}", "tool", f"1: {text}\n2: done", type="tool_result", call_id="1")
        harken.record_message(f"c{number}", "user", "Nothing here", metadata={"env": {"note": text, "list": [text]}})
        harken.end_exchange(f"c{number}", ExchangeStatus.FAILED, error=f"it failed on {text}")
    harken.close()
    assert_clean(cli, at_least=5 * len(PLANTED))
    kept = cli.search("before", "--limit", "200")
    assert {f"After {number}." in hit["text"] for number, hit in enumerate(kept)} <= {True, False}
    assert len([hit for hit in kept if "Before" in hit["text"] and "After" in hit["text"]]) >= 3 * len(PLANTED)


def test_none_of_what_is_imported_is_kept(cli: CommandLine, tmp_path: Path) -> None:
    own, claude = tmp_path / "own.jsonl", tmp_path / "s-1.jsonl"
    own.write_text("".join(json.dumps(line) + "\n" for line in own_lines()), encoding="utf-8")
    claude.write_text("".join(json.dumps(line) + "\n" for line in claude_lines()), encoding="utf-8")
    facts = cli("import", own, claude, "--json").json()
    assert facts["added"] == 4 * len(PLANTED)
    assert_clean(cli, at_least=5 * len(PLANTED))
    cli("reindex", "--from-journal")
    assert_clean(cli, at_least=5 * len(PLANTED))


def test_none_comes_in_with_the_export_of_a_store_that_took_none_out(cli: CommandLine, tmp_path: Path) -> None:
    careless = {"embedder": "none", "redaction.enabled": False}
    with Harken(tmp_path / "careless", settings=careless, env={}) as other:
        for number, (sentence, secret) in enumerate(PLANTED):
            text = sentence.replace("{}", secret)
            other.record_message(f"c{number} {text}", "user", f"Before. {text}", author=text, metadata={"note": text})
            other.memories.add(f"Number {number}: {text}", "fact", 0.5, tags=[f"t{number}"])
            other.core.update("user", f"k{number}", f"It is {text}")
            other.end_exchange(f"c{number} {text}", ExchangeStatus.FAILED, error=text)
        other.core.update("user", "wifi password", "Tr0ub4dorX9")
        other.maintenance.export(tmp_path / "export.jsonl")
    for _ in range(2):
        cli("import", tmp_path / "export.jsonl", "--as-mine")
        assert_clean(cli, at_least=2 * len(PLANTED))
        assert cli.status()["messages"] == len(PLANTED)
        assert "Tr0ub4dorX9" not in cli("core", "list").out


def test_none_is_kept_in_the_names_of_things(cli: CommandLine, harken: Harken, tmp_path: Path) -> None:
    for number, text in enumerate(sentences()):
        told = {"author": f"Ada {text}", "tool_name": f"shell {text}", "call_id": f"call {text}"}
        # A path takes the second slash of a URL away, and is none any more.
        folder = tmp_path / str(number) / ("" if "://" in text else text.partition(" After")[0])
        folder.mkdir(parents=True)
        harken.record_message(f"talk {text}", "tool", "Nothing here", type="tool_result", directory=folder, **told)
        harken.record_message(f"c{number}", "user", "Nothing here", channel=f"channel {text}")
        harken.memories.add(f"Nothing in number {number}", "fact", 0.5, directory=folder)
        harken.end_exchange(f"talk {text}", ExchangeStatus.FAILED, error="x" * 480 + f" {text}")
    talk = f"talk {next(sentences())}"
    assert harken.record_message(talk, "user", "Found again").conversation_uid in {
        hit.entry.conversation_uid for hit in harken.search("Nothing here", mode="keyword", limit=200).hits
    }
    harken.close()
    assert_clean(cli, at_least=0)


def test_a_conversation_whose_name_held_a_secret_goes_on_as_the_same(harken: Harken) -> None:
    name = f"https://bob:{PLANTED[-1][1]}@host/talk"
    uid = harken.record_message(name, "user", "Hello").conversation_uid
    harken.end_exchange(name, ExchangeStatus.COMPLETED)
    harken.new_segment(name)
    assert harken.record_message(name, "user", "Hello again").conversation_uid == uid
    assert [message.text for message in harken.show(uid).messages] == ["Hello", "Hello again"]


def test_no_secret_names_a_tasks_folder(harken: Harken) -> None:
    with pytest.raises(UsageError, match="holds a secret"):
        harken.run_task("ghp_" + BODY[:36], "Go on", lambda _context: "Done.")
    assert not list(harken.home.rglob("scheduler_*"))


def own_lines() -> Iterator[dict[str, Any]]:
    for number, text in enumerate(sentences()):
        head = {"conversation": f"c{number}", "title": f"About {text}", "project": f"p{number}"}
        yield {**head, "role": "user", "content": text, "metadata": {"shell": ["run", text]}}
        yield {**head, "role": "tool", "content": text, "tool_name": "shell", "call_id": "1"}


def claude_lines() -> Iterator[dict[str, Any]]:
    for number, text in enumerate(sentences()):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": text, "env": {"A": text}}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": [{"type": "text", "text": text}]}
        shared = {"sessionId": "s-1", "cwd": "/nowhere", "gitBranch": "main", "timestamp": "2026-05-08T09:00:00Z"}
        yield {
            **shared,
            "type": "assistant",
            "uuid": f"a{number}",
            "message": {"role": "assistant", "content": [call]},
        }
        yield {**shared, "type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": [result]}}
