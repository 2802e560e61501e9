"""The context of a chat's next model call: layer by layer, within one budget, nothing twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from harken.config.settings import Settings
from harken.context.layers import (
    MESSAGE_TOKENS,
    ChatContext,
    ContextMessage,
    Layer,
    LayerItem,
    LayerName,
    Pending,
    chat_message,
    last_asked,
    recognize,
)
from harken.context.render import Fence, Quote, core_block, recall_quotes
from harken.context.rules import rule_quotes
from harken.context.task_history import Run
from harken.model.arguments import SECTIONS
from harken.model.conversations import CoreFact, Message, MessageType, ProjectIdentity, Role
from harken.redact.redactor import Redactor
from harken.search.past import PastRecall
from harken.search.query import parse_query
from harken.search.recall import AutoRag, Recalled
from harken.search.session import SearchSession
from harken.search.union import facts_told_apart
from harken.storage.conversations import messages_of_exchange, messages_of_segment
from harken.storage.enrichment.segments import segment_summary
from harken.storage.state import core_facts
from harken.text import tokens
from harken.text.characters import legible, valid_utf8
from harken.text.fence import ELSEWHERE, KNOWN, PAST, RECALLED, RULES, SUMMARIZED

# More of a segment's tail is read than the window may hold, so that a tool call at its edge is whole.
_EDGE = 16
# Other conversations may take this share of what is left before the window gets the rest.
_PAST_SHARE = 0.25
# Standing rules are few and short, and come before all that.
_RULES_SHARE = 0.1
_HOLDS = "said to hold from now on"
# The window gets as much of it at the least, whatever else comes back.
_SURE_SHARE = 0.25
# A message that must be cut to less says too little.
_LEAST_TOKENS = 16


@dataclass(frozen=True, slots=True)
class ContextSession:
    """A conversation as it goes on: which one, and its segment; None before its first message.

    Attributes:
        project: that it goes on in; None where none is known.
    """

    conversation_uid: str
    segment_uid: str | None
    project: ProjectIdentity | None = None


@dataclass(slots=True)
class ContextBuilder:
    """One context in the making: each layer takes its room from what is left of the budget.

    Attributes:
        redactor: tells what recording makes of a text: pending words are recognized in the segment by it.
        searches: what the searches for this context share.
        room: tokens that are left.
        tail: the segment's newest messages; all of them where it `is_whole`.
        query: what is searched for.
        left_before: id of the oldest message in the window when earlier ones are outside of it.
        elsewhere: what other projects know.
        stated: rules of the project at hand that touch the query.
        asked: the newest words of the user, where nothing is pending.
    """

    redactor: Redactor
    auto_rag: AutoRag
    searches: SearchSession
    settings: Settings
    session: ContextSession
    budget: int
    room: int = 0
    layers: dict[LayerName, Layer] = field(default_factory=dict)
    said: dict[LayerName, Sequence[ContextMessage]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    tail: list[Message] = field(default_factory=list)
    pending_uids: set[str] = field(default_factory=set)
    query: str = ""
    is_whole: bool = True
    left_before: str | None = None
    facts: Sequence[CoreFact] = ()
    digest: tuple[str, datetime] | None = None
    fence: Fence = field(default_factory=Fence)
    elsewhere: list[Quote] = field(default_factory=list)
    stated: list[Quote] = field(default_factory=list)
    asked: Message | None = None

    def read(self, pending: Sequence[Pending], recalls: bool) -> None:
        """Read the rows, and put in what is pending: that comes first of all that takes room."""
        limit = self.settings.context.sliding_window + len(pending) + _EDGE
        uid, segment = self.session.conversation_uid, self.session.segment_uid
        with self.searches.view.reading() as tx:
            if segment is not None:
                self.tail = messages_of_segment(tx, uid, segment, limit)
            if self.tail and not pending:
                self.asked = last_asked(self.tail) or last_asked(messages_of_exchange(tx, self.tail[-1].exchange_uid))
        self.is_whole = len(self.tail) < limit
        said = recognize(pending, self.tail, lambda text: self.redactor.redact(valid_utf8(text)).text)
        # In the middle of an exchange nothing is pending: its question still is what it is about.
        words = [message.content for message in said] if said else [self.asked.text if self.asked else ""]
        self.query = " ".join(each for each in words if each.strip())
        if recalls and segment is not None and not self.is_whole:
            # The model works while the rest is put together.
            self.auto_rag.begin(self.query, self.settings.auto_rag, self.searches)
        with self.searches.view.reading() as tx:
            self.facts = facts_told_apart(self.searches, core_facts(tx, *SECTIONS))
            self.digest = None if segment is None else segment_summary(tx, segment)
        kept: list[ContextMessage] = []
        self.room = room = self.budget
        for message in reversed(said):
            if kept and message.tokens > room:
                break
            kept.insert(0, message)
            room -= message.tokens
        # One that is recorded and does not fit here is as good as any other of the segment.
        self.pending_uids = {message.uid for message in kept if message.uid}
        if len(kept) < len(said):
            self.notes.append(f"{len(said) - len(kept)} pending messages do not fit and are left out.")
        self._put(LayerName.PENDING, kept, [_item(message, "what is asked now") for message in kept])
        if self.room < 0:
            self.notes.append("The pending message is larger than the budget; it is kept, and nothing else fits.")
            self.room = 0

    def system(self, prompt: str) -> None:
        """The system prompt, clipped where it does not fit."""
        if not prompt.strip():
            return
        text = tokens.clip(prompt, self.room - MESSAGE_TOKENS)
        if text != prompt:
            self.notes.append("The system prompt does not fit and is clipped.")
        self._speak(LayerName.SYSTEM, text, [_described(None, text, "the system prompt")])

    def core(self) -> None:
        """Core memory, as much of it as fits."""
        kept: list[CoreFact] = []
        for fact in self.facts:
            if ContextMessage(Role.SYSTEM, core_block([*kept, fact])).tokens <= self.room:
                kept.append(fact)
        if len(kept) < len(self.facts):
            left = len(self.facts) - len(kept)
            said = "1 core memory does not fit and is" if left == 1 else f"{left} core memories do not fit and are"
            self.notes.append(f"{said} left out.")
        if kept:
            items = [_described(fact.uid, fact.value or "", "core memory") for fact in kept]
            self._speak(LayerName.CORE, core_block(kept), items)

    def summary(self) -> None:
        """The summary of what left the window, clipped to its share."""
        if self.digest is None or not self.digest[0]:
            return
        text, at = self.digest
        uid = self.session.segment_uid or ""

        def shown(part: str) -> str:
            return self.fence.block(SUMMARIZED, [self.fence.quoted(Quote(part, "summary", uid, "", at, "agent"))])

        around = ContextMessage(Role.SYSTEM, shown("")).tokens
        text = tokens.clip(text, min(self.room - around, self.settings.context.summary_tokens))
        if text and ContextMessage(Role.SYSTEM, shown(text)).tokens <= self.room:
            item = _described(uid, text, "what left the window, in short", at=at.isoformat())
            self._speak(LayerName.SUMMARY, shown(text), [item])

    def rules(self) -> None:
        """Quote the rules and preferences that the user has stated, and that touch this."""
        shown = {message.uid for message in self.expected(_SURE_SHARE)}
        self.stated = self._own(rule_quotes(self.searches, parse_query(self.query), self.settings.rag, shown))
        self._quote(LayerName.RULES, RULES, self.stated, _HOLDS, _RULES_SHARE)

    def _ruled(self) -> set[str]:
        """The rules that are quoted as such."""
        return {item.text for name, layer in self.layers.items() if name is LayerName.RULES for item in layer.items}

    def _shorten_rules(self, shown: Collection[str | None]) -> None:
        """Leave out the rules of messages that the window has after all."""
        if layer := self.layers.pop(LayerName.RULES, None):
            self.room += layer.tokens
            left = {item.uid for item in layer.items if (item.uid or "").rpartition(".")[0] not in shown}
            self._quote(LayerName.RULES, RULES, [quote for quote in self.stated if quote.uid in left], _HOLDS, 1.0)

    def expected(self, share: float = 1.0) -> list[Message]:
        """What is pending, and the window as it is if it gets a share of the room that is left."""
        window = fit(self._blocks(), int(self.room * share), self.settings.context.sliding_window)
        return messages_in(window) + [message for message in self.tail if message.uid in self.pending_uids]

    def _blocks(self) -> list[MessageBlock]:
        return blocks_of([message for message in self.tail if message.uid not in self.pending_uids])

    def others(self, recall: PastRecall, note: str) -> None:
        """Quote other conversations about the query, under a heading with a note where there is one."""
        self._failed(recall.failure)
        heading = f"{PAST}\n{note}" if note else PAST
        # What a task's run has delivered here stands here.
        told = self._ruled() | {str(m.metadata["run"]) for m in self.expected(_SURE_SHARE) if "run" in m.metadata}
        quotes = self._own(recall_quotes(recall, self.searches.now, told))
        self._quote(LayerName.PAST, heading, quotes, "from another conversation")

    def known(self, quotes: Sequence[Quote], failure: str) -> None:
        """Quote what was saved or indexed about the query."""
        self._failed(failure)
        self._quote(LayerName.KNOWN, KNOWN, self._own(quotes), "saved or indexed before")
        self._quote(LayerName.ELSEWHERE, ELSEWHERE, self.elsewhere, "from another project")

    def _own(self, quotes: Sequence[Quote]) -> list[Quote]:
        """Those of the project at hand, or of none; what is of others waits to stand behind all of them."""
        self.elsewhere += [quote for quote in quotes if quote.project]
        return [quote for quote in quotes if not quote.project]

    def _failed(self, failure: str) -> None:
        if failure:
            self.failures.append(failure)
            self.notes.append(failure)

    def _quote(
        self, name: LayerName, heading: str, quotes: Sequence[Quote], why: str, share: float = _PAST_SHARE
    ) -> None:
        """Quotations, best first, as many as fit into their share of the room."""
        room = int(self.room * share)
        chosen: list[Quote] = []
        said: list[str] = []
        for quote in quotes:
            more = [*said, self.fence.quoted(quote)]
            if ContextMessage(Role.SYSTEM, self.fence.block(heading, more)).tokens <= room:
                chosen.append(quote)
                said = more
        if chosen:
            of = [f"{why}, of project {each.project}" if each.project else why for each in chosen]
            items = [_described(each.uid, each.text, on, **each.facts) for each, on in zip(chosen, of, strict=True)]
            self._speak(name, self.fence.block(heading, said), items)

    def talk(self) -> None:
        """Window and auto-RAG, which share what is left: reserve, select, hand back."""
        if self.session.segment_uid is None:
            return
        blocks = self._blocks()
        window = fit(blocks, self.room, self.settings.context.sliding_window)
        recalled: list[Recalled] = []
        if self._has_more_than(window):
            window, recalled = self._settled(blocks, self._recalled(blocks))
        room = self.room - (self._taken(recalled) if recalled else 0)
        if first := self._question(window or blocks[-1:], room):
            room -= first[0].tokens
            window = fit(blocks, room, self.settings.context.sliding_window - 1)
        said = [chat_message(message) for message in messages_in(window)]
        tail = [message for message in self.tail if is_shown(message) and message.uid not in self.pending_uids]
        if not window and blocks and tail and blocks[-1].messages[-1] is tail[-1]:
            said = squeezed(blocks[-1], room)
            self.notes.append(f"The newest messages do not fit and are {'clipped' if said else 'left out'}.")
        if said and (not self.is_whole or len(window) < len(blocks)):
            self.left_before = said[0].uid
        said = first + said
        shown = {message.uid for message in said}
        self._shorten_rules(shown)
        if apart := [item for item in recalled if item.hit.entry.ref_uid not in shown]:
            apart.sort(key=lambda item: (item.hit.entry.position, item.hit.entry.id))
            self._speak(LayerName.AUTO_RAG, self._recall_block(apart), [_recalled_item(item) for item in apart])
        self._put(LayerName.WINDOW, said, [_item(message, "among the newest") for message in said])

    def _question(self, shown: Sequence[MessageBlock], room: int) -> list[ContextMessage]:
        """The question of the exchange that goes on, where its tools have pushed it out of what is shown."""
        if self.asked is None or self.asked in messages_in(shown) or room < 4 * _LEAST_TOKENS:
            return []
        text = tokens.clip_middle(self.asked.text, room // 2 - MESSAGE_TOKENS)
        return [replace(chat_message(self.asked), content=text)]

    def runs(self, runs: Sequence[Run]) -> None:
        """A task's earlier runs, oldest first; the oldest are left out where not all fit."""
        blocks = [_block(messages_in(blocks_of(run.messages))) for run in runs]
        kept = fit(blocks, self.room, sum(len(each.messages) for each in blocks))
        if len(kept) < len(runs):
            self.notes.append(f"{len(runs) - len(kept)} earlier runs do not fit and are left out.")
        said = [chat_message(message) for message in messages_in(kept)]
        self._put(LayerName.HISTORY, said, [_item(message, "an earlier run of the task") for message in said])

    def context(self) -> ChatContext:
        """The context as it was built."""
        names = [name for name in LayerName if name in self.layers]
        messages = tuple(replace(one, content=legible(one.content)) for name in names for one in self.said[name])
        return ChatContext(
            messages=messages,
            layers=tuple(self.layers[name] for name in names),
            tokens=sum(message.tokens for message in messages),
            budget_tokens=self.budget,
            notes=tuple(self.notes),
            left_before=self.left_before,
            failures=tuple(self.failures),
        )

    def _recalled(self, blocks: Sequence[MessageBlock]) -> list[Recalled]:
        """Recall messages from outside the window that auto-RAG's reserve leaves."""
        config = self.settings.auto_rag
        # Where room is short, half of it stays with what was said last.
        share = min(config.max_tokens, self.room // 2)
        reserve = share - self._taken([])
        if reserve <= 0:
            if config.enabled:
                self.notes.append("There is no room for auto-RAG.")
            return []
        window = fit(blocks, self.room - share, self.settings.context.sliding_window)
        excluded = _shown_in(window) | self.pending_uids
        limits = config.model_copy(update={"max_tokens": reserve})
        # A line break joins each quotation to the block.
        recall = self.auto_rag.search(
            self.query,
            self.session.segment_uid or "",
            excluded,
            limits,
            lambda entry, text: "\n" + self.fence.entry(entry, text),
            self.searches,
        )
        self.notes.extend(recall.notes)
        self.failures.extend(recall.failures)
        recalled = [item for item in recall.items if item.hit.entry.text.strip() not in self._ruled()]
        while recalled and self._taken(recalled) > share:
            recalled.pop()
        return recalled

    def _settled(
        self, blocks: Sequence[MessageBlock], recalled: list[Recalled]
    ) -> tuple[list[MessageBlock], list[Recalled]]:
        """The window in all that auto-RAG left over; what it reaches again is not recalled as well."""
        while True:
            room = self.room - (self._taken(recalled) if recalled else 0)
            window = fit(blocks, room, self.settings.context.sliding_window)
            shown = _shown_in(window)
            apart = [item for item in recalled if item.hit.entry.ref_uid not in shown]
            if len(apart) == len(recalled):
                return window, recalled
            recalled = apart

    def _has_more_than(self, window: Sequence[MessageBlock]) -> bool:
        """True where some message of the segment is outside of the window."""
        shown = {message.uid for message in messages_in(window)} | self.pending_uids
        return not self.is_whole or any(is_shown(message) and message.uid not in shown for message in self.tail)

    def _recall_block(self, recalled: Sequence[Recalled]) -> str:
        return self.fence.block(RECALLED, [self.fence.entry(item.hit.entry, item.text) for item in recalled])

    def _taken(self, recalled: Sequence[Recalled]) -> int:
        return ContextMessage(Role.SYSTEM, self._recall_block(recalled)).tokens

    def _speak(self, name: LayerName, text: str, items: Sequence[LayerItem]) -> None:
        """One composed message for a whole layer."""
        if text:
            self._put(name, [ContextMessage(Role.SYSTEM, text)], items)

    def _put(self, name: LayerName, messages: Sequence[ContextMessage], items: Sequence[LayerItem]) -> None:
        if messages:
            self.said[name] = messages
            self.layers[name] = layer = Layer(name, sum(message.tokens for message in messages), tuple(items))
            self.room -= layer.tokens


def _item(message: ContextMessage, why: str) -> LayerItem:
    return LayerItem(message.uid, message.content, message.tokens, why, {"role": message.role.value})


def _described(uid: str | None, text: str, why: str, **facts: object) -> LayerItem:
    return LayerItem(uid, text, tokens.estimate(text), why, facts)


def _recalled_item(item: Recalled) -> LayerItem:
    hit, entry = item.hit, item.hit.entry
    return _described(
        entry.ref_uid,
        item.text,
        "; ".join(reason.note or reason.name for reason in hit.reasons if not reason.is_added),
        role=entry.role,
        author=entry.author,
        trust=entry.trust.value,
        untrusted=entry.trust.is_untrusted,
        created_at=entry.created_at.isoformat(),
        score=round(hit.score, 6),
        similarity=None if hit.similarity is None else round(hit.similarity, 4),
        keyword_rank=hit.keyword_rank,
        vector_rank=hit.vector_rank,
        reasons=[reason.view() for reason in hit.reasons],
    )


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Messages that stand together or not at all: one, or tool calls with their results."""

    messages: tuple[Message, ...]
    tokens: int


def is_shown(message: Message) -> bool:
    """True for a message that belongs into a window: markers, summaries and empty words do not."""
    if message.role is Role.SYSTEM or message.type in (MessageType.MARKER, MessageType.SUMMARY):
        return False
    return message.type is not MessageType.TEXT or bool(message.text.strip())


def blocks_of(messages: Sequence[Message]) -> list[MessageBlock]:
    """The messages, oldest first, in blocks; calls without a result and results without a call are left out."""
    shown = [message for message in messages if is_shown(message)]
    pairs = _pairs(shown)
    whole = {place for places in pairs.values() for place in places}
    begins = {place: first for first, last in _spans(pairs) for place in range(first, last + 1)}
    grouped: dict[int, list[Message]] = {}
    for place, message in enumerate(shown):
        if message.type is MessageType.TEXT or place in whole:
            grouped.setdefault(begins.get(place, place), []).append(message)
    return [_block(group) for group in grouped.values()]


def _block(messages: Sequence[Message]) -> MessageBlock:
    return MessageBlock(tuple(messages), sum(chat_message(message).tokens for message in messages))


def fit(blocks: Sequence[MessageBlock], room_tokens: int, most_messages: int) -> list[MessageBlock]:
    """The newest blocks that fit, oldest first, without a gap."""
    fitting: list[MessageBlock] = []
    for each in reversed(blocks):
        room_tokens -= each.tokens
        most_messages -= len(each.messages)
        if room_tokens < 0 or most_messages < 0:
            break
        fitting.append(each)
    return fitting[::-1]


def squeezed(whole: MessageBlock, room_tokens: int) -> list[ContextMessage]:
    """A block's messages, the longest cut until all fit; none where the room is too small for that."""
    messages = [chat_message(message) for message in whole.messages]
    fair = room_tokens // len(messages) - MESSAGE_TOKENS
    if fair < _LEAST_TOKENS:
        return []
    spare = sum(max(0, fair - tokens.estimate(message.content)) for message in messages)
    cut = []
    for message in messages:
        size = tokens.estimate(message.content)
        allowed = min(size, fair + spare)
        spare -= max(0, allowed - fair)
        clipped = message if size <= allowed else replace(message, content=tokens.clip_middle(message.content, allowed))
        cut.append(clipped)
    return cut


def _shown_in(window: Sequence[MessageBlock]) -> set[str]:
    """Ids of a window's messages, and of their exchanges: what tools brought there need not be told in short."""
    return {uid for message in messages_in(window) for uid in (message.uid, message.exchange_uid)}


def _spans(pairs: Mapping[str, set[int]]) -> list[tuple[int, int]]:
    """First and last place of each group of tool calls that overlap."""
    spans: list[tuple[int, int]] = []
    for first, last in sorted((min(places), max(places)) for places in pairs.values()):
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], last))
        else:
            spans.append((first, last))
    return spans


def _pairs(shown: Sequence[Message]) -> dict[str, set[int]]:
    """The places of each tool call and its results, by a name of their own."""
    open_calls: dict[str, str] = {}
    pairs: dict[str, set[int]] = {}
    for place, message in enumerate(shown):
        name = message.call_id or ""
        if message.type is MessageType.TOOL_CALL:
            open_calls[name] = message.uid
            pairs[message.uid] = {place}
        elif message.type is MessageType.TOOL_RESULT and name in open_calls:
            pairs[open_calls[name]].add(place)
            if not name:
                del open_calls[name]
    return {uid: places for uid, places in pairs.items() if len(places) > 1}


def messages_in(blocks: Sequence[MessageBlock]) -> list[Message]:
    """Every message of the blocks, in order."""
    return [message for each in blocks for message in each.messages]
