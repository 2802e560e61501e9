from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.errors import ConfigError, EndpointError
from harken.providers.embedders.openai_compatible import OpenAICompatibleEmbedder
from harken.providers.options import ChatOptions, EmbedderOptions
from harken.providers.registry import open_chat_model, open_embedder
from harken.testing import EmbeddingServer, Reply, hashed_vectors

TEXTS = ["the cat sat on the mat", "dogs bark at night", "a cat and a dog"]
KEY = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(dims=64) as running:
        yield running


def _open(url: str | None, **changes: Any) -> OpenAICompatibleEmbedder:
    values: dict[str, Any] = {"model": "test-embed", "timeout_seconds": 120.0} | changes
    embedder = open_embedder(EmbedderOptions(home=Path("unused"), name="openai-compatible", url=url, **values))
    assert isinstance(embedder, OpenAICompatibleEmbedder)
    return embedder


def test_vectors_are_those_of_the_endpoint(server: EmbeddingServer) -> None:
    embedder = _open(server.url)
    assert np.allclose(embedder.embed_passages(TEXTS), hashed_vectors(TEXTS, 64), atol=1e-6)
    assert np.allclose(embedder.embed_query(TEXTS[0]), hashed_vectors(TEXTS[:1], 64)[0], atol=1e-6)


def test_an_answer_in_another_order_is_put_right() -> None:
    with EmbeddingServer(dims=64, shuffled=True) as server:
        assert np.allclose(_open(server.url).embed_passages(TEXTS), hashed_vectors(TEXTS, 64), atol=1e-6)


def test_an_answer_without_indices_is_taken_as_it_comes(server: EmbeddingServer) -> None:
    server.script(Reply(body=json.dumps({"data": [{"embedding": [3, 4]}, {"embedding": [0, 2]}]}).encode()))
    assert np.allclose(_open(server.url).embed_passages(["a", "b"]), [[0.6, 0.8], [0, 1]])


def test_the_space_is_found_out_once(server: EmbeddingServer) -> None:
    embedder = _open(server.url, threshold=0.4)
    space = embedder.space
    assert (space.id, space.dims, space.threshold) == ("openai-compatible/test-embed/64", 64, 0.4)
    assert embedder.space == space
    assert len(server.requests) == 1


def test_dims_that_are_set_are_asked_for(server: EmbeddingServer) -> None:
    embedder = _open(server.url, dims=16)
    assert embedder.space.dims == 16
    assert embedder.embed_query("hello").shape == (16,)
    assert [request.body["dimensions"] for request in server.requests] == [16]


def test_texts_go_in_batches(server: EmbeddingServer) -> None:
    vectors = _open(server.url, batch_size=2).embed_passages([f"text {number}" for number in range(5)])
    assert [len(request.body["input"]) for request in server.requests] == [2, 2, 1]
    assert np.allclose(vectors, hashed_vectors([f"text {number}" for number in range(5)], 64), atol=1e-6)


def test_no_texts_give_no_vectors(server: EmbeddingServer) -> None:
    assert _open(server.url, dims=64).embed_passages([]).shape == (0, 64)
    assert server.requests == []


def test_prefixes_are_sent_with_the_texts(server: EmbeddingServer) -> None:
    embedder = _open(server.url, query_prefix="query: ", passage_prefix="passage: ")
    embedder.embed_query("a")
    embedder.embed_passages(["b"])
    assert [request.body["input"] for request in server.requests] == [["query: a"], ["passage: b"]]
    assert embedder.space.id.startswith("openai-compatible/test-embed/64/")


def test_long_texts_are_cut_and_torn_ones_mended(server: EmbeddingServer) -> None:
    _open(server.url, max_tokens=16).embed_passages(["я" * 1000, "torn \ud83d"])
    first, second = server.requests[0].body["input"]
    assert first == "я" * 24
    assert second == "torn ?"


def test_the_key_is_sent_as_a_bearer_token() -> None:
    with EmbeddingServer(api_key=KEY) as server:
        _open(server.url, api_key=KEY).embed_query("hello")
        with pytest.raises(EndpointError, match=r"status 401: set embedding\.api_key"):
            _open(server.url).embed_query("hello")


@pytest.mark.parametrize("status", [400, 404, 413, 429, 500, 503])
def test_a_refusal_names_the_endpoint_and_the_status(server: EmbeddingServer, status: int) -> None:
    server.script(Reply(status=status, body=b"your text was: hello"))
    with pytest.raises(EndpointError, match=f"127.0.0.1.*/v1/embeddings answers with status {status}") as caught:
        _open(server.url, api_key=KEY).embed_query("hello")
    shown = "".join(traceback.format_exception(caught.value))
    assert "your text was" not in shown
    assert KEY not in shown


@pytest.mark.parametrize(("header", "seconds"), [("30", 30.0), ("soon", None), ("", None)])
def test_an_endpoint_says_when_it_may_be_asked_again(
    server: EmbeddingServer, header: str, seconds: float | None
) -> None:
    server.script(Reply(status=429, headers=(("Retry-After", header),)))
    with pytest.raises(EndpointError, match="status 429") as caught:
        _open(server.url).embed_query("hello")
    assert getattr(caught.value, "retry_after_seconds", None) == seconds


def test_after_a_failure_the_next_call_works(server: EmbeddingServer) -> None:
    embedder = _open(server.url)
    server.script(Reply(status=503))
    with pytest.raises(EndpointError):
        embedder.embed_query("hello")
    assert embedder.embed_query("hello").shape == (64,)
    assert len(server.requests) == 2


def test_an_endpoint_that_does_not_answer_in_time_is_given_up(server: EmbeddingServer) -> None:
    server.script(Reply(delay_seconds=600))
    with pytest.raises(EndpointError, match=r"did not answer within 0\.2 s"):
        _open(server.url, timeout_seconds=0.2).embed_query("hello")


def test_an_answer_that_comes_drop_by_drop_is_given_up(server: EmbeddingServer) -> None:
    server.script(Reply(pieces=(b" ",) * 100, piece_delay_seconds=0.1))
    with pytest.raises(EndpointError, match=r"did not answer within 0\.3 s"):
        _open(server.url, timeout_seconds=0.3).embed_query("hello")


def test_an_endpoint_that_hangs_up_is_an_error(server: EmbeddingServer) -> None:
    server.script(Reply(hang_up=True))
    with pytest.raises(EndpointError, match="cannot be reached"):
        _open(server.url).embed_query("hello")


def test_an_endpoint_that_is_not_there_is_an_error(server: EmbeddingServer) -> None:
    url = server.url
    server.stop()
    with pytest.raises(EndpointError, match=r"cannot be reached \(ConnectError\)"):
        _open(url).embed_query("hello")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'"text"',
        b"{}",
        b'{"data": null}',
        b'{"data": []}',
        b'{"data": [1]}',
        b'{"data": {"embedding": [1]}}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 1, "embedding": [1]}]}',
        b'{"data": [{"index": "a", "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
        b'{"data": [{"embedding": []}]}',
        b'{"data": [{"embedding": 1}]}',
        b'{"data": [{"embedding": "AAAA"}]}',
        b'{"data": [{"embedding": [0, 0]}]}',
        b'{"data": [{"embedding": [NaN, 1]}]}',
        b'{"data": [{"embedding": [1e300, 1]}]}',
        b'{"data": [{"embedding": [null, 1]}]}',
        b"\xff\xfe",
    ],
)
def test_an_answer_that_is_not_embeddings_is_an_error(server: EmbeddingServer, body: bytes) -> None:
    server.script(Reply(body=body))
    with pytest.raises(EndpointError, match="something that is not embeddings") as caught:
        _open(server.url).embed_query("hello")
    assert caught.value.may_cost


def test_vectors_of_another_length_than_before_are_an_error(server: EmbeddingServer) -> None:
    embedder = _open(server.url)
    embedder.embed_query("hello")
    server.script(Reply(body=b'{"data": [{"index": 0, "embedding": [1, 2]}]}'))
    with pytest.raises(EndpointError, match="vectors of 2 dims, not 64") as caught:
        embedder.embed_query("hello")
    assert caught.value.may_cost


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": ""}, "needs embedding.model"),
        ({"model": None}, "needs embedding.model"),
        ({"url": None}, "needs embedding.url"),
        ({"url": "localhost:11434/v1"}, "must begin with http"),
        ({"url": "http://"}, "name a host"),
        ({"url": "http://[::1"}, "no URL"),
        ({"url": "http://me:secret@localhost/v1"}, "must hold no key"),
        ({"url": "https://a.openai.azure.com/openai?api-version=2024-10-21"}, "/openai/v1 needs no api-version"),
        ({"api_key": "line\nbreak"}, "characters that no header can carry"),
        ({"api_key": "ключ"}, "characters that no header can carry"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, Any], problem: str) -> None:
    values = {"url": "http://localhost:1/v1"} | changes
    with pytest.raises(ConfigError) as caught:
        _open(values.pop("url"), **values)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["socks://127.0.0.1:1080", "socks5://127.0.0.1:1080"])
def test_a_proxy_that_takes_another_library_is_named(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(ConfigError, match=r"ALL_PROXY.* pip install socksio"):
        _open("https://api.example.org/v1")
    with pytest.raises(ConfigError, match=r"ALL_PROXY.* pip install socksio"):
        open_chat_model(ChatOptions("openai", "m", api_key=KEY))
    _open("http://localhost:1/v1")


def test_threads_may_share_an_embedder(server: EmbeddingServer) -> None:
    embedder = _open(server.url)
    texts = [f"text number {number}" for number in range(24)]
    with ThreadPoolExecutor(6) as pool:
        vectors = np.vstack(list(pool.map(embedder.embed_query, texts)))
    assert np.allclose(vectors, hashed_vectors(texts, 64), atol=1e-6)


def test_a_closed_embedder_lets_go_of_its_connections(server: EmbeddingServer) -> None:
    embedder = _open(server.url)
    embedder.embed_query("hello")
    embedder.close()
    with pytest.raises(RuntimeError, match="closed"):
        embedder.embed_query("hello")
