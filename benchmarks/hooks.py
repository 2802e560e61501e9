"""How long a coding agent waits for a hook: the whole process, with a warm daemon and without one.

python benchmarks/hooks.py [--rounds 100]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harken import Harken
from harken.serve.daemon.client import wait_for
from harken.serve.daemon.place import Place
from report import DATE, keep, show

PROMPTS = ("Where did we hear fado in Lisbon?", "Which static site generator keeps old links?", "thanks")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=100)
    rounds = arguments.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        with Harken(home) as harken:
            harken.import_transcripts("jsonl", [Path(__file__).parents[1] / "examples" / "conversations.jsonl"])
            harken.embed()
        env = {"PATH": os.environ["PATH"], "HOME": folder, "HARKEN_HOME": str(home)}
        down = [timed(env, PROMPTS[0], answered=False, first=True)]
        wait_for(Place(str(home)), env, 60)
        time.sleep(3)
        bare = [started("pass") for _ in range(rounds)]
        warm = [timed(env, PROMPTS[number % 3], answered=number == 0) for number in range(rounds)]
        stop(env)
        down += [without_daemon(env) for _ in range(min(rounds, 8))]
    taken = {"interpreter alone": bare, "warm daemon": warm, "daemon down": down}
    rows = [
        {
            "what": name,
            "p50_ms": round(float(np.percentile(times, 50)), 1),
            "p95_ms": round(float(np.percentile(times, 95)), 1),
            "rounds": len(times),
        }
        for name, times in taken.items()
    ]
    show("Hooks, whole process", rows)
    keep(f"hooks-{DATE}", {"rows": rows})


def timed(env: dict[str, str], prompt: str, answered: bool, first: bool = False) -> float:
    """Milliseconds of one hook, interpreter and all."""
    payload = {"session_id": f"bench-{time.time_ns()}", "cwd": "/", "prompt": prompt}
    begun = time.perf_counter()
    done = subprocess.run(
        [str(Path(sys.executable).with_name("harken")), "hook", "UserPromptSubmit"],
        env=env,
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=True,
    )
    taken = (time.perf_counter() - begun) * 1000
    assert not answered or done.stdout, "a warm daemon has to answer"
    assert not first or not done.stdout
    return taken


def without_daemon(env: dict[str, str]) -> float:
    """Milliseconds of a hook that finds no daemon and starts one, which is ended again."""
    taken = timed(env, PROMPTS[0], answered=False, first=True)
    stop(env)
    return taken


def started(program: str) -> float:
    """Milliseconds of an interpreter that does next to nothing."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return (time.perf_counter() - begun) * 1000


def stop(env: dict[str, str]) -> None:
    """End the daemon, also one that has only just been started."""
    if wait_for(Place(env["HARKEN_HOME"]), env, 20):
        subprocess.run([sys.executable, "-m", "harken", "serve", "--stop"], env=env, check=True, capture_output=True)


if __name__ == "__main__":
    main()
