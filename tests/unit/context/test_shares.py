"""How the room of a context is divided."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.config.sections import AssembleConfig
from harken.context.compose import FENCE_TOKENS, chosen, divide_budget
from harken.model.conversations import ContextItem
from harken.text import tokens

CONFIG = AssembleConfig()
WEIGHTS = CONFIG.weights.model_dump()
FIVE = ("memories", "code", "experiences", "values", "commits")


def items(name: str, count: int, words: int = 40) -> list[ContextItem]:
    return [
        ContextItem(name, f"{name} number {n} " + "zebra " * words, round(1 - n / 100, 2), {"id": f"{name}{n}"})
        for n in range(count)
    ]


def size(taken: list[ContextItem]) -> int:
    return sum(tokens.estimate(item.content) + FENCE_TOKENS + 1 for item in taken)


def test_the_budget_is_divided_in_proportion_to_the_weights() -> None:
    """Functional 4: token budget distributed proportionally; 3/2/2/1/1."""
    divided = divide_budget({name: WEIGHTS[name] for name in FIVE}, 1800)
    assert divided == {"memories": 200, "code": 400, "experiences": 600, "values": 200, "commits": 400}


def test_where_every_source_has_plenty_each_keeps_to_its_share() -> None:
    """Performance 3: token budget distribution is fair."""
    taken = chosen({name: items(name, 50) for name in FIVE}, WEIGHTS, 1800, CONFIG)
    for name, share in divide_budget({name: WEIGHTS[name] for name in FIVE}, 1800).items():
        assert share - 60 <= size(taken[name]) <= share + 60
    assert size([item for each in taken.values() for item in each]) <= 1800


def test_what_empty_sources_would_have_raises_the_share_and_the_cap_of_the_others() -> None:
    alone = chosen({"memories": items("memories", 3, 600), "code": []}, WEIGHTS, 2000, CONFIG)
    crowded = chosen({name: items(name, 3, 600) for name in FIVE}, WEIGHTS, 2000, CONFIG)
    assert 450 <= tokens.estimate(alone["memories"][0].content) <= 500
    assert tokens.estimate(crowded["memories"][0].content) <= 120
    assert "code" not in alone


def test_a_cap_is_never_under_120_tokens() -> None:
    taken = chosen({name: items(name, 1, 110) for name in FIVE}, WEIGHTS, 900, CONFIG)
    assert all("truncated" not in each[0].content for each in taken.values())
    cut = chosen({name: items(name, 1, 600) for name in FIVE}, WEIGHTS, 900, CONFIG)
    assert all(100 <= tokens.estimate(each[0].content) <= 120 for name, each in cut.items() if name != "experiences")


def test_what_a_source_does_not_use_goes_to_the_most_relevant_of_the_others() -> None:
    taken = chosen(
        {"memories": items("memories", 1, 5), "experiences": items("experiences", 50)}, WEIGHTS, 1000, CONFIG
    )
    assert size(taken["experiences"]) > 900
    assert [item.relevance for item in taken["experiences"]] == sorted(
        (i.relevance for i in taken["experiences"]), reverse=True
    )


def test_the_first_of_each_source_is_shown_whatever_the_limit_is() -> None:
    taken = chosen({name: items(name, 5) for name in FIVE}, WEIGHTS, 10, CONFIG)
    assert {name: len(each) for name, each in taken.items()} == dict.fromkeys(FIVE, 1)


@given(
    st.dictionaries(st.sampled_from(list(WEIGHTS)), st.lists(st.integers(0, 300), max_size=12), min_size=1),
    st.integers(1, 5000),
)
def test_room_is_passed_only_by_first_items_and_order_is_kept(found: dict[str, list[int]], room: int) -> None:
    given_items = {
        name: [
            ContextItem(name, "zebra " * words + str(n), 1 - n / 100, {"id": str(n)}) for n, words in enumerate(sizes)
        ]
        for name, sizes in found.items()
    }
    taken = chosen(given_items, WEIGHTS, room, CONFIG)
    assert set(taken) == {name for name, each in given_items.items() if each}
    firsts = size([each[0] for each in taken.values()])
    assert size([item for each in taken.values() for item in each]) <= max(room, firsts)
    for name, each in taken.items():
        places = [int(item.metadata["id"]) for item in each]
        assert places == sorted(set(places))
        assert places[0] == 0, name
