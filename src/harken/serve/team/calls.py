"""A call of a verb for a team's member, whichever door it came by: may they, is it a repeat, and who did what."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from harken.engine.members import require_team_admin
from harken.engine.team import Team
from harken.errors import HarkenError, NotFoundError, ScopeError, UsageError
from harken.log import Log
from harken.model.team import COMMON, Access, AuditEntry, KeyScope, Speaker
from harken.serve.http.metrics import Metrics
from harken.serve.http.problems import problem_of
from harken.serve.operations.operation import AnyOperation, Caller, Effect, TeamMember
from harken.text.characters import sha256_of

_log = Log(__name__)
_MOST_IDS, _MOST_KEY_CHARS = 100, 255
# Whoever sends a sentence in place of an id, or a number that is their secret, finds nothing of it in the audit.
_ID = re.compile(r"(?=.*[a-f])[0-9a-f][0-9a-f-]{5,63}")
_KEY = re.compile(rf"[!-~]{{1,{_MOST_KEY_CHARS}}}")
_NAMED = ("id", "ids", "on", "conversation_id", "exchange_id")


@dataclass(frozen=True, slots=True)
class VerbCall:
    """What somebody asks for.

    Attributes:
        space: as they name it; None for their own.
        via: by which door they came.
        once: their own name for this very call, by which a repeat is known; empty without one.
    """

    speaker: Speaker
    operation: AnyOperation
    given: object
    space: str | None = None
    via: str = "http"
    once: str = ""
    progress: Callable[[int, int], None] = field(default=lambda _done, _all: None)


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer, and whether it is that of an earlier call."""

    answer: dict[str, Any]
    is_repeat: bool = False


class TeamCalls:
    """Answers calls of a team's members; each is audited, and counted."""

    def __init__(self, team: Team, metrics: Metrics) -> None:
        self.team = team
        self._metrics = metrics

    def answer(self, call: VerbCall) -> Answered:
        """Answer a call; blocks.

        Raises:
            HarkenError: what the operation raises, or what stands in its way.
        """
        began, status, ids = perf_counter(), 500, list[str]()
        self._metrics.begun()
        try:
            answered = self._answer(call)
            status, ids = 200, list(_ids(answered.answer))
            return answered
        except Exception as error:
            status = problem_of(error).status if isinstance(error, HarkenError) else 500
            raise
        finally:
            self._note(call, status, [*(_ids_in(call.given, _NAMED) if isinstance(call.given, Mapping) else ()), *ids])
            self._metrics.answered(call.operation.name, call.via, status, perf_counter() - began)

    def require_host(self, speaker: Speaker) -> None:
        """Pass if somebody manages the team whose server this is: they may know of the machine, and of all teams.

        Raises:
            ScopeError: they do not.
        """
        require_team_admin(speaker)
        if speaker.principal.team != self.team.name:
            raise ScopeError(Access.ADMIN.value, COMMON)

    def _answer(self, call: VerbCall) -> Answered:
        operation, speaker = call.operation, call.speaker
        speaker.require(*operation.scopes)
        if operation.scope == KeyScope.ADMIN and not operation.is_of_team:
            self.require_host(speaker)
        target: Any = TeamMember(self.team, speaker) if operation.is_of_team else self._memory(call)
        if not call.once or operation.effect is Effect.READS or operation.is_secret or _only_asks(call):
            return Answered(self._run(call, target, ""))
        if not _KEY.fullmatch(call.once):
            raise UsageError(f"Idempotency-Key: give 1 to {_MOST_KEY_CHARS} visible characters of ASCII.")
        asked = json.dumps([operation.name, call.space, call.given], sort_keys=True, default=str)
        with self.team.requests.once(speaker, call.once, sha256_of(asked)) as claim:
            if claim.answer is not None:
                return Answered(claim.answer, is_repeat=True)
            answer = self._run(call, target, f"{speaker.principal.id} {call.once}")
            claim.keep(answer if operation.keeps_answer else None)
            return Answered(answer)

    def _run(self, call: VerbCall, target: Any, once: str) -> dict[str, Any]:
        # No directory of the server is anybody's who asks from afar, but those that its operator has opened.
        caller = Caller(is_limited=True, progress=call.progress, once=once)
        try:
            return call.operation.call(target, call.given, caller)
        except NotFoundError as error:
            is_everywhere = call.space or call.operation.effect is Effect.READS or call.operation.is_of_team
            hint = "" if is_everywhere else " (looked for in your own space; Harken-Space names another one)"
            raise NotFoundError(f"{error}{hint}") from error

    def _memory(self, call: VerbCall) -> Any:
        """The memory as the speaker sees it; a space that is named has to be one that they may see."""
        if call.space is None:
            return self.team.memory(call.speaker)
        is_read = call.operation.effect is Effect.READS
        space = call.speaker.space(call.space, Access.READ if is_read else Access.WRITE)
        return self.team.memory(call.speaker, space.id)

    def _note(self, call: VerbCall, status: int, ids: list[str]) -> None:
        speaker = call.speaker
        entry = AuditEntry(
            at=datetime.now(UTC),
            team=speaker.principal.team,
            principal=speaker.principal.id,
            key=speaker.key.id if speaker.key else None,
            space=next((space.id for space, _ in speaker.spaces if call.space in (space.id, space.name)), None),
            verb=call.operation.name,
            via=call.via,
            status=status,
            ids=tuple(dict.fromkeys(ids))[:_MOST_IDS],
        )
        try:
            self.team.requests.note(entry, at_once=call.operation.effect is not Effect.READS)
        except HarkenError as error:
            # What was done is done, and said; that it is not written down stands in the log.
            _log.error("not_audited", verb=entry.verb, status=status, error_class=type(error).__name__)


def _only_asks(call: VerbCall) -> bool:
    """Whether something that destroys is only asked what it would do."""
    given = call.given if isinstance(call.given, Mapping) else {}
    return call.operation.name == "forget" and not (given.get("confirm") and given.get("ids"))


def _ids_in(record: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = record.get(name)
        values = value if isinstance(value, list) else [value]
        yield from (each for each in values if isinstance(each, str) and _ID.fullmatch(each))


def _ids(answer: Any) -> Iterator[str]:
    """Every id in an answer, those of what it is about first."""
    if isinstance(answer, list):
        for each in answer:
            yield from _ids(each)
    elif isinstance(answer, dict):
        yield from _ids_in(answer, ("id", "ids", "superseded"))
        for value in answer.values():
            yield from _ids(value)
