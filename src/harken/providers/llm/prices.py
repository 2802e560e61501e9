"""Prices of calls, from the list that ships with `genai-prices`; it is never fetched."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from genai_prices import Usage, calc_price
from genai_prices.types import PriceCalculation

from harken.providers.chat_model import TokenUsage
from harken.providers.options import ChatOptions, EmbedderOptions

_MILLION = Decimal(1_000_000)


def price_of(options: ChatOptions, usage: TokenUsage) -> Decimal | None:
    """USD for a call of so many tokens; None where the list does not know the model.

    Prices of the settings stand above the list. A model behind another URL is looked up by that URL, then among
    the vendor's own, never among everybody's: a Llama of one's own does not cost what it does at a vendor's. What the
    list does not know costs nothing on this machine.
    """
    if options.prices is not None:
        into, out = options.prices
        return (into * usage.input_tokens + out * usage.output_tokens) / _MILLION
    counted = Usage(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cache_read_tokens=usage.cached_tokens
    )
    listed = None
    if options.url is not None:
        listed = _listed(lambda: calc_price(counted, options.model, provider_api_url=options.url))
    if listed is None:
        listed = _listed(lambda: calc_price(counted, options.model, provider_id=options.vendor))
    return Decimal(0) if listed is None and options.is_local else listed


def embedding_price_of(options: EmbedderOptions, count: int) -> Decimal | None:
    """USD for so many tokens at an endpoint, by its URL: a model's name alone does not say who serves it."""
    model, url = options.model, options.url
    if model is None or url is None:
        return None
    return _listed(lambda: calc_price(Usage(input_tokens=count), model, provider_api_url=url))


def _listed(look_up: Callable[[], PriceCalculation]) -> Decimal | None:
    try:
        return look_up().total_price
    except (LookupError, ValueError):
        return None
