"""Records so many messages into a server's store; writes the id of each that was acknowledged."""

from __future__ import annotations

import sys

from harken.engine import Harken

WORDS = "these words are many enough for a vector of their own, as most things that people say to agents are"


def main(home: str, url: str, name: str, count: int) -> None:
    with Harken(home, settings={"store": url, "embedder": "none"}, env={}) as harken:
        for number in range(count):
            # Half of it in a conversation that all of them write to.
            conversation = "common" if number % 2 else f"own-{name}"
            role = "user" if number % 4 < 2 else "assistant"
            message = harken.record_message(conversation, role, f"{name} says number {number}: {WORDS}", author=name)
            sys.stdout.write(f"{message.uid}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
