"""The viewer's pages in a real browser: at two widths, light and dark, with JavaScript and without, by keys and clicks.

Needs Debian's Chromium and the package `playwright`; screenshots stay in the folder that HARKEN_SCREENSHOTS names.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from coding_agent import end
from command_line import CommandLine
from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths
from harken.testing import HashingEmbedder
from viewing import EVIL, THEMES

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
CHROMIUM = Path("/usr/bin/chromium")
AXE = (Path(__file__).parents[1] / "axe.min.js").read_text(encoding="utf-8")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}: apt-get install chromium")

Page = Any
# Colours differ by the scheme, nothing else does.
_RULES = {
    "light": "{resultTypes: ['violations']}",
    "dark": "{resultTypes: ['violations'], runOnly: ['color-contrast']}",
}
_QUESTION = "Which quay is free for the ship Aurora?"
_STORY = {"hypothesis": EVIL, "action": "Close the valve", "prediction": "No drip"}


class Seen:
    """A home with something on every page, and the ids that addresses need."""

    def __init__(self, place: Path) -> None:
        self.person = place / "person"
        self.person.mkdir()
        self.cli = CommandLine(place / "home", self.person, {"HARKEN_EMBEDDER": "none"})
        self.place = DaemonPaths(str(self.cli.home))
        harbour = place / "harbour"
        harbour.mkdir()
        yesterday = datetime.now(UTC) - timedelta(days=1)
        topic = self._find_topics(yesterday - timedelta(days=40))
        with Harken(self.cli.home, env={"HARKEN_EMBEDDER": "none"}, now=lambda: yesterday) as harken:
            asked = harken.record_message("ships", "user", _QUESTION, directory=harbour)
            harken.record_message("ships", "assistant", "grep {}", type="tool_call", tool_name="Bash", call_id="1")
            harken.record_message("ships", "tool", EVIL, type="tool_result", tool_name="Bash", call_id="1")
            harken.record_message("ships", "assistant", f"Quay seven, until Friday.\n\n```\n{EVIL}\n```")
            evil = harken.record_message("evil", "user", EVIL, author=EVIL[:40])
            memory = harken.memories.add(f"Ships moor at quay seven first. {EVIL}", "workflow", tags=("quay",)).memory
            started = harken.experiences.start("debugging", "read-the-error", goal=f"Find the leak {EVIL}", **_STORY)
            reasons = {memory.uid: "similarity 0.71 of its text", evil.uid: "words of the prompt in it"}
            harken.chats.note_given(asked.conversation_uid, reasons, lambda: False, 40, event="userpromptsubmit")
            for n in range(45):
                harken.record_message(f"long {n}", "user", f"Sentence number {n} of the log", directory=harbour)
            harken.labels.tag(asked.conversation_uid, ["quays", EVIL[-50:]])
            harken.labels.entitle(evil.conversation_uid, EVIL[:200])
            harken.memories.review(memory.uid, yesterday - timedelta(days=1))
            harken.feedback.rate(evil.uid, "wrong", question=EVIL)
        self.memory, self.asked = memory.uid, asked
        self.pages = [
            *("/", "/conversations", "/search?q=quay+Aurora+owned", "/recalls", "/memories", "/experiences", "/values"),
            *("/indexed", "/spend", "/health", "/nowhere", "/topics", "/digest?q=Which+quay+is+free", "/statistics"),
            *("/memories/due", "/conversations?tag=quays", f"/topics/{topic}"),
            f"/conversations/{asked.conversation_uid}",
            f"/messages/{evil.uid}",
            f"/memories/{memory.uid}",
            f"/experiences/{started.uid}",
            f"/forget?kind=memory&id={memory.uid}",
        ]

    def _find_topics(self, first: datetime) -> str:
        """Have topics found among conversations of three kinds, one called by words nobody means well with; its id."""
        settings, hours = {"embedding.min_message_tokens": 3}, count()
        clock = lambda: first + timedelta(hours=next(hours))  # noqa: E731 - weeks go by
        with Harken(self.cli.home, env={}, settings=settings, embedder=HashingEmbedder(), now=clock) as harken:
            for n, (theme, words) in product(range(12), THEMES.items()):
                asked = harken.record_message(f"{theme} {n}", "user", f"How do {words} go together in week {n}?")
                harken.record_message(f"{theme} {n}", "assistant", f"We decided to begin with {words}. {EVIL}")
                harken.end_exchange(f"{theme} {n}")
                took = [("claude-code", 20.0 * n), ("codex", 3.0 * n)]
                harken.chats.note_given(asked.conversation_uid, {asked.uid: "why"}, lambda: False, 40 * n, took)
            harken.embed()
            topic = harken.topics.refresh()[0]
            return harken.topics.rename(topic.uid, EVIL[:60]).uid


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    made = Seen(tmp_path_factory.mktemp("viewed"))
    yield made
    end(made.place)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # Root, as which containers run, has no sandbox; everything that is opened here is ours.
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()


_CASES = list(product((1280, 360), ("light", "dark")))
# Each width and each scheme: the schemes differ in colours alone. Whoever wants screenshots wants all.
SIZES = pytest.mark.parametrize(
    ("width", "scheme"), _CASES if "HARKEN_SCREENSHOTS" in os.environ else [_CASES[0], _CASES[-1]]
)


def test_a_dark_page_has_other_colours_and_nothing_else() -> None:
    sheet = resources.files("harken.serve.viewer").joinpath("static/harken.css").read_text(encoding="utf-8")
    (dark,) = re.findall(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}\s*\}", sheet, re.DOTALL)
    assert sheet.count("prefers-color-scheme") == 1
    assert all(re.fullmatch(r"--[\w-]+: #[0-9a-f]{6}", each.strip()) for each in dark.strip().rstrip(";").split(";"))


def opened(browser: Any, seen: Seen, **options: Any) -> tuple[Page, str]:
    """The first page in a browser of its own that came by a link, and the address of all pages."""
    page = browser.new_context(**options).new_page()
    with seen.cli.running("view", "--no-browser", stdout=subprocess.PIPE) as viewing:
        assert viewing.stdout is not None
        url = viewing.stdout.readline().strip()
        page.goto(url)
        page.wait_for_url(re.compile(r"/[0-9a-f]{32}/$"))
    return page, page.url.rstrip("/")


@SIZES
def test_every_page_is_whole_and_runs_nothing_of_what_it_shows(
    browser: Any, seen: Seen, width: int, scheme: str
) -> None:
    page, base = opened(browser, seen, viewport={"width": width, "height": 800}, color_scheme=scheme)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith((base, "data:")) else wrong.append(asked.url))
    kept = os.environ.get("HARKEN_SCREENSHOTS")
    page.set_default_timeout(10_000)
    for path in seen.pages:
        answer = page.goto(base + path)
        assert answer.status == (404 if path == "/nowhere" else 200), path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.evaluate("window.owned === undefined"), path
        assert page.evaluate("getComputedStyle(document.body).margin") == "0px", path
        if kept:
            name = re.sub(r"\W+", "-", path.partition("?")[0]).strip("-")[:20] or "home"
            page.screenshot(path=f"{kept}/{name}-{width}-{scheme}.png", full_page=True)
        # The map of days is hundreds of squares, all alike.
        page.evaluate(AXE)
        found = page.evaluate(f"axe.run({{exclude: ['.heat']}}, {_RULES[scheme]})")["violations"]
        serious = [
            (each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")
        ]
        assert not serious, (path, serious)
    # That there is no such page is the one thing that the browser says.
    assert all("404" in each for each in wrong), wrong
    page.context.close()


def test_every_page_is_whole_without_javascript(browser: Any, seen: Seen) -> None:
    # Where there is least room.
    look = {"viewport": {"width": 360, "height": 800}, "java_script_enabled": False}
    page, base = opened(browser, seen, **look)
    for path in seen.pages:
        answer = page.goto(base + path)
        assert answer.status == (404 if path == "/nowhere" else 200), path
        assert page.inner_text("h1"), path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.locator("script:not([src])").count() == 0, path
    page.context.close()


def test_without_javascript_one_reads_searches_pages_and_forgets(browser: Any, seen: Seen) -> None:
    page, base = opened(browser, seen, java_script_enabled=False)
    page.fill("input[type=search]", "Aurora")
    page.click("form[role=search] button")
    page.click(f"a.title:has-text('{_QUESTION}')")
    assert _QUESTION in page.inner_text(f"#m-{seen.asked.uid}")
    page.click("nav >> text=Conversations")
    page.click("text=Older")
    assert page.locator("li[data-row]").count() > 0
    page.goto(f"{base}/search?q=number+44")
    page.click("a.title >> nth=0")
    page.click("text=forget…")
    page.fill("#word", "forget")
    page.click("text=Forget it")
    assert page.inner_text("h1") == "Forgotten"
    page.context.close()


def test_in_three_clicks_from_home(browser: Any, seen: Seen) -> None:
    page, base = opened(browser, seen)
    # Yesterday's conversation about a project.
    page.click("section:has(h2:text('Projects')) >> text=yesterday")
    assert "harbour" in page.inner_text(".top")
    page.click("text=Older") if page.locator(f"text={_QUESTION}").count() == 0 else None
    page.click(f"text={_QUESTION}")
    assert "Quay seven, until Friday." in page.inner_text("main")
    # Why a text was recalled: on the first page, and in the margin of its conversation.
    page.goto(f"{base}/")
    assert "similarity 0.71 of its text" in page.inner_text("main")
    page.click("section:has(h2:text('Came back')) >> a.title >> nth=0")
    assert "similarity 0.71 of its text" in page.inner_text("aside.margin")
    # How to forget it.
    page.click("aside.margin a >> nth=0")
    page.click("text=Forget…")
    assert "What goes" in page.inner_text("main")
    page.context.close()


def test_keys_move_search_and_help(browser: Any, seen: Seen) -> None:
    page, base = opened(browser, seen)
    page.goto(f"{base}/memories")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "title"
    page.keyboard.press("/")
    page.wait_for_url(re.compile("/search"))
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("quay/jk?")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"q=quay%2Fjk%3F"))
    page.keyboard.press("Escape")
    page.click("h1")
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("?")
    assert not page.is_visible("#help")
    page.context.close()


def test_what_a_person_says_is_said_by_clicks_without_javascript(browser: Any, seen: Seen) -> None:
    page, base = opened(browser, seen, java_script_enabled=False)
    talk = f"{base}/conversations/{seen.asked.conversation_uid}"
    page.goto(talk)
    page.click("aside.margin li >> nth=0 >> text=useless")
    assert page.url.partition("#")[0] == talk
    assert "rated useless once" in page.inner_text("aside.margin li >> nth=0")
    page.click("aside.margin >> text=take back")
    assert page.locator("aside.margin >> text=rated useless").count() == 0
    page.fill("input[name=add]", "harbour")
    page.click("text=Add")
    page.click("text=#harbour")
    assert _QUESTION in page.inner_text("main")
    page.goto(f"{base}/")
    page.click("text=to be looked at again")
    page.click("text=It still holds")
    assert "Nothing is due" in page.inner_text("main")
    page.goto(f"{base}/topics")
    assert not page.is_visible("canvas")
    page.click("ol a.title >> nth=1")
    page.fill("#name", "Kitchen")
    page.click("text=Rename")
    assert page.inner_text("h1") == "Kitchen"
    page.context.close()


def test_the_map_leads_where_its_list_does(browser: Any, seen: Seen) -> None:
    page, base = opened(browser, seen)
    page.goto(f"{base}/topics")
    page.wait_for_selector("figure.map:not([hidden])")
    answer = page.request.get(f"{base}/topics/map").json()
    x, y, topic, uid, _title = next(point for point in answer["points"] if point[2] == 1)
    edge, side = 18, page.evaluate("document.querySelector('canvas').clientWidth")
    place = {"x": edge + (x + 1) / 2 * (side - 2 * edge), "y": edge + (1 - y) / 2 * (side - 2 * edge)}
    page.hover("canvas", position=place)
    assert answer["topics"][topic] in page.inner_text("figcaption")
    page.click("canvas", position=place)
    page.wait_for_url(re.compile("/conversations/"))
    found = page.url.rpartition("/")[2]
    assert found in {point[3] for point in answer["points"] if point[2] == 1}
    assert uid in {point[3] for point in answer["points"]}
    # Found anew behind the page, which shows it by itself.
    page.goto(f"{base}/topics")
    page.click("text=Look for them anew")
    page.wait_for_selector("text=found just now")
    page.wait_for_selector("figure.map:not([hidden])")
    # By keys the list is the map's equal.
    page.goto(f"{base}/topics")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/topics/"))
    page.context.close()


def test_charts_are_as_wide_as_their_cards(browser: Any, seen: Seen) -> None:
    page, base = opened(browser, seen)
    for path, charts in (("/spend", 2), ("/statistics", 3)):
        page.goto(base + path)
        widths = page.evaluate(
            "[...document.querySelectorAll('.chart')].map(e => [e.clientWidth, e.firstChild.clientWidth])"
        )
        assert len(widths) == charts
        assert all(chart == card > 200 for card, chart in widths), widths
    page.context.close()
