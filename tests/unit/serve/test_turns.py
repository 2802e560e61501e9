"""Calls in turn: who reads before who writes, nobody for ever, and what takes long keeps nobody waiting."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from harken.serve.http.turns import _PATIENCE_SECONDS, Turns

READ, WRITE = True, False


async def call(turns: Turns, order: list[str], name: str, is_read: bool, until: asyncio.Event | None = None) -> None:
    """A call that notes when it begins, and goes on until something happens."""
    async with turns.taken(is_read):
        order.append(name)
        if until is not None:
            await until.wait()


async def begun(*calls: asyncio.Task[None]) -> None:
    """Let tasks come as far as they come."""
    for _ in range(3 + len(calls)):
        await asyncio.sleep(0)


def test_whoever_reads_is_answered_before_whoever_writes_and_each_in_their_order() -> None:
    async def answered() -> list[str]:
        turns, order, done = Turns(1, longest_seconds=60), list[str](), asyncio.Event()
        first = asyncio.create_task(call(turns, order, "first", WRITE, done))
        await begun(first)
        named = (("write 1", WRITE), ("write 2", WRITE), ("read 1", READ), ("read 2", READ))
        waiting = [asyncio.create_task(call(turns, order, name, is_read)) for name, is_read in named]
        await begun(*waiting)
        assert order == ["first"]
        done.set()
        await asyncio.gather(first, *waiting)
        return order

    assert asyncio.run(answered()) == ["first", "read 1", "read 2", "write 1", "write 2"]


def test_a_write_is_not_put_off_by_what_comes_later_than_its_patience() -> None:
    async def answered() -> list[str]:
        turns, order, done = Turns(1, longest_seconds=60), list[str](), asyncio.Event()
        first = asyncio.create_task(call(turns, order, "first", WRITE, done))
        await begun(first)
        write = asyncio.create_task(call(turns, order, "write", WRITE))
        await begun(write)
        loop, now = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        loop.time = lambda: now + _PATIENCE_SECONDS + 1  # type: ignore[method-assign]
        read = asyncio.create_task(call(turns, order, "read", READ))
        await begun(read)
        done.set()
        await asyncio.gather(first, write, read)
        return order

    assert asyncio.run(answered()) == ["first", "write", "read"]


def test_what_takes_long_gives_its_turn_on_and_keeps_no_second_one() -> None:
    async def answered() -> list[str]:
        turns, order, done = Turns(1, longest_seconds=0.01), list[str](), asyncio.Event()
        slow = asyncio.create_task(call(turns, order, "slow", WRITE, done))
        await begun(slow)
        await call(turns, order, "beside it", READ)
        done.set()
        await slow
        # One at a time, as before: it has given its turn on once.
        stop = asyncio.Event()
        again = Turns(1, longest_seconds=60)
        turns.longest_seconds = again.longest_seconds
        one, two = (asyncio.create_task(call(turns, order, name, READ, stop)) for name in ("one", "two"))
        await begun(one, two)
        assert order == ["slow", "beside it", "one"]
        stop.set()
        await asyncio.gather(one, two)
        return order

    assert asyncio.run(answered()) == ["slow", "beside it", "one", "two"]


def test_whoever_goes_while_waiting_or_when_called_keeps_nobody_else_out() -> None:
    async def answered() -> list[str]:
        turns, order, done = Turns(1, longest_seconds=60), list[str](), asyncio.Event()
        first = asyncio.create_task(call(turns, order, "first", READ, done))
        await begun(first)
        gone, called, last = (
            asyncio.create_task(call(turns, order, name, READ)) for name in ("gone", "called", "last")
        )
        await begun(gone, called, last)
        gone.cancel()
        done.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # Its turn has come, and it has not been told yet.
        assert first.done()
        called.cancel()
        for task in (gone, called):
            with suppress(asyncio.CancelledError):
                await task
        await last
        return order

    assert asyncio.run(answered()) == ["first", "last"]
