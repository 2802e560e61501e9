"""Webhooks reach public addresses alone, whatever a name or a redirection says, and no answer holds them up."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import UsageError
from harken.jobs import post as posting
from harken.jobs.post import is_public, parse_target, post, signature
from harken.testing.local_server import LocalServer, Reply, Request

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("255.255.255.255", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fd00:ec2::254", "ff02::1"),
    *("::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "2001:db8::1", "fec0::1"),
)


class Answering(LocalServer):
    def __init__(self, reply: Reply) -> None:
        super().__init__("/hook")
        self.reply = reply

    def answer(self, request: Request) -> Reply:
        return self.reply


def test_a_signature_is_that_of_the_standards_own_example() -> None:
    made = signature(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_a_private_network_is_refused_however_it_is_written(address: str) -> None:
    assert not is_public(ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(UsageError):
        parse_target(f"https://{host}/hook", ())


@given(st.ip_addresses(network="10.0.0.0/8"), st.ip_addresses(network="169.254.0.0/16"))
def test_no_private_ipv4_address_passes_inside_of_an_ipv6_one(one: object, other: object) -> None:
    for address in (one, other):
        assert not is_public(ip_address(f"::ffff:{address}"))
        assert not is_public(ip_address(int(ip_address("64:ff9b::")) + int(ip_address(str(address)))))


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_a_public_address_passes(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.com/", "https://", "example.com/hook", "https://user:pw@example.com/", "http://example.com/"),
        *("https://localhost/", "https://metadata.google.internal/", "https://example.com:99999/", "https://a\nb/"),
        *("https://a\nbü/", "https://ü:99999/"),
    ],
)
def test_what_is_no_safe_address_is_refused_when_it_is_added(url: str) -> None:
    with pytest.raises(UsageError):
        parse_target(url, ())


def test_an_address_in_letters_of_any_script_is_called_as_it_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    target = parse_target("https://bücher.example/größe", ())
    assert target.url == "https://xn--bcher-kva.example/gr%C3%B6%C3%9Fe"
    monkeypatch.setattr(posting, "getaddrinfo", lambda *_args, **_named: [])
    assert post(target, SECRET, "msg_1", 1, b"{}").error == "no connection"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        *(("https://hooks.Intern/", "Hooks.intern"), ("https://10.0.0.5/", "10.0.0.5:443"), ("http://[::1]/", "[::1]")),
        *(("http://10.0.0.5/", "10.0.0.5:80"), ("http://[fd00::5]:8080/", "[FD00::5]:8080"), ("http://[::1]/", "::1")),
    ],
)
def test_a_host_that_is_allowed_is_known_however_it_is_written(url: str, allowed: str) -> None:
    assert parse_target(url, (allowed,)).is_trusted
    assert not parse_target("https://example.com:8443/", (allowed, "example.com:443")).is_trusted


def test_a_name_that_leads_to_this_machine_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    with Answering(Reply(204)) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("93.184.215.14", "127.0.0.1")
        ]
        monkeypatch.setattr(posting, "getaddrinfo", lambda *_args, **_named: found)
        answer = post(
            parse_target(f"http://example.com:{port}/v1/hook", (), allow_http=True), SECRET, "msg_1", 1, b"{}"
        )
        assert (answer.status, server.requests) == (None, [])
        assert "private" in answer.error


def test_the_name_is_resolved_once_and_its_address_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    with Answering(Reply(204)) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        asked: list[str] = []

        def resolved(host: str, *_args: object, **_named: object) -> list[object]:
            asked.append(host)
            # Whoever asked again would be told another address.
            address = "127.0.0.1" if len(asked) == 1 else "127.0.0.2"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(posting, "getaddrinfo", resolved)
        target = parse_target(f"http://hooks.example:{port}/v1/hook", ("hooks.example",))
        assert post(target, SECRET, "msg_1", 1, b"{}").status == 204
        assert asked == ["hooks.example"]
        assert server.requests[0].headers["host"] == f"hooks.example:{port}"


def test_an_answer_that_never_ends_and_one_that_never_comes_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "WHOLE_SECONDS", 0.4)
    for reply in (Reply(delay_seconds=30), Reply(pieces=(b"x",) * 1000, piece_delay_seconds=0.1)):
        with Answering(reply) as server:
            target = parse_target(f"{server.url}/hook", ("127.0.0.1",))
            answer = post(target, SECRET, "msg_1", 1, b"{}")
            assert answer.is_outage


def test_an_answer_of_any_length_is_not_read_to_its_end() -> None:
    with Answering(Reply(200, body=b"x" * 5_000_000)) as server:
        target = parse_target(f"{server.url}/hook", ("127.0.0.1",))
        assert post(target, SECRET, "msg_1", 1, b"{}").status == 200


def test_a_certificate_has_to_be_that_of_the_name(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    import ssl

    authority = trustme.CA()
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("hooks.example").configure_cert(served)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    monkeypatch.setattr(posting.ssl, "create_default_context", lambda: trusting)
    with Answering(Reply(204)) as server:
        assert server._server is not None
        server._server.socket = served.wrap_socket(server._server.socket, server_side=True)
        port = server._server.server_address[1]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        monkeypatch.setattr(posting, "getaddrinfo", lambda *_args, **_named: found)
        right, wrong = (
            parse_target(f"https://{name}:{port}/v1/hook", (name,)) for name in ("hooks.example", "other.example")
        )
        assert post(right, SECRET, "msg_1", 1, b"{}").status == 204
        assert post(wrong, SECRET, "msg_2", 1, b"{}").error == "its certificate is not valid"
        assert [request.headers["webhook-id"] for request in server.requests] == ["msg_1"]
