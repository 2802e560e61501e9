"""kill -9 while a model summarizes: nothing is lost, and nothing that was paid for is paid for again."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from command_line import CommandLine
from harken.engine import Harken
from harken.storage.enrichment.spend import spent_in_all, spent_on_item
from harken.testing import ChatServer, Says

WRITTEN = Says(json.dumps({"summary": "They spoke of a tap."}), input_tokens=1000, output_tokens=100)
TALKS = 5


def test_a_worker_that_is_killed_in_its_batch_has_kept_what_was_paid_and_the_next_does_the_rest(
    cli: CommandLine,
) -> None:
    uids = []
    with ChatServer(WRITTEN, WRITTEN, replace(WRITTEN, delay_seconds=60), otherwise=lambda _request: WRITTEN) as server:
        model = {"MODEL": "openai:any", "URL": server.url, "API_KEY": "k"}
        prices = {"INPUT_USD_PER_MILLION": "2", "OUTPUT_USD_PER_MILLION": "10"}
        llm = {f"HARKEN_LLM__{name}": value for name, value in {**model, **prices}.items()}
        paid = replace(cli, settings={**cli.settings, **llm, "HARKEN_WORKER__REST_SECONDS": "0"})
        # The model is set before anything is said.
        paid("summarizer", "conversation", "off")
        with Harken(cli.home, env={}, settings={"embedder": "none"}) as harken:
            for number in range(TALKS):
                asked = harken.record_message(f"tap {number}", "user", f"Why does tap {number} of the kitchen drip?")
                harken.record_message(f"tap {number}", "assistant", "Its seal is worn.")
                harken.end_exchange(f"tap {number}")
                uids.append(asked.exchange_uid)
        process = paid.start("worker", "run", "--until-idle")
        while len(server.requests) < 3:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert paid("worker", "run", "--until-idle").code == 0
    assert len(server.requests) == TALKS + 1
    with Harken(cli.home, env={}, settings={"embedder": "none"}) as harken, harken.store.reading() as tx:
        of_each = [spent_on_item(tx, "summarize_exchange", uid) for uid in uids]
        in_all = spent_in_all(tx)
    assert [spent.calls for spent in of_each] == [1] * TALKS
    assert sorted(spent.unsettled for spent in of_each) == [0] * (TALKS - 1) + [1]
    assert (in_all.calls, in_all.unsettled) == (TALKS, 1)
