"""Where the daemon may listen, and what its token is kept in."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import httpx2
import pytest
import trustme

from coding_agent import PATIENCE_SECONDS, CodingAgent
from command_line import CommandLine
from harken.errors import HarkenError, UsageError
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.http.tcp import Tcp, own_token
from mcp_clients import MODES, Remote, check_call, serving

if sys.platform == "win32":
    pytest.skip("no Unix sockets", allow_module_level=True)

import resource


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", ""])
def test_elsewhere_than_on_loop_back_it_needs_tls(host: str) -> None:
    with pytest.raises(UsageError, match="--tls-cert"):
        Tcp(host).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loop_back_is_open(host: str) -> None:
    Tcp(host).check()


def test_with_tls_it_listens_anywhere(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("memory.example.org")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made.cert_chain_pems[0].write_to_path(str(certificate))
    made.private_key_pem.write_to_path(str(key))
    Tcp("0.0.0.0", 0, certificate, key).check()
    key.write_text("no key")
    with pytest.raises(UsageError, match="TLS cannot be had"):
        Tcp("0.0.0.0", 0, certificate, key).check()
    with pytest.raises(UsageError, match="go together"):
        Tcp("0.0.0.0", 0, certificate).check()


def test_over_tls_it_answers_who_shows_the_token(tmp_path: Path) -> None:
    authority = trustme.CA()
    made = authority.issue_cert("localhost", "127.0.0.1")
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    options = ("--host", "0.0.0.0", "--tls-cert", tmp_path / "cert.pem", "--tls-key", tmp_path / "key.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with serving(tmp_path, *options, tls=trusting) as remote:
        assert remote.url.startswith("https://0.0.0.0:")
        port = int(remote.url.rpartition(":")[2])
        remote.url = f"https://127.0.0.1:{port}"
        with httpx2.Client(verify=trusting, base_url=remote.url, timeout=PATIENCE_SECONDS) as client:
            for shown, status in (({}, 401), (f"Bearer {remote.token}x", 401), (f"Bearer {remote.token}", 200)):
                headers = {"authorization": shown} if shown else {}
                assert client.post("/v1/status", json={}, headers=headers).status_code == status
        with pytest.raises(httpx2.ConnectError):
            httpx2.post(f"{remote.url}/v1/status", json={}, timeout=PATIENCE_SECONDS)
        with pytest.raises(httpx2.TransportError):
            httpx2.post(f"http://127.0.0.1:{port}/v1/status", json={}, timeout=PATIENCE_SECONDS)

        async def talk(mode: str) -> None:
            async with remote.client(mode) as client:
                assert (await check_call(client, "status", {}))["messages"] == 0

        for mode in MODES:
            anyio.run(talk, mode)


HALF = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\nx-half: "


@pytest.fixture
def many_files() -> Iterator[None]:
    """Files enough for more connections than a daemon may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("so many connections cannot be held here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the limits of another process")
def test_half_requests_by_the_thousand_keep_neither_hooks_nor_who_has_the_token_waiting(tmp_path: Path) -> None:
    with serving(tmp_path) as remote, ExitStack() as held:
        resource.prlimit(remote.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        cli = CommandLine(Path(remote.place.home), tmp_path / "person", {"HARKEN_EMBEDDER": "none"})
        cli("core", "set", "user", "name", "Maya")
        hanging = [held.enter_context(connected(remote, HALF)) for _ in range(1100)]
        for number in range(3):
            agent = CodingAgent(cli, remote.project, f"session-{number}")
            assert "Maya" in agent.hook("SessionStart", source="startup")
            answer = httpx2.post(
                f"{remote.url}/v1/status",
                json={},
                headers={"authorization": f"Bearer {remote.token}"},
                timeout=PATIENCE_SECONDS,
            )
            assert answer.status_code == 200
        # Who has the token is not sent away for those who have none, and those are after a time.
        assert all(is_ended(stream) for stream in hanging)


def test_without_the_token_no_body_is_read(tmp_path: Path) -> None:
    head = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n{"
    with serving(tmp_path) as remote, connected(remote, head) as stream:
        answer = b""
        while b"TOKEN" not in answer:
            answer += stream.recv(65536)
        assert answer.startswith(b"HTTP/1.1 401 ")
        # More than what systems on the way keep for a reader that does not come.
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            stream.sendall(bytes(64 << 20))


def connected(remote: Remote, sent: bytes) -> socket.socket:
    """A connection over TCP on which this was sent."""
    port = int(remote.url.rpartition(":")[2])
    stream = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
    stream.sendall(sent)
    return stream


def is_ended(stream: socket.socket) -> bool:
    """Whether the other side hangs up, without a word."""
    try:
        return stream.recv(1) == b""
    except ConnectionResetError:
        return True


def test_the_command_refuses_in_a_line(cli: CommandLine) -> None:
    assert "--tls-cert" in cli.fails("serve", "--tcp", "--host", "0.0.0.0", code=2)
    assert "--tcp" in cli.fails("serve", "--port", "4000", code=2)


def test_a_port_that_is_taken_is_said(cli: CommandLine) -> None:
    with Tcp(port=0).listen() as taken:
        assert "--port" in cli.fails("serve", "--tcp", "--port", str(taken.getsockname()[1]))


class TestToken:
    """The file that clients read it from."""

    def test_it_is_made_once_for_its_user_alone(self, tmp_path: Path) -> None:
        place = DaemonPaths(str(tmp_path))
        token = own_token(place)
        assert own_token(place) == token
        assert len(token) >= 32
        assert Path(place.token).stat().st_mode & 0o777 == 0o600
        assert Path(place.folder).stat().st_mode & 0o777 == 0o700

    def test_one_that_others_could_read_is_not_used(self, tmp_path: Path) -> None:
        place = DaemonPaths(str(tmp_path))
        own_token(place)
        Path(place.token).chmod(0o644)
        with pytest.raises(HarkenError, match="Remove it"):
            own_token(place)

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        place = DaemonPaths(str(tmp_path / "home"))
        (tmp_path / "known").write_text("k" * 43)
        Path(place.folder).mkdir(parents=True)
        Path(place.token).symlink_to(tmp_path / "known")
        with pytest.raises(HarkenError, match="Remove it"):
            own_token(place)

    def test_a_short_one_is_not_used(self, tmp_path: Path) -> None:
        place = DaemonPaths(str(tmp_path))
        own_token(place)
        Path(place.token).write_text("secret\n")
        with pytest.raises(HarkenError, match="less than"):
            own_token(place)
