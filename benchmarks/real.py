"""Messages of real length: LoCoMo's turns and BEAM's chats, together, as many as are wanted; made-up ones elsewhere.

Where more are wanted than there are, each further round is made of halves of two messages of one conversation: as long
as real ones, in their words, and none of them twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np

import beam
import locomo
from synthetic import Talk, Talks

_STRIDE = 7
_ROUND = timedelta(days=200)
_BEGIN = datetime(2023, 1, 1, tzinfo=UTC)


def is_there() -> bool:
    """Whether both sets are where `HARKEN_TEST_DATA` says, or beside this checkout."""
    return locomo.default_path().exists() and any(beam.default_path().glob("*.json"))


def name() -> str:
    """Of the texts, for tables."""
    return "LoCoMo and BEAM" if is_there() else "synthetic talk"


def _once() -> list[Talk]:
    found = [
        Talk(sample["sample_id"], "", [locomo.said(turn) for turn, _ in locomo.turns_of(sample)], [])
        for sample in locomo.load(locomo.default_path())
    ]
    found += [
        Talk(chat, "", [message["content"] for message in content["messages"]], [])
        for chat, content in beam.load(beam.default_path()).items()
    ]
    # By turns, so that a part of them is of both sets.
    return found[::2] + found[1::2]


def _halves(texts: Sequence[str], number: int) -> list[str]:
    if not number:
        return list(texts)
    made = []
    for place, text in enumerate(texts):
        first, second = text.split(), texts[(place + number * _STRIDE) % len(texts)].split()
        made.append(" ".join([*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]]))
    return made


def talks(messages: int, first_round: int = 0) -> Iterator[Talk]:
    """Conversations of so many messages in all; others for another first round."""
    if not is_there():
        yield from Talks(7 + first_round).talks(messages)
        return
    whole = _once()
    for number in count(first_round):
        for talk in whole:
            texts = _halves(talk.texts, number)[:messages]
            begun = _BEGIN + number * _ROUND
            moments = [begun + timedelta(minutes=place) for place in range(len(texts))]
            yield Talk(f"{talk.name}-{number}", f"project-{number}", texts, moments)
            messages -= len(texts)
            if not messages:
                return


def texts(messages: int, seed: int = 0) -> list[str]:
    """So many messages of all conversations, in no order of theirs."""
    chosen = [text for talk in talks(messages if not is_there() else 5_000) for text in talk.texts if text.strip()]
    return [chosen[place] for place in np.random.default_rng(seed).permutation(len(chosen))[:messages]]


def questions(wanted: int, said: Sequence[str], seed: int = 8) -> list[str]:
    """Prompts, none twice: the sets' own questions, and a few words out of what was said."""
    found: dict[str, None] = {}
    if is_there():
        asked = [each.text for each in locomo.questions(locomo.load(locomo.default_path()))]
        asked += [each.text for each in beam.questions(beam.load(beam.default_path()))]
        places = np.random.default_rng(seed).permutation(len(asked))
        found = dict.fromkeys(asked[place] for place in places)
    source = Talks(seed)
    long = [text for text in said if len(text.split()) > 8]
    while len(found) < wanted:
        found |= dict.fromkeys(source.queries(long, wanted))
    return list(found)[:wanted]
