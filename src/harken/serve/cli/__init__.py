"""The command line."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    if sys.argv[1:2] == ["hook"] and sys.argv[2:3] not in ([], ["--help"], ["-h"]):
        # An agent waits for this one: it must not pay for what the other commands import.
        from harken.serve.hooks.client import main as answer_hook

        answer_hook(sys.argv[2:])
    # All that is imported stays: to look for garbage among it as often as is usual takes an eighth of a command's time.
    gc.set_threshold(20_000, 20, 20)
    # First, for a client may go while the rest is being imported.
    from harken.serve.process import EXIT_INTERRUPTED

    try:
        # Imported here, so that Ctrl-C during the half second that it takes ends as quietly as at any other time.
        from harken.serve.cli.main import run
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    try:
        run()
    finally:
        # The system takes it all back at once: to look for garbage once more takes a tenth of a command's time.
        gc.freeze()
