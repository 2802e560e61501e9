"""A browser without a screen for the viewer's pages, and words that nobody means well with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

import anyio
import httpx
import pytest
from starlette.types import ASGIApp

from harken.engine import Harken
from harken.serve.daemon.paths import DaemonPaths
from harken.serve.daemon.run import Daemon
from harken.serve.viewer.access import Browsers, Threshold
from harken.serve.viewer.app import make_pages
from harken.sources.topics.topics import MapPlace, Topic

HOST, PREFIX = "127.0.0.1:4999", "/" + "a" * 32
# What pages must show as text: a script, an event, a link that runs, a terminal's colours, letters turned round.
EVIL = (
    "<script>window.owned=1</script> <img src=x onerror='window.owned=2'> [link](javascript:window.owned=3) "
    '\x1b[31mred\x1b[0m \u202etxt.exe\u202c "><svg onload=window.owned=4> javascript:window.owned=5 {{7*7}}'
)

# Conversations about these fall into three topics.
THEMES = {
    "baking": "sourdough bread oven flour yeast dough crust",
    "deploy": "pipeline staging server release rollback canary",
    "garden": "tomato soil seeds watering plants compost",
}


@dataclass
class Viewer:
    """The pages of an open store behind their threshold, asked in this process, as a browser that was let in."""

    app: ASGIApp
    browsers: Browsers
    cookie: str = ""
    asked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, harken: Harken, daemon: Daemon) -> Viewer:
        """Open the pages, and let this browser in by a link."""
        browsers = Browsers()
        viewer = cls(Threshold(make_pages(harken, browsers, PREFIX, daemon), browsers, PREFIX, HOST), browsers)
        answer = viewer.get(f"/open?key={browsers.link()}")
        assert answer.status_code == 200
        viewer.cookie = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
        return viewer

    def ask(self, method: str, path: str, content: bytes | None = None, **headers: str) -> httpx.Response:
        """Ask for a path below the prefix, with the cookie; a header that is empty is left out."""
        given = {"host": HOST, **({"cookie": f"harken={self.cookie}"} if self.cookie else {})}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}

        async def asking() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
                sent = {name: value for name, value in given.items() if value}
                return await client.request(method, PREFIX + path, content=content, headers=sent)

        return anyio.run(asking)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Read a page."""
        return self.ask("GET", path, **headers)

    def page(self, path: str) -> str:
        """The text of a page that has to be there."""
        answer = self.get(path)
        assert answer.status_code == 200, (path, answer.text[-2000:])
        return answer.text

    def send(self, path: str, csrf: str | None = None, **fields: str) -> httpx.Response:
        """Send a form, with the token of this browser's pages unless another is given."""
        token = self.browsers.csrf(self.cookie) if csrf is None else csrf
        content = urlencode({"csrf": token or "", **fields}).encode()
        return self.ask("POST", path, content, content_type="application/x-www-form-urlencoded")


def links_in(page: str) -> list[str]:
    """Where a page leads, and what it loads."""
    return re.findall(r"""(?:href|src|action|hx-get|data-live-from)="([^"]*)\"""", page)


def make_topic(harken: Harken, name: str, conversation: str) -> str:
    """Make a topic of four conversations, one of them given; its id."""
    others = [harken.record_message(f"{name[:9]} {n}", "user", f"{name} {n}").conversation_uid for n in range(3)]
    uid = harken.show(conversation).conversation.uid
    places = tuple(MapPlace(each, n / 4, -n / 4) for n, each in enumerate([uid, *others]))
    now = datetime.now(UTC)
    topic = Topic(uuid4().hex, name[:60], (name[:30], "quay"), "words", places, now, now)
    harken.topics._save([topic])
    return topic.uid


@pytest.fixture
def harken(ready_home: Path) -> Iterator[Harken]:
    """An open store that finds things by their words."""
    with Harken(ready_home, settings={"embedder": "none"}, env={}) as opened:
        yield opened


@pytest.fixture
def viewer(harken: Harken, tmp_path: Path) -> Viewer:
    """A browser that was let in to its pages."""
    return Viewer.of(harken, Daemon(harken, DaemonPaths(str(tmp_path))))
