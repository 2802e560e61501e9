"""A whole context is counted about as a model counts it, in each language that people mix."""

from __future__ import annotations

import re

import pytest

from harken.config.sections import AssembleConfig
from harken.context.compose import FormattedContext, Plan, compose
from harken.model.conversations import ContextItem
from harken.text import tokens
from quotations import unmarked

ENGLISH = "We keep the sessions of the storefront in a shared cache, because restarts must not log anybody out."
RUSSIAN = (
    "Сессии магазина лежат в общем кэше, потому что перезапуск хоста никого не должен выкидывать из системы; "
    "повреждённые записи восстанавливаются из журнала."
)
CODE = (
    "**function** `divide_budget` in `src/harken/assemble/shares.py:16`\n```python\n"
    "def divide_budget(weights: Mapping[str, float], room_tokens: int) -> dict[str, int]:\n"
    "The tokens that each may use, in proportion to its weight.\n```"
)
STORY = (
    "**Experience**: debugging | systematic-elimination\n- **Goal**: Find out why the importer loses rows\n"
    "- **Hypothesis**: The reader skips lines that end in a carriage return\n"
    "- **Outcome**: falsified - all lost 12 rows\n"
    "- **Surprise**: Line endings had nothing to do with it"
)


def memory(text: str, number: int) -> ContextItem:
    return ContextItem("memory", f"**Memory**: {text}\n*Category: fact, Importance: 0.5*", 0.9, {"id": str(number)})


def items(text: str) -> list[ContextItem]:
    return [memory(text, number) for number in range(3)]


MIXED = {
    "English": {"memories": items(ENGLISH)},
    "Russian": {"memories": items(RUSSIAN)},
    "code": {"code": [ContextItem("code", CODE, 0.8, {"file_path": "a.py", "start_line": 1})] * 3},
    "all of them": {
        "memories": [memory(ENGLISH, 1), memory(RUSSIAN, 2)],
        "code": [ContextItem("code", CODE, 0.8, {"file_path": "a.py", "start_line": 1})],
        "experiences": [ContextItem("experience", STORY, 0.7, {"id": "e"})],
    },
}
# Counted once by o200k itself; benchmarks/assemble.py --tokens measures contexts of a whole store.
COUNTED = {"English": 139, "Russian": 202, "code": 205, "all of them": 257}


def context(name: str) -> FormattedContext:
    headings = {"memories": "Memories", "code": "Code", "experiences": "Experiences"}
    config = AssembleConfig()
    plan = Plan("Context", headings, config.weights.model_dump(), lambda shown: f"{len(shown)} items from 3 sources")
    return compose(MIXED[name], [], plan, 2000, config)


@pytest.mark.parametrize("name", list(MIXED))
def test_the_count_is_within_a_fifth_of_what_a_model_counts(name: str) -> None:
    """Quality 1: token estimation within 20 % of actual."""
    found = context(name)
    assert found.token_count == tokens.estimate(found.markdown)
    # Counted before each item had a fence.
    bare = re.sub(r"<harken-recall>\n\n|\n\n</harken-recall>", "", unmarked(found.markdown))
    assert tokens.estimate(bare) == pytest.approx(COUNTED[name], rel=0.2)
