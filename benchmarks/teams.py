"""What a team's request costs: a key's lookup, and a recall over several spaces, beside the same recall over one.

Run: python benchmarks/teams.py [--spaces 6] [--messages 300] [--rounds 100] [--embedder onnx]
It starts the tests' PostgreSQL server, makes a team as an application role under row-level security, fills the spaces
with made-up messages, embeds them, and prints p50 and p95 by the clock, and processor time of this process per call.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harken.engine.team import Team
from harken.model.team import Access
from harken.testing import HashingEmbedder
from postgres_server import running_server

_THINGS = ("pump", "valve", "boiler", "ledger", "orchard", "harvest", "invoice", "server", "router", "contract")
_DOINGS = ("fails", "leaks", "restarts", "grows", "expires", "moves", "arrives", "closes", "stalls", "returns")
_WHERE = ("kitchen", "cellar", "greenhouse", "office", "warehouse", "attic", "harbour", "depot", "lab", "garage")


def _sentence(chance: random.Random) -> str:
    thing, doing, where = chance.choice(_THINGS), chance.choice(_DOINGS), chance.choice(_WHERE)
    return f"The {thing} in the {where} {doing} on day {chance.randint(1, 300)} says {chance.choice(_WHERE)} staff."


def _timed(call: Callable[[], Any], rounds: int) -> dict[str, float]:
    took = []
    processor = time.process_time()
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        took.append(1000 * (time.perf_counter() - began))
    each = 1000 * (time.process_time() - processor) / rounds
    took.sort()
    return {"p50_ms": took[len(took) // 2], "p95_ms": took[int(0.95 * len(took))], "processor_ms": each}


def main() -> None:
    """Make the team, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spaces", type=int, default=6, help="how many shared spaces beside the own one")
    parser.add_argument("--messages", type=int, default=300, help="how many messages in each")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--embedder", default="hashing", help="hashing, or the name of a configured one: onnx")
    given = parser.parse_args()
    chance = random.Random(19)
    with running_server() as server, server.database() as url, server.role("crew", url) as login:
        store = login.render_as_string(hide_password=False)
        named = {} if given.embedder == "hashing" else {"embedder": given.embedder}
        embedder = HashingEmbedder() if given.embedder == "hashing" else None
        settings = {"store": store, "tenant": "bench", **named}
        with tempfile.TemporaryDirectory() as home, Team(home, settings=settings, env={}, embedder=embedder) as team:
            operator = team.operator()
            team.create_principal(operator, "ann", is_admin=True)
            key = team.create_key(operator, "ann").secret
            for number in range(given.spaces - 1):
                team.create_space(team.speaker(key), f"space {number}")
                team.grant(team.speaker(key), f"space {number}", "everyone", Access.WRITE)
            for space, _ in team.speaker(key).spaces:
                memory = team.memory(team.speaker(key), space.name)
                for number in range(given.messages):
                    memory.record_message(f"talk {number // 20}", ("user", "assistant")[number % 2], _sentence(chance))
                memory.embed()
            alone = team.create_key(team.speaker(key), spaces=["ann"]).secret
            asked = [_sentence(chance).replace("says", "why") for _ in range(given.rounds)]
            found: dict[str, Any] = {"spaces": given.spaces + 1, "messages": given.messages}
            found["speaker"] = _timed(lambda: team.speaker(key), given.rounds)
            for name, secret in (("one space", alone), ("all spaces", key)):
                for verb in ("recall", "search", "context"):
                    prompts = iter(asked * 2)

                    def call(secret: str = secret, verb: str = verb, prompts: Any = prompts) -> Any:
                        memory, prompt = team.memory(team.speaker(secret)), next(prompts)
                        if verb == "search":
                            return memory.search(prompt)
                        if verb == "recall":
                            return memory.chats.quotes_about(prompt, "")
                        return memory.build_context("mine", [prompt])

                    call()
                    found[f"{verb}, {name}"] = _timed(call, given.rounds)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
