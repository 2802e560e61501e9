"""The workers of the background: what each does, how it stands, and how it is started, switched and stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from harken.config.settings import Settings
from harken.errors import ConfigError, MissingExtraError, ProviderError, UsageError
from harken.jobs.backfill import Backfill
from harken.jobs.embed import EmbedWork
from harken.jobs.job import HaltingWork, SwitchedWork, Worker, WorkerState, run_until_idle
from harken.jobs.segments import SummarizeSegmentWork, Vectorize
from harken.jobs.spaces import Spaces
from harken.jobs.spend import LanguageModel
from harken.jobs.summarize import SummarizeWork
from harken.model.views import WorkerView
from harken.providers.embedder import Vectors
from harken.providers.summarizer import Summarizer
from harken.providers.summarizers.extractive import ExtractiveSummarizer, term_vectors
from harken.providers.summarizers.written import WrittenSummarizer
from harken.storage.conversations import count_all
from harken.storage.enrichment.consent import Consent, SummaryBacklog
from harken.storage.enrichment.jobs import (
    EMBED,
    VectorCounts,
    WorkCounts,
    blocked_reason,
    count_summaries,
    count_unembedded,
    count_vectors,
    count_work,
    is_enabled,
    put_enabled,
)
from harken.storage.enrichment.segments import SUMMARIZE_SEGMENT, count_due, count_made
from harken.storage.enrichment.spend import Spent, day_of, spent_by_kind
from harken.storage.enrichment.summaries import (
    CONVERSATION,
    EXCHANGE,
    SUMMARIZE,
    count_backlog,
    count_stale,
    running,
)
from harken.storage.enrichment.summaries import count_due as count_summaries_due
from harken.storage.ports import Store, StoredSpace, Transaction
from harken.storage.vectors import list_spaces

# Makes the work on rolling summaries of: sentences to vectors, who summarizes a segment, since when a model is set.
SegmentWork = Callable[
    [Vectorize | None, Callable[[str], Summarizer], Callable[[], datetime | None]], SummarizeSegmentWork
]
EMBEDDINGS, SEGMENT = "embeddings", "segment"
# The workers by the name that people call them, in the order in which their work is done.
WORKERS = {
    SEGMENT: SUMMARIZE_SEGMENT,
    EXCHANGE: SUMMARIZE[EXCHANGE],
    CONVERSATION: SUMMARIZE[CONVERSATION],
    EMBEDDINGS: EMBED,
}
_NOTHING = Spent()
_log = structlog.get_logger(__name__)
VectorsBySource = dict[str, VectorCounts]


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """How one worker stands.

    Attributes:
        name: `embeddings`, or what it summarizes: `exchange`, `conversation`, `segment`.
        state: of this process's own worker; stopped where it runs none.
        done: how many vectors or summaries there are.
        waiting: how many are missing, or outlived by what was said since.
        outlived: of those that are done, how many wait to be made again.
        older: how many the configured model does not summarize unless somebody asks (`Backfill`); they are, or will be,
            summarized by extraction.
        done_here: how many this process's own worker has taken on since it was started.
        current: the id of what is being summarized now, by whichever process; empty where nothing is.
        halted: why it stands still, in words for a person; empty while it works.
        spent: what its calls of language models have cost in all.
        spent_today: of that, today's part, by the day of UTC.
    """

    name: str
    enabled: bool
    state: WorkerState
    done: int
    waiting: int
    counts: WorkCounts
    halted: str = ""
    spent: Spent = _NOTHING
    spent_today: Spent = _NOTHING
    outlived: int = 0
    older: int = 0
    done_here: int = 0
    current: str = ""

    @property
    def is_run_here(self) -> bool:
        """Whether this process runs a worker for it."""
        return self.state is not WorkerState.STOPPED

    @property
    def state_name(self) -> str:
        """`OFF`, `HALTED`, `RUNNING`, `WAITING` (there is work, and nobody here does any) or `IDLE`."""
        if not self.enabled:
            return "OFF"
        if self.halted:
            return "HALTED"
        if self.counts.leased or (self.waiting and self.state is WorkerState.PROCESSING):
            return "RUNNING"
        return "WAITING" if self.waiting and not self.is_run_here else "IDLE"

    def view(self) -> WorkerView:
        """The report as JSON."""
        counts = self.counts
        return {
            "name": self.name,
            "enabled": self.enabled,
            "state": self.state_name,
            "done": self.done,
            "outlived": self.outlived,
            "older": self.older,
            "waiting": self.waiting,
            "current": self.current or None,
            "in_hand": counts.leased,
            "retrying": counts.retrying,
            "retry_at": counts.retry_at.isoformat() if counts.retry_at else None,
            "given_up": counts.given_up,
            "last_error": counts.last_error,
            "halted": self.halted,
            "calls": self.spent.calls,
            "spend_usd": float(self.spent.usd),
            "spend_today_usd": float(self.spent_today.usd),
        }


class Background:
    """Runs, switches and shows the workers; reached as `Harken.background`.

    Args:
        settings: those in force; read anew each time.
    """

    def __init__(
        self,
        store: Store,
        spaces: Spaces,
        make_segment_work: SegmentWork,
        settings: Callable[[], Settings],
        language_model: LanguageModel,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._spaces = spaces
        self._make_segment_work = make_segment_work
        self._settings = settings
        self._language_model = language_model
        self._now = now
        self._ongoing: frozenset[str] = frozenset()
        self.backfill = Backfill(store, settings, language_model, self._summarizer, now)
        self._workers: dict[str, Worker] = {}
        self._works: dict[str, SwitchedWork] = {}
        self._stop_listening: Callable[[], None] | None = None

    def embed(self, progress: Callable[[int, int], None] = lambda _done, _all: None, patient: bool = False) -> int:
        """See `Harken.embed`; done even where the worker is switched off: somebody asks for it.

        Raises:
            ProviderError: the model cannot be opened, or, unless patient, its endpoint fails.
            MissingExtraError: what it needs is not installed.
        """
        work = self._embed_work()
        if work is None:
            return 0
        work.fail_fast = not patient
        waiting = work.waiting()
        wanted = SwitchedWork(self._store, EMBED, lambda: work, self._now, is_wanted=True)
        run_until_idle(wanted, lambda count: progress(count, max(waiting, count)), patient)
        return work.stored

    def summarize(self, progress: Callable[[int], None] = lambda _done: None) -> dict[str, int]:
        """Make every summary that is due, in this thread, waiting for what backs off.

        Args:
            progress: called with how many items of one kind were taken on.
        Returns:
            How many were made, by kind; of segments, how many messages went into theirs.
        Raises:
            ProviderError: the language model cannot be opened.
            MissingExtraError: what it needs is not installed.
        """
        # Said at once, not item by item, where it cannot be used.
        self._language_model.model()
        segments = self._summarizing(self._segment_work(None))
        made = {SEGMENT: run_until_idle(segments, progress, patient=True)}
        for kind in (EXCHANGE, CONVERSATION):
            work = self._summarize_work(kind)
            run_until_idle(self._summarizing(work), progress, patient=True)
            made[kind] = work.stored
        return made

    def start(self, names: Collection[str] = tuple(WORKERS)) -> Worker | None:
        """Do work in the background from now on; what is done already goes on.

        Each worker opens what it needs by itself. While that fails it stands still and says why, and once it is mended
        it goes on by itself, within a minute: an endpoint that is down now stops nothing for good.

        Args:
            names: of the workers; all of them unless some are named.
        Returns:
            The embedder's worker; None where the settings name no model.
        Raises:
            ConfigError: the settings name a model that cannot be; the workers run all the same.
            MissingExtraError: what a model needs is not installed; likewise.
            ModelFileError: a model's files are missing or not the pinned ones; likewise.
        """
        for name in names:
            if name not in self._workers and (name != EMBEDDINGS or self._spaces.is_configured):
                self._start(name)
        if self._stop_listening is None:
            self._stop_listening = self._store.listen(self.wake)
        # Said at once, where somebody has to do something about it; neither asks an endpoint anything.
        if set(names) - {EMBEDDINGS}:
            self._language_model.model()
        if EMBEDDINGS in names:
            self._spaces.embedder()
        return self._workers.get(EMBEDDINGS)

    def stop(self) -> None:
        """Finish the batches in hand and end."""
        if self._stop_listening is not None:
            self._stop_listening()
        for worker in self._workers.values():
            worker.stop()
        self._workers, self._works, self._stop_listening = {}, {}, None

    @property
    def is_busy(self) -> bool:
        """Whether a worker of this process is at work, or looks for some."""
        return any(worker.status().state is WorkerState.PROCESSING for worker in tuple(self._workers.values()))

    @property
    def halts(self) -> dict[str, str]:
        """Why workers of this process stand still, in words for a person, by their names."""
        return {name: work.halted for name, work in tuple(self._works.items()) if work.halted}

    def wake(self) -> None:
        """There is work; returns at once."""
        for worker in tuple(self._workers.values()):
            worker.wake()

    def hold(self, conversation_uid: str) -> None:
        """This conversation is being held in this process: no model summarizes it before it is over."""
        self._ongoing |= {conversation_uid}

    def switch(self, name: str, enabled: bool) -> None:
        """Switch a worker on or off, in every process and for good.

        Raises:
            UsageError: there is no such worker.
        """
        kind = _kind_of(name)
        with self._store.writing() as tx:
            put_enabled(tx, kind, enabled)
        self.wake()

    def status(self, name: str | None = None) -> tuple[WorkerReport, ...]:
        """How every worker stands, or one; opens no model.

        Raises:
            UsageError: there is no such worker.
        """
        if name is not None:
            _kind_of(name)
        with self._store.reading() as tx:
            spent, today = spent_by_kind(tx), spent_by_kind(tx, day_of(self._now()))
            return tuple(
                self._report(tx, each, spent.get(kind, _NOTHING), today.get(kind, _NOTHING))
                for each, kind in WORKERS.items()
                if name in (None, each)
            )

    def is_summarizing(self) -> bool:
        """Whether summaries of exchanges or of conversations are switched on."""
        with self._store.reading() as tx:
            return any(is_enabled(tx, kind) for kind in SUMMARIZE.values())

    def vectors(self) -> VectorsBySource:
        """How many vectors there are and are missing, by what they are of: `message`, `exchange`, `conversation`…"""
        with self._store.reading() as tx:
            return count_vectors(tx, _target(tx))

    def _report(self, tx: Transaction, name: str, spent: Spent, today: Spent) -> WorkerReport:
        kind, now = WORKERS[name], self._now()
        worker = self._workers.get(name)
        here = worker.status() if worker else None
        done, waiting = self._progress(tx, name)
        is_summary, consent, rest_seconds = name in SUMMARIZE, self._consent(), self._settings().worker.rest_seconds
        backlog = SummaryBacklog(consent.since)
        return WorkerReport(
            name=name,
            enabled=is_enabled(tx, kind),
            state=here.state if here else WorkerState.STOPPED,
            done=done,
            waiting=waiting,
            counts=count_work(tx, kind, now),
            halted=blocked_reason(tx, kind),
            spent=spent,
            spent_today=today,
            outlived=count_stale(tx, name, now, rest_seconds, consent) if is_summary else 0,
            older=count_backlog(tx, name, now, rest_seconds, backlog) if is_summary and consent.since else 0,
            done_here=here.done if here else 0,
            current=(running(tx, name, now) or "") if is_summary else "",
        )

    def _progress(self, tx: Transaction, name: str) -> tuple[int, int]:
        if name == EMBEDDINGS:
            target = _target(tx)
            counts = count_all(tx, target.id if target else None)
            return counts.embedded, count_unembedded(tx, target) if target else counts.embeddable
        if name == SEGMENT:
            return count_made(tx), count_due(tx)
        rest_seconds = self._settings().worker.rest_seconds
        return count_summaries(tx, name), count_summaries_due(tx, name, self._now(), rest_seconds, self._consent())

    def _start(self, name: str) -> None:
        config = self._settings().worker
        poll_seconds = config.poll_seconds
        if name == EMBEDDINGS:
            work = SwitchedWork(self._store, EMBED, self._embedding(), self._now)
        elif name == SEGMENT:
            work = self._summarizing(self._segment_work(self._vectors_of), is_lasting=True)
        else:
            work = self._summarizing(self._summarize_work(name), is_lasting=True)
            poll_seconds = config.summary_poll_seconds
        self._works[name], self._workers[name] = work, Worker(work, poll_seconds)
        self._workers[name].start()

    def _embedding(self) -> Callable[[], HaltingWork]:
        """What gives the embedding work: the model is opened, and its space made, when it is first asked."""
        made: list[EmbedWork] = []

        def opened() -> HaltingWork:
            if not made:
                work = self._embed_work()
                if work is None:
                    raise ConfigError("The settings name no embedding model.")
                work.outage.is_waited_out = True
                made.append(work)
            return made[0]

        return opened

    def _vectors_of(self, sentences: Sequence[str]) -> Vectors:
        """Sentences by their meaning; by their words where there is no model, or it cannot be used now."""
        try:
            embedder = self._spaces.embedder()
            return term_vectors(sentences) if embedder is None else embedder.embed_passages(sentences)
        except (ProviderError, MissingExtraError) as error:
            _log.warning("sentences_compared_by_words", error_class=type(error).__name__)
            return term_vectors(sentences)

    def _summarizing(self, work: SummarizeWork | SummarizeSegmentWork, is_lasting: bool = False) -> SwitchedWork:
        """Work that asks the language model, as it is set at the time.

        Args:
            work: what is done.
            is_lasting: it goes on until this process ends.
        """
        work.outage.is_waited_out = is_lasting

        def opened() -> HaltingWork:
            # Not item by item, where it cannot be used.
            self._language_model.model()
            if isinstance(work, SummarizeWork):
                work.rest_seconds = self._settings().worker.rest_seconds
            return work

        return SwitchedWork(self._store, work.name, opened, self._now)

    def _consent(self) -> Consent:
        return Consent(self._language_model.since(), self._ongoing)

    def _embed_work(self) -> EmbedWork | None:
        filled = self._spaces.filled()
        if filled is None:
            return None
        worker = self._settings().worker
        return EmbedWork(self._store, filled.embedder, filled.space, worker.batch_size, worker.lease_seconds, self._now)

    def _summarize_work(self, kind: str) -> SummarizeWork:
        config = self._settings().worker
        return SummarizeWork(
            self._store,
            kind,
            self._summarizer,
            config.batch_size,
            config.lease_seconds,
            config.rest_seconds,
            self._now,
            wake_next=self._wake_embeddings,
            consent=self._consent,
        )

    def _segment_work(self, vectorize: Vectorize | None) -> SummarizeSegmentWork:
        return self._make_segment_work(vectorize, self._segment_summarizer, self._language_model.since)

    def _wake_embeddings(self) -> None:
        """Summaries make work for no other worker, and looking for it among many exchanges takes a while."""
        if worker := self._workers.get(EMBEDDINGS):
            worker.wake()

    def _segment_summarizer(self, uid: str) -> Summarizer:
        return self._summarizer(SEGMENT, uid)

    def _summarizer(self, name: str, uid: str) -> Summarizer:
        """Extractive by words: vectors of sentences would double what the embedder has to do."""
        plain = ExtractiveSummarizer()
        model = self._language_model.metered(WORKERS[name], uid)
        return plain if model is None else WrittenSummarizer(model, plain, self._settings().llm.max_input_tokens)


def _target(tx: Transaction) -> StoredSpace | None:
    """The space that is filled, else the one that answers."""
    known = list_spaces(tx)
    active = next((space for space in known if space.state == "active"), None)
    return next((space for space in known if space.state == "filling"), active)


def _kind_of(name: str) -> str:
    if name not in WORKERS:
        raise UsageError(f"There is no worker '{name}'. Workers: {', '.join(WORKERS)}")
    return WORKERS[name]
