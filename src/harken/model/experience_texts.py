"""The four texts of an experience, one for each way of looking for it; lines of what is not there are left out.

Source: `full`, `strategy`, `surprise` and `root_cause` of SPEC-002-18, by the system around it.
"""

from __future__ import annotations

from harken.model.conversations import NewEntry
from harken.model.experiences import Experience, ExperienceStatus, Value


def experience_entries(one: Experience) -> list[NewEntry]:
    """What search sees of an experience: nothing while it is active, else one entry per axis that it has."""
    if one.outcome is None:
        return []
    facets = (
        f"domain:{one.domain}",
        f"strategy:{one.strategy}",
        f"outcome:{one.status.value}",
        f"tier:{one.tier}",
    )
    return [NewEntry(axis, text, (f"axis:{axis}", *facets)) for axis, text in axis_texts(one).items()]


def axis_texts(one: Experience) -> dict[str, str]:
    """The axes that a resolved experience has, each with its text."""
    texts = {"full": full_text(one), "strategy": strategy_text(one)}
    if one.status is ExperienceStatus.FALSIFIED and one.root_cause is not None:
        texts["surprise"] = surprise_text(one)
        if one.surprise:
            texts["root_cause"] = root_cause_text(one)
    return texts


def full_text(one: Experience) -> str:
    """The whole story."""
    return _lines(
        ("Goal", one.goal),
        ("Hypothesis", one.hypothesis),
        ("Action", one.action),
        ("Prediction", one.prediction),
        ("Outcome", _joined(one.status.value, _result(one))),
        ("Surprise", one.surprise),
        ("Lesson", _worked(one)),
    )


def strategy_text(one: Experience) -> str:
    """How the strategy did."""
    times = f"{one.iteration_count} iteration" + "s" * (one.iteration_count != 1)
    return _lines(
        ("Strategy", one.strategy),
        ("Applied to", one.goal),
        ("Outcome", f"{one.status.value} after {times}"),
        ("What worked", _worked(one)),
    )


def surprise_text(one: Experience) -> str:
    """What came otherwise than was predicted."""
    return _lines(
        ("Expected", one.prediction),
        ("Actual", _result(one)),
        ("Surprise", one.surprise),
        ("Root cause", _cause(one)),
    )


def root_cause_text(one: Experience) -> str:
    """Why the hypothesis was wrong."""
    cause = one.root_cause
    return _lines(
        ("Category", cause.category if cause else ""),
        ("Description", cause.description if cause else ""),
        ("Context", _joined(one.domain, one.strategy)),
        ("Original hypothesis", one.hypothesis),
    )


def in_a_sentence(one: Experience, axis: str) -> str:
    """What an experience says on an axis as shortly as a value does: its lesson, its surprise or its cause."""
    if axis == "surprise" and one.surprise:
        return one.surprise
    if axis == "root_cause" and one.root_cause is not None:
        return one.root_cause.description
    lesson = one.lesson
    return (lesson.takeaway or lesson.what_worked) if lesson else one.goal


def experience_markdown(one: Experience, axis: str = "full") -> str:
    """What a context shows of an experience; found by why it failed, it says that too.

    Source: SPEC-002-18, "Experiences (Full Axis)".
    """
    told = [
        ("Goal", one.goal),
        ("Hypothesis", one.hypothesis),
        ("Action", one.action),
        ("Prediction", one.prediction),
        ("Outcome", _joined(one.status.value, _result(one))),
        ("Surprise", one.surprise),
        ("Root cause", _cause(one) if axis in ("surprise", "root_cause") else ""),
        ("Lesson", _worked(one)),
    ]
    shown = [f"- **{name}**: {_flat(text)}" for name, text in told if text]
    return "\n".join([f"**Experience**: {one.domain} | {one.strategy}", *shown])


def _result(one: Experience) -> str:
    return one.outcome.result if one.outcome else ""


def _worked(one: Experience) -> str:
    return one.lesson.what_worked if one.lesson else ""


def _cause(one: Experience) -> str:
    return _joined(one.root_cause.category, one.root_cause.description) if one.root_cause else ""


def _joined(first: str, second: str) -> str:
    return f"{first} - {second}" if second else first


def _flat(text: str) -> str:
    """One line: a list's item must not end where its text has a line of its own."""
    return " ".join(text.split())


def _lines(*named: tuple[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in named if text.strip())


def value_entries(one: Value) -> list[NewEntry]:
    """What search sees of a value: its text, with what its members were about."""
    facets = [f"axis:{one.axis}", f"cluster:{one.cluster_id}"]
    facets += [f"domain:{domain}" for domain in one.domains]
    facets += [f"strategy:{strategy}" for strategy in one.strategies]
    return [NewEntry("", one.text, tuple(facets))]


def value_markdown(one: Value) -> str:
    """What a context shows of a value.

    Source: SPEC-002-18, "Values".
    """
    return f"**Value** ({one.axis}, cluster size: {one.cluster_size}):\n{one.text}"
