"""Runs a command in the process of the tests: the command line's own entry point, between streams of its own.

A process costs 60 ms of processor time, most of it for pages that are copied and for caches that begin empty, and most
commands are tried for what they say and what they leave in the store. `command_line.py` chooses.
"""

from __future__ import annotations

import contextvars
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
import structlog

from harken import log
from harken.serve.cli.main import run


def run_here(words: Sequence[str], environment: Mapping[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
    """Run `harken` with these arguments to its end; its exit code, stdout and stderr.

    Not `main` of the package: behind a command it freezes all that there is, which a process that goes on may not.
    """
    threads = set(threading.enumerate())
    own_streams = _streams(words, stdin)
    with _environment(environment), _own_log(), own_streams as (out, err), pytest.raises(SystemExit) as ended:
        contextvars.copy_context().run(run)
    left = {each.name for each in set(threading.enumerate()) - threads if each.name.startswith("harken")}
    assert not left, f"harken {' '.join(words)} left threads running: {left}"
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue(), err.getvalue()


@contextmanager
def _streams(words: Sequence[str], stdin: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Give this process other arguments, and streams as an interpreter opens them where the locale is C.UTF-8."""
    out, err = io.BytesIO(), io.BytesIO()
    before = sys.argv, sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["harken", *words]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8", "surrogateescape")
    sys.stdout = io.TextIOWrapper(out, "utf-8", "surrogateescape")
    sys.stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", line_buffering=True)
    written = sys.stdout, sys.stderr
    try:
        yield out, err
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = before
        for stream in written:
            stream.flush()
            # Else the bytes go with it.
            stream.detach()


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Have this process see these variables and no others."""
    before = dict(os.environ)
    _set_environment(wanted)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if os.environ.get(name) != value})


@contextmanager
def _own_log() -> Iterator[None]:
    """Give the log back as it was: a command writes it to its own stderr."""
    waiting, before = log._setting_up, structlog.get_config() if structlog.is_configured() else None
    try:
        yield
    finally:
        log._setting_up = waiting
        if before is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**before)
