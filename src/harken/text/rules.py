"""Standing rules and preferences: the sentences of a text that say what is to hold from now on.

They are told by patterns (`data/rules.txt`), for every message is looked at when it is recorded; a short one that no
pattern knows is told later by its vector (`kinds.py`). What somebody else has said is none: quotations, code, tags, and
what a line announces as pasted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from harken.text.words import UNSPACED_RUN, content_terms, passing_words, split_unspaced, word_lists, words_in

# Whoever states a rule does so at the beginning of a message; what is longer was mostly pasted.
LOOKED_AT = 2_000
_MOST_CHARS, _LEAST_CHARS, _MOST_RULES = 240, 4, 8
_Find = Callable[[str], re.Match[str] | None]
_SENTENCE = re.compile(r"\w(?:[^\n.!?;。！？；]+|[.!?](?=[^\s.!?\"')\]]))*[.!?。！？]?")
_FOREIGN = re.compile(
    r"```.*?(?:```|\Z)|<([a-z][\w-]*)\b[^>\n]*>.*?(?:</\1>|\Z)|^[ \t]*(?:[>|][^\n]*|(?: {4}|\t)[^\n]*)$"
    r"|\"[^\"\n]{12,}\"|“[^”]{12,}”|«[^»]{12,}»|„[^“”\n]{12,}[“”]|「[^」]{4,}」",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
# One of these is in whatever that finds: to look for them takes a tenth of the time.
_FOREIGN_SIGNS = ("```", "<", "    ", "\t", '"', "“", "«", "„", "「")
_QUOTED_LINE = re.compile(r"^[ \t]*[>|]", re.MULTILINE)
_QUOTED = re.compile('["“”«»„「`]')
# What points at something at hand is a task on it.
_AT_HAND = re.compile(
    r"\b(?:this|these)\b(?! (?:repo\w*|project|team|codebase|company|house)\b)|\bdies(?:e[rmsn]?)?\b|\bcet(?:te)?\b"
    r"|\blet's .*\b(?:instead of|rather than)\b|\b(?:make|change|set) (?:it|that|them)(?: to)? \d"
    r"|\best[ea]s?\b|\bquest[oaie]\b|\bэт(?:от|у|а|о|и|ой|ом|ого)\b|这"
)
# What is to be so for once, unless it says how things are to be later.
_FOR_ONCE = re.compile(
    r"(?s:^(?!.*(?:\b(?:always|now on|later on|future|immer|toujours|siempre|sempre)\b|всегда|впредь|总是|以后)).*(?:"
    r"\b(?:yet(?:\W*$|[,:;])|(?:don't|dont|do not)\b[^,;]* yet\b|(?:for|right|just) now\b|this (?:time|once)\b"
    r"|(?:for|at) the moment\b|diesmal|dies(?:es)? mal\b|vorerst|noch nicht|cette fois|pas encore|pour l'instant"
    r"|esta vez|por ahora|questa volta|per ora|desta vez|por enquanto)|(?:на|в) этот раз|[这這]一?次))"
)
_NOT_LINES = re.compile(r"[^\n]")
# What stands below such a line was written by somebody else.
_PASTED = re.compile(
    r"^[^\n]*\b(?:here(?:'s| is| are)?|below|following|says?|said|wrote|writes|reads|error|logs?|output|readme|file"
    r"|docs?|document|email|e-mail|article|text|snippet|prompt|contents?|pasted?|quoted?|according to)"
    r"\b[^\n]{0,80}:[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
# Soon found, where it is there.
_ANNOUNCES = re.compile(r":[ \t]*$", re.MULTILINE)
_ANNOUNCED = re.compile(
    r"\b(?:rules?|preferences?|from now on|always|going forward|guidelines|remember)\b", re.IGNORECASE
)
# Who tells what another says states no rule.
_REPORTED = re.compile(
    r"\b(?:says?|said|told|tells|telling|wrote|writes|reads|according to|reminds?|reminded|taught|advised)\b"
    r"|\b(?:he|she|they|people|everyone|mom|dad|boss|teacher|readme|docs?|manual)\b(?! (?:to|you))"
    r"|(?:error|exception|warning): "
)
# A question states none, nor what is asked for once: "what are my preferences?", "should I always use tabs?".
_ASKS = re.compile(
    r"(?:(?:and|but|so|also|ok|hey|hi|now)\b\W*)*(?:(?:what|which|who|whose|how|why|where)(?:'s|"
    r"(?: (?!i |we |you )\w+){0,2} (?:am|is|are|was|were|do|does|did|ha[vs]e?|should|would|can|could|will))\b|"
    r"(?:am|is|are|was|were|do|does|did|ha[vs]e?|should|must) (?:i|we|it|he|she|they|the|my|our|there)\b|"
    r"(?:can|could) i\b|(?:do|did|have) you\b(?! m))"
    r"|(?!.*(?:请|請|能|可以|可否|好吗|行吗))(?:.{0,2}(?:为什么|為什麼|为何|为啥|怎么)|.*(?:[吗嗎呢][？?]?|？)$)"
    f"|{_FOR_ONCE.pattern}"
)
_NAME = re.compile(
    r"\b(?:call|address|refer to) me\b|\bpronouns\b|\bnenne?(?: sie)? mich\b|\bappel(?:le|ez)-moi\b|\bll[áa]m[ae]me\b"
    r"|\bchiama(?:mi|temi)\b|\bme cham[ea]\b|\bcham[ea]-me\b|\b(?:зови|называй)(?:те)? меня\b|[叫称稱][呼]?我"
)
# Where a long sentence goes on to something else.
_GOES_ON = re.compile(r",? (?:so )?(?:how|can you|could you|would you|will you|what|which|considering|given|do you)\b")
# A question behind a rule is no part of it.
_ASKED_BEHIND = re.compile(r",? (?:(?:so|but|and) )?(?:(?:how|what) )?(?:can|could|should|would|will|do) (?:you|i)\b")
# "If you like", at the end, is a courtesy.
_CONDITION = re.compile(
    r"\b(?!(?:if (?:you(?:'d)? (?:like|want|wish|prefer)|possible)|wenn (?:du magst|du willst|möglich)|если хо\w+)\W*$)"
    r"(?:when(?:ever)?|any ?time|every time|each time|if|while|wenn|quand|lorsque|cuando|quando|если|когда|bevor"
    r"|(?:before|after) (?:you|each|every|any|\w+ing)|(?:vor|nach) jede\w|перед|прежде чем|после кажд\w+"
    r"|(?:avant|après) (?:de|que|chaque|d')|(?:antes|después|depois) (?:de|que|cada)|(?:prima|dopo) (?:di|che|ogni)"
    r")\b[^,]*"
)
# What it is for is part of what it says, but it then is not for everything.
_PURPOSE = re.compile(r"\b(?:for|für|bei|pour|para|per|для)\b")


@cache
def _languages() -> dict[str, tuple[frozenset[str], list[str], list[str], str]]:
    """Of each language the words of which a rule has one, the patterns of rules, their marks, and how most begin."""
    languages: dict[str, tuple[frozenset[str], list[str], list[str], str]] = {}
    section, words, marks, names, patterns = "", set[str](), list[str](), dict[str, str](), list[str]()
    for line in [*resources.files(__package__).joinpath("data/rules.txt").read_text("utf-8").splitlines(), "[]"]:
        name, equals, value = line.partition(" = ")
        if line.startswith("["):
            if section:
                languages[section] = frozenset(words), patterns, marks, f"^{names.get('lead', '')}"
            section, words, marks, names, patterns = line.strip("[]"), set(), [], {}, []
        elif equals and name == "words":
            words.update(value.split())
        elif equals and name == "marks":
            marks += value.split()
        elif equals and name.isidentifier():
            names[name] = _with_names(value, names)
        elif line and not line.startswith("#"):
            patterns.append(_with_names(line, names))
    return languages


@cache
def _languages_of() -> dict[str, tuple[str, ...]]:
    """Of each word the languages a rule of which may have no other of their words."""
    of: dict[str, tuple[str, ...]] = {}
    for language, (triggers, *_) in _languages().items():
        for word in triggers:
            of[word] = (*of.get(word, ()), language)
    return of


def _with_names(pattern: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern.replace("_", r"\s")


@cache
def _patterns(language: str) -> tuple[_Find, _Find, Sequence[str]]:
    """What finds a rule at the beginning of a sentence, what anywhere in it, and words of which that needs one."""
    led, at_start, anywhere = list[str](), list[str](), list[str]()
    _, patterns, marks, lead = _languages()[language]
    for pattern in patterns:
        is_first = pattern.startswith("^") and "|^" not in pattern
        # Once for all that begin with it: anew for each of them it took more than half of the time.
        is_led = is_first and pattern.startswith(lead)
        (led if is_led else at_start if is_first else anywhere).append(f"(?:{pattern.removeprefix(lead * is_led)})")
    if led:
        at_start.append(f"{lead}(?:{'|'.join(led)})")
    first, later = re.compile("|".join(at_start) or "(?!)").match, re.compile("|".join(anywhere)).search
    return first, later, [mark.replace("_", " ") for mark in marks]


def _finders(language: str, said: str) -> list[_Find]:
    """What finds a rule in a sentence of a text: at its beginning first, which is soon done."""
    first, later, marks = _patterns(language)
    if not marks:
        return [first, later]
    # Searching takes twenty times as long as looking for a few words, most of which the whole text has not.
    there = [mark for mark in marks if mark in said]

    def find(sentence: str) -> re.Match[str] | None:
        for mark in there:
            if mark in sentence:
                return later(sentence)
        return None

    return [first, find] if there else [first]


def rules_in(text: str, words: Iterable[str] | None = None) -> list[tuple[int, int]]:
    """Where the rules of a text stand: the beginning and the end of each.

    `words` are those of its beginning in lower case, where they are known.
    """
    said = text[:LOOKED_AT].lower()
    if "’" in said:
        said, words = said.replace("’", "'"), None
    languages_of = _languages_of()
    known = languages_of.keys() & set(words_in(said) if words is None else words)
    heard = {language for word in known for language in languages_of[word]}
    if not said.isascii() and UNSPACED_RUN.search(said):
        heard.add("")
    finders = [
        find
        for language, (triggers, *_) in (_languages().items() if heard else ())
        if (language if triggers else "") in heard
        for find in _finders(language, said)
    ]
    if not finders or len(said) != len(text[:LOOKED_AT]):
        return []
    if any(map(said.__contains__, _FOREIGN_SIGNS)) or ((">" in said or "|" in said) and _QUOTED_LINE.search(said)):
        said = _FOREIGN.sub(lambda found: _NOT_LINES.sub(" ", found[0]), said)
    for pasted in _PASTED.finditer(said) if _ANNOUNCES.search(said) else ():
        if not _ANNOUNCED.search(pasted[0]):
            said = said[: pasted.start()]
            break
    spans = (_rule(said, *found.span(), finders) for found in _SENTENCE.finditer(said))
    return [span for span in spans if span][:_MOST_RULES]


def may_state(text: str) -> bool:
    """Whether a vector may tell a rule of a text: short, asking nothing, at no one thing, in its writer's own words."""
    said = text.lower()
    if not _LEAST_CHARS <= len(said.strip()) <= _MOST_CHARS or "?" in said or "？" in said:
        return False
    return not any(found.search(said) for found in (_QUOTED, _AT_HAND, _FOREIGN, _REPORTED, _FOR_ONCE))


def may_state_briefly(text: str) -> bool:
    """Whether a vector may tell a rule of a text that is too short to be compared: it says more than courtesies do."""
    return may_state(text) and not set(words_in(text.lower())) <= passing_words()


def _rule(said: str, start: int, end: int, finders: Sequence[_Find]) -> tuple[int, int] | None:
    """Where the rule of a sentence stands; of a long one, the part that states it."""
    sentence = said[start:end]
    stated = ((found, _ASKED_BEHIND.search(sentence, found.end())) for find in finders if (found := find(sentence)))
    told = ((found, sentence[: asked.start() if asked and sentence[-1] == "?" else None]) for found, asked in stated)
    found, rule = next((each for each in told if not _ASKS.match(each[1])), (None, ""))
    if found is None or len(sentence) < _LEAST_CHARS or _REPORTED.search(sentence, 0, found.start()):
        return None
    if len(sentence) <= _MOST_CHARS:
        return start, start + len(rule.rstrip())
    first = sentence.rfind(", ", 0, found.start() + 1) + 2 if ", " in sentence[: found.start() + 1] else 0
    beyond = _GOES_ON.search(sentence, max(found.end(), first + _LEAST_CHARS))
    last = min(first + _MOST_CHARS, beyond.start() if beyond else len(sentence))
    if last < len(sentence) and not beyond:
        last = max(found.end(), sentence.rfind(" ", first, last))
    return start + first, start + len(sentence[:last].rstrip(" ,"))


@dataclass(frozen=True, slots=True)
class Matter:
    """What a rule is about.

    Attributes:
        demand: the words of what is to be done; `case` those of when.
        kinds: the ways of answering that it speaks of (`length`, `language`, `name`…).
        is_general: whether it touches every task.
    """

    demand: frozenset[str]
    case: frozenset[str]
    kinds: frozenset[str]
    is_general: bool

    def is_of(self, other: Matter) -> bool:
        """Whether both speak of the same, so that the later one stands in place of the earlier one."""
        if self.is_general and other.is_general and self.kinds & other.kinds:
            return True
        says_something = bool(self.demand | self.case)
        return says_something and _alike(self.demand, other.demand) and _alike(self.case, other.case)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return one == other or (bool(one) and 4 * len(one & other) >= len(one) + len(other))


@lru_cache(maxsize=1024)
def matter_of(rule: str) -> Matter:
    """What a rule is about."""
    said = rule.lower().replace("’", "'")
    condition = _CONDITION.search(said)
    lists = word_lists("matters")
    words = {part for word in words_in(said) for part in split_unspaced(word)}
    kinds = {kind for kind, mine in lists.items() if kind != "generic" and not mine.isdisjoint(words)}
    if _NAME.search(said):
        kinds = {"name"}
    case = condition[0] if condition else ""
    is_general = bool(kinds) and not case and ("name" in kinds or not _PURPOSE.search(said))
    return Matter(_telling(said.replace(case, " ", 1) if case else said), _telling(case), frozenset(kinds), is_general)


def _telling(text: str) -> frozenset[str]:
    generic = word_lists("matters")["generic"]
    return frozenset(term.rstrip("s") for term in content_terms(text) if term not in generic)
