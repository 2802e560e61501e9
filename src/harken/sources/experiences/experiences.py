"""Experiences: begun, changed, ended; found again after a crash; suggested by what ran."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harken.errors import NotFoundError, StoreReadOnlyError, UsageError
from harken.model.arguments import DEFAULT_AGENT, check_limit
from harken.model.conversations import ProjectIdentity, SavedRecord, Trust
from harken.model.experiences import (
    DOMAINS,
    EXPERIENCE,
    OUTCOMES,
    Experience,
    ExperienceStatus,
    Lesson,
    Note,
    Outcome,
    RootCause,
    check_experience,
    check_one_of,
    kept_experience,
    read_experience,
)
from harken.record.project import identify_project
from harken.record.recorder import Recorder, RecordTransaction
from harken.sources.experiences.candidates import Candidate, Suggestion, open_candidates, see_checks, suggestion_of
from harken.storage.ports import Store, Transaction
from harken.storage.projects import known_project, project_row
from harken.storage.records.checks import latest_check
from harken.storage.records.rows import find_kept, kept_uid, list_experiences
from harken.text.words import content_terms, words_of

GOLD, SILVER, BRONZE, ABANDONED = TIERS = ("gold", "silver", "bronze", "abandoned")
TIER_WEIGHTS = {GOLD: 1.0, SILVER: 0.8, BRONZE: 0.5, ABANDONED: 0.2}
"""The weight of an experience in a cluster's centroid; 0.5 where it has no tier."""
_LEAST_WORDS = {"hypothesis": 3, "prediction": 2}
_CONCRETE = re.compile(r"\d|`|\"[^\"]+\"|\w\(|\w[/\\]\w|\w\.\w|\w_\w|\w::\w|[a-z][A-Z]|--\w")
_MOST_LISTED = 500


def tier_of(one: Experience) -> str:
    """The confidence tier of an experience, how far it may be believed; empty while it is active.

    1. `abandoned`: it was given up; nothing was shown.
    2. `gold`: its outcome was captured from a test or build that ran, not told by the agent.
    3. `bronze`: it is vague: its hypothesis or its prediction says nothing that could be checked.
    4. `silver`: everything else; the agent told the outcome of something definite.

    A text is vague when it names nothing concrete (a number, a path, a call, a quoted or compound name) and has too few
    different words that say something, fewer than three in a hypothesis, fewer than two in a prediction: stop words,
    hedges and the words in which every report of work is written do not count.
    """
    if one.outcome is None:
        return ""
    if one.outcome.status is ExperienceStatus.ABANDONED:
        return ABANDONED
    if one.outcome.auto_captured:
        return GOLD
    vague = words_of("vague_words")
    for name, least_words in _LEAST_WORDS.items():
        text = getattr(one, name)
        words = {word for word in content_terms(text) if len(word) > 1 and word not in vague}
        if len(words) < least_words and not _CONCRETE.search(text):
            return BRONZE
    return SILVER


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
    """

    store: Store
    recorder: Recorder

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
        once: str = "",
    ) -> Experience:
        """Begin an experience, in the project of a working directory or in none.

        Goal, hypothesis, action and prediction have up to 1,000 characters; an orphan is known by its session. `once`
        is the caller's own name for this very call: what it has begun already is not begun again.

        Raises:
            UsageError: another one is active, or a value is not possible.
        """
        texts = {"goal": goal, "hypothesis": hypothesis, "action": action, "prediction": prediction}
        uid = self.recorder.new_uid(EXPERIENCE, once)
        return self._start(identify_project(directory), agent, session, domain, strategy, texts, uid)

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
        with self.recorder.saving(EXPERIENCE) as records:
            kept = self._found(records.tx, uid, directory, agent)
            changed = read_experience(kept).changed(self.recorder.now(), changes, note.strip())
            return _save(records, changed, kept.project)

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
        result is what was printed unless one is given. A result is required unless it is captured or abandoned, a
        surprise and a root cause where it is falsified. Without a status, the suggested one is taken.

        Raises:
            UsageError: a value is missing or not possible, or nothing is suggested.
            NotFoundError: there is none.
        """
        if status is not None:
            check_one_of("status", status, OUTCOMES)
        with self.store.reading() as tx:
            since = read_experience(self._found(tx, uid, directory, agent)).attempted_at
        see_checks(self.store, since)
        with self.recorder.saving(EXPERIENCE) as records:
            kept = self._found(records.tx, uid, directory, agent)
            one = read_experience(kept)
            outcome = _outcome(status, result.strip(), _suggestion(records.tx, one), self.recorder.now())
            ended = one.resolved(outcome, surprise.strip(), root_cause, lesson)
            return _save(records, replace(ended, tier=tier_of(ended)), kept.project)

    def active(
        self, *, directory: str | Path | None = None, agent: str = DEFAULT_AGENT, session: str = ""
    ) -> Active | None:
        """The active experience, if any, with what a test or build has said of it; an orphan if of another session."""
        with self.store.reading() as tx:
            kept = self._active(tx, identify_project(directory), agent)
        if kept is None:
            return None
        one = read_experience(kept)
        # What may only be read is shown all the same.
        with suppress(StoreReadOnlyError):
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
        with self.recorder.saving(EXPERIENCE) as records:
            kept = self._found(records.tx, uid, directory, agent)
            one = read_experience(kept)
            if one.outcome is not None:
                raise UsageError(f"Experience {one.uid} is {one.status} already; only an active one can be adopted.")
            return _save(records, replace(one, session=session, updated_at=self.recorder.now()), kept.project)

    def list(
        self,
        limit: int = 20,
        *,
        domain: str | None = None,
        outcome: str | None = None,
        since: datetime | None = None,
        project: str | None = None,
        offset: int = 0,
    ) -> Sequence[Experience]:
        """Experiences, the newest first, up to 500, from a place on; those without an outcome are `active`.

        Raises:
            UsageError: a value is not possible.
        """
        check_limit(limit, _MOST_LISTED)
        if outcome is not None:
            check_one_of("outcome", outcome, list(ExperienceStatus))
        if domain is not None:
            check_one_of("domain", domain, DOMAINS)
        with self.store.reading() as tx:
            row = None if project is None else project_row(tx, project)
            passed = max(0, offset)
            found = list_experiences(tx, passed + limit, domain=domain, status=outcome, since=since, project_id=row)
            return [read_experience(kept) for kept in found[passed:]]

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
        self.recorder.forget(EXPERIENCE, [whole])
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
        """Start an experience from a candidate, by its id or the beginning of it.

        Its texts are what was said and printed around it; what is given stands in their place, and is required where
        nothing was said.

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
        return self._start(one.project, agent, session, domain, strategy, texts, one.uid, one.printed)

    def dismiss(self, uid: str) -> str:
        """Never show a candidate again; its id.

        Raises:
            NotFoundError: there is no such candidate.
        """
        one = self._candidate(uid)
        # As something forgotten, it stays away through rebuilds, exports and imports.
        with self.recorder.saving(EXPERIENCE) as records:
            records.save(SavedRecord(EXPERIENCE, one.uid, self.recorder.now(), None, one.project))
        return one.uid

    def _candidate(self, beginning: str) -> Candidate:
        found = [one for one in self.review() if one.uid.startswith(beginning)]
        if len(found) != 1 or not beginning:
            what = "names no candidate" if not found else "is the beginning of several candidates"
            raise NotFoundError(f"'{beginning}' {what}. See: harken experience review")
        return found[0]

    def _start(
        self,
        project: ProjectIdentity | None,
        agent: str,
        session: str,
        domain: str,
        strategy: str,
        texts: Mapping[str, str],
        uid: str,
        note: str = "",
    ) -> Experience:
        moment = self.recorder.now()
        statements: dict[str, Any] = {name: text.strip() for name, text in texts.items()}
        notes = (Note(moment, note),) if note else ()
        new = Experience(
            uid, project.key if project else "", agent, session, moment, moment, moment,
            domain, strategy, **statements, notes=notes,
        )  # fmt: skip
        check_experience(new)
        with self.recorder.saving(EXPERIENCE) as records:
            if done := find_kept(records.tx, EXPERIENCE, [uid]):
                return read_experience(done[uid])
            other = self._active(records.tx, project, agent)
            if other is not None:
                raise UsageError(
                    f"Experience {other.uid} is active for {agent}. End it first: harken experience resolve, or go "
                    "on with it: harken experience adopt"
                )
            return _save(records, new, project)

    def _active(self, tx: Transaction, project: ProjectIdentity | None, agent: str) -> SavedRecord | None:
        """The one under way, and no stranger's; in a shared space, of agents of that name the one of whoever asks."""
        # By its row: a folder keeps the key that it had before it got a remote.
        row = 0 if project is None else known_project(tx, project)
        wanted: dict[str, Any] = {"status": ExperienceStatus.ACTIVE.value, "project_id": row, "agent": agent}
        found = [] if row is None else list_experiences(tx, _MOST_LISTED, **wanted)
        theirs = self.recorder.others(tx, [one.uid for one in found])
        own = (one for one in found if (one.fields or {}).get("trust") != Trust.IMPORTED.value)
        return next((one for one in own if one.uid not in theirs), None)

    def _found(self, tx: Transaction, uid: str | None, directory: str | Path | None, agent: str) -> SavedRecord:
        if uid is not None:
            return _named(tx, uid)
        active = self._active(tx, identify_project(directory), agent)
        if active is None:
            raise NotFoundError(f"No experience is active here for {agent}. Begin one: harken experience start")
        # Read anew: what lists experiences does not know by which other names their project goes.
        return _named(tx, active.uid)


def _save(records: RecordTransaction, one: Experience, project: ProjectIdentity | None) -> Experience:
    return read_experience(records.save(kept_experience(one, project)))


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


def _named(tx: Transaction, beginning: str) -> SavedRecord:
    uid = kept_uid(tx, EXPERIENCE, beginning)
    return find_kept(tx, EXPERIENCE, [uid])[uid]
