"""Examples are embedded once for all processes of a home, before anybody waits for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harken import Harken
from harken.errors import ProviderError
from harken.providers.embedder import ExampleVectors
from harken.providers.embedders.onnx import OnnxEmbedder
from harken.providers.options import EmbedderOptions
from harken.testing import HashingEmbedder
from harken.text.words import lines_of

NAME = "world_questions"


def latin_only() -> HashingEmbedder:
    embedder = HashingEmbedder(1024)
    embedder._space = replace(embedder.space, latin_only=True)
    return embedder


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("examples-*"))


def test_another_process_reads_what_the_first_one_has_made(tmp_path: Path) -> None:
    made = ExampleVectors(tmp_path / "cache").of(HashingEmbedder(), NAME)
    assert made.shape == (len(lines_of(NAME)), 256)
    second = HashingEmbedder()
    np.testing.assert_array_equal(ExampleVectors(tmp_path / "cache").of(second, NAME), made)
    assert second.calls == 0
    assert [path.stat().st_mode & 0o777 for path in files(tmp_path / "cache")] == [0o600]


def test_models_and_lists_are_told_apart_and_what_a_list_was_before_goes(tmp_path: Path) -> None:
    examples = ExampleVectors(tmp_path)
    examples.of(HashingEmbedder(), NAME)
    [of_it] = files(tmp_path)
    old = of_it.with_name(f"{of_it.name[:-16]}{'0' * 16}")
    of_it.rename(old)
    assert examples.of(HashingEmbedder(128), NAME).shape[1] == 128
    assert examples.of(HashingEmbedder(), "vague_words").shape[1] == 256
    assert len(files(tmp_path)) == 3
    ExampleVectors(tmp_path).of(HashingEmbedder(), NAME)
    assert of_it.exists()
    assert not old.exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 4, None])
def test_a_damaged_file_is_made_anew(tmp_path: Path, content: bytes | None) -> None:
    made = ExampleVectors(tmp_path).of(HashingEmbedder(), NAME)
    [path] = files(tmp_path)
    path.write_bytes(bytes(path.stat().st_size) if content is None else content)
    np.testing.assert_array_equal(ExampleVectors(tmp_path).of(HashingEmbedder(), NAME), made)
    assert path.read_bytes() == made.tobytes()


def test_they_are_there_though_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be", encoding="utf-8")
    for folder in (tmp_path / "cache", None):
        embedder = HashingEmbedder()
        examples = ExampleVectors(folder)
        assert len(examples.of(embedder, NAME)) == len(examples.of(embedder, NAME)) == len(lines_of(NAME))
        assert embedder.calls == 1


def test_what_fails_is_tried_again(tmp_path: Path) -> None:
    embedder, examples = HashingEmbedder(), ExampleVectors(tmp_path)
    embedder.fail(ProviderError("down"))
    with pytest.raises(ProviderError):
        examples.of(embedder, NAME)
    assert len(examples.of(embedder, NAME)) == len(lines_of(NAME))


def test_what_is_kept_is_what_the_model_of_this_machine_makes(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(EmbedderOptions(home=tmp_path))
    ExampleVectors(tmp_path).of(embedder, NAME)
    kept = ExampleVectors(tmp_path).of(embedder, NAME)
    np.testing.assert_array_equal(kept, embedder.embed_passages(lines_of(NAME)))


def test_after_the_warm_up_the_first_recall_embeds_its_question_alone(ready_home: Path) -> None:
    question = "when does the deploy go out with a canary?"
    for is_first in (True, False):
        embedder = latin_only()
        with Harken(ready_home, embedder=embedder, env={}) as harken:
            if is_first:
                harken.record_message(
                    "talk", "user", "the deploy goes out on thursday with a canary and priya approves it"
                )
                harken.embed()
                loading = harken.chats.warm_up()
                assert loading is not None
                loading.result()
            before = embedder.embedded
            assert harken.chats.past(question).conversations
            # The one-shot process after it has no warm-up.
            assert embedder.embedded == before + 1
