"""What all background work shares: who owns a lease, and when an endpoint that fails is left alone."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from harken.errors import EndpointError, HarkenError, RateLimitError
from harken.storage.work import BACKOFF_SECONDS, WAITED_OUT_SECONDS

# How long a worker waits for a setting to change before it looks again.
LIMIT_POLL = timedelta(minutes=10)


@dataclass(slots=True)
class Outage:
    """Leaves an endpoint that fails alone for a while, so that one outage does not use up every item's attempts.

    Attributes:
        is_waited_out: however long it lasts, as by a worker in the background: the endpoint is asked again within
            `WAITED_OUT_SECONDS[-1]`, and no item is given up for failures of an endpoint that answers nobody.
    """

    is_waited_out: bool = False
    _failures: int = field(default=0, init=False)
    _answered: bool = field(default=False, init=False)
    _until: datetime | None = field(default=None, init=False)

    def lasts(self, now: datetime) -> bool:
        """Whether the endpoint is still to be left alone."""
        return self._until is not None and now < self._until

    def begin(self, asked_at: datetime, until: datetime | None = None) -> None:
        """It failed: leave it alone for longer each time, or until a moment that it named.

        Args:
            asked_at: when the call began: one that ran into its time limit has waited already.
            until: that moment.
        """
        steps = WAITED_OUT_SECONDS if self.is_waited_out else BACKOFF_SECONDS
        seconds = steps[min(self._failures, len(steps) - 1)]
        self._failures += 1
        self._answered = False
        self._until = until or asked_at + timedelta(seconds=seconds)

    def end(self) -> None:
        """It answered."""
        self._failures, self._answered, self._until = 0, True, None

    def gives_up(self, error: HarkenError) -> bool:
        """Whether an item with too many failures, of which this is the last, is to be given up; before `begin`."""
        return not self.is_waited_out or self._answered or not isinstance(error, EndpointError)


def asked_for(error: EndpointError, now: datetime) -> datetime | None:
    """When an endpoint wants to be asked again; None where it does not say."""
    seconds = error.retry_after_seconds if isinstance(error, RateLimitError) else None
    return None if seconds is None else now + timedelta(seconds=seconds)


def new_owner() -> str:
    """A name for whoever takes leases in this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this machine that no longer runs; its leases need not be waited for."""
    host, pid, *_ = (*owner.rsplit(":", 2), "")
    if os.name != "posix" or host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
