"""The four texts of an experience, one for each axis that it is looked for on; lines without a text are left out.

Source: `full`, `strategy`, `surprise` and `root_cause` of SPEC-002-18, by the system around it.
"""

from __future__ import annotations

from harken.model.conversations import NewEntry
from harken.model.experiences import Experience, Value


def experience_entries(one: Experience) -> list[NewEntry]:
    """Return what search sees of an experience: nothing while it is active, else one entry per axis that it has."""
    if one.outcome is None:
        return []
    facets = (f"domain:{one.domain}", f"strategy:{one.strategy}", f"outcome:{one.status.value}", f"tier:{one.tier}")
    return [NewEntry(axis, text, (f"axis:{axis}", *facets)) for axis, text in axis_texts(one).items()]


def axis_texts(one: Experience) -> dict[str, str]:
    """Return the axes that a resolved experience has, each with its text."""
    times = f"{one.iteration_count} iteration" + "s" * (one.iteration_count != 1)
    texts = {
        "full": _lines(*_story(one)),
        "strategy": _lines(
            ("Strategy", one.strategy),
            ("Applied to", one.goal),
            ("Outcome", f"{one.status.value} after {times}"),
            ("What worked", _worked(one)),
        ),
    }
    cause = one.root_cause
    # Whatever came of it: what was confirmed may have surprised as well.
    if one.surprise.strip():
        texts["surprise"] = _lines(
            ("Expected", one.prediction),
            ("Actual", _result(one)),
            ("Surprise", one.surprise),
            ("Root cause", _joined(cause.category, cause.description) if cause else ""),
        )
    if cause is not None:
        texts["root_cause"] = _lines(
            ("Category", cause.category),
            ("Description", cause.description),
            ("Context", _joined(one.domain, one.strategy)),
            ("Original hypothesis", one.hypothesis),
        )
    return texts


def in_a_sentence(one: Experience, axis: str) -> str:
    """Return what an experience says on an axis as shortly as a value does: its lesson, its surprise or its cause."""
    if axis == "surprise" and one.surprise:
        return one.surprise
    if axis == "root_cause" and one.root_cause is not None:
        return one.root_cause.description
    lesson = one.lesson
    return (lesson.takeaway or lesson.what_worked) if lesson else one.goal


def experience_markdown(one: Experience, axis: str = "full") -> str:
    """Return what a context shows of an experience; found by why it failed, it says that too.

    Source: SPEC-002-18, "Experiences (Full Axis)".
    """
    cause = one.root_cause if axis in ("surprise", "root_cause") else None
    story = _story(one, _joined(cause.category, cause.description) if cause else "")
    # One line each: a list's item must not end where its text has a line of its own.
    shown = [f"- **{name}**: {' '.join(text.split())}" for name, text in story if text]
    return "\n".join([f"**Experience**: {one.domain} | {one.strategy}", *shown])


def _story(one: Experience, cause: str = "") -> list[tuple[str, str]]:
    return [
        ("Goal", one.goal),
        ("Hypothesis", one.hypothesis),
        ("Action", one.action),
        ("Prediction", one.prediction),
        ("Outcome", _joined(one.status.value, _result(one))),
        ("Surprise", one.surprise),
        ("Root cause", cause),
        ("Lesson", _worked(one)),
    ]


def _result(one: Experience) -> str:
    return one.outcome.result if one.outcome else ""


def _worked(one: Experience) -> str:
    return one.lesson.what_worked if one.lesson else ""


def _joined(first: str, second: str) -> str:
    return f"{first} - {second}" if second else first


def _lines(*named: tuple[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in named if text.strip())


def value_entries(one: Value) -> list[NewEntry]:
    """Return what search sees of a value: its text, with what its members were about."""
    facets = [f"axis:{one.axis}", f"cluster:{one.cluster_id}"]
    facets += [f"domain:{domain}" for domain in one.domains]
    facets += [f"strategy:{strategy}" for strategy in one.strategies]
    return [NewEntry("", one.text, tuple(facets))]


def value_markdown(one: Value) -> str:
    """Return what a context shows of a value.

    Source: SPEC-002-18, "Values".
    """
    return f"**Value** ({one.axis}, cluster size: {one.cluster_size}):\n{one.text}"
