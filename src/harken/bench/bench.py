"""How search and automatic recall do on questions made of the owner's own history, and which settings do better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from statistics import mean
from typing import Any, get_args

from harken.bench.measures import mean_interval, reciprocal_rank, share_interval
from harken.bench.questions import ASKED_AGAIN, KNOWN, QUOTED, RETOLD, SAVED, MinedQuestion, Miner
from harken.config.sections import RagConfig, SearchConfig
from harken.config.settings import Settings
from harken.context.render import Fence, recall_quotes
from harken.errors import UsageError
from harken.model.conversations import SearchScope
from harken.record.scope import scope_of
from harken.search.past import PastConversations
from harken.search.places import SUMMARIES
from harken.search.search import Searcher
from harken.storage.conversations import find_conversation
from harken.storage.ports import MESSAGE_SOURCE, RowScope
from harken.storage.projects import EVERY_PROJECT, ProjectScope, all_projects
from harken.storage.vectors import answering_space
from harken.text import tokens

SCOPES: tuple[str, ...] = get_args(RagConfig.hints()["scope"])
FUSIONS: tuple[str, ...] = get_args(SearchConfig.hints()["fusion"])
_DEPTH = 50
_PLACES = (1, 5, 10)
# Thresholds that are tried, from the model's own calibration.
_AROUND = (-0.05, 0.0, 0.05, 0.1)
# Fewer questions decide nothing.
_LEAST_QUESTIONS = 20
_PROMPTS_SHARE = 4
# Who asks in the very words of a message is served best by words, which says nothing about real questions: BEAM's talk
# gives convex fusion an MRR of 0.92 on its own questions, learned 0.69, and of those that people wrote 0.54 and 0.61.
_IN_OTHER_WORDS = (ASKED_AGAIN, QUOTED, RETOLD, SAVED)
PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Trial:
    """A way of recalling past conversations: the settings in force with one changed.

    Attributes:
        key: of the setting; empty for the settings as they are.
        value: what it is changed to.
    """

    name: str
    config: RagConfig
    key: str = ""
    value: object = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What came back for a question.

    Attributes:
        places: by fusion, the place from 1 of the first message that answers; 0 where none is among the first 50.
        recalled: by trial, whether the exchange that answers came back (of a prompt that nothing answers: whether
            anything did), and how many tokens all that came back takes. Empty where that was not asked.
    """

    question: MinedQuestion
    places: Mapping[str, int]
    recalled: Mapping[str, tuple[bool, int]]

    def view(self) -> dict[str, Any]:
        """The question as JSON, with where its answer was found."""
        came = self.recalled.get(PRESENT)
        return {
            "kind": self.question.kind,
            "query": self.question.text,
            "asked_in": self.question.conversation,
            "asked_at": self.question.asked_at.isoformat() if self.question.asked_at else None,
            "gold": sorted(self.question.gold),
            "places": dict(self.places),
            "recalled": came[0] if came else None,
            "tokens": came[1] if came else None,
        }


@dataclass
class MineReport:
    """What was measured so far.

    Attributes:
        planned: how many questions and prompts there are.
        fusion: the one in force; the threshold likewise, where it is the model's own `None`.
        trials: ways of recalling, the one in force first.
    """

    planned: int = 0
    fusion: str = FUSIONS[0]
    threshold: float | None = None
    trials: Sequence[Trial] = ()
    measured: list[Measured] = field(default_factory=list)

    def count(self, of_questions: bool) -> int:
        """How many questions were asked, or prompts that nothing answers."""
        return sum(bool(each.question.gold) == of_questions for each in self.measured)

    def kinds(self, of_questions: bool) -> list[str]:
        """The kinds of questions, or of prompts that nothing answers, in a fixed order."""
        return sorted({each.question.kind for each in self.measured if bool(each.question.gold) == of_questions})

    def search_figures(self) -> list[dict[str, Any]]:
        """Of each kind and fusion the recall, which is the share of questions with an answer so far up, and the MRR."""
        asked = [each for each in self.measured if each.question.gold]
        groups = {kind: [each for each in asked if each.question.kind == kind] for kind in self.kinds(True)}
        rows = []
        for kind, group in {"all": asked, **groups}.items():
            for fusion in self.fusions if group else ():
                places = [each.places[fusion] for each in group]
                row: dict[str, Any] = {"kind": kind, "fusion": fusion, "questions": len(places)}
                for most in _PLACES:
                    hits = sum(0 < place <= most for place in places)
                    row |= _with_interval(f"recall@{most}", hits / len(places), share_interval(hits, len(places)))
                reciprocals = [_reciprocal(place) for place in places]
                rows.append(row | _with_interval("mrr", mean(reciprocals), mean_interval(reciprocals)))
        return rows

    def recall_figures(self) -> list[dict[str, Any]]:
        """Of each trial: evidence in context, tokens a question, and what came back though nothing answers."""
        rows = []
        for trial in self.trials:
            row: dict[str, Any] = {"trial": trial.name}
            for name, is_asked in {"evidence": True, "wrong": False}.items():
                found = self._came(trial, is_asked)
                hits = sum(came for _, came, _ in found)
                row |= {"questions" if is_asked else "prompts": len(found)}
                row |= _with_interval(name, hits / max(1, len(found)), share_interval(hits, len(found)))
                row["tokens" if is_asked else "wrong_tokens"] = round(mean([size for *_, size in found] or [0]), 1)
            for kind in self.kinds(False):
                mine = [came for each, came, _ in found if each == kind]
                row[f"wrong: {kind}"] = f"{sum(mine)} of {len(mine)}"
            rows.append(row)
        return rows

    @property
    def fusions(self) -> tuple[str, ...]:
        """The one in force first."""
        return (self.fusion, *(each for each in FUSIONS if each != self.fusion))

    def suggestions(self) -> list[tuple[str, str]]:
        """Settings that did better beyond doubt, each as a command with the reason."""
        return [*self._better_fusion(), *self._better_trial()]

    def _better_fusion(self) -> Iterator[tuple[str, str]]:
        asked = [each.places for each in self.measured if each.question.kind in _IN_OTHER_WORDS]
        if len(asked) < _LEAST_QUESTIONS:
            return
        gains = {}
        for other in self.fusions[1:]:
            each_gain = [_reciprocal(places[other]) - _reciprocal(places[self.fusion]) for places in asked]
            if mean_interval(each_gain)[0] > 0:
                gains[other] = mean(each_gain)
        if gains:
            best = max(gains, key=lambda name: gains[name])
            yield f"harken config set search.fusion {best}", f"MRR {gains[best]:+.3f} against {self.fusion}"

    def _better_trial(self) -> Iterator[tuple[str, str]]:
        came = {
            trial.name: [[float(came) for _, came, _ in self._came(trial, is_asked)] for is_asked in (True, False)]
            for trial in self.trials
        }
        if not came or min(map(len, came[PRESENT])) < _LEAST_QUESTIONS:
            return
        best = max(self.trials, key=lambda trial: mean(came[trial.name][0]) - mean(came[trial.name][1]))
        (had, had_wrong), (has, has_wrong) = came[PRESENT], came[best.name]
        gained = [new - old for new, old in zip(has, had, strict=True)]
        saved = [old - new for new, old in zip(has_wrong, had_wrong, strict=True)]
        if best.key and mean_interval(gained, saved)[0] > 0:
            why = f"evidence in context {mean(had):.3f} to {mean(has):.3f}, injected wrongly "
            yield f"harken config set {best.key} {best.value}", f"{why}{mean(had_wrong):.3f} to {mean(has_wrong):.3f}"

    def _came(self, trial: Trial, is_asked: bool) -> list[tuple[str, bool, int]]:
        return [
            (each.question.kind, *each.recalled[trial.name])
            for each in self.measured
            if trial.name in each.recalled and bool(each.question.gold) == is_asked
        ]

    def view(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "planned": self.planned,
            "asked": len(self.measured),
            "fusion": self.fusion,
            "threshold": self.threshold,
            "search": self.search_figures(),
            "recall": self.recall_figures(),
            "suggestions": [{"command": command, "why": why} for command, why in self.suggestions()],
            "questions": [each.view() for each in self.measured],
        }


def _reciprocal(place: int) -> float:
    return 1.0 / place if place else 0.0


def _with_interval(name: str, value: float, interval: tuple[float, float]) -> dict[str, Any]:
    return {name: round(value, 3), f"{name} interval": [round(end, 3) for end in interval]}


def _trials(config: RagConfig, calibrated: float | None, has_projects: bool) -> list[Trial]:
    """The settings in force, then others; `config` with past conversations on, whether or not they are."""
    present = config.model_copy(update={"enabled": True})
    trials = [Trial(PRESENT, present)]
    for step in _AROUND if calibrated is not None else ():
        value = round((calibrated or 0.0) + step, 2)
        if value != config.min_similarity:
            changed = present.model_copy(update={"min_similarity": value})
            trials.append(Trial(f"{value:.2f}", changed, "rag.min_similarity", value))
    for scope in SCOPES if has_projects else ():
        if scope != config.scope:
            changed = present.model_copy(update={"scope": scope})
            trials.append(Trial(f"scope {scope}", changed, "rag.scope", scope))
    return trials


@dataclass(frozen=True, slots=True)
class Bench:
    """Measures memory on the owner's own history; reached as `Harken.bench`.

    It writes nothing into the store, and calls no language model.
    """

    searcher: Searcher
    settings: Callable[[], Settings]

    def mine(
        self,
        limit: int = 200,
        seed: int = 0,
        *,
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        report: MineReport | None = None,
    ) -> MineReport:
        """Make questions of the history, ask them as of their own time, and compare settings.

        `progress` is called with (done, in all) after each question; a given report is filled as the work goes on.

        Raises:
            UsageError: the limit is too small, or there is too little history.
        """
        if limit < _LEAST_QUESTIONS:
            raise UsageError(f"limit must be at least {_LEAST_QUESTIONS}, not {limit}.")
        found, config = report or MineReport(), self.settings()
        progress(0, limit)
        with self.searcher.sessions.open() as session, session.view.reading() as tx:
            space, miner = answering_space(tx), Miner(tx, session.view.nearest, seed)
            questions = miner.questions(limit)
            if len(questions) < _LEAST_QUESTIONS:
                raise UsageError(
                    f"Too little history: of {len(miner.turns):,} messages of people and agents "
                    f"{len(questions)} questions could be made, and {_LEAST_QUESTIONS} are needed, some hundred "
                    "messages. Bring in what there is: harken import"
                )
            prompts = miner.unanswered(max(1, limit // _PROMPTS_SHARE))
            has_projects = len(all_projects(tx)) > 1
        found.fusion, found.threshold = config.search.fusion, config.rag.min_similarity
        found.trials = _trials(config.rag, space.threshold if space else None, has_projects)
        found.planned = len(questions) + len(prompts)
        # Both kinds all along: whoever stops early has measured some of each.
        both = [(at / len(group), each) for group in (questions, prompts) for at, each in enumerate(group)]
        for _, question in sorted(both, key=itemgetter(0)):
            found.measured.append(self._measured(question, found))
            progress(len(found.measured), found.planned)
        return found

    def _measured(self, question: MinedQuestion, report: MineReport) -> Measured:
        places = {fusion: self._place(question, fusion) for fusion in report.fusions} if question.gold else {}
        trials = report.trials if question.is_elsewhere else ()
        return Measured(question, places, {trial.name: self._recalled(question, trial) for trial in trials})

    def _place(self, question: MinedQuestion, fusion: str) -> int:
        # Messages alone: what was made of the question, its summary among it, does not answer it.
        scope = SearchScope(sources=(MESSAGE_SOURCE,), until=question.asked_at)
        with self.searcher.sessions.open(fusion=fusion) as session:
            found = self.searcher.search(question.text, scope, _DEPTH, session=session)
        first = reciprocal_rank([hit.entry.ref_uid for hit in found.hits], question.gold)
        return round(1 / first) if first else 0

    def _recalled(self, question: MinedQuestion, trial: Trial) -> tuple[bool, int]:
        within = RowScope(until=question.until, without_sources=SUMMARIES if question.kind in (KNOWN, RETOLD) else ())
        past = PastConversations(self.searcher.sessions, lambda: trial.config)
        with self.searcher.sessions.open(self._projects(question, trial.config.scope)) as session:
            found = past.search(question.text, question.conversation, session, within)
        came = {exchange.uid for each in found.conversations for exchange in each.exchanges}
        fence = Fence()
        size = sum(tokens.estimate(fence.quoted(quote)) for quote in recall_quotes(found, session.now))
        return (not question.exchanges.isdisjoint(came) if question.gold else bool(found.conversations)), size

    def _projects(self, question: MinedQuestion, scope: str) -> ProjectScope:
        """What recall sees from where a question is asked: from outside of all conversations, every project."""
        store = self.searcher.sessions.store
        with store.reading() as tx:
            known = find_conversation(tx, question.conversation) if question.conversation else None
        return scope_of(store, scope, known.project) if known and known.project else EVERY_PROJECT
