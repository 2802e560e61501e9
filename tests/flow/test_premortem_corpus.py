"""A premortem over two hundred experiences that are varied and realistic."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken import Harken
from harken.model.experiences import Lesson, RootCause
from harken.storage.entries import STATES_RULE
from harken.testing import HashingEmbedder
from rendered import rendered

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from experiences import corpus


@pytest.fixture(scope="module")
def harken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harken]:
    with Harken(tmp_path_factory.mktemp("learned"), embedder=HashingEmbedder(dims=512), env={}) as opened:
        for one in corpus():
            begun = opened.experiences.start(
                one.domain, one.strategy, one.goal, one.hypothesis, one.action, one.prediction
            )
            opened.experiences.resolve(
                one.status,
                one.result,
                uid=begun.uid,
                surprise=one.surprise,
                root_cause=RootCause(one.category, one.description) if one.category else None,
                lesson=Lesson(one.what_worked) if one.what_worked else None,
            )
        opened.embed()
        yield opened


def test_failures_come_first_then_surprises_root_causes_and_values(harken: Harken) -> None:
    """Functional 8 and 9: debugging with systematic-elimination."""
    clusters = harken.values.clusters("full")[0].clusters
    nearest = [harken.values.members(one.uid)[0].experience for one in clusters]
    debugging = next((one, each) for one, each in zip(clusters, nearest, strict=True) if each.domain == "debugging")
    full = [f"Goal: {debugging[1].goal}", f"Hypothesis: {debugging[1].hypothesis}", f"Action: {debugging[1].action}"]
    value = _valid(harken, debugging[0].uid, "\n".join(full))
    context = harken.assembler.get_premortem_context("debugging", "systematic-elimination")
    page = rendered(context.markdown)
    assert [words for _, words in page.headings] == [
        "Premortem: debugging with systematic-elimination", "Common Failures", "Strategy Performance",
        "Unexpected Outcomes", "Root Causes to Watch", "Relevant Principles",
    ]  # fmt: skip
    _, failures, strategy, surprises, causes, principles = re.split(r"^## .*$", context.markdown, flags=re.M)
    assert failures.count("**Experience**: debugging |") == failures.count("- **Outcome**: falsified - ") >= 2
    assert "- **Surprise**: " in failures
    outcomes = re.findall(r"- \*\*Outcome\*\*: (\w+)", strategy)
    assert outcomes[0] == "falsified"
    assert outcomes == sorted(outcomes, key=lambda outcome: outcome != "falsified")
    assert set(re.findall(r"\*\*Experience\*\*: [\w-]+ \| ([\w-]+)", strategy)) == {"systematic-elimination"}
    assert surprises.count("- **Surprise**: ") >= 3
    assert causes.count("- **Root cause**: ") >= 3
    assert set(re.findall(r"\*\*Experience\*\*: ([\w-]+) \|", failures + surprises + causes)) == {"debugging"}
    assert " ".join(value.split()) in " ".join(principles.split())
    assert "truncated" not in failures
    assert context.token_count <= 1500


def _valid(harken: Harken, cluster: str, text: str) -> str:
    """The text kept as a value, or the nearest member's whole story where the cluster does not bear it out."""
    if harken.values.validate(text[:500], cluster).is_valid:
        return harken.values.add(text[:500], cluster).text
    member = harken.values.members(cluster)[0].experience
    told = f"{member.goal} {member.hypothesis} {member.action} {member.prediction}"[:500]
    return harken.values.add(told, cluster).text


@pytest.mark.parametrize("domain", ["debugging", "performance", "security", "integration"])
def test_every_domain_has_warnings_of_its_own(harken: Harken, domain: str) -> None:
    context = harken.assembler.get_premortem_context(domain)
    assert {item.metadata["domain"] for item in context.items if item.source == "experience"} == {domain}
    assert len(context.items) >= 6
    assert context.token_count <= 1500


def test_no_rules_are_looked_for_where_nobody_states_any(harken: Harken) -> None:
    """People state rules in conversations: to list those of experiences took as long as all else."""
    asked: list[str] = []
    with harken.store.reading() as tx:
        driver: Any = tx.connection.connection.driver_connection
    driver.set_trace_callback(asked.append)
    try:
        harken.assembler.get_premortem_context("integration", "research-first")
        assert any("'domain:integration'" in one for one in asked)
        assert not [one for one in asked if STATES_RULE in one]
        harken.search("what went wrong with the integration?")
        assert [one for one in asked if STATES_RULE in one]
    finally:
        driver.set_trace_callback(None)
