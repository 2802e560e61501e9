"""Words: where they are in a text, which of them say nothing, and what stands for them in scripts without spaces."""

from __future__ import annotations

import re

WORD = re.compile(r"\w+(?:['’]\w+)*")
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_STOP_WORDS = """
    a about above after again all also am an and any are aren't as at be because been before being below between
    both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from
    further get got had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself him
    himself his how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's like may me might
    more most mustn't my myself no nor not of off on once one only or other ought our ours ourselves out over own
    please same shan't she she'd she'll she's should shouldn't so some such than that that's the their theirs them
    themselves then there there's these they they'd they'll they're they've this those through to too under until up
    us very was wasn't we we'd we'll we're we've were weren't what what's when when's where where's which while who
    who's whom why why's will with won't would wouldn't you you'd you'll you're you've your yours yourself
    yourselves и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было
    вот от меня еще нет о из ему теперь когда даже ну ли если уже или ни быть был него до вас нибудь вам ведь там
    потом себя ничего ей может они тут где есть надо ней для мы тебя их чем была сам чтоб без будто чего раз тоже
    себе под будет кто этот того потому этого какой ним здесь этом один почти мой тем чтобы нее были куда зачем всех
    можно при об
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def content_terms(text: str) -> list[str]:
    """The words of a text that say something, lower case, in order and as often as they stand there."""
    words = (word.lower() for word in WORD.findall(text))
    return [term for word in words if word not in STOP_WORDS for term in split_unspaced(word)]


def split_unspaced(word: str) -> list[str]:
    """Pairs of characters for scripts without spaces, the word itself for the others."""
    runs = UNSPACED_RUN.findall(word)
    if not runs:
        return [word]
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    rest = [part for part in UNSPACED_RUN.split(word) if part]
    return [*pairs, *rest]
