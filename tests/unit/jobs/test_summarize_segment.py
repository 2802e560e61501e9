from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatting import TALK, call_tool, filler, prompt, say
from harken.engine import Harken
from harken.errors import ProviderError
from harken.jobs.summarize import SummarizeSegmentWork
from harken.storage.enrichment.segments import covered_by
from harken.testing import HashingEmbedder
from recorded import Clock


@pytest.fixture
def harken(ready_home: Path) -> Iterator[Harken]:
    env = {"HARKEN_EMBEDDER": "none", "HARKEN_CONTEXT__SLIDING_WINDOW": "4", "HARKEN_AUTO_RAG__ENABLED": "false"}
    with Harken(ready_home, env=env) as harken:
        yield harken


def covered(harken: Harken) -> set[str]:
    segment = harken.chats.session(TALK, "library").segment_uid
    assert segment is not None
    with harken.store.reading() as tx:
        return covered_by(tx, segment)


def summary(harken: Harken) -> str:
    layer = harken.chats.build(harken.chats.session(TALK, "library"), ["hm"], is_preview=True).layer("summary")
    return layer.items[0].text if layer else ""


def test_it_covers_exactly_what_left_the_window_each_message_once(harken: Harken) -> None:
    said = say(harken, *filler(10))
    assert harken.chats.summarize() == 0
    harken.build_context(TALK, ["and now?"])
    assert harken.chats.summarize() == 6
    assert covered(harken) == set(said[:6])
    said += say(harken, *filler(4))
    harken.build_context(TALK, ["and now?"])
    assert harken.chats.summarize() == 4
    assert covered(harken) == set(said[:10])
    assert harken.chats.summarize() == 0


def test_what_the_budget_pushes_out_has_left_as_well(harken: Harken) -> None:
    said = say(harken, *filler(10))
    context = harken.build_context(TALK, ["and now?"], budget_tokens=60)
    window = context.layer("window")
    assert window is not None
    assert 0 < len(window.items) < 4
    harken.chats.summarize()
    assert covered(harken) == set(said[: -len(window.items)])


def test_a_window_that_grows_again_takes_nothing_back(harken: Harken) -> None:
    said = say(harken, *filler(10))
    harken.build_context(TALK, ["and now?"], budget_tokens=60)
    harken.build_context(TALK, ["and now?"])
    harken.chats.summarize()
    assert set(said[:6]) < covered(harken)


def test_looking_at_a_context_changes_nothing(harken: Harken) -> None:
    say(harken, *filler(10))
    harken.chats.build(harken.chats.find(), ["and now?"], is_preview=True)
    assert harken.chats.summarize() == 0


def test_its_words_are_those_that_were_said_and_it_never_grows_over_its_limit(harken: Harken) -> None:
    harken.run_time.set("context.summary_tokens", 60)
    for round_ in range(4):
        say(harken, *(f"Round {round_}: {text}" for text in filler(6)))
        harken.build_context(TALK, ["and now?"])
        harken.chats.summarize()
    lines = summary(harken).splitlines()
    assert 1 <= len(lines) <= 5
    assert all(line.startswith(("user: Round", "assistant: Round")) for line in lines)


def test_it_stands_fenced_between_core_memory_and_window(harken: Harken) -> None:
    harken.core.update("user", "name", "Maya")
    say(harken, "We chose PostgreSQL for the orders because of its transactions.", "Noted.", *filler(6))
    harken.build_context(TALK, ["and now?"])
    harken.chats.summarize()
    core, digest, *window = prompt(harken.build_context(TALK, ["and now?"]))
    assert core["content"].startswith("Core memory")
    assert digest["role"] == "system"
    assert digest["content"].startswith("Summary of what was said before in this conversation:\n(Quoted")
    assert '<harken-recall source="summary"' in digest["content"]
    assert "user: We chose PostgreSQL" in digest["content"]
    assert len(window) == 5


def test_it_is_no_message_and_no_search_finds_it(harken: Harken) -> None:
    say(harken, *filler(10))
    harken.build_context(TALK, ["and now?"])
    before = harken.maintenance.status().counts
    harken.chats.summarize()
    assert harken.maintenance.status().counts == before


def test_after_new_there_is_none(harken: Harken) -> None:
    say(harken, *filler(10))
    harken.build_context(TALK, ["and now?"])
    harken.chats.summarize()
    assert summary(harken)
    harken.new_segment(TALK)
    assert summary(harken) == ""


def test_tools_are_covered_and_do_not_speak(harken: Harken) -> None:
    say(harken, "Is the disk of the build machine full again?")
    pair = call_tool(harken, "c1", "df -h on the build machine, please", "91 % used of the whole disk there")
    say(harken, *filler(6))
    harken.build_context(TALK, ["and now?"])
    harken.chats.summarize()
    assert set(pair) <= covered(harken)
    assert "91 %" not in summary(harken)


def test_a_forgotten_message_leaves_the_summary_too(harken: Harken) -> None:
    said = say(harken, "My passport number is zanzibar nineteen, remember it well.", *filler(9))
    harken.build_context(TALK, ["and now?"])
    harken.chats.summarize()
    assert "zanzibar" in summary(harken)
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[said[0]]))
    assert summary(harken) == ""
    assert harken.chats.summarize() == 5
    assert "zanzibar" not in summary(harken)
    assert covered(harken) == set(said[1:6])


def test_a_forgotten_conversation_leaves_nothing(harken: Harken) -> None:
    say(harken, *filler(10))
    harken.build_context(TALK, ["and now?"])
    harken.chats.summarize()
    session = harken.chats.find()
    harken.maintenance.forget(harken.maintenance.plan_forget(conversations=[session.conversation_uid]))
    with harken.store.reading() as tx:
        for table in ("segment_summaries", "summarized_messages"):
            assert tx.connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0


def test_the_worker_makes_it_in_the_background_with_the_models_vectors(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    settings = {"context.sliding_window": 4, "worker.poll_seconds": 0.05}
    with Harken(tmp_path, env={}, settings=settings, embedder=embedder) as harken:
        harken.start_worker()
        said = say(harken, *filler(10))
        harken.build_context(TALK, ["and now?"])
        deadline = time.monotonic() + 120
        while covered(harken) != set(said[:6]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert covered(harken) == set(said[:6])


def test_after_a_model_failed_it_is_tried_again_a_little_later(harken: Harken) -> None:
    say(harken, *filler(10))
    harken.build_context(TALK, ["and now?"])
    embedder = HashingEmbedder()
    embedder.fail(ProviderError("down"))
    clock = Clock()
    work = SummarizeSegmentWork(harken.store, lambda: harken.settings, clock, embedder.embed_passages)
    assert work.run_once() == 1
    assert (covered(harken), work.waiting()) == (set(), 1)
    assert work.run_once() == 0
    clock.go_on(seconds=10)
    assert work.run_once() == 1
    assert (len(covered(harken)), work.stored, work.waiting()) == (6, 6, 0)


def test_code_and_what_says_nothing_alone_stay_out(harken: Harken) -> None:
    code = "```python\nprint('a long line of code in here')\n```"
    say(harken, f"Ok. We chose PostgreSQL for the orders.\n{code}", "Noted.", *filler(8))
    harken.build_context(TALK, ["and now?"])
    harken.chats.summarize()
    lines = summary(harken).splitlines()
    assert lines[0] == "user: We chose PostgreSQL for the orders."
    assert not [line for line in lines if line.endswith((": Ok.", ": Noted.")) or "print" in line]
