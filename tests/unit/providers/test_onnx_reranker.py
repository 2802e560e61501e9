from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from harken.providers.onnx_reranker import OnnxReranker

QUESTION = "Where did Melanie go camping?"
TEXTS = [
    "Caroline: Did you ever go camping with Melanie?",
    "Melanie: Work has been very busy.",
    "Melanie: We pitched our tents at the lake in the mountains last weekend, the kids loved it.",
    "Caroline: " + "I have been reading a lot about adoption agencies. " * 80,
]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> OnnxReranker:
    return OnnxReranker(tmp_path_factory.mktemp("home"), threads=2)


def test_the_right_answer_comes_first(reranker: OnnxReranker) -> None:
    assert int(np.argmax(reranker.score(QUESTION, TEXTS))) == 2


def test_scores_are_between_zero_and_one_and_one_a_text(reranker: OnnxReranker) -> None:
    scores = reranker.score(QUESTION, TEXTS)
    assert (scores.shape, scores.dtype) == ((4,), np.float32)
    assert np.all((scores >= 0) & (scores <= 1))


def test_scores_come_in_the_order_of_their_texts(reranker: OnnxReranker) -> None:
    forward, backward = reranker.score(QUESTION, TEXTS), reranker.score(QUESTION, TEXTS[::-1])
    assert list(np.argsort(forward)[-1:]) == [2]
    assert list(np.argsort(backward)[-1:]) == [1]


def test_no_texts_give_no_scores(reranker: OnnxReranker) -> None:
    assert reranker.score(QUESTION, []).shape == (0,)


def test_a_question_longer_than_the_model_is_cut(reranker: OnnxReranker) -> None:
    assert reranker.score("Where did Melanie go? " * 400, TEXTS).shape == (4,)


def test_threads_may_share_a_reranker(reranker: OnnxReranker) -> None:
    with ThreadPoolExecutor(4) as pool:
        best = set(pool.map(lambda _: int(np.argmax(reranker.score(QUESTION, TEXTS))), range(4)))
    assert best == {2}
