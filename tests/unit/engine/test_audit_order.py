"""Who reads the audit sees what was asked before, also while another thread is writing it down."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crews import crew
from harken.engine.requests import Requests
from harken.model.team import AuditEntry


def test_lines_that_are_being_written_are_waited_for(
    tmp_path: Path, shared_database: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    write = Requests._write

    def slowly(requests: Requests, lines: list[tuple[str, AuditEntry]]) -> None:
        begun.set()
        assert go_on.wait(30)
        write(requests, lines)

    with crew(tmp_path, shared_database, tenant, "alice") as team:
        alice, requests = team.speaker("alice"), team.team.requests
        monkeypatch.setattr(Requests, "_write", slowly)
        requests.note(
            AuditEntry(datetime.now(UTC), tenant, alice.principal.id, None, None, "memories", "http", 200), False
        )
        assert begun.wait(30), "the timer has taken the line"
        threading.Timer(0.2, go_on.set).start()
        [line] = requests.audited(alice, (None, None), None, None, 10)
        assert line.verb == "memories"
