from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.errors import NotFoundError, UsageError
from harken.model.experiences import ExperienceStatus
from harken.testing.models import HashingEmbedder
from learning import STORY, run_shell


@pytest.fixture
def harken(tmp_path: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    with Harken(tmp_path, settings=engine_settings, embedder=HashingEmbedder(), env={}) as opened:
        yield opened


def work(harken: Harken, directory: Path | None = None) -> str:
    """Someone asks, a test fails, the agent says why; the id of what was printed."""
    harken.record_message("work", "user", "Make the parser accept tabs.", directory=directory)
    harken.record_message("work", "assistant", "I changed the lexer. Now test_tabs should pass.")
    uid = run_shell(harken, "pytest -q", "FAILED tests/test_lexer.py::test_tabs - assert 3 == 4\n1 failed in 0.1s")
    harken.record_message("work", "assistant", "Hm. It fails because the column counter ignores tabs.")
    return uid


def test_a_failure_without_an_experience_is_a_candidate_in_the_words_that_were_said(harken: Harken) -> None:
    evidence = work(harken)
    run_shell(harken, "pytest -q", "1 failed in 0.1s")
    [one] = harken.experiences.review()
    assert (one.goal, one.command, one.failures, one.has_passed) == (
        "Make the parser accept tabs.",
        "pytest -q",
        2,
        False,
    )
    assert one.printed == "FAILED tests/test_lexer.py::test_tabs - assert 3 == 4\n1 failed in 0.1s"
    assert one.prediction == "Now test_tabs should pass."
    assert one.hypothesis == "It fails because the column counter ignores tabs."
    assert one.evidence_uid == evidence
    run_shell(harken, "pytest -q", "4 passed in 0.1s")
    [same] = harken.experiences.review()
    assert (same.uid, same.has_passed) == (one.uid, True)


def test_a_check_is_the_same_whatever_its_output_is_passed_on_to(harken: Harken) -> None:
    run_shell(harken, "cd web && npm test 2>&1 | tail -5", "Tests:       1 failed, 3 passed, 4 total")
    run_shell(harken, "cd api && npm test | head -40", "Tests:       2 failed, 3 passed, 5 total")
    run_shell(harken, "cd web && npm test > log 2>&1; tail -40 log", "Tests:       1 failed, 3 passed, 4 total")
    run_shell(harken, "cd web && npm test", "Tests:       4 passed, 4 total")
    api, web = harken.experiences.review()
    assert (web.command, web.failures, web.has_passed) == ("cd web && npm test 2>&1 | tail -5", 2, True)
    assert (api.command, api.failures, api.has_passed) == ("cd api && npm test | head -40", 1, False)


def test_an_accepted_candidate_is_an_experience_and_no_candidate_any_more(harken: Harken, tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    work(harken, tmp_path / "house")
    [one] = harken.experiences.review()
    begun = harken.experiences.accept(one.uid[:8], domain="debugging", strategy="read-the-error")
    assert (begun.uid, begun.status, begun.action) == (one.uid, ExperienceStatus.ACTIVE, "pytest -q")
    assert [note.text for note in begun.notes] == [one.printed]
    assert harken.experiences.review() == []
    active = harken.experiences.active(directory=tmp_path / "house")
    assert active is not None
    assert active.experience == begun


@pytest.mark.parametrize("said", ["I'll run the tests now.", "Next I will run it.", "We’ll see what pytest says."])
def test_what_an_agent_does_next_is_no_prediction(harken: Harken, said: str) -> None:
    harken.record_message("work", "user", "Make the parser accept tabs.")
    harken.record_message("work", "assistant", f"That'll make test_tabs pass. {said}")
    run_shell(harken, "pytest -q", "1 failed in 0.1s")
    assert [one.prediction for one in harken.experiences.review()] == ["That'll make test_tabs pass."]


def test_a_sentence_that_names_a_file_a_version_or_a_call_is_taken_whole(harken: Harken) -> None:
    harken.record_message(
        "work", "assistant", "I changed it. Now test_tail in tests/test_lexer.py should give 3.5. Running."
    )
    run_shell(harken, "pytest -q", "1 failed in 0.1s")
    harken.record_message("work", "assistant", "Hm. It fails because `lexer.next()` of v2.1 gives None. I mend it.")
    [one] = harken.experiences.review()
    assert one.prediction == "Now test_tail in tests/test_lexer.py should give 3.5."
    assert one.hypothesis == "It fails because `lexer.next()` of v2.1 gives None."


def test_what_nobody_said_must_be_given(harken: Harken) -> None:
    run_shell(harken, "cargo test", "test result: FAILED. 1 passed; 1 failed")
    [one] = harken.experiences.review()
    assert (one.goal, one.hypothesis, one.prediction) == ("", "", "")
    with pytest.raises(UsageError, match=r"goal and hypothesis and prediction.*--goal TEXT"):
        harken.experiences.accept(one.uid, domain="debugging", strategy="read-the-error")
    assert harken.experiences.list() == []


def test_a_dismissed_candidate_stays_away(harken: Harken, engine_settings: dict[str, Any]) -> None:
    work(harken)
    [one] = harken.experiences.review()
    assert harken.experiences.dismiss(one.uid) == one.uid
    assert harken.experiences.review() == []
    if not engine_settings:
        for _ in harken.maintenance.reindex_from_journal():
            pass
        assert harken.experiences.review() == []
    with pytest.raises(NotFoundError, match="harken experience review"):
        harken.experiences.dismiss(one.uid)


def test_a_failure_during_an_experience_belongs_to_it(harken: Harken) -> None:
    harken.experiences.start(**STORY)
    work(harken)
    assert harken.experiences.review() == []


def test_a_forgotten_conversation_leaves_no_candidate(harken: Harken) -> None:
    uid = work(harken)
    assert len(harken.experiences.review()) == 1
    harken.maintenance.forget(harken.maintenance.plan_forget(messages=[uid]))
    assert harken.experiences.review() == []


def test_real_sessions_have_the_builds_that_failed_in_them(harken: Harken, shared_data: Path) -> None:
    harken.import_transcripts("claude-code", [shared_data / "transcripts" / "claude-code" / "long-conversation.jsonl"])
    found = harken.experiences.review()
    assert {one.command.partition(" 2>&1")[0] for one in found} == {"npm run build"}
    for one in found:
        assert "error TS2769: No overload matches this call." in one.printed
        assert one.goal.startswith("ok. let's use apple container")
