"""Signing in to a team's pages by a real OpenID provider, in a process of its own, and by what one might forge."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from command_line import TIMEOUT_SECONDS, CommandLine
from harken.config.sections import OidcConfig
from harken.errors import ConfigError
from harken.serve.team.oidc import oidc_login

if find_spec("authlib") is None or find_spec("oidc_provider_mock") is None:
    pytest.skip("needs harken[oidc] and oidc-provider-mock", allow_module_level=True)

PEOPLE = (
    {"sub": "ann", "email": "ann@example.org", "email_verified": True},
    {"sub": "bob", "email": "bob@example.org", "email_verified": True},
    {"sub": "eve", "email": "ann@example.org", "email_verified": False},
    {"sub": "fay", "email": "fay@open.example", "email_verified": True},
    {"sub": "nobody"},
)


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The issuer of a provider that knows some people, and asks each for a nonce."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    people = [word for each in PEOPLE for word in ("--user-claims", json.dumps(each))]
    words = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), "--require-nonce", "true", *people]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    issuer = f"http://localhost:{port}"
    try:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                httpx.get(f"{issuer}/.well-known/openid-configuration").raise_for_status()
                break
            except httpx.HTTPError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield issuer
    finally:
        process.kill()
        process.wait()


@dataclass
class Browser:
    """A browser at the pages: keeps its cookies, follows nothing by itself."""

    url: str
    client: httpx.Client

    def get(self, url: str) -> httpx.Response:
        return self.client.get(url if "://" in url else self.url + url, headers={"sec-fetch-mode": "navigate"})

    def begin(self) -> str:
        """Begin to sign in; where the provider is."""
        answer = self.get("/view/login/oidc")
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def allow(self, address: str, sub: str) -> str:
        """Sign in at the provider as somebody; where it sends the browser back to."""
        answer = httpx.post(address, data={"sub": sub})
        return str(answer.headers["location"])

    def sign_in(self, sub: str) -> httpx.Response:
        return self.get(self.allow(self.begin(), sub))

    def sees_pages(self) -> bool:
        return self.get("/view/conversations").status_code == 200


@contextmanager
def browsing(url: str) -> Iterator[Browser]:
    with httpx.Client(timeout=TIMEOUT_SECONDS) as client:
        yield Browser(url, client)


@pytest.fixture(scope="module")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_database: str, provider: str
) -> Iterator[str]:
    """The address of a team's server at which Ann, by that email, is a member."""
    from harken.engine.team import Team

    home: Path = tmp_path_factory.mktemp("oidc")
    settings: dict[str, Any] = {"store": shared_database, "tenant": "oidc", "embedder": "none"}
    with Team(home, settings=settings, env={}) as team:
        team.create_principal(team.operator(), "ann", email="Ann@example.org", is_admin=True)
    variables = {
        "HARKEN_STORE": shared_database,
        "HARKEN_TENANT": "oidc",
        "HARKEN_EMBEDDER": "none",
        "HARKEN_OIDC__ISSUER": provider,
        "HARKEN_OIDC__CLIENT_ID": "harken",
        "HARKEN_OIDC__CLIENT_SECRET": "a secret of the server",
        "HARKEN_OIDC__DOMAINS": "open.example",
        "HARKEN_SERVE__DRAIN_SECONDS": "0",
    }
    cli = CommandLine(home, home / "person", variables)
    with cli.running("serve", "--team", "--port", "0", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "Serving" in line, line
        yield line.split()[-1]


def test_a_member_signs_in_by_their_email_and_sees_the_pages(served: str) -> None:
    with browsing(served) as browser:
        assert not browser.sees_pages()
        assert "/view/login/oidc" in browser.get("/view/signin").text
        answer = browser.sign_in("ann")
        assert answer.status_code == 200, answer.text
        assert re.search(r"HttpOnly; SameSite=Strict", answer.headers["set-cookie"])
        assert browser.sees_pages()


def test_a_login_is_begun_with_pkce_state_and_nonce_each_time_others(served: str) -> None:
    with browsing(served) as browser:
        asked = [{name: each[0] for name, each in parse_qs(urlsplit(browser.begin()).query).items()} for _ in range(2)]
    for each in asked:
        assert (each["response_type"], each["code_challenge_method"], each["client_id"]) == ("code", "S256", "harken")
        assert each["redirect_uri"] == f"{served}/view/login/oidc/callback"
        assert "openid" in each["scope"].split()
    for name in ("state", "nonce", "code_challenge"):
        assert len({each[name] for each in asked}) == 2
        assert all(len(each[name]) >= 32 for each in asked)


@pytest.mark.parametrize(
    ("sub", "why"),
    [("bob", "Nobody in this team"), ("eve", "does not vouch"), ("nobody", "no email address")],
)
def test_whoever_is_no_member_or_is_not_vouched_for_stays_outside(served: str, sub: str, why: str) -> None:
    with browsing(served) as browser:
        answer = browser.sign_in(sub)
        assert (answer.status_code, why in answer.text) == (403, True), answer.text
        assert not browser.sees_pages()


def test_whoever_is_of_an_open_domain_becomes_a_member_with_the_first_login(served: str) -> None:
    for _ in range(2):
        with browsing(served) as browser:
            assert browser.sign_in("fay").status_code == 200
            assert browser.sees_pages()


def test_an_answer_lets_in_only_the_browser_that_asked_and_only_once(served: str) -> None:
    with browsing(served) as ann, browsing(served) as other:
        back = ann.allow(ann.begin(), "ann")
        # Somebody who was sent the link, and somebody who has begun a login of their own.
        assert other.get(back).status_code == 403
        other.begin()
        assert other.get(back).status_code == 403
        assert not other.sees_pages()
    with browsing(served) as ann:
        back = ann.allow(ann.begin(), "ann")
        assert ann.get(back).status_code == 200
        assert ann.get(back).status_code == 403


@pytest.mark.parametrize("change", ["state=forged", "code=forged", "code=", "iss=https%3A%2F%2Fevil.example"])
def test_a_changed_answer_lets_nobody_in(served: str, change: str) -> None:
    with browsing(served) as browser:
        back = browser.allow(browser.begin(), "ann")
        name = change.partition("=")[0]
        address = f"{re.sub(rf'{name}=[^&]*', '', back)}&{change}"
        assert browser.get(address).status_code == 403
        assert not browser.sees_pages()


def test_an_answer_of_another_login_of_the_same_browser_is_not_taken_for_this_one(served: str) -> None:
    with browsing(served) as browser:
        first = browser.allow(browser.begin(), "ann")
        code = parse_qs(urlsplit(first).query)["code"][0]
        second = browser.allow(browser.begin(), "bob")
        # The provider signed the first one's nonce.
        answer = browser.get(re.sub(r"code=[^&]*", f"code={code}", second))
        assert answer.status_code == 403
        assert "cannot be used" in answer.text


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"issuer": "http://login.example.org", "client_id": "x"}, "TLS"), ({"issuer": "https://a.example"}, "client_id")],
)
def test_a_provider_that_is_not_to_be_trusted_is_refused_at_the_start(settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        oidc_login(OidcConfig(**settings), None, None)  # type: ignore[arg-type]
