"""Where a daemon runs for the home, commands are its clients: the same answers, without loading what makes them."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from coding_agent import eventually
from command_line import CommandLine, Outcome
from learning import STORY
from quotations import steadied

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")

HEAVY = {"numpy", "sqlalchemy", "pydantic", "rich", "structlog", "harken.engine", "harken.storage"}
# It changes nothing that is asked for here, but a daemon that was started without it will not answer.
ALONE = {"HARKEN_SERVE__IDLE_SECONDS": "299"}
READING: tuple[Sequence[str], ...] = (
    ("search", "tomato seedlings", "frost"),
    ("search", "tomato", "--explain", "--limit", "2", "--mode", "keyword", "--no-untrusted"),
    ("search", "tomato", "--since", "2026-06-01", "--until", "2026-06-20", "--project", "bookkeeping"),
    ("status", "--projects"),
    ("context", "When do I plant them?"),
    ("memory", "list", "--tag", "garden", "--limit", "1"),
    ("memory", "search", "greenhouse"),
    ("list", "--project", "greenhouse"),
    ("list", "--by", "agent"),
    ("show", "1", "--outline"),
    ("stats",),
    ("assemble", "tomato", "--types", "memories,conversations"),
)


@pytest.fixture
def still(filled: CommandLine) -> CommandLine:
    """A filled store in which no worker of a daemon changes anything."""
    filled("summarizer", "off")
    return filled


def steady(outcome: Outcome) -> Outcome:
    """The outcome without what changes from one look to the next."""
    changing = re.sub(r'"accessed_at": ".*?"|^size .*$|"wal": .*$', "", outcome.out, flags=re.MULTILINE)
    return replace(outcome, out=steadied(changing))


def test_a_command_says_the_same_with_and_without_a_daemon(still: CommandLine, daemon: Callable[[], int]) -> None:
    saved = still("memory", "add", "The greenhouse opens at six.", "--tag", "garden", "--json").json()["id"]
    found = still.search("frost")[0]
    daemon()
    shown = [("show", saved), ("show", found["id"], "--around", "1"), ("show", found["conversation_id"])]
    for words in (*READING, *shown, ("memory", "show", saved)):
        for line in (words, (*words, "--json")):
            assert steady(still(*line)) == steady(still(*line, settings=ALONE)), line


def test_what_the_daemon_answers_imports_nothing_heavy(still: CommandLine, daemon: Callable[[], int]) -> None:
    daemon()
    for words in (("search", "tomato"), ("status",), ("context", "tomato"), ("memory", "list", "--json")):
        done, imported = still.imports(*words)
        assert (done.code, done.err) == (0, "")
        assert not imported & HEAVY, words


def test_what_is_changed_through_a_daemon_is_changed_for_everybody(
    still: CommandLine, daemon: Callable[[], int]
) -> None:
    daemon()

    def change(*words: str) -> str:
        done, imported = still.imports(*words)
        assert done.code == 0, done
        assert not imported & HEAVY
        return done.out

    uid = change("memory", "add", "Boots", "stand", "by", "the door.", "--category", "fact").split()[-1]
    other = change("memory", "add", "Gloves hang in the shed.").split()[-1]
    change("memory", "edit", uid, "Boots stand in the hall.", "--tag", "boots", "--importance", "0.9")
    assert still("memory", "show", uid, "--json", settings=ALONE).json()["trust"] == "owner"
    change("memory", "merge", uid, other)
    change("memory", "forget", uid)
    change("experience", "start", *(word for name, value in STORY.items() for word in (f"--{name}", value)))
    assert still("memory", "list", "--json", settings=ALONE).json() == []
    assert still("experience", "active", "--json", settings=ALONE).json() is not None


def test_what_a_daemon_refuses_is_said_by_the_command_itself(still: CommandLine, daemon: Callable[[], int]) -> None:
    daemon()
    for words in (("memory", "forget", "abcdef123456"), ("search", "x", "--since", "2026-13-45")):
        code = 2 if "--since" in words else 1
        assert still.fails(*words, code=code) == still.fails(*words, code=code, settings=ALONE)


@pytest.mark.parametrize("how", ["another clock", "another settings file", "a value set since", "stopped", "--verbose"])
def test_a_daemon_that_might_answer_otherwise_is_not_asked(
    still: CommandLine, daemon: Callable[[], int], how: str
) -> None:
    pid = daemon()
    words, settings = ["search", "tomato", "--json"], {}
    if how == "another clock":
        settings["TZ"] = "Asia/Tokyo"
    elif how == "another settings file":
        (still.home / "harken.toml").write_text("[search]\nlimit = 1\n", encoding="utf-8")
    elif how == "a value set since":
        still("config", "set", "search.limit", "1")
    elif how == "--verbose":
        words.insert(0, how)
    else:
        os.kill(pid, signal.SIGSTOP)
    asked, imported = still.imports(*words, settings=settings)
    os.kill(pid, signal.SIGCONT)
    assert asked.out == still(*words, settings={**settings, **ALONE}).out
    # What is set at run time is heard by every process; a daemon that takes up another file answers again.
    assert how == "another settings file" or ("harken.engine" in imported) == (how != "a value set since")


def test_a_daemon_of_a_home_that_was_made_anew_is_not_believed(still: CommandLine, daemon: Callable[[], int]) -> None:
    daemon()
    still("reindex", "--from-journal")
    assert still.search("frost")
    for file in still.home.glob("harken.db*"):
        file.unlink()
    assert still.search("frost")
    eventually(lambda: "No daemon" in still("serve", "--status").out)
