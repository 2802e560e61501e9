"""Asks a team's server, in this process, for one verb, and dies between its commit and that of its claim."""

from __future__ import annotations

import json
import os
import signal
import sys

from harken.engine.team import Team
from harken.serve.http.metrics import Metrics
from harken.serve.operations.registry import TEAM_OPERATIONS
from harken.serve.team.calls import TeamCalls, VerbCall
from harken.storage.team.requests import Claim


def main(home: str, store: str, tenant: str, key: str, verb: str, given: str) -> None:
    # What is kept of the answer is told to the claim behind the commit of what was asked for.
    Claim.keep = lambda _claim, _answer: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    settings = {"store": store, "tenant": tenant, "embedder": "none"}
    with Team(home, settings=settings, env={}) as team:
        call = VerbCall(team.speaker(key), TEAM_OPERATIONS[verb], json.loads(given), once="mine")
        TeamCalls(team, Metrics(dict)).answer(call)


if __name__ == "__main__":
    main(*sys.argv[1:])
