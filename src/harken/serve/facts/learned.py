"""Experiences, candidates, clusters and values as scripts get them."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import shorten
from typing import Any

from harken.journal.events import format_time
from harken.model.experiences import Experience, Value
from harken.sources.experiences.candidates import Candidate
from harken.sources.experiences.checks import Suggestion
from harken.sources.experiences.experiences import Active
from harken.sources.experiences.values import AxisClusters, Member

_MOST_SAID = 300


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


def active_facts(found: Active) -> dict[str, Any]:
    """The active experience and what was said of it, as scripts get it."""
    more = {"is_orphan": found.is_orphan, "suggestion": suggestion_facts(found.suggestion)}
    return {**experience_facts(found.experience), **more}


def written_facts(one: Experience) -> dict[str, Any]:
    """What became of an experience that was written, as scripts get it."""
    return {
        "id": one.uid,
        "status": one.status.value,
        "iteration_count": one.iteration_count,
        "confidence_tier": one.tier or None,
        "auto_captured": bool(one.outcome and one.outcome.auto_captured),
    }


def member_facts(one: Member) -> dict[str, Any]:
    """An experience of a cluster, as scripts get it."""
    said = shorten(one.said, _MOST_SAID, placeholder=" …")
    return {**experience_facts(one.experience, whole=False), "said": said, "distance": one.distance}
