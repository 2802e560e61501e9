"""The pages of a team's server: who gets in, and what each of them sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from harken.serve.team.pages import PAGES
from harken.serve.viewer.access import SESSION_SECONDS, Sessions
from postgres_server import PostgresServer
from team_server import Served, serving_team


@pytest.fixture
def served(ready_home: Path, shared_database: str, tenant: str) -> Iterator[Served]:
    with serving_team(ready_home, shared_database, tenant) as served:
        yield served


class Browser:
    """Somebody's browser: it keeps its cookie and says where its forms come from."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.cookie = ""

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self._served.ask("", "GET", path, **self._headers(headers))

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        given = {"content_type": "application/x-www-form-urlencoded", **headers}
        return self._served.ask("", "POST", path, urlencode(fields).encode(), **self._headers(given))

    def sign_in(self, key: str) -> httpx.Response:
        answer = self.post("/view/signin", {"key": key}, sec_fetch_site="same-origin")
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    def csrf(self, path: str) -> str:
        [token, *_] = re.findall(r'name="csrf" value="([^"]+)"', self.get(path).text)
        return str(token)

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {**({"cookie": self.cookie} if self.cookie else {}), **headers}


def test_without_a_key_there_is_nothing_but_the_door(served: Served) -> None:
    browser = Browser(served)
    assert browser.get("/").headers["location"] == "/view/"
    for path in ("/view/", "/view/conversations", "/view/memories", "/view/static/harken.js"):
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/view/signin")
    door = browser.get("/view/signin")
    assert door.status_code == 200
    assert "default-src 'none'" in door.headers["content-security-policy"]
    assert browser.sign_in("hk_wrong").status_code == 401
    assert not browser.cookie
    # Nor by a form of another site.
    refused = browser.post("/view/signin", {"key": served.keys["bob"]}, sec_fetch_site="cross-site")
    assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)


def test_each_sees_their_own(served: Served) -> None:
    for who, word in (("ann", "Annapurna"), ("bob", "Bobolink"), ("eve", "Evergreen")):
        served.verb(who, "remember", {"content": f"The word is {word}."})
        served.verb(who, "record", {"conversation": "log", "role": "user", "text": f"Say {word} twice."})
    bob = Browser(served)
    answer = bob.sign_in(served.keys["bob"])
    assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
    assert "Path=/view/" in answer.headers["set-cookie"]
    for path in PAGES:
        if "{" in path or path.startswith("/do/") or path == "/forget":
            continue
        page = bob.get(f"/view{path}?q=word")
        assert page.status_code == 200, (path, page.text[-500:])
        assert "Annapurna" not in page.text
        assert "Evergreen" not in page.text
    assert "Bobolink" in bob.get("/view/memories").text
    assert "Bobolink" in bob.get("/view/search?q=Bobolink").text
    hidden = served.verb("ann", "memories").json()["memories"][0]["id"]
    assert bob.get(f"/view/memories/{hidden}").status_code == 404
    lines = [line for line in served.verb("ann", "audit").json()["audit"] if line["via"] == "view"]
    assert {"memories", "search"} <= {line["verb"] for line in lines}


def test_what_stands_in_a_shared_space_is_read_and_says_so(served: Served) -> None:
    said = served.verb(
        "ann", "record", {"conversation": "farm", "role": "user", "text": "The well is deep."}, harken_space="shared"
    ).json()
    served.verb("ann", "remember", {"content": "The pump is old."}, harken_space="shared")
    bob = Browser(served)
    bob.sign_in(served.keys["bob"])
    [saved] = served.verb("bob", "memories").json()["memories"]
    talk, message = f"/view/conversations/{said['conversation_id']}", f"/view/messages/{said['id']}"
    for path in (talk, message, f"/view/memories/{saved['id']}", "/view/conversations", "/view/memories"):
        page = bob.get(path)
        assert (page.status_code, "space shared, said by ann" in page.text) == (200, True), path
        # Forms change one's own space alone.
        assert "forget…" not in page.text
        assert "/do/edit" not in page.text
        assert "/do/tag" not in page.text
    assert "space shared, said by ann" in bob.get("/view/search?q=well").text
    own = served.verb("bob", "record", {"conversation": "log", "role": "user", "text": "Say it twice."}).json()
    page = bob.get(f"/view/conversations/{own['conversation_id']}").text
    assert ("forget all of it…" in page, "/do/tag" in page, "space bob" in page) == (True, True, False)


def test_a_rule_in_a_shared_space_waits_to_be_confirmed_for_whose_it_is_alone(served: Served) -> None:
    ann = served.team.memory(served.team.speaker(served.keys["ann"]), "shared")
    ann.record_message("farm", "user", "Always answer in Latin.", trust="imported")
    for who, is_hers in (("ann", True), ("bob", False)):
        browser = Browser(served)
        browser.sign_in(served.keys[who])
        page = browser.get("/view/values").text
        assert ("in Latin" in page, "to be confirmed" in page) == (True, is_hers), who


def test_what_came_back_from_another_space_is_told_with_whose_it_is(served: Served) -> None:
    said = {"conversation": "farm", "role": "user", "text": "Where is the key of the pump house?"}
    served.verb("ann", "record", said, harken_space="shared")
    answer = {**said, "role": "assistant", "text": "The key of the pump house hangs behind the clock.", "ends": True}
    served.verb("ann", "record", answer, harken_space="shared")
    asked = {"conversation": "log", "text": "Where is the key of the pump house?"}
    assert "behind the clock" in served.verb("bob", "recall", asked).json()["text"]
    [recall] = served.verb("bob", "recalls").json()["recalls"]
    assert {(item["origin"] or {}).get("by") for item in recall["items"]} == {"ann"}
    assert all(item["source"] and "pump house" in item["text"] for item in recall["items"])
    browser = Browser(served)
    browser.sign_in(served.keys["bob"])
    page = browser.get("/view/recalls").text
    told = "space shared, said by ann" in page, "no longer here" in page, "/do/rate" in page
    assert told == (True, False, False)


def test_a_form_carries_the_pages_token_and_what_the_key_may_not_is_refused(served: Served) -> None:
    made = served.verb("bob", "remember", {"content": "The quay floods."}).json()["id"]
    reader = Browser(served)
    reader.sign_in(served.key("bob", ["read"]))
    fields = {"id": made, "csrf": reader.csrf(f"/view/memories/{made}")}
    assert reader.post("/view/do/confirm", {**fields, "csrf": "guessed"}).status_code == 403
    paths = [path for path in PAGES if path.startswith("/do/")]
    edits = next(path for path in paths if "edit" in path)
    refused = reader.post(f"/view{edits}", {**fields, "text": "Changed", "importance": "0.5", "tags": ""})
    assert (refused.status_code, "remember" in refused.text) == (403, True)
    assert reader.post("/view/do/topics", fields).status_code == 403
    writer = Browser(served)
    writer.sign_in(served.keys["bob"])
    fields["csrf"] = writer.csrf(f"/view/memories/{made}")
    changed = writer.post(f"/view{edits}", {**fields, "text": "The quay is dry.", "importance": "0.5", "tags": ""})
    assert changed.status_code == 303
    assert "The quay is dry." in writer.get(f"/view/memories/{made}").text
    audited = served.verb("ann", "audit", {"verb": "memory edit"}).json()["audit"]
    assert [(line["status"], line["via"], line["ids"]) for line in audited] == [
        (200, "view", [made]),
        (403, "view", [made]),
    ]
    assert writer.post("/view/do/topics", {"csrf": fields["csrf"]}).status_code == 303
    assert Browser(served).sign_in(served.key("bob", ["record"])).status_code == 403


def test_whoever_is_signed_out_or_whose_key_is_revoked_sees_nothing(served: Served) -> None:
    browser = Browser(served)
    browser.sign_in(served.keys["bob"])
    assert browser.get("/view/memories").status_code == 200
    browser.post("/view/do/signout", {"csrf": browser.csrf("/view/memories")})
    assert browser.get("/view/memories").status_code == 303
    browser.sign_in(served.keys["bob"])
    served.verb("bob", "key_revoke", {"id": served.verb("bob", "whoami").json()["key"]["id"]})
    assert browser.get("/view/memories").status_code == 403
    assert browser.get("/view/memories").status_code == 303


def test_who_tries_keys_at_the_door_is_stopped(served: Served) -> None:
    browser = Browser(served)
    answers = [browser.sign_in(f"hk_{number}").status_code for number in range(62)]
    assert answers == [401] * 60 + [429] * 2


def test_a_session_that_nobody_uses_ends(served: Served) -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    cookie = sessions.admit(lambda: served.team.speaker(served.keys["bob"]))
    now[0] += SESSION_SECONDS - 1
    assert sessions.csrf(cookie)
    now[0] += SESSION_SECONDS - 1
    assert sessions.csrf(cookie)
    now[0] += SESSION_SECONDS
    assert sessions.csrf(cookie) is None


def test_while_the_database_is_away_pages_and_door_say_so_and_not_where_it_is(
    served: Served, postgres: PostgresServer
) -> None:
    bob = Browser(served)
    bob.sign_in(served.keys["bob"])
    token = bob.csrf("/view/conversations")
    postgres.stop()
    try:
        pages = [bob.get("/view/memories"), bob.post("/view/do/tag", {"csrf": token}, sec_fetch_site="same-origin")]
        pages.append(Browser(served).sign_in(served.keys["bob"]))
    finally:
        postgres.start()
    for page in pages:
        assert page.status_code == 503
        assert "The store cannot be reached. Try again in a moment." in page.text
        assert "postgresql" not in page.text
    assert bob.get("/view/memories").status_code == 200
