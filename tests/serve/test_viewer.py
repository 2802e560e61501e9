"""The viewer's pages, without a process in between: what they show, whom they let in, and what stays text."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest

from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.run import Daemon
from harken.serve.viewer.access import HEADERS, LINK_SECONDS, Browsers
from harken.serve.viewer.app import PAGES, SENT_TO
from harken.testing import HashingEmbedder
from verbs import fill
from viewing import EVIL, PREFIX, Viewer, links_in, make_topic

_ASSETS_BYTES = 200_000
# Shorter ones get no vector.
LONG_ENOUGH = (
    "The quay seven floods every November morning when the wind comes from the west and the tide stands high, so ships "
    "are moved to the upper basin before the storm and come back when the water has gone down again"
)


def experience_of(harken: Harken, goal: str) -> str:
    """Begin an experience; its id."""
    story = {"goal": goal, "hypothesis": goal, "action": goal, "prediction": goal}
    return harken.experiences.start("debugging", "read-the-error", **story).uid


def addresses(harken: Harken, ids: dict[str, str], goal: str = "Find the leak") -> list[str]:
    """An address of every page that is read, with something in it."""
    uid = ids["message"]
    harken.chats.note_given(ids["conversation"], {uid: "similarity 0.71"}, lambda: False, 10, event="userpromptsubmit")
    topic = make_topic(harken, goal, ids["conversation"])
    places = {
        "/conversations/{uid}": f"/conversations/{ids['conversation']}",
        "/messages/{uid}": f"/messages/{uid}",
        "/memories/{uid}": f"/memories/{ids['memory']}",
        "/experiences/{uid}": f"/experiences/{experience_of(harken, goal)}",
        "/topics/{uid}": f"/topics/{topic}",
        "/search": "/search?q=quay+Aurora",
        "/forget": f"/forget?kind=memory&id={ids['memory']}",
    }
    return [places.get(path, path) for path in PAGES if not path.startswith(SENT_TO)]


def test_every_page_answers_and_leads_to_pages_alone(harken: Harken, viewer: Viewer) -> None:
    found: set[str] = set()
    for address in addresses(harken, fill(harken)):
        links = {html.unescape(link) for link in links_in(viewer.page(address))}
        assert all(link.startswith((f"{PREFIX}/", "#", "?")) for link in links), (address, links)
        found |= {link.removeprefix(PREFIX) for link in links if link.startswith(PREFIX)}
    assert len(found) > len(PAGES)
    for link in found:
        if not link.startswith(("/live", SENT_TO)):
            assert viewer.get(link).status_code == 200, link


def test_home_leads_in_three_steps_to_why_a_text_came_back(harken: Harken, viewer: Viewer) -> None:
    ids = fill(harken)
    harken.chats.note_given(ids["conversation"], {ids["memory"]: "similarity 0.71 of its text"}, lambda: False, 5)
    assert "similarity 0.71 of its text" in viewer.page("/")
    talk = viewer.page(f"/conversations/{ids['conversation']}")
    assert "Ships are moored at quay seven first." in talk
    assert "similarity 0.71 of its text" in talk


def test_what_came_back_stands_beside_the_prompt_that_it_came_with(harken: Harken, viewer: Viewer) -> None:
    first = harken.record_message("talk", "user", "Where do ships moor?")
    harken.record_message("talk", "assistant", "At quay seven.")
    memory = harken.memories.add("Ships are moored at quay seven first.", "workflow").memory
    harken.chats.note_given(
        first.conversation_uid, {memory.uid: "first why"}, lambda: False, 5, event="userpromptsubmit"
    )
    page = viewer.page(f"/conversations/{first.conversation_uid}")
    assert page.index("Where do ships moor?</p>") < page.index("first why") < page.index("At quay seven.</p>")
    assert "Came back with this prompt" in page


def test_conversations_of_a_day_and_a_project_are_those_alone(harken: Harken, viewer: Viewer, tmp_path: Path) -> None:
    for name in ("ferry", "bridge"):
        (tmp_path / name).mkdir()
        harken.record_message(name, "user", f"The {name} opens at noon", directory=tmp_path / name)
    today = datetime.now(UTC).astimezone().date().isoformat()
    page = viewer.page(f"/conversations?project=ferry&agent=&day={today}")
    assert "The ferry opens at noon" in page
    assert "The bridge opens" not in page
    assert "No conversation here" in viewer.page("/conversations?day=2020-01-01")


def test_pages_of_a_long_conversation_have_each_message_once(harken: Harken, viewer: Viewer) -> None:
    said = [harken.record_message("long", "user", f"Sentence number {n} of many") for n in range(95)]
    uid, seen, address = said[0].conversation_uid, list[str](), ""
    while True:
        page = viewer.page(f"/conversations/{uid}{address}")
        seen += re.findall(r"Sentence number (\d+) of many</p>", page)
        later = re.search(r'href="(\?[^"]*)" rel="next"', page)
        if later is None:
            break
        address = html.unescape(later[1])
    assert seen == [str(n) for n in range(95)]
    assert f'id="m-{said[80].uid}"' in viewer.page(f"/conversations/{said[80].uid}")


def test_the_slider_shows_what_another_threshold_would_have_given(ready_home: Path, tmp_path: Path) -> None:
    settings = {"search.relevance_threshold": 0.9}
    with Harken(ready_home, settings=settings, embedder=HashingEmbedder(), env={}) as harken:
        harken.record_message("harbour", "user", LONG_ENOUGH)
        harken.embed()
        viewer = Viewer.of(harken, Daemon(harken, DaemonPaths(str(tmp_path))))
        asked = "/search?q=quay+seven+December&mode=semantic"
        usual = viewer.page(asked)
        assert 'type="range" name="threshold" min="0" max="1" step="0.01" value="0.9"' in usual
        assert "Nothing was found" in usual
        # As its form sends it, with fields that are empty.
        tried = viewer.page(f"{asked}&source=&since=&project=&threshold=0.1")
        assert "only by this threshold" in tried
        assert "1 hit, 1 of them by this threshold alone" in tried
        assert "the model's own is 0.90" in html.unescape(tried)
        assert viewer.get(f"{asked}&threshold=much").status_code == 422
        assert viewer.get(f"{asked}&threshold=7").status_code == 422


def test_without_a_cookie_nothing_is_shown(harken: Harken, viewer: Viewer) -> None:
    found = addresses(harken, fill(harken))
    for cookie in (None, "x" * 43, ""):
        viewer.cookie = cookie
        for address in (*found, "/live", "/static/harken.js", "/nowhere"):
            answer = viewer.get(address)
            assert answer.status_code == 403, address
            assert "Aurora" not in answer.text


def test_a_link_lets_one_browser_in_once_and_not_after_a_minute(viewer: Viewer) -> None:
    key = viewer.browsers.link()
    assert not viewer.browsers.has_come(key)
    cookie = viewer.get(f"/open?key={key}").headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", f"Path={PREFIX}/"} <= {part.strip() for part in cookie.split(";")}
    assert viewer.browsers.has_come(key)
    again = viewer.get(f"/open?key={key}")
    assert again.status_code == 403
    assert "set-cookie" not in again.headers
    now = [0.0]
    browsers = Browsers(lambda: now[0])
    late = browsers.link()
    now[0] = LINK_SECONDS + 1
    assert browsers.admit(late) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:4999"},
        {"host": "localhost:4999"},
        {"host": "127.0.0.1"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:5000"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"},
    ],
)
def test_other_pages_and_rebound_names_are_refused_with_the_cookie_too(
    harken: Harken, viewer: Viewer, headers: dict[str, str]
) -> None:
    fill(harken)
    answer = viewer.get("/conversations", **headers)
    assert answer.status_code in (403, 421)
    assert "Aurora" not in answer.text


def test_every_answer_forbids_frames_foreign_scripts_and_copies(harken: Harken, viewer: Viewer) -> None:
    for address in ("/", "/static/harken.css", "/nowhere", "/open?key=used"):
        answer = viewer.get(address)
        for name, value in HEADERS.items():
            if name != "cache-control":
                assert answer.headers[name] == value
    assert viewer.get("/").headers["cache-control"] == "no-store"
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e%2fapp.py", "/static/..%5capp.py", "/static/", "//etc"]
)
def test_no_path_leads_out_of_the_pages(viewer: Viewer, path: str) -> None:
    answer = viewer.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_addresses_that_nobody_means_are_answered_with_a_sentence(harken: Harken, viewer: Viewer) -> None:
    fill(harken)
    wrong = ("%00abcdef", "%ff%fe%fd%fc%fb%fa", "x" * 4000, "..%2f..%2fetc", "%27;DROP", "-1")
    asked = [f"/{room}/{each}" for room in ("conversations", "messages", "memories", "experiences") for each in wrong]
    asked += [f"/conversations?{name}={each}" for name in ("day", "offset", "project", "agent") for each in wrong]
    asked += [
        f"/{room}={each}"
        for room in ("forget?kind", "forget?id", "recalls?before", "memories?offset")
        for each in wrong
    ]
    for address in asked:
        answer = viewer.get(address)
        assert answer.status_code in (200, 404, 422), (address, answer.status_code, answer.text[-600:])
        assert "Traceback" not in answer.text


def test_outside_of_the_prefix_there_is_nothing(viewer: Viewer) -> None:
    for path in ("/../conversations", "/" + "b" * 32 + "/conversations"):
        assert viewer.get(path).status_code in (403, 404)
    viewer.app._prefix = "/other"  # type: ignore[attr-defined]  # another daemon's pages, the same cookie
    assert viewer.get("/conversations").status_code == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(viewer: Viewer, method: str) -> None:
    assert viewer.ask(method, "/conversations").status_code == 405


def test_hostile_words_stay_words_on_every_page(harken: Harken, viewer: Viewer) -> None:
    said = harken.record_message(EVIL[:60], "user", EVIL, author="<b>Eve</b>")
    harken.record_message(EVIL[:60], "assistant", f"```\n{EVIL}\n```", type="tool_call", tool_name="<i>tool</i>")
    memory = harken.memories.add(EVIL, "fact", tags=("<u>tag</u>",)).memory
    harken.labels.tag(said.conversation_uid, [EVIL[:50], EVIL[-50:]])
    harken.labels.entitle(said.conversation_uid, EVIL[:200])
    harken.memories.review(memory.uid, datetime(2020, 1, 1, tzinfo=UTC))
    harken.chats.note_given(said.conversation_uid, {said.uid: "why", memory.uid: "why"}, lambda: False, 9)
    harken.feedback.rate(memory.uid, "wrong", question=EVIL)
    hostile = {"message": said.uid, "conversation": said.uid, "memory": memory.uid}
    found = [*addresses(harken, hostile, EVIL), f"/forget?kind=message&id={said.uid}"]
    shown = 0
    for path in found:
        path = "/search?q=owned" if path.startswith("/search") else path
        page = viewer.page(path)
        shown += "owned" in page
        assert not re.search(r"<(?:script>|img src=x|svg onload|b>Eve|i>tool|u>tag)", page), path
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page), path
        assert not any(link.lower().startswith(("javascript:", "data:", "http")) for link in links_in(page)), path
        assert "49" not in re.findall(r"owned=5 (\S+)", page), path
    assert shown >= 9


def test_a_memory_is_corrected_in_its_form(harken: Harken, viewer: Viewer) -> None:
    uid = fill(harken)["memory"]
    changed = {
        "text": "Ships moor at quay nine first.",
        "category": "decision",
        "importance": "0.9",
        "tags": "quay, #sea",
    }
    assert viewer.send("/do/edit", id=uid, **changed).headers["location"] == f"{PREFIX}/memories/{uid}"
    found = harken.memories.get(uid)
    assert (found.content, found.category, found.importance) == ("Ships moor at quay nine first.", "decision", 0.9)
    assert found.tags == ("quay", "sea")
    assert "Ships moor at quay nine first." in viewer.page(f"/memories/{uid}")
    assert viewer.send("/do/edit", id=uid, **{**changed, "importance": "much"}).status_code == 422


def test_a_form_that_is_saved_as_it_was_shown_changes_no_letter(harken: Harken, viewer: Viewer) -> None:
    words = "می\u200cخواهم 👩\u200d👧 ❤\ufe0f\r\n\u202bword\u202c"
    uid = harken.memories.add(words, tags=("#quay, sea", "❤\ufe0f")).memory.uid
    page = viewer.page(f"/memories/{uid}")
    text, tags = (
        re.findall(form, page, re.DOTALL)[0] for form in (r"<textarea[^>]*>(.*?)</t", r'"tags" value="(.*?)"')
    )
    viewer.send("/do/edit", id=uid, text=html.unescape(text), importance="0.9", tags=html.unescape(tags))
    found = harken.memories.get(uid)
    assert (found.content, found.importance, found.tags) == (words, 0.9, ("#quay, sea", "❤\ufe0f"))
    viewer.send("/do/edit", id=uid, text=f"{html.unescape(text)}!", importance="0.9", tags="")
    changed = harken.memories.get(uid)
    assert changed.content.startswith("می\u200cخواهم 👩\u200d👧 ❤\ufe0f")
    assert changed.tags == ()
    talk = harken.record_message("talk", "user", "Hello.").conversation_uid
    harken.labels.entitle(talk, "❤\ufe0f می\u200cخواهم")
    assert '"❤\ufe0f می\u200cخواهم"' in viewer.page(f"/conversations/{talk}")


def test_a_page_that_was_left_open_brings_no_earlier_words_back(harken: Harken, viewer: Viewer) -> None:
    uid = harken.memories.add("Ships moor at quay seven.").memory.uid
    page = viewer.page(f"/memories/{uid}")
    opened = {"id": uid, "text": "Ships moor at quay seven.", "at": re.findall(r'name="at" value="(.*?)"', page)[0]}
    harken.memories.edit(uid, content="Ships moor at quay nine.")
    refused = viewer.send("/do/edit", **opened, importance="0.9")
    assert (refused.status_code, "changed since" in refused.text) == (422, True)
    assert harken.memories.get(uid).content == "Ships moor at quay nine."
    opened["at"] = re.findall(r'name="at" value="(.*?)"', viewer.page(f"/memories/{uid}"))[0]
    assert viewer.send("/do/edit", **opened, importance="0.9").status_code == 303


def test_a_memory_shows_those_that_it_replaced(harken: Harken, viewer: Viewer) -> None:
    old = harken.memories.add("Ships are moored at quay seven first.", "workflow").memory
    new = harken.memories.add("Ferries dock at the north pier.", "workflow").memory
    harken.memories.merge([new.uid, old.uid])
    for uid in (old.uid, new.uid):
        page = viewer.page(f"/memories/{uid}")
        assert "How it changed" in page
        assert all(each in page for each in (old.content, new.content))


@pytest.mark.parametrize("kind", ["message", "conversation", "memory"])
def test_forgetting_shows_what_goes_and_waits_for_the_word(harken: Harken, viewer: Viewer, kind: str) -> None:
    ids = fill(harken)
    uid = ids[kind]
    preview = viewer.page(f"/forget?kind={kind}&id={uid}")
    assert ("quay seven" if kind == "memory" else "Aurora") in preview
    assert ("2 messages" if kind == "conversation" else f"1 {kind}") in preview
    assert viewer.send("/do/forget", kind=kind, id=uid).status_code == 422
    assert viewer.send("/do/forget", kind=kind, id=uid, word="no").status_code == 422
    assert viewer.page(f"/forget?kind={kind}&id={uid}")
    assert viewer.send("/do/forget", kind=kind, id=uid, word="forget").status_code == 303
    assert viewer.get(f"/forget?kind={kind}&id={uid}").status_code == 404
    assert harken.maintenance.status().counts.forgotten


def test_a_form_without_the_token_of_this_browser_changes_nothing(harken: Harken, viewer: Viewer) -> None:
    uid = fill(harken)["memory"]
    mine = viewer.browsers.csrf(viewer.cookie) or ""
    other = viewer.get(f"/open?key={viewer.browsers.link()}").headers["set-cookie"].partition(";")[0].partition("=")[2]
    foreign = viewer.browsers.csrf(other)
    assert foreign not in (None, mine)
    for token in ("", "x", foreign or "", mine[:-1]):
        assert viewer.send("/do/forget", token, kind="memory", id=uid, word="forget").status_code == 403
    for headers in ({"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}, {"cookie": "harken=x"}):
        content = f"csrf={mine}&kind=memory&id={uid}&word=forget".encode()
        assert viewer.ask("POST", "/do/forget", content, **headers).status_code == 403
    assert viewer.get(f"/do/forget?csrf={mine}&kind=memory&id={uid}&word=forget").status_code == 404
    assert harken.memories.get(uid)


def test_a_form_of_our_own_is_taken_though_browsers_withhold_its_origin(harken: Harken, viewer: Viewer) -> None:
    content = f"csrf={viewer.browsers.csrf(viewer.cookie)}".encode()
    assert viewer.ask("POST", "/do/examine", content, origin="null", sec_fetch_site="same-origin").status_code == 200
    for site in ("", "none", "same-site", "cross-site"):
        assert viewer.ask("POST", "/do/examine", content, origin="null", sec_fetch_site=site).status_code == 403


def test_a_form_without_an_end_is_refused(harken: Harken, viewer: Viewer) -> None:
    assert viewer.send("/do/edit", id=fill(harken)["memory"], text="x" * 300_000).status_code == 403


def test_the_doctor_says_that_all_agrees(harken: Harken, viewer: Viewer) -> None:
    fill(harken)
    assert "All agrees" in viewer.send("/do/examine").text


def test_what_came_back_is_listed_page_by_page(harken: Harken, viewer: Viewer) -> None:
    ids = fill(harken)
    for n in range(30):
        said = harken.record_message(f"talk {n}", "user", f"Question {n}?")
        harken.chats.note_given(said.conversation_uid, {ids["memory"]: f"reason {n}."}, lambda: False, 5)
    first = viewer.page("/recalls")
    later = re.search(r'href="(\?before=[^"]*)" rel="next"', first)
    assert later is not None
    seen = re.findall(r"reason (\d+)\.", first + viewer.page(f"/recalls{html.unescape(later[1])}"))
    assert seen == [str(n) for n in reversed(range(30))]


def test_all_files_beside_the_pages_are_small_and_name_no_other_place() -> None:
    found = list(files("harken.serve.viewer").joinpath("static").iterdir())
    assert sum(len(each.read_bytes()) for each in found) <= _ASSETS_BYTES
    templates = files("harken.serve.viewer").joinpath("templates").iterdir()
    ours = [each for each in found if not each.name.startswith(("htmx", "uplot"))]
    for each in (*ours, *templates):
        text = each.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, each.name
        assert not re.search(r"<[^>]*\s(?:style|on\w+)=", text), each.name


def test_files_of_others_are_those_that_the_notice_names() -> None:
    import hashlib

    notice = (Path(__file__).parents[2] / "NOTICE").read_text(encoding="utf-8")
    for name in ("htmx.min.js", "uplot.min.js", "uplot.min.css"):
        content = files("harken.serve.viewer").joinpath("static", name).read_bytes()
        assert hashlib.sha256(content).hexdigest() in notice.replace("\n  ", ""), name
