"""Records into a store until its time is up, at least once; writes each acknowledged message on a line of its own."""

from __future__ import annotations

import random
import sys
import time

from harken.engine import Harken


def main(home: str, name: str, seconds: float) -> None:
    rng = random.Random(name)
    with Harken(home, settings={"embedder": "none"}, env={}) as harken:
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end or not number:
            # Half of it in a conversation that all of them write to.
            conversation = rng.choice(["common", "common", f"own-{name}-1", f"own-{name}-2"])
            role = rng.choice(["user", "assistant", "assistant"])
            text = f"{name} says number {number}"
            message = harken.record_message(conversation, role, text, author=name)
            sys.stdout.write(f"{message.uid}\t{text}\n")
            sys.stdout.flush()
            number += 1
    sys.stderr.write(f"{name}: {number} recorded\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
