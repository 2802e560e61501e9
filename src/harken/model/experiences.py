"""Experiences with their life cycle, the values distilled from clusters of them, both also as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from harken.errors import UsageError
from harken.model.conversations import ProjectIdentity, SavedRecord, Trust
from harken.model.views import ValueView, WrittenView, format_moment, view_of

DOMAINS = (
    "debugging", "refactoring", "feature", "testing", "configuration", "documentation", "performance", "security",
    "integration",
)  # fmt: skip
STRATEGIES = (
    "systematic-elimination", "trial-and-error", "research-first", "divide-and-conquer", "root-cause-analysis",
    "copy-from-similar", "check-assumptions", "read-the-error", "ask-user",
)  # fmt: skip
ROOT_CAUSES = (
    "wrong-assumption", "missing-knowledge", "oversight", "environment-issue", "misleading-symptom", "incomplete-fix",
    "wrong-scope", "test-isolation", "timing-issue",
)  # fmt: skip
AXES = ("full", "strategy", "surprise", "root_cause")
STATEMENT_CHARS = 1000
REPORT_CHARS = 2000
VALUE_CHARS = 500
_STATEMENTS = ("goal", "hypothesis", "action", "prediction")


class ExperienceStatus(StrEnum):
    """How an experience stands: one that is active has no outcome yet."""

    ACTIVE = "active"
    CONFIRMED = "confirmed"
    FALSIFIED = "falsified"
    ABANDONED = "abandoned"


OUTCOMES = (ExperienceStatus.CONFIRMED.value, ExperienceStatus.FALSIFIED.value, ExperienceStatus.ABANDONED.value)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was believed and tried until the given moment, before it was changed."""

    at: datetime
    hypothesis: str
    action: str
    prediction: str


@dataclass(frozen=True, slots=True)
class Note:
    """A remark made on the way."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an experience; where it was auto-captured, a test or build said so, and a message is the evidence."""

    status: ExperienceStatus
    result: str
    captured_at: datetime
    auto_captured: bool = False
    evidence_uid: str = ""

    def view(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        return {
            "status": self.status.value,
            "result": self.result,
            "captured_at": format_moment(self.captured_at),
            "auto_captured": self.auto_captured,
            "evidence_id": self.evidence_uid or None,
        }


@dataclass(frozen=True, slots=True)
class RootCause:
    """Why a hypothesis was wrong."""

    category: str
    description: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """What to do the next time."""

    what_worked: str
    takeaway: str = ""


@dataclass(frozen=True, slots=True)
class Experience:
    """One record of goal, hypothesis, action, prediction and outcome, as it stands.

    Attributes:
        project: the project's key; empty where it belongs to none.
        agent: whose it is; each agent has one active experience in a project.
        session: where it was begun or adopted; an active one of another session is an orphan.
        attempted_at: when hypothesis, action and prediction were last set: only later results can speak of them.
        tier: how far it may be believed; empty while it is active. See `tier_of`.
    """

    uid: str
    project: str
    agent: str
    session: str
    created_at: datetime
    updated_at: datetime
    attempted_at: datetime
    domain: str
    strategy: str
    goal: str
    hypothesis: str
    action: str
    prediction: str
    history: tuple[Attempt, ...] = ()
    iteration_count: int = 1
    notes: tuple[Note, ...] = ()
    outcome: Outcome | None = None
    surprise: str = ""
    root_cause: RootCause | None = None
    lesson: Lesson | None = None
    tier: str = ""

    @property
    def status(self) -> ExperienceStatus:
        """How it stands."""
        return self.outcome.status if self.outcome else ExperienceStatus.ACTIVE

    def view(self, is_whole: bool = True) -> dict[str, Any]:
        """Return the experience as JSON: with its story, or only what a list shows."""
        head = {
            "id": self.uid,
            "project": self.project or None,
            "agent": self.agent,
            "domain": self.domain,
            "strategy": self.strategy,
            "outcome_status": self.status.value,
            "confidence_tier": self.tier or None,
            "iteration_count": self.iteration_count,
            "created_at": format_moment(self.created_at),
            "goal": self.goal,
        }
        if not is_whole:
            return head
        return {
            **head,
            "session": self.session or None,
            "hypothesis": self.hypothesis,
            "action": self.action,
            "prediction": self.prediction,
            "history": [{**asdict(each), "at": format_moment(each.at)} for each in self.history],
            "notes": [{"at": format_moment(each.at), "text": each.text} for each in self.notes],
            "outcome": self.outcome and self.outcome.view(),
            "surprise": self.surprise or None,
            "root_cause": asdict(self.root_cause) if self.root_cause else None,
            "lesson": asdict(self.lesson) if self.lesson else None,
        }

    def written_view(self) -> WrittenView:
        """Return its state after a change, as JSON."""
        is_captured = bool(self.outcome and self.outcome.auto_captured)
        return view_of(WrittenView, self, confidence_tier=self.tier or None, auto_captured=is_captured)

    def changed(self, moment: datetime, changes: Mapping[str, str], note: str = "") -> Experience:
        """Return the experience with other words; what changes of hypothesis, action and prediction is a new iteration.

        Raises:
            UsageError: it is over, nothing changes, or a value is not possible.
        """
        if self.outcome is not None:
            raise UsageError(f"Experience {self.uid} is {self.status} and cannot be changed. Start a new one.")
        real = {name: value for name, value in changes.items() if value != getattr(self, name)}
        if not real and not note:
            raise UsageError("Nothing changes: give another hypothesis, action, prediction, strategy, or a note.")
        values: dict[str, Any] = dict(real)
        moved = replace(self, updated_at=moment, **values)
        if note:
            moved = replace(moved, notes=(*self.notes, Note(moment, note)))
        if real.keys() - {"strategy"}:
            before = Attempt(moment, self.hypothesis, self.action, self.prediction)
            count = self.iteration_count + 1
            moved = replace(moved, history=(*self.history, before), iteration_count=count, attempted_at=moment)
        return check_experience(moved)

    def resolved(
        self, outcome: Outcome, surprise: str = "", root_cause: RootCause | None = None, lesson: Lesson | None = None
    ) -> Experience:
        """Return the experience with its outcome; its tier is not given here.

        Raises:
            UsageError: it is over already, or the outcome lacks what it needs.
        """
        if self.outcome is not None:
            raise UsageError(f"Experience {self.uid} is {self.status} already. See: harken experience show {self.uid}")
        over = replace(self, updated_at=outcome.captured_at, outcome=outcome, surprise=surprise)
        return check_experience(replace(over, root_cause=root_cause, lesson=lesson))


@dataclass(frozen=True, slots=True)
class Value:
    """A principle that a cluster of experiences bears out.

    Attributes:
        cluster_size: how many experiences the cluster had when the value was added; `members` are their ids.
        similarity_to_centroid: cosine, -1 to 1.
        distance: Euclidean to the centroid, both of unit length; at most `distance_limit`.
        domains: of the members, the most frequent first; likewise `strategies`.
    """

    uid: str
    project: str
    created_at: datetime
    text: str
    axis: str
    cluster_id: str
    cluster_size: int
    similarity_to_centroid: float
    distance: float
    distance_limit: float
    space: str
    members: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()

    def view(self) -> ValueView:
        """Return the value as JSON."""
        return view_of(ValueView, self, created_at=format_moment(self.created_at))


def check_experience(one: Experience) -> Experience:
    """Return the experience itself.

    Raises:
        UsageError: a value is empty, too long, or not one of those that are possible.
    """
    check_one_of("domain", one.domain, DOMAINS)
    check_one_of("strategy", one.strategy, STRATEGIES)
    for name in _STATEMENTS:
        check_text(name, getattr(one, name), STATEMENT_CHARS)
    for note in one.notes:
        check_text("note", note.text, REPORT_CHARS)
    if one.outcome is not None:
        _check_outcome(one, one.outcome)
    return one


def check_text(name: str, text: str, limit: int, required: bool = True) -> None:
    """Hold a text to its limit.

    Raises:
        UsageError: it is empty though it is required, or too long.
    """
    if required and not text.strip():
        raise UsageError(f"{name} is required: up to {limit:,} characters.")
    if len(text) > limit:
        raise UsageError(f"{name} has {len(text):,} characters; at most {limit:,} are kept. Shorten it.")


def _check_outcome(one: Experience, outcome: Outcome) -> None:
    check_one_of("status", outcome.status.value, OUTCOMES)
    check_text("result", outcome.result, REPORT_CHARS, required=outcome.status is not ExperienceStatus.ABANDONED)
    falsified = outcome.status is ExperienceStatus.FALSIFIED
    if falsified and (not one.surprise.strip() or one.root_cause is None):
        raise UsageError(
            "A falsified experience needs a surprise (what was unexpected) and a root cause: a category of "
            f"{', '.join(ROOT_CAUSES)}, and a description."
        )
    check_text("surprise", one.surprise, REPORT_CHARS, required=falsified)
    if one.root_cause is not None:
        check_one_of("root cause category", one.root_cause.category, ROOT_CAUSES)
        check_text("root cause description", one.root_cause.description, REPORT_CHARS)
    if one.lesson is not None:
        check_text("lesson what_worked", one.lesson.what_worked, REPORT_CHARS)
        check_text("lesson takeaway", one.lesson.takeaway, REPORT_CHARS, required=False)


def check_one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Hold a value to those there are.

    Raises:
        UsageError: it is none of them.
    """
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not '{value}'.")


EXPERIENCE = "experience"
VALUE = "value"
# Of the event itself.
_ELSEWHERE = ("uid", "project", "updated_at")


def kept_experience(one: Experience, project: ProjectIdentity | None) -> SavedRecord:
    """Return the experience as the journal has it; `project` is the one whose key it has, if any."""
    written = {**_plain(one), "trust": Trust.AGENT.value, "status": one.status.value}
    return SavedRecord(EXPERIENCE, one.uid, one.updated_at, written, project)


def kept_value(one: Value, project: ProjectIdentity | None) -> SavedRecord:
    """Return the value as the journal has it."""
    return SavedRecord(VALUE, one.uid, one.created_at, {**_plain(one), "trust": Trust.AGENT.value}, project)


def read_experience(kept: SavedRecord) -> Experience:
    """Return the experience that was written so.

    Raises:
        KeyError, TypeError, ValueError: the fields are not those of an experience.
    """
    given = {name: value for name, value in (kept.fields or {}).items() if name not in ("trust", "status")}
    for name in ("created_at", "attempted_at"):
        given[name] = _moment(given[name])
    outcome, cause, lesson = given.get("outcome"), given.get("root_cause"), given.get("lesson")
    if outcome:
        moment, status = _moment(outcome["captured_at"]), ExperienceStatus(outcome["status"])
        outcome = Outcome(**{**outcome, "status": status, "captured_at": moment})
    given["history"] = tuple(Attempt(**{**each, "at": _moment(each["at"])}) for each in given["history"])
    given["notes"] = tuple(Note(_moment(each["at"]), each["text"]) for each in given["notes"])
    given["outcome"] = outcome or None
    given["root_cause"] = RootCause(**cause) if cause else None
    given["lesson"] = Lesson(**lesson) if lesson else None
    return Experience(uid=kept.uid, project=_key(kept), updated_at=kept.at, **given)


def read_value(kept: SavedRecord) -> Value:
    """Return the value that was written so.

    Raises:
        KeyError, TypeError, ValueError: the fields are not those of a value.
    """
    given = {name: value for name, value in (kept.fields or {}).items() if name != "trust"}
    for name in ("members", "domains", "strategies"):
        given[name] = tuple(given[name])
    return Value(uid=kept.uid, project=_key(kept), **{**given, "created_at": _moment(given["created_at"])})


def _key(kept: SavedRecord) -> str:
    return kept.project.key if kept.project else ""


def _plain(record: Any) -> dict[str, Any]:
    """Return a record's fields as JSON; what it has no value for is left out."""
    return {name: value for name, value in _json(record).items() if value is not None and name not in _ELSEWHERE}


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, ExperienceStatus):
        return value.value
    if is_dataclass(value):
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json(each) for each in value]
    return value


_moment = datetime.fromisoformat
