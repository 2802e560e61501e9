"""Experiences: begun, changed, ended, adopted, listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from harken.errors import UsageError
from harken.model.arguments import DEFAULT_AGENT, OFFSET, Argument, Spelling
from harken.model.experience_texts import experience_markdown
from harken.model.experiences import (
    DOMAINS,
    OUTCOMES,
    REPORT_CHARS,
    ROOT_CAUSES,
    STATEMENT_CHARS,
    STRATEGIES,
    Experience,
    ExperienceStatus,
    Lesson,
    RootCause,
)
from harken.model.views import WrittenView
from harken.serve.operations.operation import (
    AT_MOST,
    HIDDEN,
    WORD,
    Caller,
    Directory,
    Effect,
    IdArguments,
    Operation,
    Printer,
    Project,
    forgetting,
    paged,
    show_each,
    view_of,
)
from harken.text.dates import since_of

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.sources.experiences.candidates import Candidate
    from harken.sources.experiences.experiences import Active

    _Reviewed = Experience | dict[str, str] | Sequence[Candidate]

OneId = Annotated[str | None, Argument("Which; left out, the active one.", 6, 100)]
_Session = Annotated[str, Argument("The agent's session, by which orphans are known.", most=200)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """Whose experience it is."""

    directory: Directory = None
    agent: Annotated[str, Argument("Whose; a project has one for each.", 1, 100), Spelling(help="Whose.")] = (
        DEFAULT_AGENT
    )

    def given(self, harken: Harken, caller: Caller) -> dict[str, Any]:
        """The arguments as the verbs of experiences take them, with the real folder that tells the project."""
        words = {**asdict(self), "directory": caller.reach(self.directory, harken.settings.serve.roots)}
        if "id" in words:
            words["uid"] = words.pop("id")
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class StartArguments(_Placed):
    """An experience to begin."""

    domain: Annotated[str, Argument("What kind of work it is.", choices=DOMAINS)]
    strategy: Annotated[str, Argument("How it is gone about.", choices=STRATEGIES)]
    goal: Annotated[str, Argument("What is wanted.", 1, STATEMENT_CHARS)]
    hypothesis: Annotated[str, Argument("What is believed.", 1, STATEMENT_CHARS)]
    action: Annotated[str, Argument("What is done.", 1, STATEMENT_CHARS)]
    prediction: Annotated[str, Argument("What is to be seen then, if the hypothesis is right.", 1, STATEMENT_CHARS)]
    session: _Session = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateArguments(_Placed):
    """Changes of an experience."""

    id: OneId = None
    hypothesis: Annotated[str | None, Argument("What is believed now.", most=STATEMENT_CHARS)] = None
    action: Annotated[str | None, Argument("What is done now.", most=STATEMENT_CHARS)] = None
    prediction: Annotated[str | None, Argument("What is to be seen now.", most=STATEMENT_CHARS)] = None
    strategy: Annotated[str | None, Argument("How it is gone about now.", choices=STRATEGIES)] = None
    note: Annotated[str, Argument("A remark.", most=REPORT_CHARS)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveArguments(_Placed):
    """The end of an experience."""

    id: OneId = None
    status: Annotated[str | None, Argument("Left out, as the last test or build suggests.", choices=OUTCOMES), WORD] = (
        None
    )
    result: Annotated[str, Argument("What came of it; left out, what a test printed.", most=REPORT_CHARS)] = ""
    surprise: Annotated[str, Argument("What was unexpected; required when falsified.", most=REPORT_CHARS)] = ""
    cause: Annotated[
        str | None, Argument("Why the hypothesis was wrong; required when falsified.", choices=ROOT_CAUSES)
    ] = None
    cause_description: Annotated[str, Argument("The same in words; likewise.", most=REPORT_CHARS)] = ""
    worked: Annotated[str, Argument("The lesson: what worked.", most=REPORT_CHARS)] = ""
    takeaway: Annotated[str, Argument("The lesson: what to take from it.", most=REPORT_CHARS)] = ""


def _resolve(harken: Harken, wanted: ResolveArguments, caller: Caller) -> Experience:
    if bool(wanted.cause) != bool(wanted.cause_description):
        raise UsageError("cause and cause_description go together: give both or neither.")
    if wanted.takeaway and not wanted.worked:
        raise UsageError("takeaway needs worked: give both.")
    words = wanted.given(harken, caller)
    category, description = words.pop("cause"), words.pop("cause_description")
    worked, takeaway = words.pop("worked"), words.pop("takeaway")
    cause = RootCause(category, description) if category else None
    return harken.experiences.resolve(**words, root_cause=cause, lesson=Lesson(worked, takeaway) if worked else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveArguments(_Placed):
    """Whose active experience."""

    session: Annotated[str, Argument("The present one; one of another session is an orphan.", most=200)] = ""


class ActiveAnswer(TypedDict):
    """The active experience; null where there is none."""

    experience: dict[str, Any] | None


def _show_active(session: Printer, found: Active | None) -> None:
    if found is None:
        session.say("No experience is active. Begin one: harken experience start")
        return
    show_experience(session, found.experience)
    if found.is_orphan:
        session.say(
            "An orphan of another session. Go on with it: harken experience adopt. Or give it up: "
            "harken experience resolve abandoned"
        )
    if found.suggestion:
        session.say((f"suggested: {found.suggestion.status.value}, by `{found.suggestion.command}`", "bold"))
        session.say(found.suggestion.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptArguments(ActiveArguments):
    """Which experience to adopt."""

    id: Annotated[str | None, Argument("Which; left out, the active one.", 6, 100), WORD] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperiencesArguments:
    """Which experiences to list."""

    domain: Annotated[str | None, Argument("Only of this one.", choices=DOMAINS)] = None
    outcome: Annotated[
        str | None, Argument("Only with this.", choices=[status.value for status in ExperienceStatus])
    ] = None
    since: Annotated[str | None, Argument("Begun not before this: 2026-05-08, '2 weeks ago'.", most=100)] = None
    project: Project = None
    limit: Annotated[
        int,
        Argument("How many at most, newest first; for older ones raise it.", 1, 100),
        replace(AT_MOST, help="At most so many, up to 500."),
    ] = 20
    offset: Annotated[int, Argument(OFFSET, 0, 1_000_000), HIDDEN] = 0


class ExperiencesAnswer(TypedDict):
    """Experiences, newest first; `show` has the whole of one."""

    experiences: list[dict[str, Any]]
    next_offset: int | None


def _list(harken: Harken, wanted: ExperiencesArguments, caller: Caller) -> Sequence[Experience]:
    part = {"since": since_of(wanted.since), "limit": caller.read_ahead(wanted.limit)}
    project = caller.project(harken, wanted.project)
    return harken.experiences.list(**{**asdict(wanted), **part, "project": project})


def _short_views(found: Sequence[Experience]) -> list[dict[str, Any]]:
    return [one.view(is_whole=False) for one in found]


def show_experience(session: Printer, one: Experience) -> None:
    """Print the whole story."""
    standing = f"{one.status.value} {one.tier}".rstrip()
    session.say((f"{one.uid} · {standing} · iteration {one.iteration_count} · {one.agent}", "bold"))
    session.say(experience_markdown(one, "root_cause"))
    if one.lesson and one.lesson.takeaway:
        session.say(f"- **Takeaway**: {one.lesson.takeaway}")
    for number, each in enumerate(one.history, start=1):
        session.say((f"  iteration {number}: {each.hypothesis} | {each.action} | {each.prediction}", "dim"))
    for note in one.notes:
        session.say(("  note: " + note.text.replace("\n", "\n  "), "dim"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewArguments:
    """What is done with tests and builds that failed."""

    accept: Annotated[
        str | None, Argument("Start an experience from this one, in the words that were said."), Spelling(metavar="ID")
    ] = None
    dismiss: Annotated[str | None, Argument("Never show this one again."), Spelling(metavar="ID")] = None
    domain: Annotated[str, Argument("Of what is accepted.", choices=DOMAINS)] = "debugging"
    strategy: Annotated[str, Argument("Likewise.", choices=STRATEGIES)] = "read-the-error"
    goal: Annotated[str | None, Argument("In place of what was said; likewise the next three.")] = None
    hypothesis: Annotated[str | None, Argument("")] = None
    action: Annotated[str | None, Argument("")] = None
    prediction: Annotated[str | None, Argument("")] = None
    agent: Annotated[str, Argument("Whose.")] = DEFAULT_AGENT
    session: _Session = ""


def _review(harken: Harken, wanted: ReviewArguments, _caller: Caller) -> _Reviewed:
    """The experience that was started, the id that was dismissed, or what there is to review."""
    given = asdict(wanted)
    accepted, dismissed = given.pop("accept"), given.pop("dismiss")
    if accepted:
        return harken.experiences.accept(accepted, **given)
    return {"dismissed": harken.experiences.dismiss(dismissed)} if dismissed else harken.experiences.review()


def _show_review(session: Printer, found: _Reviewed) -> None:
    if isinstance(found, Experience | dict):
        session.say(f"Dismissed {found['dismissed']}." if isinstance(found, dict) else f"Started {found.uid}")
        return
    for one in found:
        times = "once" if one.failures == 1 else f"{one.failures} times"
        since = ", passed since" if one.has_passed else ""
        session.say((f"{one.uid} · `{one.command}` failed {times}{since}", "bold"))
        session.say(one.printed)
        for name in ("goal", "hypothesis", "prediction"):
            session.say((f"  {name}: {' '.join(getattr(one, name).split()) or 'not said'}", "dim"))
    if not found:
        session.say("Nothing to review: no test or build failed without an active experience.")


# An operation that changes an experience, and says in a line what it did.
_changing: Callable[..., Operation[Any, Experience]] = partial(
    Operation,
    answer=WrittenView,
    view=lambda one, _wanted: one.written_view(),
    effect=Effect.CHANGES,
    scope="remember",
    shell_view=Experience.written_view,
)
OPERATIONS = (
    _changing(
        "experience_start",
        "Write down what you are about to try: goal, hypothesis, action and prediction. One is active at a time.",
        StartArguments,
        lambda harken, wanted, caller: harken.experiences.start(**wanted.given(harken, caller), once=caller.once),
        "Begin an experience",
        effect=Effect.ADDS,
        scope="remember",
        help="Begin an experience; a project and an agent have one at a time.",
        show=lambda printer, one: printer.say(f"Started {one.uid}"),
    ),
    _changing(
        "experience_update",
        "Change the active experience; another hypothesis, action or prediction is a new iteration.",
        UpdateArguments,
        lambda harken, wanted, caller: harken.experiences.update(**wanted.given(harken, caller)),
        "Go on with an experience",
        show=lambda printer, one: printer.say(f"Iteration {one.iteration_count} of {one.uid}"),
    ),
    _changing(
        "experience_resolve",
        "Say how it went: confirmed, falsified (with surprise and cause) or abandoned.",
        ResolveArguments,
        _resolve,
        "End an experience",
        help="End the active experience; without STATUS as the last test or build suggests.",
        show=lambda printer, one: printer.say(f"{one.status.value.capitalize()} ({one.tier}) {one.uid}"),
    ),
    Operation(
        "experience_active",
        "Show the active experience, whether another session left it behind, and what a test or build says of it.",
        ActiveArguments,
        lambda harken, wanted, caller: harken.experiences.active(**wanted.given(harken, caller)),
        "Show the active experience",
        ActiveAnswer,
        lambda found, _wanted: ActiveAnswer(experience=view_of(found)),
        help="Show the active experience, whether it is an orphan, and what a test or build has said of it.",
        show=_show_active,
    ),
    _changing(
        "experience_adopt",
        "Go on with an active experience that another session left behind.",
        AdoptArguments,
        lambda harken, wanted, caller: harken.experiences.adopt(**wanted.given(harken, caller)),
        "Adopt an experience",
        is_idempotent=True,
        help="Go on with an experience that another session began.",
        show=lambda printer, one: printer.say(f"Adopted {one.uid}"),
    ),
    Operation(
        "experiences",
        "List what was tried and how it went.",
        ExperiencesArguments,
        _list,
        "List experiences",
        ExperiencesAnswer,
        paged("experiences", _short_views),
        command="experience list",
        help="List experiences, the newest first.",
        show=show_each(
            lambda one: f"{one.uid}  {one.domain} | {one.strategy}  {one.status.value} {one.tier}  {one.goal}",
            "No experiences. Begin one: harken experience start",
        ),
        shell_view=_short_views,
    ),
    Operation(
        "experience show",
        "Show a whole experience.",
        IdArguments,
        lambda harken, wanted, _caller: harken.experiences.show(wanted.id),
        show=show_experience,
    ),
    forgetting(
        "experience forget", "Forget an experience for good.", lambda harken, uid: harken.experiences.forget(uid)
    ),
    Operation(
        "experience review",
        "Show tests and builds that failed while no experience was active; start one from them, or dismiss them.",
        ReviewArguments,
        _review,
        effect=Effect.CHANGES,
        scope="remember",
        show=_show_review,
        shell_view=lambda found: found.written_view() if isinstance(found, Experience) else view_of(found),
    ),
)
