"""The state of background work in words: summarizers and the embedding pipeline.

Source: seed 003, command interface.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING

from harken.serve.operations.status import CONVERSATION, EMBEDDINGS, EXCHANGE, SEGMENT, TOOLS, limit_words
from harken.text.shown import counted

if TYPE_CHECKING:
    from harken.engine import Harken
    from harken.jobs.workers import VectorsBySource, WorkerReport
    from harken.serve.cli.session import CommandSession

HOW_TO_CONFIGURE = (
    "{prefix}model VENDOR:MODEL, e.g. openai:gpt-5-mini, anthropic:…, google:… or ollama:…; its key in OPENAI_API_KEY, "
    "ANTHROPIC_API_KEY, GOOGLE_API_KEY or HARKEN_LLM__API_KEY; pip install 'harken[llm]'"
)
_TITLES = {
    CONVERSATION: "Conversation Summarizer",
    EXCHANGE: "Exchange Summarizer",
    SEGMENT: "Segment Summarizer",
    EMBEDDINGS: "Embedding Pipeline",
}
_SOURCES = {
    CONVERSATION: "Conversation summaries",
    EXCHANGE: "Exchange summaries",
    TOOLS: "Tool call summaries",
    "message": "Messages",
}


def title_line(report: WorkerReport, has_model: bool = True) -> str:
    """`Exchange Summarizer: IDLE`; without a model that it needs, `NO MODEL`."""
    return f"{_TITLES[report.name]}: {report.state_name if has_model else 'NO MODEL'}"


def summarizer_lines(session: CommandSession, report: WorkerReport) -> list[str]:
    """A summarizer's state, progress, what it has in hand, spend, and what is unusual."""
    current = report.done - report.stale
    total = current + report.waiting + report.counts.given_up
    lines = [title_line(report)]
    if report.waiting:
        lines.append(f"  Progress: {current:,}/{total:,} {report.name}s")
    elif report.is_run_here:
        lines.append(f"  Total processed this session: {report.done_here:,}")
    lines.append(f"  Completed: {current:,}, Failed: {report.counts.given_up:,}")
    if report.current:
        lines.append(f"  Current: {report.name}_id={report.current}")
    spent, today = report.spent, report.spent_today
    spend = f"${spent.usd:.4f} ({counted(spent.calls, 'call')}, ${today.usd:.4f} today)" if spent.calls else "$0.00"
    lines.append(f"  Spend: {spend}")
    lines += _unusual(session, report)
    if report.enabled and not report.waiting and not report.counts.given_up:
        lines.append(f"All {report.name}s are summarized. Worker is idle.")
    return lines


def pipeline_lines(session: CommandSession, report: WorkerReport, vectors: VectorsBySource, model: str) -> list[str]:
    """The embedding pipeline's state, progress and counts by kind; the model is empty where the settings name none."""
    lines = [title_line(report, bool(model))]
    if report.counts.leased:
        lines.append("  State: Processing batch")
    if report.waiting:
        lines.append(f"  Progress: {report.done:,}/{report.done + report.waiting:,} embeddings")
    lines.append(f"  Completed: {report.done:,}, Failed: {report.counts.given_up:,}")
    if report.counts.leased:
        lines.append(f"  Current batch: {counted(report.counts.leased, 'item')}")
    lines.append(f"  Total embeddings: {report.done:,}" + (f" ({model})" if model else ""))
    lines += [f"    - {name}: {count:,}" for name, count in by_kind(vectors)]
    if model:
        lines += _unusual(session, report)
    else:
        lines.append("No embedding model is set: search goes by words alone. Set one: harken config set embedder onnx")
    return lines


def by_kind(vectors: VectorsBySource) -> list[tuple[str, int]]:
    """(kind in words, vectors): both kinds of summaries always, the rest where there are any."""
    counts = {CONVERSATION: 0, EXCHANGE: 0, **{source: vectors[source].embedded for source in sorted(vectors)}}
    return [(source_name(source), count) for source, count in counts.items()]


def source_name(source: str) -> str:
    """`Messages` for `message`."""
    return _SOURCES.get(source, source.replace("_", " ").capitalize())


def summaries_words(harken: Harken, prefix: str) -> str:
    """`Summaries: openai:gpt-5-mini for what is said from now on, at most $1.00 a day; 12 older ones by extraction`."""
    model, older = harken.chat.model_name, harken.background.backfill.count()
    if not harken.background.is_summarizing():
        return "Summaries: off"
    since = harken.background.backfill.language_model.since()
    if model is None or since is None:
        return "Summaries: by extraction, which costs nothing"
    is_fresh = harken.recorder.now() - since < timedelta(minutes=1)
    when = "is said from now on" if is_fresh else f"was said since {since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    words = f"Summaries: {model} for what {when}, {limit_words(harken.settings.llm.max_usd_per_day)}"
    return f"{words}; {older:,} older ones by extraction ({prefix}summarizer backfill)" if older else words


def _unusual(session: CommandSession, report: WorkerReport) -> list[str]:
    """A line for each: work that nobody does, that is tried again, that was given up, or stands still."""
    what, awaited = ("text", "embedding") if report.name == EMBEDDINGS else (report.name, "a summary")
    awaiting = f"⚠ Warning: {counted(report.waiting, what)} await{'s' if report.waiting == 1 else ''} {awaited}"
    lines = []
    if report.waiting and not report.enabled:
        of = "embeddings" if report.name == EMBEDDINGS else f"summarizer {report.name}"
        lines.append(f"{awaiting} (it is OFF). Switch it on: {session.prefix}{of} on")
    elif report.state_name == "WAITING":
        lines.append(f"{awaiting}, and no worker runs here. Do it now: harken worker run --until-idle")
    if report.counts.retrying:
        moment = report.counts.retry_at
        left = 0 if moment is None else max(0, ceil((moment - datetime.now(UTC)).total_seconds()))
        when = f"in {counted(left, 'second')}" if left else "now"
        lines.append(f"⚠ Retry queue: {counted(report.counts.retrying, 'item')} (next retry {when})")
    if report.counts.given_up:
        why = f", lastly {report.counts.last_error}" if report.counts.last_error else ""
        lines.append(f"⚠ {counted(report.counts.given_up, 'item')} given up{why}. Again: harken worker retry")
    if report.blocked_reason:
        lines.append(f"⚠ Stands still: {report.blocked_reason}")
    return lines
