"""The workers of the background: what each does, how it stands, and how it is started, switched and stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harken.config.sections import WorkerConfig
from harken.config.settings import Settings
from harken.errors import ConfigError, MissingExtraError, ProviderError, UsageError
from harken.jobs.job import AnyWork, Job, Outage, SwitchedWork, Worker, WorkerState, run_until_idle
from harken.jobs.spaces import Spaces
from harken.jobs.spend import LanguageModel
from harken.log import Log
from harken.model.views import WorkerView, view_of
from harken.storage.enrichment import jobs, segments, summaries
from harken.storage.enrichment.consent import Consent, SummaryBacklog, SummarySizes
from harken.storage.enrichment.jobs import WorkCounts
from harken.storage.enrichment.segments import SEGMENT, SUMMARIZE_SEGMENT
from harken.storage.enrichment.spend import Spent, day_of, spent_by_kind
from harken.storage.enrichment.summaries import CONVERSATION, EXCHANGE, SUMMARIZE
from harken.storage.enrichment.webhooks import DELIVER
from harken.storage.ports import Store, StoredSpace, Transaction
from harken.storage.state import RowCounts, count_rows
from harken.storage.vectors import EMBED, VectorCounts, count_vectors, spaces_by_state

if TYPE_CHECKING:
    from harken.jobs.backfill import Backfill
    from harken.jobs.embed import EmbedWork
    from harken.jobs.summarize import SummarizeSegmentWork, SummarizeWork
    from harken.providers.embedder import Vectors
    from harken.providers.summarizer import Summarizer

EMBEDDINGS = "embeddings"
# The workers by the name that people call them, in the order in which their work is done.
WORKERS = {
    SEGMENT: SUMMARIZE_SEGMENT,
    EXCHANGE: SUMMARIZE[EXCHANGE],
    CONVERSATION: SUMMARIZE[CONVERSATION],
    EMBEDDINGS: EMBED,
}
_NOTHING = Spent()
_log = Log(__name__)
VectorsBySource = dict[str, VectorCounts]


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The state of one worker.

    Attributes:
        name: `embeddings`, or what it summarizes: `exchange`, `conversation`, `segment`.
        state: of this process's own worker; stopped where it runs none.
        done: vectors or summaries that there are.
        waiting: those that are missing, or stale by what was said since.
        blocked_reason: why it stands still, in words for a person; empty while it works.
        spent: by calls of language models.
        spent_today: by the day of UTC.
        stale: those of `done` that wait to be made again.
        older: those that the model makes only if somebody asks (`Backfill`); they are, or will be, made by extraction.
        done_here: by this process's own worker since it was started.
        current: the id of what is being summarized now, by whichever process; empty where nothing is.
    """

    name: str
    enabled: bool
    state: WorkerState
    done: int
    waiting: int
    counts: WorkCounts
    blocked_reason: str = ""
    spent: Spent = _NOTHING
    spent_today: Spent = _NOTHING
    stale: int = 0
    older: int = 0
    done_here: int = 0
    current: str = ""

    @property
    def is_run_here(self) -> bool:
        """True where this process runs a worker for it."""
        return self.state is not WorkerState.STOPPED

    @property
    def state_name(self) -> str:
        """`OFF`, `HALTED`, `RUNNING`, `WAITING` (there is work, and nobody here does any) or `IDLE`."""
        if not self.enabled:
            return "OFF"
        if self.blocked_reason:
            return "HALTED"
        if self.counts.leased or (self.waiting and self.state is WorkerState.PROCESSING):
            return "RUNNING"
        return "WAITING" if self.waiting and not self.is_run_here else "IDLE"

    def view(self) -> WorkerView:
        """The report as JSON."""
        return view_of(
            WorkerView,
            self,
            self.counts,
            self.spent,
            state=self.state_name,
            outlived=self.stale,
            current=self.current or None,
            in_hand=self.counts.leased,
            halted=self.blocked_reason,
            spend_usd=float(self.spent.usd),
            spend_today_usd=float(self.spent_today.usd),
        )


@dataclass(eq=False, repr=False)
class Background:
    """Runs, switches and shows the workers; reached as `Harken.background`."""

    store: Store
    spaces: Spaces
    settings: Callable[[], Settings]
    language_model: LanguageModel
    now: Callable[[], datetime]
    deliver_work: Callable[[], Job[Any, Any]]
    _pid: int = field(default_factory=os.getpid, init=False)
    _ongoing: frozenset[str] = field(default=frozenset(), init=False)
    _workers: dict[str, Worker] = field(default_factory=dict, init=False)
    _works: dict[str, AnyWork] = field(default_factory=dict, init=False)
    _embedding: EmbedWork | None = field(default=None, init=False)
    _stop_listening: Callable[[], None] | None = field(default=None, init=False)

    @cached_property
    def backfill(self) -> Backfill:
        """Summaries of what is older than the model."""
        from harken.jobs.backfill import Backfill

        return Backfill(self.store, self.settings, self.language_model, self._summarizer, self.now)

    def embed(self, progress: Callable[[int, int], None] = lambda _done, _all: None, patient: bool = False) -> int:
        """See `Harken.embed`; done even where the worker is switched off: somebody asks for it."""
        work = self._embed_work()
        if work is None:
            return 0
        work.fail_fast = not patient
        waiting = work.texts_waiting()
        wanted = SwitchedWork(self.store, EMBED, lambda: work, self.now, is_wanted=True)
        run_until_idle(wanted, lambda count: progress(min(count, waiting), waiting), patient)
        return work.stored

    def summarize(self, progress: Callable[[int], None] = lambda _done: None) -> dict[str, int]:
        """Make every summary that is due, in this thread, waiting for what backs off.

        Returns:
            How many were made, by kind; of segments, how many messages went into theirs.
        Raises:
            ProviderError, MissingExtraError: the language model cannot be opened.
        """
        # Said at once, not item by item, where it cannot be used.
        self.language_model.model()
        made = {}
        for name in (SEGMENT, EXCHANGE, CONVERSATION):
            work = self._summary_work(name)
            run_until_idle(self._summarizing(work), progress, patient=True)
            made[name] = work.stored
        return made

    def start(self, names: Collection[str] = tuple(WORKERS)) -> Worker | None:
        """Do work in the background from now on; what is done already goes on.

        Each worker opens what it needs by itself. While that fails it stands still and says why, and once it is mended
        it goes on by itself, within a minute: an endpoint that is down now stops nothing for good.

        Returns:
            The embedder's worker; None where the settings name no model.
        Raises:
            ConfigError: the settings name a model that cannot be; the workers run all the same.
            MissingExtraError, ModelFileError: a model needs what is not there; likewise.
        """
        if self._pid != (here := os.getpid()):
            self.stop()  # Those of its parent, in a process that was forked.
            self._pid = here
        # The last is not one of `WORKERS`: it makes nothing that is searched, and webhooks show their own state.
        for name in (*names, DELIVER):
            if name not in self._workers and self.has(name):
                self._start(name)
        if self._stop_listening is None:
            self._stop_listening = self.store.listen(self.wake)
        # Said at once, where somebody has to do something about it; neither asks an endpoint anything.
        if set(names) - {EMBEDDINGS}:
            self.language_model.model()
        if EMBEDDINGS in names:
            self.spaces.embedder()
            self.spaces.second_embedder()
        return self._workers.get(EMBEDDINGS)

    def stop(self) -> None:
        """Finish the batches in hand and end."""
        if self._stop_listening is not None:
            self._stop_listening()
        for worker in self._workers.values():
            worker.stop()
        self._workers, self._works, self._embedding, self._stop_listening = {}, {}, None, None

    @property
    def is_busy(self) -> bool:
        """True while a worker of this process is at work, or looks for some."""
        return any(worker.state is WorkerState.PROCESSING for worker in tuple(self._workers.values()))

    @property
    def blocked_reasons(self) -> dict[str, str]:
        """The reasons why workers of this process stand still, for a person, by their names."""
        workers = tuple(self._workers.items())
        return {name: worker.work.blocked_reason for name, worker in workers if worker.work.blocked_reason}

    def wake(self) -> None:
        """There is work; returns at once."""
        for worker in tuple(self._workers.values()):
            worker.wake()

    def hold(self, conversation_uid: str) -> None:
        """This conversation is being held in this process: no model summarizes it before it is over."""
        self._ongoing |= {conversation_uid}

    def switch(self, name: str, enabled: bool, store: Store | None = None) -> None:
        """Switch a worker on or off, in every process and for good; by the store of who asks, which may refuse it.

        Raises:
            UsageError: there is no such worker.
        """
        kind = _kind_of(name)
        with (store or self.store).writing() as tx:
            jobs.put_enabled(tx, kind, enabled)
        self.wake()

    def status(self, name: str | None = None) -> tuple[WorkerReport, ...]:
        """The states of all workers, or of one; opens no model.

        Raises:
            UsageError: there is no such worker.
        """
        if name is not None:
            _kind_of(name)
        with self.store.reading() as tx:
            spent, today, counted = spent_by_kind(tx), spent_by_kind(tx, day_of(self.now())), count_rows(tx)
            return tuple(
                self._report(tx, each, counted, spent.get(kind, _NOTHING), today.get(kind, _NOTHING))
                for each, kind in WORKERS.items()
                if name in (None, each)
            )

    def is_summarizing(self) -> bool:
        """True where summaries of exchanges or of conversations are switched on."""
        with self.store.reading() as tx:
            return any(jobs.is_enabled(tx, kind) for kind in SUMMARIZE.values())

    def vectors(self) -> VectorsBySource:
        """Count vectors that there are, and that are missing, by source: `message`, `exchange`, `conversation`…"""
        with self.store.reading() as tx:
            return count_vectors(tx, _target(tx))

    def _report(self, tx: Transaction, name: str, counted: RowCounts, spent: Spent, today: Spent) -> WorkerReport:
        kind, now, worker = WORKERS[name], self.now(), self._workers.get(name)
        more: dict[str, Any] = {}
        if name == EMBEDDINGS:
            done, waiting = jobs.count_embedding(tx, _target(tx), counted)
        elif name == SEGMENT:
            done, waiting = segments.count_made(tx), segments.count_due(tx)
        else:
            consent, due = self._consent(), (name, now, self._config().rest_seconds)
            done = jobs.count_summaries(tx, name)
            waiting, stale = summaries.count_due_and_stale(tx, *due, consent, counted)
            backlog = SummaryBacklog(consent.since, sizes=consent.sizes)
            older = summaries.count_backlog(tx, *due, backlog) if consent.since else 0
            more = {"stale": stale, "older": older, "current": summaries.running(tx, name, now) or ""}
        return WorkerReport(
            name=name,
            enabled=jobs.is_enabled(tx, kind),
            state=worker.state if worker else WorkerState.STOPPED,
            done=done,
            waiting=waiting,
            counts=jobs.count_work(tx, kind, now),
            blocked_reason=jobs.blocked_reason(tx, kind),
            spent=spent,
            spent_today=today,
            done_here=worker.done if worker else 0,
            **more,
        )

    def has(self, name: str) -> bool:
        """Whether the settings ask for this work; summaries are always made."""
        return name != EMBEDDINGS or self.spaces.is_configured

    def work_of(self, name: str) -> AnyWork:
        """The lasting work of a worker, or of webhooks (`DELIVER`), for whoever does it batch by batch."""
        if name not in self._works:
            if name == DELIVER:
                self._works[name] = self.deliver_work()
            elif name == EMBEDDINGS:
                self._works[name] = SwitchedWork(self.store, EMBED, self._opened_embedding, self.now)
            else:
                self._works[name] = self._summarizing(self._summary_work(name, self._vectors_of), is_lasting=True)
        return self._works[name]

    def _start(self, name: str) -> None:
        work = self.work_of(name)
        config = self._config()
        seconds = config.summary_poll_seconds if name in SUMMARIZE else config.poll_seconds
        self._workers[name] = Worker(work, seconds, lambda: self._config().gentle)
        self._workers[name].start()

    def _opened_embedding(self) -> EmbedWork:
        """The embedding work of the worker: the model is opened, and its space made, when it is first asked."""
        if self._embedding is None:
            self._embedding = self._embed_work()
            if self._embedding is None:
                raise ConfigError("The settings name no embedding model.")
            self._embedding.outage.is_waited_out = True
        return self._embedding

    def _vectors_of(self, sentences: Sequence[str]) -> Vectors:
        """Sentences by their meaning; by their words where there is no model, or it cannot be used now."""
        from harken.providers.summarizers.extractive import term_vectors

        try:
            embedder = self.spaces.embedder()
            return term_vectors(sentences) if embedder is None else embedder.embed_passages(sentences)
        except (ProviderError, MissingExtraError) as error:
            _log.warning("sentences_compared_by_words", error_class=type(error).__name__)
            return term_vectors(sentences)

    def _summarizing(self, job: Job[Any, Any], is_lasting: bool = False) -> SwitchedWork:
        """A job that asks the language model, as it is set at the time; a lasting one ends with this process."""

        def opened() -> Job[Any, Any]:
            # Not item by item, where it cannot be used.
            self.language_model.model()
            if job.outage.of != self.settings().llm:
                job.outage = Outage(is_lasting, self.settings().llm)
            return job

        return SwitchedWork(self.store, job.name, opened, self.now)

    def _config(self) -> WorkerConfig:
        return self.settings().worker

    def _consent(self) -> Consent:
        return Consent(self.language_model.since(), self._ongoing, sizes=SummarySizes.of(self._config()))

    def _embed_work(self) -> EmbedWork | None:
        from harken.jobs.embed import EmbedWork, LanguageWork

        filled, config = self.spaces.filled(), self._config()
        if filled is None:
            return None
        limits = config.batch_size, config.lease_seconds, self.now
        work = EmbedWork(self.store, filled.embedder, filled.space, *limits)
        work.max_retries = config.embedding_max_retries
        work.min_message_tokens = self.settings().embedding.min_message_tokens
        try:
            if second := self.spaces.second_filled():
                spaces, embedder = second
                work.second = LanguageWork(self.store, embedder, spaces, *limits)
        except (ProviderError, MissingExtraError) as error:
            # English goes on without it; `doctor` and every search in another language say why.
            _log.warning("second_model_not_opened", error_class=type(error).__name__)
        return work

    def _summary_work(
        self, name: str, vectorize: Callable[[Sequence[str]], Vectors] | None = None
    ) -> SummarizeWork | SummarizeSegmentWork:
        from harken.jobs.summarize import SummarizeSegmentWork, SummarizeWork

        if name == SEGMENT:
            model = (self._summarizer, self.language_model.since)
            return SummarizeSegmentWork(self.store, self.settings, self.now, vectorize, *model)
        wake = self._wake_embeddings
        return SummarizeWork(self.store, name, self._summarizer, self._config, self.now, self._consent, wake)

    def _wake_embeddings(self) -> None:
        """Summaries make work for no other worker, and looking for it among many exchanges takes a while."""
        if worker := self._workers.get(EMBEDDINGS):
            worker.wake()

    def _summarizer(self, name: str, uid: str) -> Summarizer:
        """Extractive by words: vectors of sentences would double what the embedder has to do."""
        from harken.providers.summarizers.extractive import ExtractiveSummarizer
        from harken.providers.summarizers.written import WrittenSummarizer

        plain = ExtractiveSummarizer()
        model = self.language_model.metered(WORKERS[name], uid)
        return plain if model is None else WrittenSummarizer(model, plain, self.settings().llm.max_input_tokens)


def _target(tx: Transaction) -> StoredSpace | None:
    """The space that is filled, else the one that answers."""
    spaces = spaces_by_state(tx)
    return spaces.get("filling") or spaces.get("active")


def _kind_of(name: str) -> str:
    if name not in WORKERS:
        raise UsageError(f"There is no worker '{name}'. Workers: {', '.join(WORKERS)}")
    return WORKERS[name]
