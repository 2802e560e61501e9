from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.engine import Harken
from harken.errors import MissingExtraError, NotFoundError, UsageError
from harken.model.conversations import SearchScope
from harken.model.experience_texts import in_a_sentence
from harken.model.experiences import Lesson
from harken.providers.clusters import density_clusters, follow, weighted_centroid
from harken.sources.searches import VALUES
from harken.testing.models import HashingEmbedder, hashed_vectors
from learning import FALSIFIED, STORY, THEMES, go_through, learn_themes

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)


@pytest.fixture
def harken(tmp_path: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    moments = iter(range(10**6))
    with Harken(
        tmp_path,
        settings=engine_settings,
        embedder=HashingEmbedder(),
        env={},
        now=lambda: NOON + timedelta(seconds=next(moments)),
    ) as opened:
        yield opened


def test_few_experiences_make_no_clusters_and_say_so(harken: Harken) -> None:
    with pytest.raises(UsageError, match="nothing is embedded"):
        harken.values.clusters()
    learn_themes(harken, 6)
    [found] = harken.values.clusters("full")
    assert (found.experiences, found.clusters) == (18, ())
    assert found.note == "Axis full has 18 experiences; clusters need 20."
    with pytest.raises(UsageError, match="full, strategy, surprise, root_cause"):
        harken.values.clusters("domain")


def test_experiences_without_a_vector_are_counted_and_called_for_where_that_helps(harken: Harken) -> None:
    learn_themes(harken, 1)
    go_through(harken)
    [few] = harken.values.clusters("full")
    assert (few.experiences, few.note) == (4, "Axis full has 4 experiences; clusters need 20.")
    for _ in range(16):
        go_through(harken)
    [enough] = harken.values.clusters("full")
    said = "Axis full has 20 experiences; clusters need 20. 17 of its experiences wait for a vector: "
    assert enough.note == f"{said}harken worker run --until-idle"


def test_clusters_keep_their_ids_when_experiences_are_added(harken: Harken) -> None:
    learn_themes(harken, 8)
    [first] = harken.values.clusters("full")
    assert sorted(len(one.members) for one in first.clusters) == [8, 8, 8]
    before = {one.uid: {uid for uid, _ in one.members} for one in first.clusters}
    assert set(before) == {"full_1", "full_2", "full_3"}
    learn_themes(harken, 3, first=8)
    [second] = harken.values.clusters("full")
    after = {one.uid: {uid for uid, _ in one.members} for one in second.clusters}
    assert set(after) == set(before)
    for uid, members in before.items():
        assert members < after[uid]
    nearest = harken.values.members("full_1", 4)
    assert [one.distance for one in nearest] == sorted(one.distance for one in nearest)
    assert {one.experience.uid for one in nearest} <= after["full_1"]
    assert len(str(second.clusters)) < 5000


def test_a_value_is_kept_where_its_cluster_bears_it_out(harken: Harken) -> None:
    learn_themes(harken, 8)
    [found] = harken.values.clusters("full")
    members = harken.values.members(found.clusters[0].uid)
    [theme] = [words for words, place, _ in THEMES.values() if place in members[0].experience.goal]
    one = found.clusters[0]
    validity = harken.values.validate(theme, one.uid)
    away = np.linalg.norm(hashed_vectors([each.experience.goal for each in members], 256) - one.centroid, axis=1)
    assert validity.limit == pytest.approx(away.mean() + 0.5 * away.std(), abs=1e-5)
    assert (validity.nearest, validity.is_valid) == (one.uid, True)
    assert validity.similarity == pytest.approx(1 - validity.distance**2 / 2, abs=1e-5)
    whole = _full(members)
    value = harken.values.add(whole, one.uid, once="mine")
    assert harken.values.add(whole, one.uid, once="mine") == value, "a call that is repeated adds nothing"
    assert (value.cluster_id, value.cluster_size, value.axis) == (one.uid, 8, "full")
    assert set(value.members) == {member.experience.uid for member in members}
    assert (value.domains, value.strategies) == (("debugging",), ("systematic-elimination",))
    with pytest.raises(UsageError, match="too far from"):
        harken.values.add("Always water tomatoes in the evening", one.uid)
    other = found.clusters[1].uid
    with pytest.raises(UsageError, match=f"nearer to {one.uid} than to {other}|too far from {other}"):
        harken.values.add(whole, other)
    with pytest.raises(UsageError, match="value has 501 characters"):
        harken.values.add("x" * 501, one.uid)
    with pytest.raises(NotFoundError, match="harken values clusters"):
        harken.values.add("anything", "full_99")
    assert harken.values.list() == [value] == harken.values.list("full")
    assert harken.values.list("surprise") == []
    [hit] = harken.search(theme, scope=SearchScope(sources=("value",), facets=("domain:debugging",))).hits
    with harken.store.reading() as tx:
        [item] = VALUES.items(tx, [hit])
    assert item.content == f"**Value** (full, cluster size: 8):\n{whole}"
    assert item.metadata == {
        "id": value.uid,
        "axis": "full",
        "cluster_id": one.uid,
        "cluster_size": 8,
        "similarity_to_centroid": value.similarity_to_centroid,
    }
    assert harken.values.forget(value.uid) == value.uid
    assert harken.values.list() == []


def test_a_value_that_is_added_again_stands_there_once(harken: Harken) -> None:
    learn_themes(harken, 8)
    cluster = harken.values.clusters("full")[0].clusters[0].uid
    whole = _full(harken.values.members(cluster))
    value = harken.values.add(whole, cluster)
    assert harken.values.add(f" {whole.upper()}\n", cluster) == value
    assert harken.values.list() == [value]


def test_a_principle_in_a_sentence_is_borne_out_by_what_its_members_have_learned(harken: Harken) -> None:
    """Stories lie nearer to each other than any sentence to them, so sentences are measured by sentences."""
    for number in range(8):
        for words, place, thing in THEMES.values():
            go_through(
                harken,
                goal=f"Repair the {place} of customer {number} as they told it on the phone",
                hypothesis=f"The {words} of {thing} {number} differs from what everybody says of it",
                action=f"Compared {words} with the {place} that the customer {number} saw then",
                prediction=f"The {thing} and its {words} agree again",
                status="confirmed",
                result=f"The {words} agreed",
                lesson=Lesson(f"Looking at {words} before anything else" + " whatever it takes" * (number % 2)),
            )
    harken.embed()
    [found] = harken.values.clusters("full")
    for one in found.clusters:
        [shown] = harken.values.members(one.uid, 1)
        member = shown.experience
        assert member.lesson is not None
        assert shown.said == member.lesson.what_worked
        [words] = [words for words, place, _ in THEMES.values() if place in member.goal]
        principle = f"Before anything else, looking at {words}"
        validity = harken.values.validate(principle, one.uid)
        assert validity.distance > one.mean_distance + 0.5 * one.deviation
        assert validity.is_valid
        other = next(each.uid for each in found.clusters if each is not one)
        assert not harken.values.validate(principle, other).is_valid


def test_each_axis_has_a_sentence_of_its_own(harken: Harken) -> None:
    whole = go_through(harken)
    assert in_a_sentence(whole, "full") == in_a_sentence(whole, "strategy") == FALSIFIED["lesson"].what_worked
    assert in_a_sentence(whole, "surprise") == FALSIFIED["surprise"]
    assert in_a_sentence(whole, "root_cause") == FALSIFIED["root_cause"].description
    plain = go_through(harken, status="confirmed", result="It did")
    assert in_a_sentence(plain, "full") == in_a_sentence(plain, "surprise") == STORY["goal"]


def _full(members: Any) -> str:
    """The words that all members share, as often as they have them."""
    texts = [
        f"Goal: {one.experience.goal} Hypothesis: {one.experience.hypothesis} Action: {one.experience.action} "
        f"Prediction: {one.experience.prediction} Outcome: confirmed - {one.experience.outcome.result}"
        for one in members
    ]
    shared = set.intersection(*(set(text.split()) for text in texts))
    return " ".join(word for word in texts[0].split() if word in shared)


def test_ids_outlive_the_rows_through_the_values_that_name_them(tmp_path: Path) -> None:
    with Harken(tmp_path, embedder=HashingEmbedder(), env={}) as harken:
        learn_themes(harken, 8)
        [found] = harken.values.clusters("full")
        last = found.clusters[-1]
        harken.values.add(_full(harken.values.members(last.uid)), last.uid)
        members = {uid for uid, _ in last.members}
    for file in tmp_path.glob("harken.db*"):
        file.unlink()
    with Harken(tmp_path, embedder=HashingEmbedder(), env={}) as harken:
        harken.embed()
        [value] = harken.values.list()
        [found] = harken.values.clusters("full")
        again = {one.uid: {uid for uid, _ in one.members} for one in found.clusters}
        assert again[value.cluster_id] == members


def test_a_cluster_that_is_gone_is_still_shown(harken: Harken) -> None:
    learn_themes(harken, 8)
    [found] = harken.values.clusters("full")
    gone = found.clusters[0]
    for uid, _ in gone.members[:5]:
        harken.experiences.forget(uid)
    learn_themes(harken, 2, first=8)
    names = {one.uid for one in harken.values.clusters("full")[0].clusters}
    assert {one.uid for one in found.clusters[1:]} <= names
    assert {one.experience.uid for one in harken.values.members(gone.uid)} >= {uid for uid, _ in gone.members[5:]}


def test_better_known_experiences_draw_the_centroid() -> None:
    matrix = np.eye(2, dtype=np.float32)
    x, y = weighted_centroid(matrix, [1.0, 0.2])
    assert x == pytest.approx(5 * y)
    assert np.hypot(x, y) == pytest.approx(1)


def test_clusters_are_followed_by_their_members() -> None:
    before = {"full_1": frozenset("abcde"), "full_2": frozenset("fghij")}
    assert follow(before, [frozenset("fghijk"), frozenset("abcd"), frozenset("xyz")]) == ["full_2", "full_1", None]
    halves = [frozenset("abc"), frozenset("de")]
    assert follow(before, halves) == ["full_1", None]
    assert follow({}, halves) == [None, None]
    assert follow(before, []) == []


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'harken\[clusters\]'"):
        density_clusters(np.eye(20, dtype=np.float32))
