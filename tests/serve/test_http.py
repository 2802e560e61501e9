"""The verbs over HTTP, without a process in between; the guard of TCP; what is never let through."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest
from openapi_spec_validator import validate
from starlette.types import ASGIApp

from command_line import CommandLine
from harken.engine import Harken
from harken.errors import UsageError
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.run import Daemon
from harken.serve.http.guard import Guard
from harken.serve.http.openapi import openapi
from harken.serve.http.routes import make_app
from harken.serve.operations.registry import OPERATIONS, TEAM_OPERATIONS
from harken.storage.tables import retrievals
from verbs import REFUSED, WRONG, calls, check_answer, check_sentence, fill, make_project

TOKEN = "t" * 43
FREIGHT = ("apples", "pears", "plums", "figs", "dates", "nuts", "salt")


class Http:
    """Asks an application that runs in this process."""

    def __init__(self, app: ASGIApp, **headers: str) -> None:
        self.app, self.headers = app, headers

    def __call__(
        self, method: str, path: str, content: bytes | None = None, address: str = "127.0.0.1:4275", **headers: str
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{address}") as client:
                sent = {**self.headers, **headers}.items()
                named = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in sent}
                return await client.request(method, path, content=content, headers=named)

        return anyio.run(ask)

    def verb(self, name: str, arguments: Any, **headers: str) -> httpx.Response:
        """Call a verb."""
        return self("POST", f"/v1/{name}", json.dumps(arguments).encode(), **headers)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture
def harken(ready_home: Path, store_settings: dict[str, Any]) -> Iterator[Harken]:
    with Harken(ready_home, settings={"embedder": "none", **store_settings}, env={}) as opened:
        yield opened


@pytest.fixture
def daemon(harken: Harken, tmp_path: Path) -> Daemon:
    return Daemon(harken, DaemonPaths(str(tmp_path)))


def test_one_that_ends_as_it_begins_leaves_no_worker_behind_that_is_started_later(
    harken: Harken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended, start = threading.Event(), threading.Event(), Harken.start_worker

    def slowly(one: Harken) -> None:
        began.set()
        time.sleep(2)
        start(one)
        ended.set()

    def leave() -> None:
        daemon.has_answered.set()
        threading.Thread(target=lambda: began.wait() and daemon.leave()).start()

    monkeypatch.setattr(Harken, "start_worker", slowly)
    daemon = Daemon(harken, DaemonPaths(str(tmp_path)), leave)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/daemon.lock").touch()
    daemon.run(make_app(harken, daemon))
    assert ended.is_set()


@pytest.fixture
def app(harken: Harken, daemon: Daemon) -> ASGIApp:
    return make_app(harken, daemon)


def test_a_list_may_be_the_text_of_its_json_as_some_models_have_it(app: ASGIApp, harken: Harken) -> None:
    memory, http = fill(harken)["memory"], Http(app)
    plain = http.verb("search", {"query": "quay", "sources": ["memory"], "limit": 5}).json()
    assert [hit["id"] for hit in plain["hits"]] == [memory]
    assert http.verb("search", {"query": "quay", "sources": '["memory"]', "limit": "5"}).json() == plain
    for wrong in ("memory", '["memory', '["rumour"]', "[1]"):
        assert http.verb("search", {"query": "quay", "sources": wrong}).status_code == 422


def test_what_may_be_left_out_may_be_null_or_blank_as_many_models_have_it(app: ASGIApp, harken: Harken) -> None:
    memory, http = fill(harken)["memory"], Http(app)
    blank = {
        "sources": None,
        "project": "",
        "conversation": " ",
        "roles": None,
        "limit": None,
        "offset": None,
        "mode": "",
    }
    plain = http.verb("search", {"query": "quay"}).json()
    assert plain["hits"]
    assert http.verb("search", {"query": "quay", **blank, "since": None, "until": ""}).json() == plain
    assert http.verb("search", {"query": "", **blank}).status_code == 422
    said = {
        "conversation": "run",
        "role": "user",
        "text": "The quay is free.",
        "author": "",
        "once": "",
        "call_id": None,
    }
    assert [http.verb("record", said).status_code for _ in range(2)] == [200, 200]
    assert OPERATIONS["record"].check({**said, "text": "  As it is.\n"}).text == "  As it is.\n"
    assert http.verb("recall", {"text": "Which quay?", "conversation": ""}).status_code == 200
    known = [http.verb("assemble_context", {"query": "quay", **named}).json() for named in ({}, {"types": []})]
    assert known[0]["sources_used"] == known[1]["sources_used"] != {}
    asked = {"ids": [memory], "query": "", "kind": None, "confirm": None}
    assert http.verb("forget", asked).json()["ids"] == [memory]
    for name, argument in (("key_create", "principal"), ("unshare", "space")):
        # Left out, it would be one's own, or everywhere.
        with pytest.raises(UsageError, match=argument):
            TEAM_OPERATIONS[name].check({"id": "x", argument: ""} if name == "unshare" else {argument: ""})


@pytest.mark.usefixtures("engine_settings")
def test_every_verb_answers_in_its_schema(app: ASGIApp, harken: Harken, project: Path) -> None:
    http = Http(app, x_harken_directory=quote(str(project)))
    done = set()
    for name, arguments in calls(fill(harken)):
        response = http.verb(name, arguments)
        assert response.status_code == 200, (name, response.text)
        check_answer(name, response.json())
        done.add(name)
    for name, arguments in REFUSED:
        response = http.verb(name, arguments)
        assert response.status_code in (404, 422)
        check_sentence(response.json()["error"])
        done.add(name)
    assert done == set(OPERATIONS)


@pytest.mark.usefixtures("engine_settings")
def test_what_came_back_tells_why_and_what_it_is_now(app: ASGIApp, harken: Harken) -> None:
    ids = fill(harken)
    asked = harken.show(ids["message"]).messages[0]
    rule = harken.record_message("rules", "user", "From now on, always answer in metric units.")
    [stated] = harken.rules.list()
    told = {
        ids["memory"]: "near",
        asked.exchange_uid: "alike",
        ids["conversation"]: "",
        stated.uid: "stated",
        "f" * 12: "",
    }
    assert harken.chats.note_given(rule.conversation_uid, told, lambda: False, 10, event="userpromptsubmit")
    http = Http(app)
    [found] = http.verb("recalls", {"limit": 1}).json()["recalls"]
    assert (found["conversation_id"], found["event"]) == (rule.conversation_uid, "userpromptsubmit")
    assert [(each["id"], each["source"], each["why"]) for each in found["items"]] == [
        (ids["memory"], "memory", "near"),
        (asked.exchange_uid, "exchange", "alike"),
        (ids["conversation"], "conversation", None),
        (stated.uid, "rule", "stated"),
        ("f" * 12, "", None),
    ]
    assert [each["text"] for each in found["items"][:2]] == ["Ships are moored at quay seven first.", asked.text]
    # There the question is what stands beside it.
    read = http.verb("read_conversation", {"id": rule.uid}).json()["recalls"]
    assert read == [{**found, "question": ""}]
    harken.memories.forget([ids["memory"]])
    [again] = http.verb("recalls", {"conversation": "rules"}).json()["recalls"]
    assert http.verb("recalls", {"conversation": rule.conversation_uid}).json()["recalls"] == [again]
    assert again["items"][0] == {**found["items"][0], "source": "", "text": "", "conversation_id": None}


def test_a_conversation_goes_by_its_own_name_and_the_beginning_of_its_id_by_every_verb(
    app: ASGIApp, harken: Harken
) -> None:
    http = Http(app)
    uid = harken.record_message("talk", "user", "The geese were sold to Anna.").conversation_uid
    for name in ("talk", uid[:8]):
        assert http.verb("read_conversation", {"id": name}).json()["conversation"]["id"] == uid
        assert http.verb("fetch_conversation_details", {"conversation_id": name}).json()["id"] == uid
        assert http.verb("show", {"id": name}).json()["conversation"]["id"] == uid
        assert http.verb("conversation_title", {"on": name, "title": "Geese"}).json()["id"] == uid


def test_what_is_missing_is_named_without_options_of_the_command_line(app: ASGIApp, harken: Harken) -> None:
    http = Http(app)
    memory = harken.memories.add("The fair was on Monday.", "event").memory.uid
    assert http.verb("conversation_title", {"title": "Geese"}).json() == {
        "error": "Say which conversation: give its id as `on`."
    }
    assert "Give one to review it by: 2027-01-31" in http.verb("memory_review", {"id": memory}).json()["error"]


def test_behind_its_answer_a_prompt_leaves_a_line_in_the_log(app: ASGIApp, harken: Harken) -> None:
    harken.record_message("other", "user", "The staging cluster is called Zanzibar.", channel="claude-code")
    asked = {
        "session_id": "new",
        "prompt": "What is the staging cluster called?",
        "hook_event_name": "UserPromptSubmit",
    }
    assert Http(app)("POST", "/v1/hook/UserPromptSubmit", json.dumps(asked).encode()).status_code == 200
    with harken.store.reading() as tx:
        assert tx.count(retrievals) == 1


@pytest.fixture(scope="module")
def shared_harken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harken]:
    with Harken(tmp_path_factory.mktemp("home"), settings={"embedder": "none"}, env={}) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"))


class Sharing:
    """Tests that change nothing: one store and one project serve them all."""

    @pytest.fixture
    def harken(self, shared_harken: Harken) -> Harken:
        return shared_harken

    @pytest.fixture
    def project(self, shared_project: Path) -> Path:
        return shared_project


class TestWrong(Sharing):
    """What cannot be meant."""

    @pytest.mark.parametrize(("name", "arguments"), WRONG)
    def test_what_is_wrong_is_said_in_a_sentence(
        self, app: ASGIApp, project: Path, name: str, arguments: dict[str, Any]
    ) -> None:
        response = Http(app, x_harken_directory=quote(str(project))).verb(name, arguments)
        assert response.status_code in (404, 422)
        check_sentence(response.json()["error"])

    @pytest.mark.parametrize(
        ("content", "status"),
        [(b"{", 400), (b"\xff\xfe", 400), (b"[" * 100_000, 400), (b"[]", 422), (b'"text"', 422), (b"null", 422),
         (b'{"query": "\\ud800"}', 422), (b'{"query": NaN}', 422), (b'{"query": 1e999}', 422), (b"x" * 5_000_000, 413),
         (b'{"query": "quay", "limit": 99999999999999999999999}', 422)],
    )  # fmt: skip
    def test_malformed_and_oversized_bodies(self, app: ASGIApp, content: bytes, status: int) -> None:
        response = Http(app)("POST", "/v1/search", content)
        assert response.status_code == status
        check_sentence(response.json()["error"])

    def test_what_is_not_there_is_named(self, app: ASGIApp) -> None:
        http = Http(app)
        assert "There are: search, " in http.verb("serch", {}).json()["error"]
        assert "search_" not in http.verb("fetch_conversation_details", {"conversation_id": "nope"}).json()["error"]
        assert "There are: " in http("GET", "/v2").json()["error"]
        assert http("GET", "/v1/search").status_code == 405

    def test_the_document_is_open_api(self, app: ASGIApp) -> None:
        document = Http(app)("GET", "/openapi.json").json()
        validate(document)
        assert document == json.loads(json.dumps(openapi()))
        assert document["paths"].keys() == {f"/v1/{name}" for name in OPERATIONS}


def test_answers_have_the_keys_of_the_command_line(cli: CommandLine, tmp_path: Path) -> None:
    with Harken(cli.home, settings={"embedder": "none"}, env={}) as harken:
        http, ids = Http(make_app(harken, Daemon(harken, DaemonPaths(str(tmp_path))))), fill(harken)
        answers = {name: http.verb(name, arguments).json() for name, arguments in calls(ids)[:11]}
    shown = cli("search", "quay", "--json").json()
    assert shown.keys() <= answers["search"].keys()
    assert shown["hits"][0].keys() <= answers["search"]["hits"][0].keys()
    for name, words in (("show", (ids["message"],)), ("context", ("hello",)), ("status", ())):
        assert cli(name, *words, "--json").json().keys() <= answers[name].keys()
    [saved, *_] = cli("memory", "list", "--json").json()
    assert saved.keys() == answers["memories"]["memories"][0].keys()


def test_a_list_goes_on_where_it_ended(app: ASGIApp, harken: Harken) -> None:
    for number in range(7):
        harken.record_message("count", "user", f"The crane lifted container number {number} today.")
        harken.memories.add(f"Container {number} holds {FREIGHT[number]}.")
    http, seen, offset = Http(app), [], 0
    while offset is not None:
        page = http.verb("search", {"query": "crane container", "sources": ["message"], "limit": 3, "offset": offset})
        seen += [hit["id"] for hit in page.json()["hits"]]
        offset = page.json()["next_offset"]
    assert len(seen) == len(set(seen)) == 7
    first = http.verb("memories", {"limit": 5}).json()
    rest = http.verb("memories", {"limit": 5, "offset": first["next_offset"]}).json()
    assert (len(first["memories"]), len(rest["memories"]), rest["next_offset"]) == (5, 2, None)


def test_long_text_is_cut_and_marked(app: ASGIApp, harken: Harken) -> None:
    harken.record_message("long", "user", "ballast " * 500)
    [hit] = Http(app).verb("search", {"query": "ballast", "text_chars": 100}).json()["hits"]
    assert (len(hit["text"]), hit["truncated"]) == (100, True)


def test_forgetting_needs_a_confirmation(app: ASGIApp, harken: Harken) -> None:
    ids, http = fill(harken), Http(app)
    asked = http.verb("forget", {"ids": [ids["conversation"]], "kind": "conversation"}).json()
    assert (asked["done"], asked["messages"]) == (False, 2)
    assert "confirm=true" in asked["note"]
    assert http.verb("search", {"query": "Aurora"}).json()["hits"]
    done = http.verb("forget", {"ids": [ids["conversation"]], "kind": "conversation", "confirm": True}).json()
    assert (done["done"], done["messages"]) == (True, 2)
    assert http.verb("search", {"query": "Aurora"}).json()["hits"] == []


@pytest.mark.parametrize(
    "query",
    ["quay' OR '1'='1", 'quay" OR "x', "quay; DROP TABLE messages; --", "NEAR(quay ship)", "text:quay", "quay*",
     "^quay", "quay AND (", "'", '"', "(((", "\\", "quay & !ship", "%", "{quay}", "quay -ship", "‮quay"],
)  # fmt: skip
def test_a_query_is_words_and_never_syntax(app: ASGIApp, harken: Harken, query: str) -> None:
    fill(harken)
    http = Http(app)
    for name in ("search", "assemble_context"):
        assert http.verb(name, {"query": query}).status_code == 200
    assert http.verb("status", {}).json()["messages"] == 2


def test_indexing_tells_how_far_it_is(app: ASGIApp, project: Path) -> None:
    response = Http(app, x_harken_directory=quote(str(project))).verb("index_code", {}, accept="application/x-ndjson")
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines[-1]["answer"]["files"] == 1
    assert lines[-1]["answer"]["added"] > 0
    assert all(0 <= done <= total for done, total in (line["progress"] for line in lines[:-1]))
    failed = Http(app, x_harken_directory=quote(str(project))).verb(
        "index_code", {"path": "/etc"}, accept="application/x-ndjson"
    )
    assert json.loads(failed.text)["status"] == 422


class TestReach:
    """Which folders may be read."""

    def test_the_user_on_the_socket_reaches_what_the_user_reaches(self, app: ASGIApp, project: Path) -> None:
        assert Http(app).verb("index_code", {"path": str(project)}).status_code == 200
        dropped = Http(app).verb("index_code", {"path": str(project), "drop": True})
        assert dropped.json()["gone"] > 0

    @pytest.mark.parametrize(("roots", "status"), [([], 422), (["other"], 200)])
    def test_an_agent_reaches_its_project_and_the_roots(
        self, project: Path, tmp_path: Path, roots: list[str], status: int
    ) -> None:
        other, named = make_project(tmp_path / "other"), [str(tmp_path / root) for root in roots]
        settings = {"embedder": "none", "serve.roots": named}
        with Harken(tmp_path / "home", settings=settings, env={}) as harken:
            app = make_app(harken, Daemon(harken, DaemonPaths(str(tmp_path))))
            http = Http(app, x_harken_directory=quote(str(project)))
            assert http.verb("index_code", {"path": "harbour.py"}).status_code == 200
            assert http.verb("index_code", {"path": str(other)}).status_code == status
            saved = http.verb("remember", {"content": "Ships.", "directory": str(other)})
            assert saved.status_code == status
            assert "harken index" not in saved.text

    def test_a_link_out_of_the_project_leads_nowhere(self, app: ASGIApp, project: Path, tmp_path: Path) -> None:
        (make_project(tmp_path / "secrets") / "secret.py").write_text("def launch_codes() -> None: ...\n")
        (project / "link").symlink_to(tmp_path / "secrets")
        (project / "one.py").symlink_to(tmp_path / "secrets" / "secret.py")
        http = Http(app, x_harken_directory=quote(str(project)))
        assert http.verb("index_code", {"path": "link"}).status_code == 422
        assert http.verb("index_code", {"path": "link/../../secrets"}).status_code == 422
        assert http.verb("index_code", {}).json()["skipped"] == {"link": 1}
        assert http.verb("search", {"query": "launch codes", "sources": ["code"]}).json()["hits"] == []

    @pytest.mark.parametrize("directory", ["/", "~"])
    def test_an_application_started_nowhere_has_opened_nothing(self, app: ASGIApp, directory: str) -> None:
        home = str(Path(directory).expanduser())
        assert Http(app, x_harken_directory=quote(home)).verb("index_code", {"path": home}).status_code == 422

    @pytest.mark.parametrize("directory", ["x" * 5000, "a%00b", "%ff", "relative"])
    def test_what_is_no_directory_opens_nothing(self, app: ASGIApp, project: Path, directory: str) -> None:
        http = Http(app, x_harken_directory=directory)
        for arguments in ({}, {"path": str(project)}, {"path": "../project"}):
            response = http.verb("index_code", arguments)
            assert response.status_code == 422, response.text
            check_sentence(response.json()["error"])

    def test_from_afar_nothing_is_read_but_the_roots(self, app: ASGIApp, project: Path) -> None:
        http = Http(Guard(app, TOKEN), authorization=f"Bearer {TOKEN}", x_harken_directory=quote(str(project)))
        assert http.verb("status", {}).status_code == 200
        for path in (str(project), "/etc", "harbour.py", None):
            assert http.verb("index_code", {"path": path}).status_code == 422


class TestGuard(Sharing):
    """Who may speak over TCP."""

    @pytest.fixture
    def http(self, app: ASGIApp) -> Http:
        return Http(Guard(app, TOKEN, ["memory.example.org"]), authorization=f"Bearer {TOKEN}")

    @pytest.mark.parametrize(
        "shown", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer é{TOKEN}"]
    )
    def test_without_the_token_there_is_nothing(self, app: ASGIApp, shown: str) -> None:
        for method, path in (("POST", "/v1/status"), ("GET", "/openapi.json"), ("POST", "/mcp"), ("GET", "/nothing")):
            response = Http(Guard(app, TOKEN))(method, path, b"{}", authorization=shown)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in response.text

    @pytest.mark.parametrize("host", ["evil.example.org", "evil.example.org:4275", "", "[::1", "127.0.0.2:4275", "@"])
    def test_another_host_is_refused(self, http: Http, host: str) -> None:
        assert http("POST", "/v1/status", b"{}", host=host).status_code == 421

    @pytest.mark.parametrize("host", ["localhost:4275", "127.0.0.1", "[::1]:4275", "memory.example.org"])
    def test_its_own_names_are_known(self, http: Http, host: str) -> None:
        assert http("POST", "/v1/status", b"{}", host=host).status_code == 200

    @pytest.mark.parametrize("origin", ["https://evil.example.org", "null", "http://localhost:9999", ""])
    def test_a_page_of_another_origin_is_refused(self, http: Http, origin: str) -> None:
        for path in ("/v1/status", "/mcp"):
            assert http("POST", path, b"{}", origin=origin).status_code == 403
        assert http("POST", "/v1/status", b"{}", origin="http://127.0.0.1:4275").status_code == 200

    @pytest.mark.parametrize("path", ["/v1/stop", "/v1/hook/Stop", "/v1/command"])
    def test_what_is_the_sockets_stays_there(self, http: Http, daemon: Daemon, path: str) -> None:
        assert http("POST", path, b"{}").status_code == 403
        assert http("POST", "/v1/status", b"{}", x_harken_version="0.0.1").status_code == 200
        assert not daemon.is_leaving


def test_the_guide_names_every_verb() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
    rows = [line for line in guide.splitlines() if line.startswith("| ") and "`" in line]
    assert set("".join(rows).split("`")[1::2]) == set(OPERATIONS)


def test_a_mistake_of_ours_says_nothing_of_what_was_said(
    app: ASGIApp, harken: Harken, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(harken)
    harken.background.status = lambda: {}["the Aurora's secret"]  # type: ignore[method-assign]
    response = Http(app).verb("status", {})
    assert response.status_code == 500
    assert "secret" not in response.text + "".join(capfd.readouterr())
