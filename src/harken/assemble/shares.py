"""The token budget of a context divided: shares by weight, a cap for each item, and what nobody used handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harken import tokens
from harken.assemble.markdown import shortened
from harken.config import AssembleConfig
from harken.model import ContextItem

_BLANK_LINE = 1


def divide_budget(weights: Mapping[str, float], room_tokens: int) -> dict[str, int]:
    """The token budget divided between sources, to each in proportion to its weight."""
    total = sum(weights.values())
    return {name: int(room_tokens * weight / total) for name, weight in weights.items()}


def chosen(
    found: Mapping[str, Sequence[ContextItem]], weights: Mapping[str, float], room_tokens: int, config: AssembleConfig
) -> dict[str, list[ContextItem]]:
    """The items that a context has room for, by name, each list in its order.

    Names without items have no share; the others divide the whole room. Each shows its first item, whatever that
    takes: the limit is a soft one. Then each fills its own share, and what is left goes to the most relevant of the
    rest.

    Args:
        found: items, most relevant first.
        weights: of each name.
        room_tokens: for all items.
        config: what one item may take.
    """
    budget = divide_budget({name: weights[name] for name, items in found.items() if items}, room_tokens)
    capped = {name: [shortened(item, _cap(own, config)) for item in found[name]] for name, own in budget.items()}
    sizes = {name: [tokens.estimate(item.content) + _BLANK_LINE for item in items] for name, items in capped.items()}
    taken = dict.fromkeys(capped, 1)
    left = room_tokens - sum(each[0] for each in sizes.values())
    for name, own in budget.items():
        own -= sizes[name][0]
        for size in sizes[name][1:]:
            if size > min(own, left):
                break
            own, left, taken[name] = own - size, left - size, taken[name] + 1
    places = {name: list(range(count)) for name, count in taken.items()}
    rest = [(item.relevance, name, at) for name, items in capped.items() for at, item in enumerate(items)]
    for _, name, at in sorted(rest, key=lambda each: -each[0]):
        if at >= taken[name] and sizes[name][at] <= left:
            left -= sizes[name][at]
            places[name].append(at)
    return {name: [capped[name][at] for at in sorted(each)] for name, each in places.items()}


def _cap(budget_tokens: int, config: AssembleConfig) -> int:
    return max(config.min_item_tokens, int(budget_tokens * config.item_share))
