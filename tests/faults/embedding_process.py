"""Embeds what waits in a server's store, in the background as a service would, until it is killed or told to stop."""

from __future__ import annotations

import signal
import sys
import threading

from harken.engine import Harken
from harken.jobs.workers import CONVERSATION, EXCHANGE


def main(home: str, url: str, endpoint: str, dims: str) -> None:
    settings = {
        "store": url,
        "embedder": "openai-compatible",
        "embedding.url": endpoint,
        "embedding.model": "words",
        "embedding.dims": int(dims),
        "worker.batch_size": 10,
        "worker.lease_seconds": 5,
        "worker.poll_seconds": 1,
    }
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    with Harken(home, settings=settings, env={}) as harken:
        for name in (EXCHANGE, CONVERSATION):
            # Whoever counts vectors counts those of messages.
            harken.background.switch(name, False)
        harken.start_worker()
        sys.stdout.write("working\n")
        sys.stdout.flush()
        stopping.wait()


if __name__ == "__main__":
    main(*sys.argv[1:5])
