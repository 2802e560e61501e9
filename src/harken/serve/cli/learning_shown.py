"""How experiences, candidates, clusters and values are printed, for people and for scripts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.text import Text

from harken.learned.axes import experience_markdown
from harken.learned.records import Experience, Value
from harken.record.lines import format_time
from harken.serve.cli.session import Session
from harken.sources.candidates import Candidate
from harken.sources.checks import Suggestion
from harken.sources.values import AxisClusters


def experience_facts(one: Experience, whole: bool = True) -> dict[str, Any]:
    """An experience as scripts get it.

    Args:
        one: the experience.
        whole: with its story; else only what a list shows.
    """
    facts: dict[str, Any] = {
        "id": one.uid,
        "project": one.project or None,
        "agent": one.agent,
        "domain": one.domain,
        "strategy": one.strategy,
        "outcome_status": one.status.value,
        "confidence_tier": one.tier or None,
        "iteration_count": one.iteration_count,
        "created_at": format_time(one.created_at),
        "goal": one.goal,
    }
    if not whole:
        return facts
    outcome = one.outcome and {
        "status": one.outcome.status.value,
        "result": one.outcome.result,
        "captured_at": format_time(one.outcome.captured_at),
        "auto_captured": one.outcome.auto_captured,
        "evidence_id": one.outcome.evidence_uid or None,
    }
    return {
        **facts,
        "session": one.session or None,
        "hypothesis": one.hypothesis,
        "action": one.action,
        "prediction": one.prediction,
        "history": [{**asdict(each), "at": format_time(each.at)} for each in one.history],
        "notes": [{"at": format_time(each.at), "text": each.text} for each in one.notes],
        "outcome": outcome,
        "surprise": one.surprise or None,
        "root_cause": asdict(one.root_cause) if one.root_cause else None,
        "lesson": asdict(one.lesson) if one.lesson else None,
    }


def suggestion_facts(one: Suggestion | None) -> dict[str, Any] | None:
    """What a check suggests, as scripts get it."""
    if one is None:
        return None
    return {
        "status": one.status.value,
        "result": one.result,
        "command": one.command,
        "evidence_id": one.evidence_uid,
        "at": format_time(one.at),
    }


def candidate_facts(one: Candidate) -> dict[str, Any]:
    """A candidate as scripts get it; what was not said is null."""
    return {
        "id": one.uid,
        "project": one.project.key if one.project else None,
        "conversation_id": one.conversation_uid,
        "evidence_id": one.evidence_uid,
        "at": format_time(one.at),
        "command": one.command,
        "printed": one.printed,
        "goal": one.goal or None,
        "hypothesis": one.hypothesis or None,
        "prediction": one.prediction or None,
        "failures": one.failures,
        "has_passed": one.has_passed,
    }


def cluster_facts(one: AxisClusters) -> dict[str, Any]:
    """What was found on an axis, as scripts get it."""
    found = [
        {
            "id": each.uid,
            "size": len(each.members),
            "mean_distance": each.mean_distance,
            "deviation": each.deviation,
            "members": [uid for uid, _ in each.members],
        }
        for each in one.clusters
    ]
    return {"axis": one.axis, "experiences": one.experiences, "clusters": found, "note": one.note or None}


def value_facts(one: Value) -> dict[str, Any]:
    """A value with its provenance, as scripts get it."""
    return {
        "id": one.uid,
        "text": one.text,
        "axis": one.axis,
        "cluster_id": one.cluster_id,
        "cluster_size": one.cluster_size,
        "similarity_to_centroid": one.similarity_to_centroid,
        "distance": one.distance,
        "distance_limit": one.distance_limit,
        "members": list(one.members),
        "created_at": format_time(one.created_at),
    }


def print_experience(session: Session, one: Experience) -> None:
    """The whole story."""
    head = f"{one.uid}  {one.status.value} {one.tier}  iteration {one.iteration_count}  {one.agent}"
    session.out.print(Text(head.replace("  ", " · "), "bold"))
    session.out.print(Text(experience_markdown(one, "root_cause")))
    for number, each in enumerate(one.history, start=1):
        session.out.print(Text(f"  iteration {number}: {each.hypothesis} | {each.action} | {each.prediction}", "dim"))
    for note in one.notes:
        session.out.print(Text(f"  note: {note.text}", "dim"))


def print_candidate(session: Session, one: Candidate) -> None:
    """A failed check with what was said around it."""
    times = "once" if one.failures == 1 else f"{one.failures} times"
    since = ", passed since" if one.has_passed else ""
    session.out.print(Text(f"{one.uid} · `{one.command}` failed {times}{since}", "bold"))
    session.out.print(Text(one.printed))
    for name in ("goal", "hypothesis", "prediction"):
        session.out.print(Text(f"  {name}: {' '.join(getattr(one, name).split()) or 'not said'}", "dim"))
