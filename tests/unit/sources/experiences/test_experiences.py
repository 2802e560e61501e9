from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harken.engine import Harken
from harken.errors import NotFoundError, UsageError
from harken.model.conversations import SearchScope
from harken.model.experience_texts import experience_entries
from harken.model.experiences import ExperienceStatus, RootCause
from harken.serve.operations.operation import Caller
from harken.serve.operations.registry import operation_of
from harken.sources.searches import EXPERIENCES
from harken.storage.records.rows import each_kept
from harken.testing.models import HashingEmbedder
from learning import FALSIFIED, STORY, go_through, run_shell
from repositories import new_repository

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)


class Clock:
    """Each look at it is a second later."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> datetime:
        self.looks += 1
        return NOON + timedelta(seconds=self.looks)


@pytest.fixture
def harken(tmp_path: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    with Harken(tmp_path, settings=engine_settings, embedder=HashingEmbedder(), env={}, now=Clock()) as opened:
        yield opened


def test_a_change_of_mind_is_a_new_iteration_and_a_note_is_none(harken: Harken) -> None:
    begun = harken.experiences.start(**STORY)
    assert (begun.status, begun.iteration_count, begun.tier) == (ExperienceStatus.ACTIVE, 1, "")
    harken.experiences.update(note="It is slow", strategy="read-the-error")
    same = harken.experiences.show(begun.uid)
    assert (same.iteration_count, same.history, same.strategy) == (1, (), "read-the-error")
    assert [note.text for note in same.notes] == ["It is slow"]
    changed = harken.experiences.update(hypothesis="The reader drops duplicates")
    assert changed.iteration_count == 2
    [before] = changed.history
    assert (before.hypothesis, before.action, before.prediction) == tuple(
        STORY[name] for name in ("hypothesis", "action", "prediction")
    )
    with pytest.raises(UsageError, match="Nothing changes"):
        harken.experiences.update(hypothesis="The reader drops duplicates")


def test_a_falsified_experience_needs_its_surprise_and_root_cause(harken: Harken) -> None:
    begun = harken.experiences.start(**STORY)
    for lacking in ("surprise", "root_cause"):
        given = {name: value for name, value in FALSIFIED.items() if name != lacking}
        with pytest.raises(UsageError, match=r"wrong-assumption, missing-knowledge.*timing-issue"):
            harken.experiences.resolve(**given)
    with pytest.raises(UsageError, match="root cause category must be one of"):
        harken.experiences.resolve(**{**FALSIFIED, "root_cause": RootCause("bad-luck", "rain")})
    assert harken.experiences.resolve(**FALSIFIED).tier == "silver"
    with pytest.raises(UsageError, match="falsified already"):
        harken.experiences.resolve(**FALSIFIED, uid=begun.uid)
    with pytest.raises(UsageError, match="cannot be changed"):
        harken.experiences.update(begun.uid, note="late")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("domain", "cooking", "debugging, refactoring, feature, testing, configuration"),
        ("strategy", "luck", "systematic-elimination, trial-and-error"),
        ("goal", " ", "goal is required: up to 1,000 characters"),
        ("prediction", "x" * 1001, "prediction has 1,001 characters; at most 1,000"),
    ],
)
def test_limits_are_told_with_what_is_allowed(harken: Harken, name: str, value: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        harken.experiences.start(**{**STORY, name: value})
    assert harken.experiences.list() == []


def test_longer_texts_have_their_own_limit(harken: Harken) -> None:
    harken.experiences.start(**STORY)
    with pytest.raises(UsageError, match="note has 2,001 characters; at most 2,000"):
        harken.experiences.update(note="x" * 2001)
    with pytest.raises(UsageError, match="result has 2,001 characters"):
        harken.experiences.resolve("confirmed", "x" * 2001)
    with pytest.raises(UsageError, match="result is required"):
        harken.experiences.resolve("confirmed")
    with pytest.raises(UsageError, match="confirmed, falsified, abandoned"):
        harken.experiences.resolve("done")
    assert harken.experiences.resolve("abandoned").tier == "abandoned"


def test_a_project_and_an_agent_have_one_active_experience(harken: Harken, tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    first = harken.experiences.start(**STORY)
    with pytest.raises(UsageError, match=first.uid):
        harken.experiences.start(**STORY)
    other = harken.experiences.start(**STORY, agent="codex")
    third = harken.experiences.start(**STORY, directory=tmp_path / "house")
    assert len({first.uid, other.uid, third.uid}) == 3
    found = harken.experiences.active(directory=tmp_path / "house")
    assert found is not None
    assert found.experience.uid == third.uid


def test_what_is_active_in_a_folder_stays_so_when_the_folder_gets_a_remote(harken: Harken, tmp_path: Path) -> None:
    house = new_repository(tmp_path / "house")
    (kitchen := house.root / "kitchen").mkdir()
    begun = harken.experiences.start(**STORY, directory=house.root)
    house.git("remote", "add", "origin", "https://github.com/acme/house.git")
    found = harken.experiences.active(directory=kitchen)
    assert found is not None
    assert found.experience.uid == begun.uid
    with pytest.raises(UsageError, match=begun.uid):
        harken.experiences.start(**STORY, directory=kitchen)
    harken.experiences.resolve("abandoned", directory=kitchen)
    again = harken.experiences.start(**STORY, directory=kitchen)
    assert harken.experiences.update(note="It is slow", directory=kitchen).uid == again.uid


def test_after_a_crash_the_experience_is_offered_again(tmp_path: Path, engine_settings: dict[str, Any]) -> None:
    crashed = Harken(tmp_path, settings=engine_settings, env={"HARKEN_EMBEDDER": "none"})
    begun = crashed.experiences.start(**STORY, session="one")
    mine = crashed.experiences.active(session="one")
    assert mine is not None
    assert not mine.is_orphan
    # Neither closed nor resolved: what is left is what the disk has.
    with Harken(tmp_path, settings=engine_settings, env={"HARKEN_EMBEDDER": "none"}) as harken:
        found = harken.experiences.active(session="two")
        assert found is not None
        assert (found.experience, found.is_orphan) == (begun, True)
        assert harken.experiences.adopt(session="two").session == "two"
        again = harken.experiences.active(session="two")
        assert again is not None
        assert not again.is_orphan
        assert harken.experiences.resolve("abandoned").status is ExperienceStatus.ABANDONED
        with pytest.raises(UsageError, match="only an active one"):
            harken.experiences.adopt(begun.uid)
        with pytest.raises(NotFoundError, match="No experience is active"):
            harken.experiences.adopt()
    crashed.close()


def test_each_axis_finds_an_experience_and_shows_it_whole(harken: Harken) -> None:
    one = go_through(harken)
    harken.embed()
    texts = {entry.part: entry.text for entry in experience_entries(one)}
    assert texts == {
        "full": "Goal: Find out why the importer loses rows\n"
        "Hypothesis: The reader skips lines that end in a carriage return\n"
        "Action: Fed it the same file with each kind of line ending\n"
        "Prediction: Only the file with carriage returns loses rows\n"
        "Outcome: falsified - All three files lost 12 rows\n"
        "Surprise: Line endings had nothing to do with it\n"
        "Lesson: Counting what was dropped, and why, before reading code",
        "strategy": "Strategy: systematic-elimination\n"
        "Applied to: Find out why the importer loses rows\n"
        "Outcome: falsified after 1 iteration\n"
        "What worked: Counting what was dropped, and why, before reading code",
        "surprise": "Expected: Only the file with carriage returns loses rows\n"
        "Actual: All three files lost 12 rows\n"
        "Surprise: Line endings had nothing to do with it\n"
        "Root cause: wrong-assumption - The rows were duplicates and dropped on purpose",
        "root_cause": "Category: wrong-assumption\n"
        "Description: The rows were duplicates and dropped on purpose\n"
        "Context: debugging - systematic-elimination\n"
        "Original hypothesis: The reader skips lines that end in a carriage return",
    }
    story = (
        "**Experience**: debugging | systematic-elimination\n"
        "- **Goal**: Find out why the importer loses rows\n"
        "- **Hypothesis**: The reader skips lines that end in a carriage return\n"
        "- **Action**: Fed it the same file with each kind of line ending\n"
        "- **Prediction**: Only the file with carriage returns loses rows\n"
        "- **Outcome**: falsified - All three files lost 12 rows\n"
        "- **Surprise**: Line endings had nothing to do with it\n"
    )
    cause = "- **Root cause**: wrong-assumption - The rows were duplicates and dropped on purpose\n"
    lesson = "- **Lesson**: Counting what was dropped, and why, before reading code"
    for axis in texts:
        facets = (
            f"axis:{axis}",
            "domain:debugging",
            "strategy:systematic-elimination",
            "outcome:falsified",
            "tier:silver",
        )
        [hit] = harken.search("importer rows", scope=SearchScope(facets=facets)).hits
        with harken.store.reading() as tx:
            [item] = EXPERIENCES.items(tx, [hit, hit])
        assert item.content == story + (cause if axis in ("surprise", "root_cause") else "") + lesson
        assert item.source == "experience"
        assert item.metadata == {
            "id": one.uid,
            "domain": "debugging",
            "strategy": "systematic-elimination",
            "outcome_status": "falsified",
            "confidence_tier": "silver",
            "iteration_count": 1,
        }


def test_what_is_not_there_has_no_line_and_no_axis(harken: Harken) -> None:
    one = go_through(harken, status="abandoned")
    assert {entry.part: entry.text.splitlines()[-1] for entry in experience_entries(one)} == {
        "full": "Outcome: abandoned",
        "strategy": "Outcome: abandoned after 1 iteration",
    }
    begun = harken.experiences.start(**STORY)
    assert list(experience_entries(begun)) == []


def test_the_rule_gives_each_tier(harken: Harken) -> None:
    vague = {"hypothesis": "Something is wrong with it", "prediction": "It should work then"}
    confirmed: dict[str, Any] = {"status": "confirmed", "result": "It did"}
    assert go_through(harken, **vague, **confirmed).tier == "bronze"
    assert go_through(harken, prediction="The tests will pass", **confirmed).tier == "bronze"
    assert go_through(harken, **confirmed).tier == "silver"
    assert go_through(harken, **vague, status="abandoned").tier == "abandoned"
    harken.experiences.start(**STORY)
    run_shell(harken, "pytest", "5 passed in 0.1s")
    assert harken.experiences.resolve().tier == "gold"


def test_a_test_that_ran_suggests_the_outcome_and_makes_it_captured(harken: Harken) -> None:
    run_shell(harken, "pytest", "1 failed in 0.1s")
    harken.experiences.start(**STORY)
    found = harken.experiences.active()
    assert found is not None
    assert found.suggestion is None, "a result from before the experience says nothing of it"
    evidence = run_shell(harken, "pytest -x", "tests/a.py .\n====== 5 passed in 0.32s ======")
    run_shell(harken, "ls", "a.py")
    found = harken.experiences.active()
    assert found is not None
    assert found.suggestion is not None
    assert (found.suggestion.status, found.suggestion.command) == (ExperienceStatus.CONFIRMED, "pytest -x")
    one = harken.experiences.resolve()
    assert one.outcome is not None
    assert one.outcome.auto_captured
    assert (one.outcome.result, one.outcome.evidence_uid) == ("5 passed in 0.32s", evidence)


def test_an_outcome_that_no_test_says_is_not_captured(harken: Harken) -> None:
    harken.experiences.start(**STORY)
    with pytest.raises(UsageError, match="No test or build has run"):
        harken.experiences.resolve()
    run_shell(harken, "pytest", "5 passed in 0.1s")
    one = harken.experiences.resolve(**FALSIFIED)
    assert one.outcome is not None
    assert (one.outcome.auto_captured, one.tier) == (False, "silver")


def test_a_new_attempt_is_not_judged_by_an_older_result(harken: Harken) -> None:
    harken.experiences.start(**STORY)
    run_shell(harken, "pytest", "1 failed in 0.1s")
    harken.experiences.update(hypothesis="The reader drops duplicates")
    found = harken.experiences.active()
    assert found is not None
    assert found.suggestion is None


def test_a_predicted_failure_is_confirmed_by_one(harken: Harken) -> None:
    harken.experiences.start(**{**STORY, "prediction": "test_reader fails with a clear message"})
    run_shell(harken, "pytest", "FAILED tests/a.py::test_reader\n1 failed in 0.1s")
    found = harken.experiences.active()
    assert found is not None
    assert found.suggestion is not None
    assert found.suggestion.status is ExperienceStatus.CONFIRMED


@pytest.mark.parametrize(
    ("prediction", "printed", "status"),
    [
        ("The failing test goes green", "3 passed in 0.1s", ExperienceStatus.CONFIRMED),
        ("Nothing breaks", "3 passed in 0.1s", ExperienceStatus.CONFIRMED),
        ("Errors are logged as JSON", "3 passed in 0.1s", ExperienceStatus.CONFIRMED),
        ("Failed uploads are tried again", "3 passed in 0.1s", ExperienceStatus.CONFIRMED),
        ("The test fails on main and passes here", "3 passed in 0.1s", ExperienceStatus.CONFIRMED),
        ("The fix prevents crashes on start", "3 passed in 0.1s", ExperienceStatus.CONFIRMED),
        ("The test will still fail without the fix", "1 failed in 0.1s", ExperienceStatus.CONFIRMED),
        ("Disabling the cache will make the test fail", "3 passed in 0.1s", ExperienceStatus.FALSIFIED),
        ("If it is not the cache, the build breaks", "3 passed in 0.1s", ExperienceStatus.FALSIFIED),
    ],
)
def test_a_failure_is_predicted_only_where_one_is_to_happen(
    harken: Harken, prediction: str, printed: str, status: ExperienceStatus
) -> None:
    harken.experiences.start(**{**STORY, "prediction": prediction})
    run_shell(harken, "pytest", printed)
    found = harken.experiences.active()
    assert found is not None
    assert found.suggestion is not None
    assert found.suggestion.status is status


def test_lists_are_limited(harken: Harken) -> None:
    first = go_through(harken)
    second = go_through(harken, domain="security", status="confirmed", result="It did")
    assert [one.uid for one in harken.experiences.list()] == [second.uid, first.uid]
    assert [one.uid for one in harken.experiences.list(domain="debugging")] == [first.uid]
    assert [one.uid for one in harken.experiences.list(outcome="confirmed")] == [second.uid]
    assert [one.uid for one in harken.experiences.list(since=second.created_at)] == [second.uid]
    assert harken.experiences.list(1) == [second]
    assert harken.experiences.list(1, offset=1) == [first]
    assert operation_of("experiences").call(harken, {"offset": 501}, Caller()) == {
        "experiences": [],
        "next_offset": None,
    }
    for limits, says in (((0,), "limit"), ((501,), "limit")):
        with pytest.raises(UsageError, match=says):
            harken.experiences.list(*limits)
    with pytest.raises(UsageError, match="active, confirmed"):
        harken.experiences.list(outcome="won")
    with pytest.raises(UsageError, match="domain must be one of debugging, "):
        harken.experiences.list(domain="debuging")


def test_forgotten_experiences_leave_rows_entries_and_journal(harken: Harken, tmp_path: Path) -> None:
    one = go_through(harken)
    assert harken.experiences.forget(one.uid[:13]) == one.uid
    assert harken.experiences.list() == []
    assert not harken.search("importer rows").hits
    for file in (tmp_path / "conversations").rglob("*.jsonl"):
        assert b"importer" not in file.read_bytes()


def test_experiences_come_back_from_the_journal_and_from_an_export(tmp_path: Path) -> None:
    env = {"HARKEN_EMBEDDER": "none"}
    with Harken(tmp_path / "a", env=env) as harken:
        go_through(harken)
        harken.experiences.start(**STORY)
        harken.experiences.update(prediction="None is lost", note="odd")
        before = harken.experiences.list()
        for _ in harken.maintenance.reindex_from_journal():
            pass
        assert harken.experiences.list() == before
        with harken.store.reading() as tx:
            records = list(each_kept(tx, "experience"))
        file = tmp_path / "all.jsonl"
        with file.open("wb") as out:
            harken.maintenance.export(out)
        assert harken.maintenance.doctor() == []
    with Harken(tmp_path / "b", env=env) as other:
        other.import_transcripts("jsonl", [file], as_mine=True)
        with other.store.reading() as tx:
            assert [replace(one, project=None) for one in each_kept(tx, "experience")] == [
                replace(one, project=None) for one in records
            ]
        assert len(other.search("importer").hits) > 0
