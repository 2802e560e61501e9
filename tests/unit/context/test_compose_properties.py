"""What holds of every context, whatever was found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.config.sections import AssembleConfig
from harken.context.compose import Plan, compose
from harken.model.conversations import ContextItem
from harken.text import tokens

CONFIG = AssembleConfig()
WEIGHTS = CONFIG.weights.model_dump()
PLAN = Plan("Context", {name: name.title() for name in WEIGHTS}, WEIGHTS, lambda shown: f"{len(shown)} items")
PIECES = ("zebra ", "кэш ", "def f(x): return x\n", "`a` **b** ", "\n\n", "----------", "北京", "word_" * 9)


@given(
    st.dictionaries(
        st.sampled_from(list(WEIGHTS)),
        st.lists(st.tuples(st.sampled_from(PIECES), st.integers(1, 200)), max_size=8),
        min_size=1,
    ),
    st.integers(1, 4000),
)
def test_a_context_keeps_to_its_limit_or_says_that_it_did_not(
    found: dict[str, list[tuple[str, int]]], most: int
) -> None:
    items = {
        name: [ContextItem(name, f"{at} {piece * count}", 1 - at / 100, {}) for at, (piece, count) in enumerate(each)]
        for name, each in found.items()
    }
    context = compose(items, (), PLAN, most, CONFIG)
    assert context.token_count == tokens.estimate(context.markdown)
    alone = compose({name: each[:1] for name, each in items.items()}, (), PLAN, most, CONFIG)
    if context.token_count > most:
        assert f"over the limit of {most}" in context.markdown
        # Nothing but what each source shows whatever the limit is, give or take how pieces join.
        assert len(context.items) == len(alone.items) or context.token_count <= most * 1.05 + 40
