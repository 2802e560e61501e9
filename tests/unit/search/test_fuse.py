from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.search.candidates import fuse_ranks, fuse_scores

IDS = st.integers(1, 30)
RANKINGS = st.lists(st.lists(IDS, unique=True, max_size=12), max_size=4)
SCORES = st.dictionaries(IDS, st.floats(-1e6, 1e6), max_size=12)
PARTS = st.lists(st.tuples(st.floats(0, 1), SCORES), max_size=4)


class TestRanks:
    @given(RANKINGS)
    def test_exactly_what_was_ranked_is_scored(self, rankings: list[list[int]]) -> None:
        fused = fuse_ranks(rankings)
        assert fused.keys() == {entry_id for ranking in rankings for entry_id in ranking}
        assert all(score > 0 for score in fused.values())

    @given(RANKINGS)
    def test_no_score_exceeds_one_first_place_in_each(self, rankings: list[list[int]]) -> None:
        assert all(score <= len(rankings) / 61 + 1e-12 for score in fuse_ranks(rankings).values())

    @given(RANKINGS, st.randoms())
    def test_the_order_of_the_rankings_does_not_matter(self, rankings: list[list[int]], random: object) -> None:
        shuffled = list(rankings)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        assert fuse_ranks(shuffled) == pytest.approx(fuse_ranks(rankings))

    @given(st.lists(IDS, unique=True, min_size=2))
    def test_one_ranking_keeps_its_order(self, ranking: list[int]) -> None:
        fused = fuse_ranks([ranking])
        assert sorted(ranking, key=lambda entry_id: -fused[entry_id]) == ranking

    @given(RANKINGS)
    def test_who_is_better_in_every_ranking_is_better(self, rankings: list[list[int]]) -> None:
        fused = fuse_ranks([[0, *ranking] for ranking in rankings])
        assert all(fused[0] > score for entry_id, score in fused.items() if entry_id != 0)

    def test_a_place_is_worth_this(self) -> None:
        assert fuse_ranks([[7, 8], [8]], k=60) == pytest.approx({7: 1 / 61, 8: 1 / 62 + 1 / 61})

    def test_nothing_gives_nothing(self) -> None:
        assert fuse_ranks([]) == fuse_ranks([[], []]) == {}

    @pytest.mark.parametrize("k", [0, -1])
    def test_the_damping_is_positive(self, k: int) -> None:
        with pytest.raises(ValueError, match="k must be positive"):
            fuse_ranks([[1]], k)


class TestScores:
    @given(PARTS)
    def test_scores_lie_between_nothing_and_the_weights(self, parts: list[tuple[float, dict[int, float]]]) -> None:
        fused = fuse_scores(parts)
        assert fused.keys() == {entry_id for _, scores in parts for entry_id in scores}
        total = sum(weight for weight, _ in parts)
        assert all(-1e-9 <= score <= total + 1e-9 for score in fused.values())

    @given(SCORES.filter(lambda scores: len(scores) > 1))
    def test_one_list_keeps_its_order(self, scores: dict[int, float]) -> None:
        fused = fuse_scores([(1.0, scores)])
        ordered = sorted(scores, key=lambda entry_id: scores[entry_id])
        assert all(fused[low] <= fused[high] for low, high in itertools.pairwise(ordered))

    @given(st.dictionaries(IDS, st.integers(-1000, 1000), min_size=2), st.integers(1, 50), st.integers(-100, 100))
    def test_another_scale_changes_nothing(self, scores: dict[int, int], factor: int, shift: int) -> None:
        scaled = {entry_id: score * factor + shift for entry_id, score in scores.items()}
        assert fuse_scores([(1.0, scaled)]) == pytest.approx(fuse_scores([(1.0, scores)]))

    def test_the_best_of_a_list_gets_its_weight_and_the_worst_nothing(self) -> None:
        fused = fuse_scores([(0.25, {1: 9.0, 2: 5.0, 3: 1.0}), (0.75, {2: 0.1, 4: 0.2})])
        assert fused == pytest.approx({1: 0.25, 2: 0.125, 3: 0.0, 4: 0.75})

    def test_equal_scores_are_all_the_best(self) -> None:
        assert fuse_scores([(0.5, {1: 3.0, 2: 3.0})]) == {1: 0.5, 2: 0.5}

    def test_nothing_gives_nothing(self) -> None:
        assert fuse_scores([]) == fuse_scores([(1.0, {})]) == {}
