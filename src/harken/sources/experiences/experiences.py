"""Experiences: begun, changed, ended; found again after a crash; suggested by what ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harken.errors import NotFoundError, UsageError
from harken.model.arguments import DEFAULT_AGENT
from harken.model.conversations import ProjectIdentity, SavedRecord
from harken.model.experiences import (
    EXPERIENCE,
    OUTCOMES,
    Experience,
    ExperienceStatus,
    Lesson,
    Note,
    Outcome,
    RootCause,
    check_experience,
    kept_experience,
    read_experience,
)
from harken.sources.experiences.candidates import Candidate, open_candidates
from harken.sources.experiences.checks import Suggestion, see_checks, suggestion_of
from harken.sources.experiences.tiers import tier_of
from harken.sources.source import RecordWriter
from harken.storage.ports import Store, Transaction
from harken.storage.records.checks import latest_check
from harken.storage.records.lists import list_experiences
from harken.storage.records.rows import find_kept, kept_uid
from harken.storage.scopes import project_row

_MOST_LISTED = 500


@dataclass(frozen=True, slots=True)
class Active:
    """The experience that is under way.

    Attributes:
        is_orphan: it was begun in another session, which may have crashed: adopt it, or abandon it.
        suggestion: what a test or build has said since its last attempt.
    """

    experience: Experience
    is_orphan: bool = False
    suggestion: Suggestion | None = None

    def view(self) -> dict[str, Any]:
        """The experience as JSON, with what was found of it."""
        suggestion = self.suggestion and self.suggestion.view()
        return {**self.experience.view(), "is_orphan": self.is_orphan, "suggestion": suggestion}


@dataclass(slots=True)
class Experiences:
    """The life cycle of experiences; reached as `Harken.experiences`.

    A project and an agent have one active experience at a time. Every state is journalled as it comes about, so a
    crash loses nothing.

    Args:
        keeper: writes them.
        identify: says which project a directory belongs to.
    """

    store: Store
    keeper: RecordWriter
    identify: Callable[[str | Path], ProjectIdentity | None]

    def start(
        self,
        domain: str,
        strategy: str,
        goal: str,
        hypothesis: str,
        action: str,
        prediction: str,
        *,
        directory: str | Path | None = None,
        agent: str = DEFAULT_AGENT,
        session: str = "",
    ) -> Experience:
        """Begin an experience.

        Args:
            domain: one of `DOMAINS`.
            strategy: one of `STRATEGIES`.
            goal: what is wanted; as the three that follow, up to 1,000 characters.
            hypothesis: what is believed.
            action: what is done.
            prediction: what is to be seen then, if the hypothesis is right.
            directory: the working directory, which tells the project; None for no project.
            agent: whose.
            session: the agent's own, by which an orphan is known.
        Raises:
            UsageError: another one is active, or a value is not possible.
        """
        texts = (goal, hypothesis, action, prediction)
        return self._begun(self._project(directory), agent, session, domain, strategy, texts)

    def _begun(
        self,
        project: ProjectIdentity | None,
        agent: str,
        session: str,
        domain: str,
        strategy: str,
        texts: Sequence[str],
        uid: str = "",
        note: str = "",
    ) -> Experience:
        moment = self.keeper.now()
        goal, hypothesis, action, prediction = (text.strip() for text in texts)
        new = Experience(
            uid or self.keeper.new_uid(), project.key if project else "", agent, session, moment, moment, moment,
            domain, strategy, goal, hypothesis, action, prediction, notes=(Note(moment, note),) if note else (),
        )  # fmt: skip
        check_experience(new)

        def begin(tx: Transaction) -> Sequence[SavedRecord]:
            other = _active(tx, new.project, agent)
            if other is not None:
                raise UsageError(
                    f"Experience {other.uid} is active for {agent}. End it first: harken experience resolve, or go "
                    "on with it: harken experience adopt"
                )
            return [kept_experience(new, project)]

        return self._written(begin)

    def update(
        self,
        uid: str | None = None,
        *,
        hypothesis: str | None = None,
        action: str | None = None,
        prediction: str | None = None,
        strategy: str | None = None,
        note: str = "",
        directory: str | Path | None = None,
        agent: str = DEFAULT_AGENT,
    ) -> Experience:
        """Change the active experience; another hypothesis, action or prediction is a new iteration.

        Raises:
            UsageError: nothing changes, or a value is not possible.
            NotFoundError: there is none.
        """
        given = {"hypothesis": hypothesis, "action": action, "prediction": prediction, "strategy": strategy}
        changes = {name: value.strip() for name, value in given.items() if value is not None}

        def change(tx: Transaction) -> Sequence[SavedRecord]:
            kept = _found(tx, uid, self._project(directory), agent)
            return [
                kept_experience(read_experience(kept).changed(self.keeper.now(), changes, note.strip()), kept.project)
            ]

        return self._written(change)

    def resolve(
        self,
        status: str | None = None,
        result: str = "",
        *,
        surprise: str = "",
        root_cause: RootCause | None = None,
        lesson: Lesson | None = None,
        uid: str | None = None,
        directory: str | Path | None = None,
        agent: str = DEFAULT_AGENT,
    ) -> Experience:
        """End the active experience.

        Where a test or build has run since its last attempt and says the same, the outcome counts as captured, and its
        result is what was printed unless one is given.

        Args:
            status: `confirmed`, `falsified` or `abandoned`; None takes what is suggested.
            result: what came of it; required unless it is captured or abandoned.
            surprise: what was unexpected; required where it is falsified.
            root_cause: likewise.
            lesson: what to do the next time.
            uid: which; None takes the active one of the project and agent.
            directory: the working directory, which tells the project.
            agent: whose.
        Raises:
            UsageError: a value is missing or not possible, or nothing is suggested.
            NotFoundError: there is none.
        """
        if status is not None and status not in OUTCOMES:
            raise UsageError(f"status must be one of {', '.join(OUTCOMES)}, not '{status}'.")
        see_checks(self.store, self._since(uid, directory, agent))

        def end(tx: Transaction) -> Sequence[SavedRecord]:
            kept = _found(tx, uid, self._project(directory), agent)
            one = read_experience(kept)
            outcome = _outcome(status, result.strip(), _suggestion(tx, one), self.keeper.now())
            ended = one.resolved(outcome, surprise.strip(), root_cause, lesson)
            return [kept_experience(replace(ended, tier=tier_of(ended)), kept.project)]

        return self._written(end)

    def active(
        self, *, directory: str | Path | None = None, agent: str = DEFAULT_AGENT, session: str = ""
    ) -> Active | None:
        """The active experience, if any, with what a test or build has said of it.

        Args:
            directory: the working directory, which tells the project.
            agent: whose.
            session: the present one; an experience of another session is an orphan.
        """
        project = self._project(directory)
        with self.store.reading() as tx:
            one = _active(tx, project.key if project else "", agent)
        if one is None:
            return None
        see_checks(self.store, one.attempted_at)
        with self.store.reading() as tx:
            return Active(one, bool(session) and one.session != session, _suggestion(tx, one))

    def adopt(
        self,
        uid: str | None = None,
        *,
        session: str = "",
        directory: str | Path | None = None,
        agent: str = DEFAULT_AGENT,
    ) -> Experience:
        """Go on with an experience that another session began.

        Raises:
            UsageError: it is over.
            NotFoundError: there is none.
        """

        def take(tx: Transaction) -> Sequence[SavedRecord]:
            kept = _found(tx, uid, self._project(directory), agent)
            one = read_experience(kept)
            if one.outcome is not None:
                raise UsageError(f"Experience {one.uid} is {one.status} already; only an active one can be adopted.")
            return [kept_experience(replace(one, session=session, updated_at=self.keeper.now()), kept.project)]

        return self._written(take)

    def list(
        self,
        limit: int = 20,
        *,
        domain: str | None = None,
        outcome: str | None = None,
        since: datetime | None = None,
        project: str | None = None,
    ) -> Sequence[Experience]:
        """Experiences, the newest first.

        Args:
            limit: 1 to 500.
            domain: only of this one.
            outcome: only with this one; `active` for those without.
            since: begun at or after.
            project: only of this one: its short name, key or folder.
        Raises:
            UsageError: a value is not possible.
        """
        if not 1 <= limit <= _MOST_LISTED:
            raise UsageError(f"limit must be from 1 to {_MOST_LISTED}, not {limit}.")
        known = [status.value for status in ExperienceStatus]
        if outcome is not None and outcome not in known:
            raise UsageError(f"outcome must be one of {', '.join(known)}, not '{outcome}'.")
        with self.store.reading() as tx:
            row = None if project is None else project_row(tx, project)
            found = list_experiences(tx, limit, domain=domain, status=outcome, since=since, project_id=row)
            return [read_experience(kept) for kept in found]

    def show(self, uid: str) -> Experience:
        """One experience, by its id or the beginning of it.

        Raises:
            NotFoundError: it names nothing, or more than one.
        """
        with self.store.reading() as tx:
            return read_experience(_named(tx, uid))

    def forget(self, uid: str) -> str:
        """Forget an experience for good; its id.

        Raises:
            NotFoundError: it names nothing, or more than one.
        """
        whole = self.show(uid).uid
        self.keeper.forget(EXPERIENCE, [whole])
        return whole

    def review(self) -> Sequence[Candidate]:
        """Checks that failed while no experience of their project was active, the newest first."""
        return open_candidates(self.store)

    def accept(
        self,
        uid: str,
        *,
        domain: str,
        strategy: str,
        agent: str = DEFAULT_AGENT,
        session: str = "",
        goal: str | None = None,
        hypothesis: str | None = None,
        action: str | None = None,
        prediction: str | None = None,
    ) -> Experience:
        """Start an experience from a candidate, in the words that were said and printed around it.

        Args:
            uid: the candidate's, or the beginning of it.
            domain: one of `DOMAINS`.
            strategy: one of `STRATEGIES`.
            agent: whose.
            session: the agent's own.
            goal: in place of what was said, and required where nothing was; likewise the three that follow.
            hypothesis: what is believed.
            action: what is done.
            prediction: what is to be seen then.
        Raises:
            NotFoundError: there is no such candidate.
            UsageError: something is missing, or another experience is active.
        """
        one = self._candidate(uid)
        texts = {
            "goal": goal or one.goal,
            "hypothesis": hypothesis or one.hypothesis,
            "action": action or one.command,
            "prediction": prediction or one.prediction,
        }
        missing = [name for name, text in texts.items() if not text]
        if missing:
            raise UsageError(
                f"Nothing was said that could stand for {' and '.join(missing)}. Give it: "
                + " ".join(f"--{name} TEXT" for name in missing)
            )
        given = tuple(texts.values())
        return self._begun(one.project, agent, session, domain, strategy, given, one.uid, one.printed)

    def dismiss(self, uid: str) -> str:
        """Never show a candidate again; its id.

        Raises:
            NotFoundError: there is no such candidate.
        """
        one = self._candidate(uid)
        # As something forgotten, it stays away through rebuilds, exports and imports.
        self.keeper.keep(
            EXPERIENCE, lambda _tx: [SavedRecord(EXPERIENCE, one.uid, self.keeper.now(), None, one.project)]
        )
        return one.uid

    def _candidate(self, beginning: str) -> Candidate:
        found = [one for one in self.review() if one.uid.startswith(beginning)]
        if len(found) != 1 or not beginning:
            what = "names no candidate" if not found else "is the beginning of several candidates"
            raise NotFoundError(f"'{beginning}' {what}. See: harken experience review")
        return found[0]

    def _since(self, uid: str | None, directory: str | Path | None, agent: str) -> datetime:
        with self.store.reading() as tx:
            return read_experience(_found(tx, uid, self._project(directory), agent)).attempted_at

    def _project(self, directory: str | Path | None) -> ProjectIdentity | None:
        return None if directory is None else self.identify(directory)

    def _written(self, choose: Callable[[Transaction], Sequence[SavedRecord]]) -> Experience:
        return read_experience(self.keeper.keep(EXPERIENCE, choose)[0])


def _outcome(status: str | None, result: str, suggested: Suggestion | None, moment: datetime) -> Outcome:
    if status is None and suggested is None:
        raise UsageError(
            f"No test or build has run since the last attempt. Say how it ended: one of {', '.join(OUTCOMES)}."
        )
    told = ExperienceStatus(status) if status else suggested.status if suggested else ExperienceStatus.ABANDONED
    if suggested is None or suggested.status is not told:
        return Outcome(told, result, moment)
    return Outcome(told, result or suggested.result, moment, auto_captured=True, evidence_uid=suggested.evidence_uid)


def _suggestion(tx: Transaction, one: Experience) -> Suggestion | None:
    check = None if one.outcome else latest_check(tx, one.project, one.attempted_at)
    return None if check is None else suggestion_of(one, check)


def _active(tx: Transaction, project: str, agent: str) -> Experience | None:
    found = list_experiences(tx, 1, status=ExperienceStatus.ACTIVE.value, project=project, agent=agent)
    return read_experience(found[0]) if found else None


def _named(tx: Transaction, beginning: str) -> SavedRecord:
    uid = kept_uid(tx, EXPERIENCE, beginning)
    return find_kept(tx, EXPERIENCE, [uid])[uid]


def _found(tx: Transaction, uid: str | None, project: ProjectIdentity | None, agent: str) -> SavedRecord:
    if uid is not None:
        return _named(tx, uid)
    one = _active(tx, project.key if project else "", agent)
    if one is None:
        raise NotFoundError(f"No experience is active here for {agent}. Begin one: harken experience start")
    return _named(tx, one.uid)
