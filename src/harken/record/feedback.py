"""Verdicts on what was recalled: by a person, an agent, or an answer that used it. Each is an event of the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from harken.errors import NotFoundError, StoreReadOnlyError, UsageError
from harken.model.lookups import HookTimes
from harken.model.marks import ANSWER, OWNER, Rated, Verdict, factor_of, in_words
from harken.model.views import RatingView, view_of
from harken.record.recorder import Recorder
from harken.storage.conversations import messages_of_exchange
from harken.storage.ports import RowScope, Transaction
from harken.storage.records.marks import ratings_of
from harken.storage.records.recalls import (
    AskedMessage,
    Given,
    asked_at,
    given_behind,
    judged_place,
    newest_given,
    said_by_agent,
    texts_of,
)
from harken.storage.state import get_setting, hook_times, set_setting
from harken.text.words import content_terms

MAX_QUESTION_CHARS = 2000
# The row of the last injection whose answer was looked at.
_SEEN = "feedback.seen"
_AT_ONCE = 100
# An answer that is not recorded by then never is.
_WAITED_FOR = timedelta(days=1)
# So many words of what was recalled, none of which the question had, and each in so few entries, are no coincidence.
_LEAST_WORDS, _MOST_HOLDERS, _MOST_SHARE, _MOST_TERMS = 3, 10, 0.01, 60
_EXCERPT_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Judged:
    """What all verdicts on something say together.

    Attributes:
        kind: `message`, `exchange`, `conversation`, `memory`, `experience` or `value`.
        factor: what its score is multiplied by, 0.8 to 1.2.
        words: the verdicts in words; empty without any.
        question: for which it was judged; empty where nobody knows, and a wrong one then stays away from all.
    """

    uid: str
    kind: str
    factor: float
    words: str
    question: str = ""

    def view(self) -> RatingView:
        """The judgement as JSON."""
        return view_of(RatingView, self, question=self.question or None)


@dataclass(frozen=True, slots=True)
class Feedback:
    """Verdicts on what was recalled; reached as `Harken.feedback`."""

    recorder: Recorder

    def rate(
        self,
        uid: str,
        verdict: Verdict | str,
        *,
        by: str = OWNER,
        question: str = "",
        given_to: str = "",
        once: str = "",
    ) -> Judged:
        """Judge something that was recalled: it counts a little more or less from now on, never by more than a fifth.

        What is `wrong` does not come back by itself to such a question. Which one that was is known where a hook or a
        chat gave it; else the question may be told, and without any it stays away from all. `none` takes back all that
        was said before, in a shared space what oneself has said. Ids may be abbreviated to their beginnings.

        Args:
            uid: of what was recalled.
            verdict: how it was.
            by: `owner`, `agent` or `answer`.
            question: what was asked, where it is not the one that is known.
            given_to: the whole id of the conversation in which it came back; empty for the one in which it did last.
            once: the caller's own name for this very verdict; given again under it, it counts once.
        Raises:
            NotFoundError: the id names nothing that may be judged, or several things.
            UsageError: there is no such verdict.
        """
        if verdict not in list(Verdict):
            raise UsageError(f"{verdict!r} is no verdict. Give one of: {', '.join(Verdict)}")
        asked = " ".join(self.recorder.clean(question).split())[:MAX_QUESTION_CHARS]
        with self.recorder.store.reading() as tx:
            kind, ref, folder = _one(tx, uid)
            given = newest_given(tx, ref, given_to)
            about = asked_at(tx, given.conversation_uid, given.at) if given else None

        def rated(_tx: Transaction, _ingest: object) -> Sequence[Rated]:
            moment, place = self.recorder.now(), (given.conversation_uid if given else "")
            known = about.uid if about and not asked else ""
            own = self.recorder.new_uid("rated", once)
            judge = f"{by}:{self.recorder.member}" if self.recorder.member else by
            return [Rated(own, folder, ref, Verdict(verdict), judge, moment, place, known, asked)]

        self.recorder.admit([folder], rated)
        with self.recorder.store.reading() as tx:
            return replace(_judged(tx, ref, kind), question=asked or (about.text if about else ""))

    def show(self, uid: str) -> Judged:
        """What all verdicts on something say.

        Raises:
            NotFoundError: the id names nothing that may be judged, or several things.
        """
        with self.recorder.store.reading() as tx:
            kind, ref, _ = _one(tx, uid)
            return _judged(tx, ref, kind)

    def hook_times(self) -> list[HookTimes]:
        """How long hooks took to answer, by agent and week, newest first."""
        with self.recorder.store.reading() as tx:
            return hook_times(tx)

    def notice(self) -> int:
        """Call useful what answers have used since this was last asked; how many that is.

        An answer uses something where it has three of its rare words or more, none of which the question had. Nothing
        sinks because it was not used.
        """
        store, now = self.recorder.store, self.recorder.now()
        with store.reading() as tx:
            seen = int(get_setting(tx, _SEEN) or 0)
            given = given_behind(tx, seen, _AT_ONCE)
            used: list[tuple[Given, AskedMessage]] = []
            waiting = False
            for each in given:
                asked = asked_at(tx, each.conversation_uid, each.at)
                answer = said_by_agent(messages_of_exchange(tx, asked.exchange_uid)) if asked else ""
                waiting = waiting or (not answer and now - each.at < _WAITED_FOR)
                seen = seen if waiting else each.row
                if asked and answer and _is_used(tx, each.ref_uid, asked.text, answer):
                    used.append((each, asked))
            known = ratings_of(tx, (each.ref_uid for each, _ in used))
        fresh = [
            (each, asked)
            for each, asked in used
            if not any(one.is_answer and one.given_to == each.conversation_uid for one in known.get(each.ref_uid, ()))
        ]
        if fresh:
            self._note_used(fresh, now)
        if given:
            try:
                with store.writing() as tx:
                    set_setting(tx, _SEEN, seen)
            except StoreReadOnlyError:
                return 0
        return len(fresh)

    def _note_used(self, used: Iterable[tuple[Given, AskedMessage]], now: datetime) -> None:
        events = []
        with self.recorder.store.reading() as tx:
            for each, asked in used:
                for _kind, ref, folder in judged_place(tx, each.ref_uid)[:1]:
                    own = self.recorder.new_uid()
                    place = each.conversation_uid, asked.uid
                    events.append(Rated(own, folder, ref, Verdict.USEFUL, ANSWER, now, *place))
        self.recorder.admit(sorted({event.conversation_uid for event in events}), lambda _tx, _ingest: events)


def _one(tx: Transaction, uid: str) -> tuple[str, str, str]:
    found = judged_place(tx, uid)
    message, _, place = uid.rpartition(".")
    if not found and place.isdecimal() and judged_place(tx, message):
        raise UsageError(f"'{uid}' is a rule, which no verdict changes. Drop it: harken rules drop {uid}")
    if len(found) != 1:
        what = "names nothing that was said or saved" if not found else "is the beginning of several ids"
        raise NotFoundError(f"'{uid}' {what}. What came back is listed by: harken rag recalls")
    return found[0]


def _judged(tx: Transaction, ref: str, kind: str) -> Judged:
    told = ratings_of(tx, [ref]).get(ref, [])
    return Judged(ref, kind, factor_of(told), in_words(told))


def _is_used(tx: Transaction, ref_uid: str, question: str, answer: str) -> bool:
    _, text = texts_of(tx, [ref_uid]).get(ref_uid, ("", ""))
    known, said = set(content_terms(question)), set(content_terms(answer))
    shared = [term for term in dict.fromkeys(content_terms(text)) if term in said and term not in known][:_MOST_TERMS]
    if len(shared) < _LEAST_WORDS:
        return False
    holding = tx.text.holders(tx.connection, shared, RowScope())
    most = max(_MOST_HOLDERS, int(holding.entries * _MOST_SHARE))
    return sum(0 < len(held) <= most for held in holding.ids.values()) >= _LEAST_WORDS
