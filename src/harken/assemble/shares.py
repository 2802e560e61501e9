"""The token budget of a context divided: shares by weight, a cap for each item, and what nobody used handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    capped = {name: _Capped(found[name], _cap(own, config)) for name, own in budget.items()}
    taken = dict.fromkeys(capped, 1)
    left = room_tokens - sum(each.size(0) for each in capped.values())
    for name, own in budget.items():
        own -= capped[name].size(0)
        for at in range(1, len(found[name])):
            size = capped[name].size(at)
            if size > min(own, left):
                break
            own, left, taken[name] = own - size, left - size, taken[name] + 1
    places = {name: list(range(count)) for name, count in taken.items()}
    rest = [(item.relevance, name, at) for name in capped for at, item in enumerate(found[name])]
    for _, name, at in sorted(rest, key=lambda each: -each[0]):
        if at >= taken[name] and capped[name].fits(at, left):
            left -= capped[name].size(at)
            places[name].append(at)
    return {name: [capped[name].item(at) for at in sorted(each)] for name, each in places.items()}


@dataclass(frozen=True, slots=True)
class _Capped:
    """Items of which none is longer than a cap; each is cut and counted when it is first asked for."""

    items: Sequence[ContextItem]
    cap: int
    _known: dict[int, tuple[ContextItem, int]] = field(default_factory=dict)

    def item(self, at: int) -> ContextItem:
        return self._sized(at)[0]

    def size(self, at: int) -> int:
        return self._sized(at)[1]

    def fits(self, at: int, room_tokens: int) -> bool:
        if at not in self._known and room_tokens <= self.cap // 2:
            # What is cut takes about its cap: there only a whole item can fit, and none has to be cut to know that.
            return tokens.fits(self.items[at].content, room_tokens - _BLANK_LINE)
        return self.size(at) <= room_tokens

    def _sized(self, at: int) -> tuple[ContextItem, int]:
        if at not in self._known:
            cut = shortened(self.items[at], self.cap)
            self._known[at] = (cut, tokens.estimate(cut.content) + _BLANK_LINE)
        return self._known[at]


def _cap(budget_tokens: int, config: AssembleConfig) -> int:
    return max(config.min_item_tokens, int(budget_tokens * config.item_share))
