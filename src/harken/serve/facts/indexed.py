"""What indexing did, as scripts get it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harken.sources.workspace.commits import CommitReport
from harken.sources.workspace.tree import IndexReport


def report_facts(report: IndexReport | CommitReport) -> dict[str, Any]:
    """A report as scripts get it."""
    facts = asdict(report)
    if isinstance(report, IndexReport):
        # A Counter's own constructor would count what `asdict` hands it.
        facts |= {**facts.pop("changes"), "skipped": dict(report.skipped)}
    return facts
