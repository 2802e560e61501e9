from __future__ import annotations

import subprocess
import sys
import time

import httpx
import numpy as np
import pytest

from harken.errors import EndpointError
from harken.testing import EmbeddingServer, HashingEmbedder, Reply, hashed_vectors


def test_texts_that_share_words_are_near_each_other() -> None:
    cat, same, other = hashed_vectors(["the black cat sleeps", "A CAT sleeps", "quarterly revenue report"], 256)
    assert cat @ same > 0.5 > 0.2 > cat @ other


def test_hashed_vectors_are_the_same_in_every_process() -> None:
    code = "from harken.testing import hashed_vectors; print(hashed_vectors(['one two'], 32)[0].nonzero()[0].tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(hashed_vectors(["one two"], 32)[0].nonzero()[0].tolist())


@pytest.mark.parametrize("text", ["", " ", "...", "\ud83d"])
def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    assert np.isclose(np.linalg.norm(hashed_vectors([text], 16)), 1)


def test_the_hashing_embedder_counts_and_fails_as_told() -> None:
    embedder = HashingEmbedder(dims=32, name="old")
    embedder.fail(None, EndpointError("down"))
    assert embedder.embed_passages(["a", "b"]).shape == (2, 32)
    with pytest.raises(EndpointError, match="down"):
        embedder.embed_query("c")
    assert embedder.embed_query("c").shape == (32,)
    assert (embedder.calls, embedder.embedded) == (3, 3)
    assert embedder.space.id == "testing-hash/old/32"


def test_the_hashing_embedder_takes_no_texts() -> None:
    assert HashingEmbedder(dims=8).embed_passages([]).shape == (0, 8)


def _post(server: EmbeddingServer, body: object, path: str = "/embeddings") -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=120)


def test_the_server_answers_in_openais_form() -> None:
    with EmbeddingServer(dims=8) as server:
        answer = _post(server, {"model": "any", "input": "one two"}).json()
    assert answer["object"] == "list"
    assert answer["model"] == "any"
    assert answer["usage"] == {"prompt_tokens": 2, "total_tokens": 2}
    assert [item["index"] for item in answer["data"]] == [0]
    assert len(answer["data"][0]["embedding"]) == 8


@pytest.mark.parametrize("body", [{}, {"model": "any"}, {"model": "any", "input": []}, ["not", "an", "object"]])
def test_the_server_refuses_what_is_no_request(body: object) -> None:
    with EmbeddingServer() as server:
        assert _post(server, body).status_code == 400


def test_the_server_refuses_what_is_not_json() -> None:
    with EmbeddingServer() as server:
        assert httpx.post(server.url + "/embeddings", content=b"{", timeout=120).status_code == 400


def test_the_server_knows_one_path() -> None:
    with EmbeddingServer() as server:
        assert _post(server, {"model": "any", "input": "x"}, "/chat/completions").status_code == 404


def test_scripted_replies_are_given_in_turn() -> None:
    with EmbeddingServer() as server:
        server.script(Reply(status=429), Reply(body=b"odd"), Reply(delay_seconds=0.05))
        body = {"model": "any", "input": "x"}
        assert _post(server, body).status_code == 429
        assert _post(server, body).content == b"odd"
        begun = time.monotonic()
        assert _post(server, body).status_code == 200
        assert time.monotonic() - begun >= 0.05
        assert [request.path for request in server.requests] == ["/v1/embeddings"] * 3


def test_a_server_that_is_not_running_has_no_address() -> None:
    server = EmbeddingServer()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url
    with server:
        assert server.url.endswith("/v1")
    server.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url
