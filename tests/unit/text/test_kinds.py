from __future__ import annotations

import numpy as np
import pytest

from harken.text.kinds import RULE, TALK, leaning

MODELS = {"bge-small-en-v1.5/int8/384": 384, "use-multilingual-v3/int6/512": 512}


@pytest.mark.parametrize("kind", [TALK, RULE])
@pytest.mark.parametrize("model", MODELS)
def test_a_kind_is_told_by_each_model_that_it_was_trained_by_and_by_its_spaces(kind: str, model: str) -> None:
    vectors = np.eye(MODELS[model], dtype=np.float32)[:3]
    of_model = leaning(kind, model, vectors)
    assert of_model is not None
    assert of_model.shape == (3,)
    of_space = leaning(kind, f"{model}/foreign", vectors)
    assert of_space is not None
    assert np.array_equal(of_model, of_space)


@pytest.mark.parametrize("model", ["hashing/64", "bge-small-en-v1.5/int8/3840", ""])
def test_no_other_model_tells_a_kind(model: str) -> None:
    assert leaning(TALK, model, np.zeros((1, 384), dtype=np.float32)) is None
