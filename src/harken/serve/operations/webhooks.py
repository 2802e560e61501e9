"""Webhooks at the command line: who holds the store says who is told of what happens in it; no model can.

Neither MCP nor HTTP offers them: an address that a model may add is a way out for whatever it has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from harken.errors import EndpointError
from harken.model.arguments import Argument
from harken.serve.operations.operation import (
    WORD,
    Caller,
    Effect,
    IdArguments,
    NoArguments,
    Operation,
    Printer,
    forgetting,
    show_each,
)
from harken.text.shown import counted, readable_age

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.model.webhooks import Delivery, Webhook

_STATES = ("waiting", "delivered", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWebhookArguments:
    """An address, and what it is told of."""

    url: Annotated[str, Argument("Where deliveries are posted to, https://…", 1, 2000), WORD]
    event: Annotated[
        tuple[str, ...],
        Argument(
            "What it is told of; everything where none is named.",
            choices=("recorded", "remembered", "forgotten", "review_due"),
        ),
    ] = ()
    allow_http: Annotated[bool, Argument("Allow an address without TLS: whoever is on the way can read along.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveriesArguments:
    """Which deliveries."""

    id: Annotated[str | None, Argument("Only those to this webhook: its id, or the beginning of it.")] = None
    state: Annotated[str | None, Argument("Only those in this state.", choices=_STATES)] = None
    limit: Annotated[int, Argument("How many at most.", 1, 1000)] = 20


def _added(found: tuple[Webhook, str]) -> dict[str, Any]:
    webhook, secret = found
    return {**webhook.view(), "secret": secret}


def _show_added(printer: Printer, found: tuple[Webhook, str]) -> None:
    webhook, secret = found
    printer.say(f"Webhook {webhook.uid} is told of {', '.join(webhook.events)}.")
    printer.say(f"Its deliveries are signed with this secret, which is not shown again: {secret}")
    printer.note(f"Try it: harken webhook test {webhook.uid}")


def _state_of(webhook: Webhook) -> str:
    if webhook.halted:
        return f"halted: {webhook.halted}. Go on: harken webhook resume {webhook.uid}"
    return "does not answer, is tried again" if webhook.paused_until else "works"


def _line_of(webhook: Webhook) -> str:
    waiting = f", {counted(webhook.waiting, 'delivery', 'deliveries')} waiting" if webhook.waiting else ""
    failed = f", {webhook.failed} given up" if webhook.failed else ""
    return f"{webhook.uid}  {webhook.url}  ({', '.join(webhook.events)})  {_state_of(webhook)}{waiting}{failed}"


def _delivery_line(delivery: Delivery) -> str:
    went = f" ({delivery.error})" if delivery.error else ""
    tries = counted(delivery.attempts, "attempt")
    age = readable_age(delivery.created_at)
    return f"{delivery.uid}  {delivery.event}  {delivery.state} after {tries}{went}  {age}"


def _test(harken: Harken, wanted: IdArguments, _caller: Caller) -> tuple[Webhook, int]:
    webhook, answer = harken.webhooks.test(wanted.id)
    if answer.error or answer.status is None:
        raise EndpointError(f"{webhook.url} did not take the test: {answer.error}")
    return webhook, answer.status


OPERATIONS = (
    Operation(
        "webhook add",
        "Tell an address of what is recorded, remembered, forgotten, or due for review: ids and times, never words.",
        AddWebhookArguments,
        lambda harken, wanted, _caller: harken.webhooks.add(wanted.url, wanted.event, wanted.allow_http),
        effect=Effect.ADDS,
        scope="admin",
        show=_show_added,
        shell_view=_added,
    ),
    Operation(
        "webhook list",
        "List webhooks: what each is told of, whether it answers, what waits for it.",
        NoArguments,
        lambda harken, _wanted, _caller: harken.webhooks.all(),
        show=show_each(_line_of, "No webhooks. Add one: harken webhook add URL"),
    ),
    forgetting("webhook remove", "Tell a webhook nothing any more.", lambda harken, uid: harken.webhooks.remove(uid)),
    Operation(
        "webhook test",
        "Post an event `test` to a webhook now, and say how it answers.",
        IdArguments,
        _test,
        show=lambda printer, found: printer.say(f"{found[0].url} took it (status {found[1]})."),
        shell_view=lambda found: {"id": found[0].uid, "status": found[1]},
    ),
    Operation(
        "webhook resume",
        "Let a webhook go on that was halted, with what was given up.",
        IdArguments,
        lambda harken, wanted, _caller: harken.webhooks.resume(wanted.id),
        effect=Effect.CHANGES,
        scope="admin",
        show=lambda printer, found: printer.say(
            f"Webhook {found[0].uid} goes on; {counted(found[1], 'delivery waits', 'deliveries wait')} for a worker's"
            " next round, which in a quiet space of a team comes within ten minutes."
        ),
        shell_view=lambda found: {**found[0].view(), "waiting": found[1]},
    ),
    Operation(
        "webhook deliveries",
        "List what was, or is to be, sent to webhooks, newest first.",
        DeliveriesArguments,
        lambda harken, wanted, _caller: harken.webhooks.deliveries(wanted.id, wanted.state, wanted.limit),
        show=show_each(_delivery_line, "Nothing was to be sent."),
    ),
)
