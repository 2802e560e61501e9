"""Show in under two minutes what Harken does: import conversations, embed them, search them. Run by `make demo`.

Every line that begins with `$` is a command that is really run, on a home of its own: `.demo/` in this checkout.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".demo"
TRANSCRIPTS = ROOT.parent / "shared" / "data" / "transcripts"
OWN = ROOT / "examples" / "conversations.jsonl"
FORMATS = ("claude-code", "codex", "chatgpt", "claude-ai")


def harken(*words: str) -> None:
    """Print a command and run it; a command that fails ends the demo."""
    print(f"\n$ harken {shlex.join(words)}", flush=True)
    # Nothing of the person's own settings or stores has a say here.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HARKEN_")}
    done = subprocess.run([sys.executable, "-m", "harken", *words], env={**kept, "HARKEN_HOME": str(HOME)}, check=False)
    if done.returncode != 0:
        print(f"\nThe demo stopped: that command ended with {done.returncode}.", file=sys.stderr)
        sys.exit(done.returncode)


def main() -> None:
    """Import what there is, and search it."""
    began = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    print("Harken finds things again in the conversations that you have had with your agents.")
    real = [name for name in FORMATS if (TRANSCRIPTS / name).is_dir()]
    if real:
        print(f"Here are transcripts of four agents ({TRANSCRIPTS}), and four small conversations of our own.")
    else:
        print("Here are four small conversations that come with the project.")
    for name in real:
        harken("import", name, str(TRANSCRIPTS / name))
    harken("import", str(OWN))
    print("\nBy meaning: nobody in these conversations says 'music'.")
    harken("search", "quiet place for live music", "--limit", "2")
    print("By word and by speaker:")
    words = "fast API endpoint" if real else "sourdough crust"
    harken("search", words, "--role", "assistant", "--limit", "3")
    print("And why a hit is one: what its score is made of.")
    harken("search", "why did CI break after dark", "--limit", "2", "--explain")
    harken("status")
    print(f"\nThat took {time.monotonic() - began:.0f} seconds. The store is in {HOME}; look on with, for instance:")
    print(f"  HARKEN_HOME={HOME} {Path(sys.executable).parent}/harken search what you like")


if __name__ == "__main__":
    main()
