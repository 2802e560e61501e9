from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from harken.errors import EndpointError, EndpointTimeoutError, SpendLimitError
from harken.jobs.spend import MeteredModel, SpendBook
from harken.model.conversations import Role
from harken.providers.chat_model import ChatAnswer, ChatMessage, ChatModel
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model
from harken.storage.enrichment.spend import Spent, spent_in_all, spent_on_item
from harken.testing import ChatServer, Reply, Says
from recorded import RecordedHome

ASKED = [ChatMessage(Role.USER, "Where is the cat?")]
# 1,000 of input and 100 of output cost 0.003 USD at these prices.
PRICES = (Decimal(2), Decimal(10))
ANSWER = Says("On the mat.", input_tokens=1000, output_tokens=100)
PRICE = Decimal("0.003")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(otherwise=lambda _request: ANSWER) as running:
        yield running


class Till:
    """A book and a model behind it."""

    def __init__(self, place: RecordedHome, server: ChatServer) -> None:
        self.place, self.server = place, server
        self._opened: list[ChatModel] = []

    def model(
        self,
        limit: str | None = None,
        item: str = "e1",
        prices: tuple[Decimal, Decimal] | None = PRICES,
        timeout_seconds: float = 120.0,
        host: str = "127.0.0.1",
    ) -> ChatModel:
        """As another process would open it."""
        book = SpendBook(self.place.store, None if limit is None else Decimal(limit), self.place.clock)
        url = self.server.url.replace("127.0.0.1", host)
        options = ChatOptions(
            "openai", "my-own-llama", url, timeout_seconds=timeout_seconds, max_tokens=100, prices=prices
        )
        self._opened.append(open_chat_model(options))
        return MeteredModel(book, self._opened[-1], "exchange", item)

    def spent(self) -> Spent:
        with self.place.store.reading() as tx:
            return spent_in_all(tx)

    def close(self) -> None:
        for model in self._opened:
            model.close()


@pytest.fixture
def till(place: RecordedHome, server: ChatServer) -> Iterator[Till]:
    till = Till(place, server)
    yield till
    till.close()


def test_a_call_is_booked_with_its_tokens_and_price(till: Till) -> None:
    assert till.model().complete(ASKED).price_usd == PRICE
    assert till.spent() == Spent(1, 1000, 100, PRICE)


def test_a_stream_is_booked_like_a_call(till: Till) -> None:
    *_, last = till.model().stream(ASKED)
    assert isinstance(last, ChatAnswer)
    assert till.spent() == Spent(1, 1000, 100, PRICE)


def test_what_an_endpoint_does_not_count_costs_what_it_is_estimated_at(till: Till) -> None:
    till.server.script(Says("On the mat. " * 100, counted=False), Says("On the mat. " * 100, counted=False))
    model = till.model("0.009")
    whole = model.complete(ASKED)
    *_pieces, streamed = model.stream(ASKED)
    assert isinstance(streamed, ChatAnswer)
    assert whole.price_usd == streamed.price_usd == till.spent().usd / 2 > Decimal("0.001")
    with pytest.raises(SpendLimitError):
        model.complete(ASKED)


def test_each_record_has_its_own_costs_and_they_add_up(till: Till, place: RecordedHome) -> None:
    for item in ("e1", "e1", "e2"):
        till.model(item=item).complete(ASKED)
    with place.store.reading() as tx:
        assert [spent_on_item(tx, "exchange", item).usd for item in ("e1", "e2")] == [2 * PRICE, PRICE]


def test_a_call_is_in_the_books_before_it_is_sent(till: Till) -> None:
    seen: list[Spent] = []

    def look(_request: object) -> Says:
        seen.append(till.spent())
        return ANSWER

    with ChatServer(otherwise=look) as server:
        till.server = server
        till.model().complete(ASKED)
    assert (seen[0].calls, seen[0].unsettled) == (0, 1)
    assert seen[0].unsettled_usd > 0


class TestLimit:
    def test_nothing_is_sent_beyond_it_and_it_goes_on_the_next_day(self, till: Till, place: RecordedHome) -> None:
        model = till.model("0.01")
        for _ in range(3):
            model.complete(ASKED)
        with pytest.raises(
            SpendLimitError, match=r"0\.009\d* of 0\.01 USD are spent.* goes on at 2023-05-09 00:00 UTC"
        ) as caught:
            model.complete(ASKED)
        assert caught.value.resumes_at == datetime(2023, 5, 9, tzinfo=UTC)
        with pytest.raises(SpendLimitError):
            list(model.stream(ASKED))
        assert len(till.server.requests) == 3
        place.clock.go_on(hours=12)
        model.complete(ASKED)
        assert len(till.server.requests) == 4

    def test_it_holds_for_all_processes_together(self, till: Till) -> None:
        # Each may cost 0.00104 at most, and costs that but for some tokens of the prompt.
        till.server.script(*[Says("On the mat.", input_tokens=10, output_tokens=100)] * 12)
        models = [till.model("0.0032") for _ in range(6)]

        def ask(model: ChatModel) -> bool:
            try:
                model.complete(ASKED)
            except SpendLimitError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(ask, models * 2)) == 3
        assert till.spent().usd == 3 * Decimal("0.00102")

    def test_a_limit_that_no_price_can_hold_stops_everything(self, till: Till) -> None:
        with pytest.raises(SpendLimitError, match=r"cannot be held.*Set llm\.input_usd_per_million") as caught:
            till.model("0.01", prices=None, host="models.example").complete(ASKED)
        assert caught.value.resumes_at is None
        assert till.server.requests == []

    def test_on_this_machine_an_unknown_price_is_none(self, till: Till) -> None:
        till.model("0.01", prices=None).complete(ASKED)
        assert (till.spent().calls, till.spent().usd, till.spent().unpriced) == (1, 0, 0)

    @pytest.mark.allow_hosts(["127.0.0.1", "0.0.0.0"])
    def test_without_a_limit_an_unknown_price_is_only_said(self, till: Till) -> None:
        # What listens on this machine answers at this address as well, which is no name for it.
        till.model(prices=None, host="0.0.0.0").complete(ASKED)
        assert (till.spent().unpriced, till.spent().usd) == (1, 0)

    def test_a_model_of_ones_own_may_cost_nothing(self, till: Till) -> None:
        till.model("0", prices=(Decimal(0), Decimal(0))).complete(ASKED)
        assert (till.spent().calls, till.spent().usd, till.spent().unpriced) == (1, 0, 0)


class TestFailures:
    def test_a_refusal_costs_nothing(self, till: Till) -> None:
        till.server.script(Reply(status=503), Reply(status=400))
        model = till.model()
        for _ in range(2):
            with pytest.raises(Exception, match="status"):
                model.complete(ASKED)
        assert till.spent() == Spent()

    def test_what_was_given_up_may_have_been_charged(self, till: Till) -> None:
        till.server.script(Says("late", delay_seconds=600))
        with pytest.raises(EndpointTimeoutError):
            till.model(timeout_seconds=0.5).complete(ASKED)
        spent = till.spent()
        assert (spent.usd, spent.unsettled) == (0, 1)

    def test_a_stream_that_breaks_or_is_left_may_have_been_charged(self, till: Till) -> None:
        till.server.script(Says("a b c", breaks_after=3), Says("a b c", hangs_after=2))
        with pytest.raises(EndpointError):
            list(till.model().stream(ASKED))
        stream = till.model().stream(ASKED)
        assert next(stream) == "a"
        stream.close()  # type: ignore[attr-defined]
        spent = till.spent()
        assert (spent.calls, spent.unsettled) == (0, 2)

    @pytest.mark.parametrize(
        "reply",
        [Reply(hang_up=True), Reply(pieces=(b"data: {",), hang_up=True), Reply(body=b'{"choices": []}')],
        ids=["no answer", "half of one", "an answer that is none"],
    )
    def test_a_call_that_was_sent_and_not_refused_may_have_been_charged(self, till: Till, reply: Reply) -> None:
        till.server.script(reply)
        with pytest.raises(EndpointError):
            till.model().complete(ASKED)
        assert till.spent().unsettled == 1

    def test_a_call_that_reached_nobody_costs_nothing(self, till: Till) -> None:
        model = till.model()
        till.server.stop()
        with pytest.raises(EndpointError, match="ConnectError"):
            model.complete(ASKED)
        assert till.spent() == Spent()

    def test_what_may_have_been_charged_counts_against_the_limit(self, till: Till) -> None:
        till.server.script(Says("late", delay_seconds=600))
        model = till.model("0.0015", timeout_seconds=0.5)
        with pytest.raises(EndpointTimeoutError):
            model.complete(ASKED)
        with pytest.raises(SpendLimitError):
            model.complete(ASKED)
