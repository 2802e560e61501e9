"""What only a person can say, said on the viewer's pages: verdicts, tags, titles, days; and topics and numbers."""

from __future__ import annotations

import html
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest

from harken.engine import Harken
from harken.errors import UsageError
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.run import Daemon
from harken.serve.viewer import topics
from harken.serve.viewer.pages import PageJobs
from harken.storage.records.marks import ratings_of
from harken.testing import HashingEmbedder
from verbs import fill
from viewing import PREFIX, THEMES, Viewer, make_topic


def test_a_verdict_is_its_owners_for_the_question_it_came_back_with(harken: Harken, viewer: Viewer) -> None:
    memory = harken.memories.add("Ships are moored at quay seven first.", "workflow").memory
    talks = [harken.record_message(f"talk {n}", "user", f"Where is ship number {n}?") for n in range(2)]
    for said in talks:
        harken.chats.note_given(said.conversation_uid, {memory.uid: "similar"}, lambda: False, 5)
    page = viewer.page("/recalls")
    assert "Where is ship number 1?" in page
    back = html.unescape(re.findall(r'name="back" value="([^"]*)"', page)[1])
    sent = {"id": memory.uid, "conversation": talks[0].conversation_uid, "back": back}
    assert viewer.send("/do/rate", verdict="wrong", **sent).headers["location"] == f"{PREFIX}{back}"
    page = viewer.page("/recalls")
    assert "rated wrong once" in page
    assert "take back" in page
    with harken.recorder.store.reading() as tx:
        [rated] = [one for ratings in ratings_of(tx, {memory.uid}).values() for one in ratings]
    assert (rated.by, rated.about, rated.question) == ("owner", talks[0].uid, "")
    viewer.send("/do/rate", verdict="none", **sent)
    assert "rated wrong" not in viewer.page(f"/conversations/{talks[0].conversation_uid}")
    assert viewer.send("/do/rate", verdict="brilliant", **sent).status_code == 422
    assert viewer.send("/do/rate", "", verdict="useful", **sent).status_code == 403


@pytest.mark.parametrize("back", ["http://evil.example/", "//evil.example", "evil", "", "/\r\nset-cookie: a=b"])
def test_no_form_leads_back_to_another_place(harken: Harken, viewer: Viewer, back: str) -> None:
    answer = viewer.send("/do/tag", id=fill(harken)["conversation"], add="quay", back=back)
    assert answer.headers["location"].startswith(f"{PREFIX}/")
    assert "set-cookie" not in answer.headers


def test_tags_titles_and_projects_of_a_conversation_are_corrected(
    harken: Harken, viewer: Viewer, tmp_path: Path
) -> None:
    uid = fill(harken)["conversation"]
    (tmp_path / "ferry").mkdir()
    harken.record_message("ferry", "user", "The ferry opens at noon", directory=tmp_path / "ferry")
    [(project, _, _)] = harken.maintenance.projects()
    strange = "\u202equay <b>%41"
    for tag in ("#sea", strange):
        viewer.send("/do/tag", id=uid, add=tag)
    viewer.send("/do/title", id=uid, title="Where the Aurora moors")
    viewer.send("/do/project", id=uid, project=project)
    label = harken.labels.show(uid)
    assert (label.tags, label.title, label.project) == (("sea", strange), "Where the Aurora moors", project)
    listed = viewer.page("/conversations?tag=sea")
    assert "Where the Aurora moors" in listed
    assert "The ferry opens" not in listed
    page = viewer.page(f"/conversations/{uid}")
    assert "Where the Aurora moors</h1>" in page
    # A tag goes by the words on its button, whatever they are.
    for button in re.findall(r'name="remove" value="([^"]*)"', page):
        viewer.send("/do/tag", id=uid, remove=html.unescape(button))
    for name in ("title", "project"):
        viewer.send(f"/do/{name}", id=uid, **{name: ""})
    label = harken.labels.show(uid)
    assert (label.tags, label.is_titled, label.is_moved) == ((), False, False)
    assert viewer.send("/do/tag", id=uid, add="x" * 60).status_code == 422


def test_suggested_tags_are_set_by_a_click_alone(harken: Harken, viewer: Viewer) -> None:
    uid = fill(harken)["conversation"]
    make_topic(harken, "\u202efloods", uid)
    page = viewer.page(f"/conversations/{uid}")
    suggested = [html.unescape(each) for each in re.findall(r'name="suggested" value="([^"]*)"', page)]
    assert len(suggested) == 2
    assert harken.labels.show(uid).tags == ()
    viewer.send("/do/tag", id=uid, suggested=suggested[0])
    assert harken.labels.show(uid).tags == ("\u202efloods",)


def test_memories_that_are_due_are_listed_confirmed_and_put_off(harken: Harken, viewer: Viewer) -> None:
    uid = fill(harken)["memory"]
    assert "/memories/due" not in viewer.page("/")
    viewer.send("/do/review", id=uid, when="day", by="2020-01-31")
    for address in ("/", "/memories"):
        assert "1 memory to be looked at again" in viewer.page(address)
    assert "Ships are moored at quay seven first." in viewer.page("/memories/due")
    assert "Not confirmed since" in viewer.page(f"/memories/{uid}")
    viewer.send("/do/confirm", id=uid, back="/memories/due")
    assert "Nothing is due" in viewer.page("/memories/due")
    assert harken.memories.get(uid).confirmed_at is not None
    viewer.send("/do/review", id=uid, when="usual")
    assert harken.memories.get(uid).review_by == harken.memories.get(uid).suggested_review
    viewer.send("/do/review", id=uid, when="never")
    assert harken.memories.get(uid).review_by is None
    assert viewer.send("/do/review", id=uid, when="day").status_code == 422


def test_topics_are_looked_for_anew_behind_the_page(
    ready_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    settings = {"embedding.min_message_tokens": 3}
    with Harken(ready_home, settings=settings, embedder=HashingEmbedder(), env={}) as harken:
        viewer = Viewer.of(harken, Daemon(harken, DaemonPaths(str(tmp_path))))
        assert "No topics yet" in viewer.page("/topics")
        for theme, words in THEMES.items():
            for n in range(5):
                harken.record_message(f"{theme} {n}", "user", f"How do {words} go together in week {n}?")
                harken.record_message(f"{theme} {n}", "assistant", f"We decided to begin with {words.split()[0]}.")
                harken.end_exchange(f"{theme} {n}")
        harken.embed()
        # Reading looks for none.
        assert "No topics yet" in viewer.page("/topics")
        assert harken.topics.list() == []
        assert viewer.send("/do/topics").headers["location"] == f"{PREFIX}/topics"
        topic = harken.topics.list()[0]
        assert topic.name in html.unescape(viewer.page("/topics"))
        drawn = viewer.get("/topics/map").json()
        assert {place[3] for place in drawn["points"]} == {
            place.conversation_uid for each in harken.topics.list() for place in each.members
        }
        assert (
            viewer.send("/do/rename", id=topic.uid, name="Kitchen").headers["location"]
            == f"{PREFIX}/topics/{topic.uid}"
        )
        assert "Kitchen</h1>" in viewer.page(f"/topics/{topic.uid}")
        told = viewer.page("/digest")
        assert "Kitchen" in told
        assert "We decided to begin with" in told
        monkeypatch.setattr(topics, "_DIGESTED", 1)
        later = re.search(r'href="(\?[^"]*)" rel="next"', viewer.page("/digest"))
        assert later is not None
        assert "Kitchen" not in viewer.page(f"/digest{html.unescape(later[1])}")
        assert viewer.get("/digest?offset=-1").status_code == 422
        question = f"How do {THEMES['baking']} go together in week 3?"
        assert "Asked before, " in viewer.page(f"/digest?{urlencode({'q': question})}")
        assert harken.chats.past_log() == [], "a page that is looked at writes nothing"


def test_while_topics_are_looked_for_the_page_says_so(harken: Harken, viewer: Viewer) -> None:
    pytest.importorskip("sklearn")
    with ThreadPoolExecutor(1) as others:
        # What is found cannot be kept until this ends.
        with harken.recorder.store.writing():
            sent = others.submit(viewer.send, "/do/topics")
            while "Looking for topics" not in viewer.page("/topics"):
                assert not sent.done()
            assert viewer.send("/do/topics").status_code == 303
        assert sent.result().status_code == 303
    page = viewer.page("/topics")
    assert "Looking for topics" not in page
    assert "They were not found" not in page


def test_what_is_under_way_is_begun_once_and_says_why_it_failed() -> None:
    jobs = PageJobs()
    assert jobs.begin("topics")
    assert not jobs.begin("topics")
    assert jobs.since("topics") is not None

    def fail() -> None:
        raise UsageError("Install what finds them.")

    jobs.run("topics", fail)
    assert (jobs.since("topics"), jobs.failure("topics")) == (None, "Install what finds them.")
    assert jobs.begin("topics")
    assert jobs.failure("topics") == ""


def test_what_memory_did_is_told_by_week_agent_and_project(harken: Harken, viewer: Viewer) -> None:
    ids = fill(harken)
    took = [("claude-code", milliseconds) for milliseconds in (20.0, 30.0, 400.0)]
    harken.chats.note_given(ids["conversation"], {ids["memory"]: "similar"}, lambda: False, 1234, took=took)
    harken.feedback.rate(ids["memory"], "useful")
    page = viewer.page("/statistics")
    assert "1 of 1</td>" in page
    assert "1,234" in page
    assert "100 % of 1" in page
    line = re.search(r"<td>(\d{4}-W\d\d)</td><td>claude-code</td><td class=\"n\">3</td>", page)
    assert line is not None
    assert line[1] in page[: page.index("How long hooks took")]


def test_charts_begin_months_and_weeks_by_the_clock_on_the_wall(
    harken: Harken, viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """West of Greenwich the bar of November stood at the 31st of October."""
    harken.chats.note_given(fill(harken)["conversation"], {}, lambda: False, 0, took=[("claude-code", 20.0)])
    try:
        with monkeypatch.context() as away:
            away.setenv("TZ", "America/New_York")
            time.tzset()
            charts = re.findall(r'data-chart="(.*?)"', viewer.page("/spend") + viewer.page("/statistics"))
            firsts = [datetime.fromtimestamp(json.loads(html.unescape(each))["x"][0]) for each in charts]
    finally:
        time.tzset()
    assert [each.hour for each in firsts] == [0] * len(charts)
    assert [each.day for each in firsts[:2]] == [1, 1]
    assert {each.weekday() for each in firsts[2:]} == {0}
