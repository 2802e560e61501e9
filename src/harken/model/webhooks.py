"""Webhooks and their deliveries: who is told of what, and how far that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harken.model.views import DeliveryView, WebhookView, view_of

RECORDED, REMEMBERED, FORGOTTEN, REVIEW_DUE = "recorded", "remembered", "forgotten", "review_due"
WEBHOOK_EVENTS = (RECORDED, REMEMBERED, FORGOTTEN, REVIEW_DUE)
TEST_EVENT = "test"


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is told of events of a store.

    Attributes:
        events: of `WEBHOOK_EVENTS`.
        waiting: deliveries that are still to be sent; `failed`: those that were given up.
        paused_until: nothing is sent before, since the endpoint does not answer.
        halted: why nothing is sent until its owner resumes it; None while it works.
    """

    uid: str
    url: str
    events: tuple[str, ...]
    created_at: datetime
    waiting: int = 0
    failed: int = 0
    paused_until: datetime | None = None
    halted: str | None = None

    def view(self) -> WebhookView:
        """The webhook as JSON, without its secret."""
        return view_of(WebhookView, self)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one webhook.

    Attributes:
        uid: the `webhook-id` of every attempt.
        state: `waiting`, `delivered` or `failed`.
        status: of the endpoint's last answer; None where there was none.
        error: why the last attempt failed; None where it did not.
        due_at: when it is tried next, of one that waits.
    """

    uid: str
    webhook_uid: str
    event: str
    state: str
    attempts: int
    created_at: datetime
    due_at: datetime
    status: int | None
    error: str | None
    ended_at: datetime | None

    def view(self) -> DeliveryView:
        """The delivery as JSON."""
        return view_of(DeliveryView, self)


@dataclass(frozen=True, slots=True)
class Told:
    """An event as webhooks are told of it: ids, kinds and times."""

    event: str
    at: datetime
    data: Mapping[str, Any]
