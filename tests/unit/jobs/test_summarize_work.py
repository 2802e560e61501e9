from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import select

from harken.config.sections import WorkerConfig
from harken.errors import EndpointError
from harken.jobs.job import run_until_idle
from harken.jobs.spend import MeteredModel, SpendBook
from harken.jobs.summarize import SummarizeWork
from harken.model.conversations import ExchangeStatus, MessageType, Role
from harken.providers.chat_model import ChatModel
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model
from harken.providers.summarizer import EXTRACTIVE, ExchangeText, Summarizer, Summary
from harken.providers.summarizers.extractive import ExtractiveSummarizer
from harken.providers.summarizers.written import WrittenSummarizer
from harken.storage.enrichment.consent import NO_MODEL, Consent
from harken.storage.enrichment.jobs import list_failed, retry_failed
from harken.storage.enrichment.spend import spent_on_item
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, SUMMARIZE, StoredSummary, claim_due, find_due
from harken.storage.entries import load_entries
from harken.storage.ports import RowScope
from harken.storage.tables import entries, exchanges, summaries
from harken.testing import ChatServer, Reply, Says
from recorded import RecordedHome

REST = 600.0
TAP = ("Why does the kitchen tap drip?", "The seal of the kitchen tap is worn out.")
CAKE = ("How long does a plum cake bake?", "A plum cake bakes for forty minutes.")


class Desk:
    """A home with conversations, and summarizers over it."""

    def __init__(self, place: RecordedHome) -> None:
        self.place = place

    def work(
        self, kind: str = EXCHANGE, summarizer_for: Callable[[str, str], Summarizer] | None = None
    ) -> SummarizeWork:
        """A worker as another process would start one; with a summarizer, of a model that was set long ago."""
        chosen = summarizer_for or (lambda _kind, _uid: ExtractiveSummarizer())
        consent = Consent(datetime(2000, 1, 1, tzinfo=UTC)) if summarizer_for else NO_MODEL
        config = WorkerConfig(batch_size=4, lease_seconds=60, rest_seconds=0 if summarizer_for else REST)
        return SummarizeWork(self.place.store, kind, chosen, lambda: config, self.place.clock, lambda: consent)

    def summarize(self, kind: str = EXCHANGE) -> int:
        """Everything that is due now."""
        return run_until_idle(self.work(kind))

    def ended(self, name: str, *texts: str, status: ExchangeStatus = ExchangeStatus.COMPLETED, **end: str) -> None:
        """An exchange that came to its end."""
        self.place.talk(name, *texts)
        self.place.clock.go_on(seconds=1)
        self.place.recorder.end_exchange(self.place.uid(name), status, **end)

    def rest(self) -> None:
        self.place.clock.go_on(seconds=REST + 1)

    def texts(self, kind: str = EXCHANGE) -> list[str]:
        """What the summaries say, by what came first."""
        with self.place.store.reading() as tx:
            rows = tx.connection.execute(
                select(summaries.c.text).where(summaries.c.kind == kind).order_by(summaries.c.covers)
            )
            return list(rows.scalars())

    def seen(self, kind: str = EXCHANGE) -> list[str]:
        """What search sees of them."""
        with self.place.store.reading() as tx:
            ids = tx.connection.scalars(select(entries.c.id).where(entries.c.source == kind)).all()
            found = load_entries(tx, ids)
        return [entry.text for entry in sorted(found.values(), key=lambda entry: entry.created_at)]

    def exchange_uids(self) -> list[str]:
        with self.place.store.reading() as tx:
            return list(tx.connection.scalars(select(exchanges.c.uid).order_by(exchanges.c.started_at)))


@pytest.fixture
def desk(place: RecordedHome) -> Desk:
    return Desk(place)


class TestExchanges:
    def test_those_that_ended_are_summarized_and_found(self, desk: Desk, place: RecordedHome) -> None:
        desk.ended("c", *TAP)
        place.talk("c", CAKE[0])
        assert desk.summarize() == 1
        assert desk.texts() == desk.seen() == [" → ".join(TAP)]
        with place.store.reading() as tx:
            found = [entry for entry, _ in tx.text.search(tx.connection, ["seal"], RowScope(sources=(EXCHANGE,)), 5)]
            (entry,) = load_entries(tx, found).values()
        assert (entry.ref_uid, entry.exchange_uid) == (desk.exchange_uids()[0],) * 2
        assert desk.summarize() == 0

    def test_one_without_an_end_is_summarized_when_its_conversation_rests(
        self, desk: Desk, place: RecordedHome
    ) -> None:
        place.talk("c", *TAP)
        assert desk.summarize() == 0
        desk.rest()
        assert desk.work().waiting() == 1
        assert desk.summarize() == 1

    def test_a_failure_is_in_its_summary(self, desk: Desk) -> None:
        desk.ended("c", TAP[0], status=ExchangeStatus.FAILED, error="no answer came")
        desk.summarize()
        assert desk.texts() == [f"{TAP[0]} → failed: no answer came"]

    def test_short_and_long_ones_of_several_conversations_keep_their_own_words(
        self, desk: Desk, place: RecordedHome
    ) -> None:
        desk.ended("c", *TAP)
        place.talk("d", "How was the house painted?")
        for number in range(30):
            place.say("d", f"painting wall {number}", Role.ASSISTANT, type=MessageType.TOOL_CALL, tool_name="brush")
        place.say("d", "The house was painted white.", Role.ASSISTANT)
        desk.ended("d")
        desk.ended("c", *CAKE)
        assert desk.summarize() == 3
        painted = "How was the house painted? → The house was painted white."
        assert desk.texts() == [" → ".join(TAP), painted, " → ".join(CAKE)]

    def test_tools_and_markers_are_not_taken_for_words(self, desk: Desk, place: RecordedHome) -> None:
        place.say("c", TAP[0])
        place.say("c", "cat seal.txt", Role.ASSISTANT, type=MessageType.TOOL_CALL, tool_name="bash", call_id="1")
        place.say("c", "worn out", Role.TOOL, type=MessageType.TOOL_RESULT, tool_name="bash", call_id="1")
        place.recorder.end_exchange(place.uid("c"), ExchangeStatus.COMPLETED)
        desk.summarize()
        assert desk.texts() == [f"{TAP[0]} → bash"]

    def test_the_newest_come_first(self, desk: Desk, place: RecordedHome) -> None:
        for number in range(6):
            desk.ended("c", f"What is the number {number}?", "I do not know.")
        work = desk.work()
        assert work.run_once() == 4
        assert [text.split("?")[0][-1] for text in desk.texts()] == ["2", "3", "4", "5"]
        assert work.waiting() == 2

    def test_an_exchange_without_words_is_not_looked_at_again(self, desk: Desk, place: RecordedHome) -> None:
        place.say("c", "/clear", Role.SYSTEM, type=MessageType.MARKER)
        desk.rest()
        desk.summarize()
        assert desk.seen() == []
        assert desk.work().waiting() == 0


class TestConversations:
    def test_the_one_in_progress_is_left_alone_until_it_rests(self, desk: Desk) -> None:
        desk.ended("c", *TAP)
        assert desk.summarize(CONVERSATION) == 0
        desk.rest()
        assert desk.summarize(CONVERSATION) == 1
        assert desk.seen(CONVERSATION) == [f"{TAP[0]}\n{TAP[0]} {TAP[1]}"]
        assert desk.summarize(CONVERSATION) == 0

    def test_one_that_is_taken_up_again_is_summarized_again(self, desk: Desk) -> None:
        desk.ended("c", *TAP)
        desk.rest()
        desk.summarize(CONVERSATION)
        desk.ended("c", *CAKE)
        assert desk.summarize(CONVERSATION) == 0
        desk.rest()
        assert desk.summarize(CONVERSATION) == 1
        (text,) = desk.texts(CONVERSATION)
        assert CAKE[1] in text
        assert len(desk.seen(CONVERSATION)) == 1


class TestForgetting:
    def test_a_forgotten_message_takes_the_summaries_with_it_that_may_quote_it(
        self, desk: Desk, place: RecordedHome
    ) -> None:
        desk.ended("c", *TAP)
        secret = place.talk("c", "My code is four five six.", "I will keep it.")[0]
        desk.rest()
        for kind in (EXCHANGE, CONVERSATION):
            desk.summarize(kind)
        place.forget(secret)
        assert desk.texts() == desk.seen() == [" → ".join(TAP)]
        assert desk.texts(CONVERSATION) == desk.seen(CONVERSATION) == []
        for kind in (EXCHANGE, CONVERSATION):
            assert desk.summarize(kind) == 1
        assert not any("four five" in text for text in [*desk.texts(), *desk.texts(CONVERSATION)])

    def test_what_is_forgotten_during_its_summary_is_not_stored(self, desk: Desk, place: RecordedHome) -> None:
        secret = place.talk("c", "My code is four five six.", "I will keep it.")[0]
        desk.rest()

        def forgetful(_kind: str, _uid: str) -> Summarizer:
            class Late(ExtractiveSummarizer):
                def exchange(self, exchange: ExchangeText) -> Summary:
                    place.forget(secret)
                    return super().exchange(exchange)

            return Late()

        desk.work(summarizer_for=forgetful).run_once()
        assert desk.texts() == []

    def test_a_forgotten_conversation_leaves_nothing(self, desk: Desk, place: RecordedHome) -> None:
        desk.ended("c", *TAP)
        desk.ended("d", *CAKE)
        desk.rest()
        for kind in (EXCHANGE, CONVERSATION):
            desk.summarize(kind)
        place.forget(conversation="c")
        assert desk.texts() == desk.seen() == [" → ".join(CAKE)]
        assert len(desk.texts(CONVERSATION)) == len(desk.seen(CONVERSATION)) == 1

    def test_summaries_survive_a_rebuilding_from_the_journal(self, desk: Desk, place: RecordedHome) -> None:
        desk.ended("c", *TAP)
        desk.rest()
        for kind in (EXCHANGE, CONVERSATION):
            desk.summarize(kind)
        before = (desk.seen(), desk.seen(CONVERSATION))
        place.reindex()
        assert (desk.seen(), desk.seen(CONVERSATION)) == before
        assert [desk.work(kind).waiting() for kind in (EXCHANGE, CONVERSATION)] == [0, 0]
        assert place.doctor() == []


class TestWithAModel:
    @pytest.fixture
    def server(self) -> Iterator[ChatServer]:
        def write(request: object) -> Says:
            return Says(
                json.dumps({"title": "A tap", "summary": "The tap drips."}), input_tokens=100, output_tokens=100
            )

        with ChatServer(otherwise=write) as running:
            yield running

    @pytest.fixture
    def model(self, server: ChatServer) -> Iterator[ChatModel]:
        prices = (Decimal(10), Decimal(10))
        model = open_chat_model(ChatOptions("openai", "any", server.url, timeout_seconds=120, prices=prices))
        yield model
        model.close()

    def _writing(self, desk: Desk, model: ChatModel, kind: str = EXCHANGE, limit: str | None = None) -> SummarizeWork:
        book = SpendBook(desk.place.store, None if limit is None else Decimal(limit), desk.place.clock)
        fallback = ExtractiveSummarizer()
        return desk.work(
            kind,
            lambda kind, uid: WrittenSummarizer(MeteredModel(book, model, kind, uid), fallback, max_input_tokens=2000),
        )

    def test_summaries_are_written_and_their_costs_kept_by_item(self, desk: Desk, model: ChatModel) -> None:
        desk.ended("c", *TAP)
        run_until_idle(self._writing(desk, model))
        assert desk.texts() == ["The tap drips."]
        with desk.place.store.reading() as tx:
            assert spent_on_item(tx, EXCHANGE, desk.exchange_uids()[0]).usd == Decimal("0.002")

    def test_a_second_summary_of_a_conversation_adds_its_costs(self, desk: Desk, model: ChatModel) -> None:
        for texts in (TAP, CAKE):
            desk.ended("c", *texts)
            desk.rest()
            assert run_until_idle(self._writing(desk, model, CONVERSATION)) == 1
        assert desk.seen(CONVERSATION) == ["A tap\nThe tap drips."]
        with desk.place.store.reading() as tx:
            assert spent_on_item(tx, CONVERSATION, desk.place.uid("c")).calls == 2

    def test_a_conversation_is_told_by_the_summaries_of_its_exchanges(
        self, desk: Desk, server: ChatServer, model: ChatModel
    ) -> None:
        desk.ended("c", *TAP)
        desk.rest()
        run_until_idle(self._writing(desk, model))
        run_until_idle(self._writing(desk, model, CONVERSATION))
        assert "The tap drips." in server.prompts()[1]
        assert TAP[0] not in server.prompts()[1]

    def test_the_days_limit_stops_it_with_words_and_it_goes_on_the_next_day(
        self, desk: Desk, server: ChatServer, model: ChatModel
    ) -> None:
        for number in range(4):
            desk.ended("c", f"What is the number {number}?", "I do not know.")
        work = self._writing(desk, model, limit="0.0135")
        run_until_idle(work)
        asked = len(server.requests)
        assert 0 < asked < 4
        assert "llm.max_usd_per_day is reached" in work.blocked_reason
        assert work.waiting() == 4 - asked
        desk.place.clock.moment = datetime(2023, 5, 9, 0, 0, 1, tzinfo=UTC)
        while work.waiting():
            desk.place.clock.go_on(days=1)
            run_until_idle(work)
        assert len(desk.texts()) == 4
        with desk.place.store.reading() as tx:
            assert list_failed(tx) == []

    def test_an_endpoint_that_fails_is_left_alone_and_all_is_done_after(
        self, desk: Desk, server: ChatServer, model: ChatModel
    ) -> None:
        for number in range(4):
            desk.ended("c", f"What is the number {number}?", "I do not know.")
        server.script(*[Reply(status=503)] * 5)
        work = self._writing(desk, model)
        for seconds in (0, 1, 2, 4, 8):
            desk.place.clock.go_on(seconds=seconds)
            assert work.run_once() > 0
            assert work.run_once() == 0
            assert "status 503" in work.blocked_reason
        assert len(server.requests) == 5
        desk.place.clock.go_on(seconds=60)
        run_until_idle(work)
        assert len(desk.texts()) == 4

    def test_a_rate_limit_is_waited_for(self, desk: Desk, server: ChatServer, model: ChatModel) -> None:
        desk.ended("c", *TAP)
        server.script(Reply(status=429, headers=(("Retry-After", "90"),)))
        work = self._writing(desk, model)
        work.run_once()
        desk.place.clock.go_on(seconds=89)
        assert work.run_once() == 0
        desk.place.clock.go_on(seconds=2)
        assert work.run_once() == 1
        assert desk.texts() == ["The tap drips."]

    def test_nothing_is_waited_for_longer_than_a_day(self, desk: Desk, server: ChatServer, model: ChatModel) -> None:
        desk.ended("c", *TAP)
        server.script(Reply(status=429, headers=(("Retry-After", "99999999999999"),)))
        work = self._writing(desk, model)
        assert work.run_once() == 1
        assert "fewer requests" in work.blocked_reason
        desk.place.clock.go_on(days=1, seconds=1)
        assert work.run_once() == 1
        assert desk.texts() == ["The tap drips."]

    def test_an_item_that_always_fails_is_given_up_and_can_be_retried(self, desk: Desk) -> None:
        desk.ended("c", *TAP)

        def failing(_kind: str, _uid: str) -> Summarizer:
            raise EndpointError("down")

        work = desk.work(summarizer_for=failing)
        for _ in range(7):
            desk.place.clock.go_on(seconds=60)
            work.run_once()
        assert work.waiting() == 0
        with desk.place.store.writing() as tx:
            (failure,) = list_failed(tx)
            assert (failure.kind, failure.error_class) == (SUMMARIZE[EXCHANGE], "EndpointError")
            assert retry_failed(tx) == 1
        assert desk.summarize() == 1

    def test_a_dead_process_leaves_nothing_undone(self, desk: Desk, model: ChatModel) -> None:
        desk.ended("c", *TAP)
        dead = f"{socket.gethostname()}:{2**22 + os.getpid()}:0"
        with desk.place.store.writing() as tx:
            found = find_due(tx, EXCHANGE, 4, desk.place.clock(), REST)
            assert len(claim_due(tx, EXCHANGE, found, dead, desk.place.clock(), 3600, REST)) == 1
        run_until_idle(self._writing(desk, model))
        assert desk.texts() == ["The tap drips."]


def test_a_lease_that_was_taken_over_stores_nothing(desk: Desk, place: RecordedHome) -> None:
    desk.ended("c", *TAP)

    def slow(_kind: str, _uid: str) -> Summarizer:
        place.clock.go_on(seconds=61)
        with place.store.writing() as tx:
            found = find_due(tx, EXCHANGE, 4, place.clock(), REST)
            assert len(claim_due(tx, EXCHANGE, found, "other", place.clock(), 60, REST)) == 1
        return ExtractiveSummarizer()

    work = desk.work(summarizer_for=slow)
    work.run_once()
    assert (work.stored, desk.texts()) == (0, [])


def test_a_summary_says_who_made_it_and_what_it_covers(desk: Desk, place: RecordedHome) -> None:
    desk.ended("c", *TAP)
    # The exchange ends with its last message, a second before that was noted.
    ended = place.clock() - timedelta(seconds=1)
    desk.summarize()
    (uid,) = desk.exchange_uids()
    with place.store.reading() as tx:
        row = tx.connection.execute(select(summaries)).one()
    found = StoredSummary(row.kind, row.item_uid, row.text, row.title, row.model, row.covers, row.created_at)
    assert found == StoredSummary(EXCHANGE, uid, " → ".join(TAP), "", EXTRACTIVE, ended, place.clock())
