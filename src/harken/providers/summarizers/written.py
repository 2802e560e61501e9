"""Summaries written by a language model; where it refuses or answers something else, the extractive one stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import structlog
from pydantic import BaseModel, StringConstraints, ValidationError

from harken.errors import PromptError
from harken.model import Role
from harken.providers.chat_model import ChatMessage, Completer, Finish
from harken.providers.summarizer import TOOLS_AT_MOST, ExchangeText, Summarizer, Summary, ToolUse
from harken.providers.summarizers import prompts

_log = structlog.get_logger(__name__)

# Room for a model that thinks before it writes, little enough that a day's limit is not held back by it.
ANSWER_TOKENS = 800
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=2000)]


class _Written(BaseModel):
    summary: _Text


class _Titled(_Written):
    title: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]


class _Several(BaseModel):
    summaries: list[_Text]


_Form = TypeVar("_Form", bound=BaseModel)


class WrittenSummarizer:
    """Asks a model once for each summary.

    Args:
        model: booked by whoever gives it.
        fallback: takes over where the model refuses, or its answer does not have the form that was asked for.
        max_input_tokens: longer material is clipped from its middle.
    """

    def __init__(self, model: Completer, fallback: Summarizer, max_input_tokens: int) -> None:
        self._model = model
        self._fallback = fallback
        self._max_input_tokens = max_input_tokens

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def exchange(self, exchange: ExchangeText) -> Summary:
        """One or two sentences: what was asked, what was done, how it ended.

        Raises:
            ProviderError: the endpoint fails, or the day's limit is reached.
        """
        if not exchange.spoken and not exchange.tools:
            return Summary("")
        written = self._ask(_Written, prompts.EXCHANGE, prompts.of_exchange(exchange))
        return self._summary(written, lambda: self._fallback.exchange(exchange))

    def conversation(self, exchanges: Sequence[ExchangeText]) -> Summary:
        """Two or three sentences and a title.

        Raises:
            ProviderError: the endpoint fails, or the day's limit is reached.
        """
        if not exchanges:
            return Summary("")
        material = prompts.of_exchanges(exchanges, self._max_input_tokens)
        written = self._ask(_Titled, prompts.CONVERSATION, material)
        return self._summary(written, lambda: self._fallback.conversation(exchanges))

    def segment(self, exchanges: Sequence[ExchangeText]) -> Summary:
        """Two or three sentences on a part of a conversation.

        Raises:
            ProviderError: the endpoint fails, or the day's limit is reached.
        """
        if not exchanges:
            return Summary("")
        material = prompts.of_exchanges(exchanges, self._max_input_tokens)
        written = self._ask(_Written, prompts.SEGMENT, material)
        return self._summary(written, lambda: self._fallback.segment(exchanges))

    def tools(self, uses: Sequence[ToolUse]) -> list[Summary]:
        """One or two sentences for each of up to ten tool calls, all in one call of the model.

        Raises:
            ValueError: there are more than ten.
            ProviderError: the endpoint fails, or the day's limit is reached.
        """
        if len(uses) > TOOLS_AT_MOST:
            raise ValueError(f"{len(uses)} tool calls at once, {TOOLS_AT_MOST} at most")
        if not uses:
            return []
        answer = self._ask(_Several, prompts.TOOLS, prompts.of_tools(uses, self._max_input_tokens))
        if isinstance(answer, _Several) and len(answer.summaries) == len(uses):
            return [Summary(_flat(text), model=self.name) for text in answer.summaries]
        reason = answer if isinstance(answer, str) else "invalid"
        return [_instead(summary, reason) for summary in self._fallback.tools(uses)]

    def _ask(self, form: type[_Form], instructions: str, material: str) -> _Form | str:
        """The answer in its form, or in one word why there is none."""
        prompt = [ChatMessage(Role.USER, prompts.fenced(material, self._max_input_tokens))]
        limit = min(ANSWER_TOKENS, self._model.max_tokens)
        try:
            answer = self._model.complete(prompt, instructions=instructions, max_tokens=limit)
        except PromptError:
            reason = "rejected"
        else:
            if answer.finish is not Finish.REFUSED:
                try:
                    return form.model_validate_json(_object_in(answer.text))
                except ValidationError:
                    reason = "cut off" if answer.finish is Finish.LENGTH else "invalid"
            else:
                reason = "refused"
        _log.info("summary_not_written", model=self.name, reason=reason)
        return reason

    def _summary(self, written: _Written | str, fallback: Callable[[], Summary]) -> Summary:
        if isinstance(written, str):
            return _instead(fallback(), written)
        title = _flat(written.title) if isinstance(written, _Titled) else ""
        return Summary(_flat(written.summary), title, self.name)


def _object_in(text: str) -> str:
    """The JSON object in an answer, whatever a talkative model puts around it."""
    return text[text.find("{") : text.rfind("}") + 1]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _instead(summary: Summary, reason: str) -> Summary:
    return Summary(summary.text, summary.title, summary.model, reason)
