from __future__ import annotations

import asyncio
import inspect
import runpy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harken
from harken import aio
from harken.aio import AsyncHarken, Calls
from harken.engine import Harken
from harken.engine.parts import lazy_part
from harken.errors import ConfigError, NotFoundError, UsageError
from harken.testing import HashingEmbedder
from recorded import LONG

TWINS = [(Harken, AsyncHarken), *((kind, getattr(aio, f"Async{kind.__name__}")) for kind in aio.PARTS.values())]
# What an engine is made of; whoever needs it has `AsyncHarken.engine`.
_INNER = {"store", "spaces", "recorder"}


def verbs(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(kind).items() if inspect.isfunction(value) and not name.startswith("_")}


def opened(tmp_path: Path, **more: Any) -> AsyncHarken:
    return AsyncHarken(tmp_path / "home", embedder=HashingEmbedder(), env={}, **more)


@pytest.mark.parametrize(("sync", "twin"), TWINS)
def test_every_verb_has_a_twin_of_the_same_name_signature_and_words(sync: type, twin: type) -> None:
    assert verbs(sync)
    for name, verb in verbs(sync).items():
        found = verbs(twin).get(name)
        assert found is not None, f"{twin.__name__} lacks {name}"
        if inspect.isgeneratorfunction(verb):
            assert inspect.isasyncgenfunction(found)
        else:
            assert inspect.iscoroutinefunction(found)
        if name != "close":
            assert inspect.signature(found) == inspect.signature(verb)
            assert found.__doc__ == verb.__doc__


def test_no_twin_has_a_verb_that_is_none() -> None:
    for sync, twin in TWINS:
        inherited = {name for kind in sync.__mro__ for name in verbs(kind)}
        assert set(verbs(twin)) - inherited - {"open"} == set()


def test_the_types_that_tools_read_are_those_of_the_blocking_classes() -> None:
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "async_stub.py"))
    assert tool["STUB"].read_text(encoding="utf-8") == tool["stub"](), "Run: python tools/async_stub.py"


def test_everything_else_of_an_engine_is_there_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as twin:
            parts = {name: value for kind in Harken.__mro__ for name, value in vars(kind).items()}
            public = {name for name, value in parts.items() if isinstance(value, property | lazy_part)}
            public = {name for name in {*public, *vars(twin.engine)} if not name.startswith("_")} - _INNER
            assert public >= {"maintenance", "tasks", "settings", "home", "loaded", "replayed"}
            for name in public:
                assert hasattr(twin, name), f"AsyncHarken lacks {name}"
            assert twin.settings == twin.engine.settings
            assert twin.home == tmp_path / "home"
            assert (twin.loaded, twin.replayed) == (twin.engine.loaded, twin.engine.replayed)

    asyncio.run(run())


def test_it_takes_what_harken_takes_and_is_a_public_name() -> None:
    assert inspect.signature(AsyncHarken) == inspect.signature(Harken)
    assert harken.AsyncHarken is AsyncHarken


def test_what_is_recorded_is_embedded_and_found(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path) as twin:
            message = await twin.record_message("c", "user", LONG)
            assert await twin.embed() == 1
            (hit,) = (await twin.search("words by whoever")).hits
            assert hit.entry.ref_uid == message.uid
            done = await twin.run_task("daily", "one", lambda _context: "two")
            assert [run.uid for run in await twin.tasks.history("daily")] == [done.run.uid]
            assert (await twin.maintenance.status()).counts.messages == 3
            with pytest.raises(NotFoundError):
                await twin.show("nothing-is-called-so")

    asyncio.run(run())


def test_a_verb_runs_in_another_thread_and_the_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    async def run() -> None:
        inside, go_on = threading.Event(), threading.Event()
        names: list[str] = []

        def answer(_context: object) -> str:
            names.append(threading.current_thread().name)
            inside.set()
            assert go_on.wait(60)
            return "two"

        async with opened(tmp_path) as twin:
            running = asyncio.create_task(twin.run_task("daily", "one", answer))
            while not inside.is_set():
                await asyncio.sleep(0.001)
            # The task's own verb is still inside its answer.
            assert not running.done()
            await twin.record_message("c", "user", "hello")
            go_on.set()
            assert (await running).run.answer == "two"
        assert names != [threading.current_thread().name]

    asyncio.run(run())


def test_many_tasks_record_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with opened(tmp_path) as twin:
            recorded = await asyncio.gather(
                *(twin.record_message(f"c{number % 3}", "user", f"words {number}") for number in range(120))
            )
            assert await twin.maintenance.doctor() == []
        return [message.uid for message in recorded]

    uids = asyncio.run(run())
    with Harken(tmp_path / "home", embedder=HashingEmbedder(), env={}) as again:
        assert len(set(uids)) == 120
        assert again.maintenance.status().counts.messages == 120
        assert {again.show(uid).message is not None for uid in uids} == {True}


def test_cancelled_at_any_moment_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    acknowledged: list[str] = []

    async def talk(twin: AsyncHarken, name: str) -> None:
        for number in range(1000):
            message = await twin.record_message(name, "user", f"{name} says {number}")
            acknowledged.append(message.uid)

    async def run() -> None:
        async with opened(tmp_path) as twin:
            talks = [asyncio.create_task(talk(twin, f"c{number}")) for number in range(6)]
            for number, one in enumerate(talks):
                while len(acknowledged) < 8 * (number + 1):
                    await asyncio.sleep(0)
                one.cancel()
            ended = await asyncio.gather(*talks, return_exceptions=True)
            assert {type(error) for error in ended} == {asyncio.CancelledError}

    asyncio.run(run())
    with Harken(tmp_path / "home", embedder=HashingEmbedder(), env={}) as again:
        assert again.maintenance.doctor() == []
        kept = again.maintenance.status().counts.messages
        # Of each talk, the message that was under way may have come in too.
        assert len(acknowledged) <= kept <= len(acknowledged) + 6
        for uid in acknowledged:
            assert again.show(uid).message is not None


def test_a_cancelled_task_goes_on_at_once_and_closing_waits_for_what_it_began(tmp_path: Path) -> None:
    go_on = threading.Event()

    async def run() -> None:
        inside = threading.Event()

        def answer(_context: object) -> str:
            inside.set()
            assert go_on.wait(60)
            return "two"

        async with opened(tmp_path) as twin:
            running = asyncio.create_task(twin.run_task("daily", "one", answer))
            while not inside.is_set():
                await asyncio.sleep(0.001)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            asyncio.get_running_loop().call_later(0.1, go_on.set)

    asyncio.run(run())
    with Harken(tmp_path / "home", embedder=HashingEmbedder(), env={}) as again:
        assert [found.answer for found in again.tasks.history("daily")] == ["two"]
        assert again.maintenance.doctor() == []


class TestSteps:
    async def filled(self, tmp_path: Path) -> AsyncHarken:
        twin = await opened(tmp_path).open()
        for name in "abc":
            await twin.record_message(name, "user", "hello")
        return twin

    def test_a_verb_that_yields_is_an_async_iterator(self, tmp_path: Path) -> None:
        async def run() -> None:
            twin = await self.filled(tmp_path)
            steps = [step async for step in twin.maintenance.reindex_from_journal()]
            assert steps == [(1, 3), (2, 3), (3, 3)]
            await twin.close()

        asyncio.run(run())

    def test_it_may_be_left_in_the_middle(self, tmp_path: Path) -> None:
        async def run() -> None:
            twin = await self.filled(tmp_path)
            steps = twin.maintenance.reindex_from_journal()
            assert await anext(steps) == (1, 3)
            await steps.aclose()
            assert await twin.maintenance.doctor() == []
            await twin.close()

        asyncio.run(run())

    def test_its_errors_are_the_verbs_own(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with opened(tmp_path, settings={"store": "sqlite://"}) as twin:
                with pytest.raises(UsageError, match="keeps no journal"):
                    await anext(twin.maintenance.reindex_from_journal())

        asyncio.run(run())


class TestOpening:
    def test_before_it_is_open_it_says_how_to_open_it(self, tmp_path: Path) -> None:
        async def run() -> None:
            twin = opened(tmp_path)
            with pytest.raises(UsageError, match="is not open"):
                await twin.record_message("c", "user", "hello")

        asyncio.run(run())

    def test_after_it_is_closed_nothing_begins(self, tmp_path: Path) -> None:
        async def run() -> None:
            async with opened(tmp_path) as twin:
                pass
            with pytest.raises(UsageError, match="is not open"):
                await twin.record_message("c", "user", "hello")
            with pytest.raises(UsageError, match="is closed"):
                await twin.open()
            await twin.close()

        asyncio.run(run())

    def test_what_harken_refuses_is_refused_when_it_opens(self, tmp_path: Path) -> None:
        async def run() -> None:
            with pytest.raises(ConfigError, match="there is no such setting"):
                async with AsyncHarken(tmp_path, settings={"nonsense": 1}, env={}):
                    pass

        asyncio.run(run())

    def test_opening_twice_is_opening_once(self, tmp_path: Path) -> None:
        async def run() -> None:
            twin, made = opened(tmp_path), list[Harken]()

            def opening(make: Callable[[], Harken] = twin._opening) -> Harken:
                made.append(make())
                return made[-1]

            twin._opening = opening  # type: ignore[assignment]
            await asyncio.gather(*(twin.open() for _ in range(4)))
            assert made == [twin.engine]
            await twin.close()

        asyncio.run(run())


def test_finishing_waits_for_what_runs_and_lets_nothing_begin() -> None:
    calls, inside, go_on = Calls(), threading.Event(), threading.Event()
    order: list[str] = []

    def work() -> None:
        inside.set()
        assert go_on.wait(60)
        order.append("worked")

    async def run() -> None:
        running = asyncio.create_task(calls.run(work))
        while not inside.is_set():
            await asyncio.sleep(0.001)
        finishing = threading.Thread(target=lambda: (calls.finish(), order.append("finished")))
        finishing.start()
        go_on.set()
        await running
        await asyncio.to_thread(finishing.join)
        with pytest.raises(UsageError):
            await calls.run(work)

    asyncio.run(run())
    assert order == ["worked", "finished"]
