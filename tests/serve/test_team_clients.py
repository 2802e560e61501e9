"""The clients that are made of the operations: held against them, and run against a real server."""

from __future__ import annotations

import asyncio
import gc
import inspect
import itertools
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_team_access import tool

from harken.client import ApiError, AsyncHarkenClient, HarkenClient
from harken.errors import EndpointError, NotFoundError, UsageError
from harken.serve.operations.registry import TEAM_OPERATIONS
from team_server import Served, listening, serving_team

pytestmark = pytest.mark.no_cover
TYPESCRIPT = Path(__file__).resolve().parents[2] / "clients" / "typescript"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, shared_database: str) -> Iterator[Served]:
    # The module may be set up again in one process, where its tests are shared out anew.
    folder = tmp_path_factory.mktemp("clients")
    with serving_team(folder, shared_database, folder.name) as served:
        yield served


@pytest.fixture(scope="module")
def address(served: Served) -> Iterator[str]:
    with listening(served.app) as url:
        yield url


def test_what_is_made_of_the_operations_is_up_to_date() -> None:
    for path, content in tool("clients").files().items():
        assert path.read_text(encoding="utf-8") == content, f"run tools/clients.py: {path.name}"


def test_each_verb_is_a_method_of_both_clients() -> None:
    for name in TEAM_OPERATIONS:
        assert callable(getattr(HarkenClient, name))
        assert callable(getattr(AsyncHarkenClient, name))
    own = {name for name, _ in inspect.getmembers(HarkenClient, callable) if not name.startswith("_")}
    assert own == {*TEAM_OPERATIONS, "call", "pages", "close", "in_space"}


@pytest.mark.parametrize("client", [HarkenClient, AsyncHarkenClient])
def test_an_address_or_a_key_that_is_none_is_said_at_once(client: type[HarkenClient | AsyncHarkenClient]) -> None:
    with pytest.raises(UsageError, match="'localhost:4275' is no address of a server"):
        client("localhost:4275", "hk_1")
    # The second of two lines in a file of keys would stand in an error, which names the header.
    for key in ("", "\n", "hk_…", "hk_1\nhk_2"):
        with pytest.raises(UsageError, match="Without a key nobody is answered"):
            client("http://localhost:4275", key)


def test_a_verb_that_there_is_not_is_said_with_those_that_there_are() -> None:
    with HarkenClient("http://localhost:4275", "hk_1") as harken:
        with pytest.raises(NotFoundError, match=r"There is no 'serach'\. There are: search, show"):
            harken.call("serach", query="staging")
        with pytest.raises(NotFoundError, match="There is no 'memory'"):
            next(harken.pages("memory"))


def test_a_key_may_come_with_the_line_break_of_its_file(address: str, served: Served) -> None:
    with HarkenClient(address, f"{served.keys['bob']}\n") as harken:
        assert harken.whoami()["principal"]["name"] == "bob"


def test_who_wants_no_attempt_more_has_one(address: str, served: Served) -> None:
    with HarkenClient(address, served.keys["bob"], attempts=0) as harken:
        assert harken.whoami()["principal"]["name"] == "bob"


def test_an_argument_may_be_called_verb(address: str, served: Served) -> None:
    with HarkenClient(address, served.keys["ann"]) as harken:
        harken.whoami()
        for lines in (harken.audit(verb="whoami"), *harken.pages("audit", verb="whoami", limit=200)):
            assert {line["verb"] for line in lines["audit"]} == {"whoami"}


def test_a_blocking_client_records_recalls_and_pages(address: str, served: Served) -> None:
    with HarkenClient(address, served.keys["bob"]) as harken:
        said = harken.record("log", "user", "Staging is called Zanzibar.")
        assert harken.show(said["id"])["messages"][0]["text"] == "Staging is called Zanzibar."
        assert "Zanzibar" in harken.recall("What is staging called?")["text"]
        for content in ("Ilse bakes bread.", "Owls hoot at night.", "Red paint peels off."):
            harken.remember(content)
        pages = list(harken.pages("memories", limit=2))
        assert pages[0]["next_cursor"]
        assert len(pages[0]["memories"]) == 2
        assert sum(len(page["memories"]) for page in pages) >= 3
        shared = harken.in_space("written").remember("We release on Tuesdays.")
        assert shared["outcome"] == "added"
        with pytest.raises(ApiError) as refused:
            harken.in_space("shared").remember("Not here.")
        assert (refused.value.status, refused.value.kind) == (403, "urn:harken:problem:forbidden")
        with pytest.raises(ApiError) as missing:
            harken.show("ffffffffffff")
        assert missing.value.status == 404
        with pytest.raises(TypeError, match="by place"):
            harken.search("a", "b")  # type: ignore[misc]


def test_a_space_may_be_called_in_any_script(address: str, served: Served) -> None:
    with HarkenClient(address, served.keys["ann"]) as harken:
        for name in ("Gewächshaus", "温室", "North farm"):
            harken.space_create(name)
            saved = harken.in_space(name).remember(f"The pump of {name} is blue.")
            assert harken.in_space(name).memory_confirm(saved["id"])["id"] == saved["id"]
    latin = {"authorization": f"Bearer {served.keys['ann']}".encode(), "harken-space": "Gewächshaus".encode("latin-1")}
    assert httpx.post(f"{address}/v1/memories", json={}, headers=latin).status_code == 200


def test_an_awaited_client_does_the_same(address: str, served: Served) -> None:
    async def ask() -> list[int]:
        async with AsyncHarkenClient(address, served.keys["ann"]) as harken:
            await asyncio.gather(*(harken.record("many", "user", f"Line {number}.") for number in range(8)))
            assert (await harken.whoami())["principal"]["name"] == "ann"
            talk = (await harken.conversations(agent="api"))["conversations"][0]
            return [len(page["messages"]) async for page in harken.pages("read_conversation", id=talk["id"], limit=5)]

    assert asyncio.run(ask()) == [5, 3]


def test_what_was_done_and_not_heard_is_not_done_again(address: str, served: Served) -> None:
    """A transport that loses the answers of the first attempts, after the server has given them."""
    real, lost = httpx.HTTPTransport(), iter((True, True, False))

    class Losing(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = real.handle_request(request)
            response.read()
            if next(lost):
                raise httpx.ReadError("lost", request=request)
            return response

        def close(self) -> None:
            real.close()

    with HarkenClient(address, served.keys["eve"], transport=Losing()) as harken:
        said = harken.record("log", "user", "Said once.")
    with HarkenClient(address, served.keys["eve"]) as harken:
        assert [each["text"] for each in harken.show(said["conversation_id"])["messages"]] == ["Said once."]


def test_a_key_is_not_made_a_second_time_for_an_answer_that_was_lost() -> None:
    asked: list[str] = []

    def lost(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        raise httpx.ReadError("lost", request=request)

    with HarkenClient("http://team.example.org", "hk_", transport=httpx.MockTransport(lost)) as harken:
        for call in (harken.key_create, lambda: harken.key_rotate(id="hk_1")):
            with pytest.raises(EndpointError, match="cannot be reached: lost"):
                call()
    assert asked == ["/v1/key_create", "/v1/key_rotate"]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node: THE TYPESCRIPT CLIENT IS NOT TRIED")
def test_nor_by_the_typescript_client(tmp_path: Path) -> None:
    script = tmp_path / "once.mjs"
    script.write_text(f"""
import {{ HarkenClient }} from {json.dumps((TYPESCRIPT / "harken.js").as_uri())};
const asked = [];
const lost = async (url) => {{ asked.push(url); throw new TypeError("lost"); }};
const harken = new HarkenClient({{ url: "http://team", key: "hk_", fetch: lost }});
await harken.key_create().catch(() => {{}});
console.log(JSON.stringify(asked));
""")
    ran = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(ran.stdout) == ["http://team/v1/key_create"]


def test_those_who_were_refused_together_come_back_at_different_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("harken.client.time.sleep", waits.append)
    told = itertools.cycle((429, 200))
    busy = httpx.MockTransport(lambda _request: httpx.Response(next(told), headers={"retry-after": "2"}, json={}))
    with HarkenClient("http://team.example.org", "hk_", transport=busy) as harken:
        for _ in range(8):
            harken.call("whoami")
    assert min(waits) > 2
    assert len(set(waits)) == 8


def test_it_comes_back_when_it_is_told_to_and_gives_up_in_the_end() -> None:
    told = iter(((429, {"retry-after": "0"}), (503, {}), (200, {})))

    def answer(_request: httpx.Request) -> httpx.Response:
        status, headers = next(told)
        return httpx.Response(status, headers=headers, json={"done": True})

    with HarkenClient("http://team.example.org", "hk_", transport=httpx.MockTransport(answer)) as harken:
        assert harken.call("whoami") == {"done": True}
    busy = httpx.MockTransport(lambda _request: httpx.Response(503, text="<html>"))
    with HarkenClient("http://team.example.org", "hk_", attempts=2, transport=busy) as harken:
        with pytest.raises(ApiError) as refused:
            harken.whoami()
        assert (refused.value.status, refused.value.kind) == (503, "about:blank")

    sign_in = httpx.MockTransport(lambda _request: httpx.Response(200, text="<html>Sign in"))
    elsewhere = HarkenClient("http://team.example.org", "hk_", transport=sign_in)
    with elsewhere as harken, pytest.raises(ApiError, match="answers OK, not as Harken does"):
        harken.whoami()

    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("certificate verify failed", request=request)

    unheard = HarkenClient("http://team.example.org", "hk_", attempts=2, transport=httpx.MockTransport(gone))
    with unheard as harken, pytest.raises(EndpointError, match="cannot be reached: certificate verify failed"):
        harken.whoami()


def test_what_json_cannot_carry_is_said_or_made_sound_as_in_the_library() -> None:
    """Half of an emoji, where a text was cut, ended in an error of encoding, and a date in Python's own."""
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={})

    with HarkenClient("http://team.example.org", "hk_", transport=httpx.MockTransport(answer)) as harken:
        harken.record("run", "user", "cut in half \ud83d")
        with pytest.raises(UsageError, match="JSON has no form for a date"):
            harken.call("search", query="staging", since=date(2026, 5, 8))
    assert sent == [{"conversation": "run", "role": "user", "text": "cut in half \ufffd"}]


class _TellsConnections(BaseHTTPRequestHandler):
    """Answers with the port at the other end, which is that of the connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        answer = json.dumps({"text": str(self.client_address[1])}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_said: object) -> None: ...


@pytest.fixture
def telling() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _TellsConnections) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


# What is another's, or a loop's that is closed, cannot be closed here.
_LEFT = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@_LEFT
def test_a_process_that_was_forked_has_connections_of_its_own(telling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one connection each of them read what the other had asked for."""
    with HarkenClient(telling, "hk_1") as harken:
        first, again = harken.recall("ships")["text"], harken.in_space("a").recall("ships")["text"]
        monkeypatch.setattr("harken.client.os.getpid", lambda: 0)
        assert first == again != harken.recall("ships")["text"]
    gc.collect()


@_LEFT
def test_an_awaited_client_serves_one_event_loop_after_another(telling: str) -> None:
    """A module's one client, asked by `asyncio.run` each time, failed in every other one: the loop is closed."""
    harken = AsyncHarkenClient(telling, "hk_1", attempts=1)

    async def ask() -> str:
        return str((await harken.recall("ships"))["text"])

    assert len({asyncio.run(ask()) for _ in range(3)}) == 3
    asyncio.run(harken.close())
    gc.collect()


def test_waiting_for_a_connection_is_no_part_of_the_time_for_an_answer() -> None:
    """Of 600 calls at once with three seconds for each, all ran out of time before one was sent."""
    told: list[dict[str, float | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        told.append(request.extensions["timeout"])
        return httpx.Response(200, json={})

    async def ask() -> None:
        async with AsyncHarkenClient(
            address, "hk_", timeout_seconds=3, transport=httpx.MockTransport(answer)
        ) as harken:
            await harken.whoami()

    address = "http://team.example.org"
    with HarkenClient(address, "hk_", timeout_seconds=3, transport=httpx.MockTransport(answer)) as harken:
        harken.whoami()
    asyncio.run(ask())
    assert told == [{"connect": 3, "read": 3, "write": 3, "pool": None}] * 2


SCRIPT = """
import {{ ApiError, HarkenClient }} from {module};
const harken = new HarkenClient({{ url: {url}, key: {key} }});
const said = await harken.record({{ conversation: "node", role: "user", text: "  Kept as it is.\\n" }});
const shown = await harken.show({{ id: said.id }});
const half = await harken.record({{ conversation: "node", role: "user", text: "Cut in half 🍞".slice(0, -1) }});
const cut = (await harken.show({{ id: half.id }})).messages.at(-1).text;
const contents = ["Ilse bakes bread.", "Owls hoot at night.", "Red paint peels off."];
for (const content of contents) await harken.inSpace("written").remember({{ content }});
const pages = [];
for await (const page of harken.inSpace("written").pages("memories", {{ limit: 2 }})) pages.push(page.memories.length);
await harken.space_create({{ name: "温室2" }});
await harken.inSpace("温室2").remember({{ content: "Kept in the glasshouse." }});
let refused = null;
try {{ await harken.inSpace("hidden").remember({{ content: "Not here." }}); }}
catch (error) {{ refused = [error instanceof ApiError, error.status, error.type, error.detail]; }}
const wrong = [];
for (const key of [undefined, "", " ", "hk_1\\nhk_2"]) {{
  try {{ new HarkenClient({{ url: {url}, key }}); }} catch (error) {{ wrong.push(error.message); }}
}}
const elsewhere = [];
for (const body of ['{{"message": "no"}}', "null", "<html>"]) {{
  const fetch = async () => new Response(body, {{ status: 403 }});
  try {{ await new HarkenClient({{ url: {url}, key: {key}, fetch }}).whoami(); }}
  catch (error) {{ elsewhere.push([error.type, error.detail]); }}
}}
const text = shown.messages[0].text;
console.log(JSON.stringify({{ cut, elsewhere, wrong, text, pages, refused, printed: JSON.stringify(harken) }}));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node: THE TYPESCRIPT CLIENT IS NOT TRIED")
def test_the_typescript_client_does_the_same_in_node(address: str, served: Served, tmp_path: Path) -> None:
    values = {"module": str(TYPESCRIPT / "harken.js"), "url": address, "key": served.keys["bob"]}
    script = tmp_path / "asks.mjs"
    script.write_text(SCRIPT.format(**{name: json.dumps(value) for name, value in values.items()}), encoding="utf-8")
    ran = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["text"] == "  Kept as it is.\n"
    assert found["cut"] == "Cut in half \ufffd"
    assert found["wrong"] == ["Without a key nobody is answered. It begins with hk_: harken key create"] * 4
    assert sum(found["pages"]) >= 3
    assert found["pages"][0] == 2
    assert found["refused"][:3] == [True, 404, "urn:harken:problem:not-found"]
    assert served.keys["bob"] not in found["printed"]
    assert found["elsewhere"] == [["about:blank", " answers 403, not as Harken does."]] * 3
