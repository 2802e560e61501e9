"""`harken view` with a daemon of its own: a link that opens the pages once, on a port that nobody else is served by."""

from __future__ import annotations

import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from coding_agent import PATIENCE_SECONDS, end
from command_line import CommandLine
from harken.serve.daemon.paths import DaemonPaths


def test_a_link_is_printed_once_and_the_command_ends_when_it_was_opened(
    filled: CommandLine, place: DaemonPaths
) -> None:
    try:
        with filled.running("view", "--no-browser", stdout=subprocess.PIPE) as viewing:
            assert viewing.stdout is not None
            url = viewing.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/open\?key=[\w-]{43}", url)
            assert viewing.poll() is None
            base = url.partition("/open")[0]
            with httpx.Client(timeout=PATIENCE_SECONDS) as browser:
                assert browser.get(f"{base}/").status_code == 403
                assert browser.get(url).status_code == 200
                assert viewing.wait(PATIENCE_SECONDS) == 0
                assert "Tomatoes" in browser.get(f"{base}/").text
                assert browser.get(url).status_code == 403
                with browser.stream("GET", f"{base}/live") as live:
                    assert '"messages": 6' in next(live.iter_text())
                    # An open page is no reason for a daemon to stay.
                    filled("serve", "--stop")
                with pytest.raises(httpx.TransportError):
                    browser.get(f"{base}/")
    finally:
        end(place)


def test_a_browser_is_started_with_a_file_of_this_user_that_goes_again(
    filled: CommandLine, place: DaemonPaths, daemon: Callable[[], int], tmp_path: Path
) -> None:
    daemon()
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    # As a browser does: it reads the file and follows its link.
    browser.write_text(
        "#!/bin/sh\n"
        f'echo "$1" > {seen}\n'
        'file="${1#file://}"\n'
        f'stat -c %a "$file" >> {seen}\n'
        f"""link=$(sed 's/.*url=\\([^"]*\\)".*/\\1/' "$file")\n"""
        f'curl -s -o {tmp_path}/page "$link"\n'
    )
    browser.chmod(stat.S_IRWXU)
    out = filled("view", settings={"BROWSER": f"{browser} %s"}).out
    address, mode = seen.read_text().split()
    assert address.startswith(f"file://{place.folder}/view-")
    assert "key" not in address
    assert mode == "600"
    assert not list(Path(place.folder).glob("view-*"))
    assert "key=" in out


def test_who_waits_for_a_browser_that_cannot_read_the_page_is_told_to_open_the_link(
    filled: CommandLine, place: DaemonPaths
) -> None:
    """Firefox as a snap, as Ubuntu has it, reads nothing below a folder whose name begins with a dot."""
    person = CommandLine(filled.home, filled.person, {**filled.settings, "BROWSER": "true %s"})
    try:
        with person.running("view", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as viewing:
            assert viewing.stdout is not None
            assert viewing.stderr is not None
            url = viewing.stdout.readline().strip()
            assert "open the link above" in viewing.stderr.readline()
            assert httpx.get(url, timeout=PATIENCE_SECONDS).status_code == 200
            assert viewing.wait(PATIENCE_SECONDS) == 0
    finally:
        end(place)


def test_the_link_is_made_for_the_local_socket_alone(filled: CommandLine, place: DaemonPaths) -> None:
    with filled.running("serve", "--tcp", "--port", "0", stderr=subprocess.PIPE) as serving:
        assert serving.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", serving.stderr.readline() + serving.stderr.readline())
        assert found is not None
        token = Path(place.token).read_text().strip()
        headers = {"authorization": f"Bearer {token}"}
        answer = httpx.post(f"{found[0]}/v1/view", headers=headers, json={}, timeout=PATIENCE_SECONDS)
        assert answer.status_code == 403
        assert "url" not in answer.text


def test_a_store_beside_the_home_is_named_where_it_can_be_set(cli: CommandLine) -> None:
    assert "Set store in harken.toml" in cli("--store", "postgresql://x@y/z", "view", code=2).err
    assert "settings file" in cli("config", "set", "store", "postgresql://x@y/z", code=2).err
