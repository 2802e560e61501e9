"""Words and sentences of a text, which words say nothing, and what stands for them in scripts without spaces."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources

from harken.text import tokens
from harken.text.fence import RECALL_NAME

WORD = re.compile(r"\w+(?:['’]\w+)*")
# Of plain text what no word has, as blanks.
_BLANKED = bytes(code if chr(code).isalnum() or chr(code) in "_'" else 32 for code in range(128)) + bytes(128)
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
# Full text takes single letters of Hangul apart as well.
_SPACED = re.compile(f"[\u1100-\u11ff{UNSPACED}]")
# Of Russian, by whose endings one word has a dozen forms: what is left of each is the same. Twice, for reflexive verbs.
CYRILLIC = "[\u0400-\u04ff]"
_CYRILLIC_RUN = re.compile(f"{CYRILLIC}+")
_REFLEXIVE = re.compile("(?<=[а-я]{3})с[ья]$")
# As of verbs, behind their vowel; and of any word. The longest that leaves three letters.
_VERBAL = "ем ет ете ешь йте л ла ли ло н на нно но ны ть ют"
_ENDINGS = """а ам ами ах ая е ев его ее ей ейте ем ему ена ено ены ет ею и ие ием ией ии ий ил ила или ило им ими ит
    ите ить их ишь ию ия иям иями иях о ов ого ое ой ом ому ою у уй уйте ует уют ут ух ую ы ый ыл ыла ыли ыло ым ыми ыт
    ыть ых ь ье ью ья ю юю я ям ями ят ях яя"""
_ENDING = re.compile(f"(?<=[а-я]{{3}})(?:(?<=[ая])(?:{'|'.join(_VERBAL.split())})|(?:{'|'.join(_ENDINGS.split())}))$")
_DAY_MICROSECONDS = 86_400_000_000
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAY = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|понедельник\w*|вторник\w*|сред(?:у|ам|ами)|четверг\w*|пятниц\w+"
    r"|суббот\w+|воскресень\w+",
    re.IGNORECASE,
)
_MONTHS_OF = {name[:3].lower(): name for name in MONTHS}
_ISO_DAY = re.compile(r"\b((?:19|20)\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b")
_SHORT_MONTH = re.compile(rf"(?:(?<=\d )|\b(?=\w+\.? \d))(?:{'|'.join(_MONTHS_OF)})t?\b\.?", re.IGNORECASE)
MAX_TEXT_TOKENS = 4000
MAX_SENTENCE_TOKENS = 60
# A line as long as this was mostly broken by an editor, a shorter one by its writer.
_WRAPPED_CHARS = 50
# What nobody said: code, recalled blocks, reminders of agents.
UNSAID_OPENING = rf"<(system-reminder|{RECALL_NAME}|environment_context|ide_[a-z_]+)\b[^<>]*>"
UNSAID = re.compile(rf"```.*?(?:```|\Z)|{UNSAID_OPENING}.*?(?:</\1>|\Z)", re.DOTALL)
_LEAD = re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+•]|\d{1,3}[.)])[ \t]+")
_EMPHASIS = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_CLOSING = "\"'”’»)\\]」』）"
# Only from the first mark of a row: from each of thousands, all behind it was looked through.
_END = re.compile(
    rf"(?P<spaced>(?<![.!?…])[.!?…]+[{_CLOSING}]*)\s+(?=\S)"
    rf"|(?P<unspaced>(?<![。！？；])[。！？；]+[{_CLOSING}]*)\s*(?=\S)"
)
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|mr|mrs|ms|dr|prof|st|vs|cf|no|fig|approx|т\.е|т\.д|т\.п|т\.к|др|г|гг|ул|рис|см|стр"
    r"|[^\W\d_])\.$",
    re.IGNORECASE,
)


def is_weekday(word: str) -> bool:
    """True for a day of the week, in English or Russian."""
    return WEEKDAY.fullmatch(word) is not None


def words_in(text: str) -> list[str]:
    """Return what `WORD` finds, of plain text in a third of the time."""
    if not text.isascii():
        return WORD.findall(text)
    blanked = text.encode().translate(_BLANKED).decode()
    parts = blanked.split()
    # An apostrophe is of a word only where it stands alone between letters.
    if "'" not in text or not ("''" in blanked or "' " in f"{blanked} " or " '" in f" {blanked}"):
        return parts
    return [word for part in parts for word in (WORD.findall(part) if "'" in part else (part,))]


@cache
def word_lists(name: str) -> Mapping[str, frozenset[str]]:
    """Return the words of `text/data/{name}.txt` by section; a line is a comment (`#`), a `[section]`, or words."""
    lists: dict[str, frozenset[str]] = {}
    section = ""
    for line in resources.files(__package__).joinpath(f"data/{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#"):
            lists[section] = lists.get(section, frozenset()).union(line.split())
    return lists


@cache
def phrases(name: str, section: str) -> re.Pattern[str]:
    """Return a pattern for any phrase of a section; in a list, `_` stands for a space and `_*_` for a few words."""
    return re.compile("|".join(map(_phrase, word_lists(name)[section])), re.IGNORECASE)


def _phrase(words: str) -> str:
    pattern = words.replace("_*_", r"\W.{0,60}?\W").replace("_", r"\W+")
    return pattern if UNSPACED_RUN.search(words) else rf"\b{pattern}\b"


def words_of(name: str) -> frozenset[str]:
    """Return the words of all sections of a file in `text/data`."""
    return frozenset().union(*word_lists(name).values())


STOP_WORDS = words_of("stop_words")


@cache
def passing_words() -> frozenset[str]:
    """Return the stop words, and those that keep a talk going: what says nothing else is about nothing."""
    return STOP_WORDS | words_of("small_talk")


# Of a longer text its beginning tells its language.
_LOOKED_AT = 2_000
# So much of another script makes a text of that language, however many English names stand in it.
_FOREIGN_SHARE = 0.25
_ADDRESS = re.compile(r"\S*(?:://|\w\.\w{2})\S*")
_LANGUAGES = ("german", "spanish", "french", "italian", "portuguese")


def foreign_share(text: str) -> float:
    """Return the share of a text's letters that are of another script than the Latin one, 0 to 1."""
    letters = [character for character in text if character.isalpha()]
    return sum(character > "\u024f" for character in letters) / max(1, len(letters))


def is_english(text: str) -> bool:
    """Return whether a text may be English: no other script, nor more function words of another language.

    No guesser from elsewhere does as well on a few words: of 1,133 English questions and prompts this takes none for
    something else, lingua 4 and fastText 3, CLD3 100; of 100 German and Spanish ones it takes 5 for English, of two
    words each and mostly courtesies (benchmarks/languages.py).
    """
    said = text[:_LOOKED_AT].lower().replace("’", "'")
    if not said.isascii() and ("¿" in said or "¡" in said or foreign_share(said) >= _FOREIGN_SHARE):
        return False
    # "com" is a word of Portuguese, and of "example.com" none; looked for late, for most texts pass without.
    return _seems_english(said) or (_ADDRESS.search(said) is not None and _seems_english(_ADDRESS.sub(" ", said)))


def _seems_english(said: str) -> bool:
    words = WORD.findall(said)
    english = sum(word in _english_words() for word in words)
    other = max(sum(word in own for word in words) for own in _telling_words())
    # A letter that English lacks says half as much: of a name, mostly.
    return other + sum(not word.isascii() for word in words) / 2 <= english


def stop_words(text: str) -> frozenset[str]:
    """Return the words that say nothing by themselves in the language of a text."""
    if is_english(text):
        return STOP_WORDS
    words = WORD.findall(text[:_LOOKED_AT].lower())
    return STOP_WORDS | max(_function_words(), key=lambda own: sum(word in own for word in words))


@cache
def _english_words() -> frozenset[str]:
    return word_lists("stop_words")["english"] | words_of("small_talk")


@cache
def _function_words() -> tuple[frozenset[str], ...]:
    return tuple(word_lists(f"courtesies/{language}")["plain"] for language in _LANGUAGES)


@cache
def _telling_words() -> tuple[frozenset[str], ...]:
    return tuple(own - words_of("also_english") for own in _function_words())


def content_terms(text: str) -> list[str]:
    """Return the words of a text that say something, lower case, in order and as often as they stand there."""
    words = (word.lower() for word in WORD.findall(text))
    return [term for word in words if word not in STOP_WORDS for term in split_unspaced(word)]


def split_unspaced(word: str) -> list[str]:
    """Return pairs of characters for scripts without spaces, the word itself for the others."""
    runs = UNSPACED_RUN.findall(word)
    if not runs:
        return [word]
    pairs = [run[i : i + 2] for run in runs for i in range(max(1, len(run) - 1))]
    rest = [part for part in UNSPACED_RUN.split(word) if part]
    return [*pairs, *rest]


def as_indexed(text: str) -> str:
    """Return the text as full text has it: scripts without spaces sign by sign, Russian words without their endings.

    What it makes of a text stands in indexes: a change of it takes a schema version, which makes them anew.
    """
    if text.isascii():
        return text
    return _SPACED.sub(r" \g<0> ", _CYRILLIC_RUN.sub(lambda word: _russian_stem(word[0]), text))


@lru_cache(maxsize=65_536)
def _russian_stem(word: str) -> str:
    return _ENDING.sub("", _REFLEXIVE.sub("", word.lower().replace("ё", "е")))


def day_in_words(microseconds: int) -> str:
    """Return the day of a moment since 1970 UTC as people write it, `8 May 2023`: a question that names it finds it."""
    return _date(microseconds // _DAY_MICROSECONDS)


def days_in_words(text: str) -> str:
    """Return the text with its days as people write them: `9 August 2026` of `2026-08-09`, `August 9` of `Aug. 9`."""
    spelled = _ISO_DAY.sub(lambda day: f"{int(day[3])} {MONTHS[int(day[2]) - 1]} {day[1]}", text)
    return _SHORT_MONTH.sub(lambda month: _MONTHS_OF[month[0][:3].lower()], spelled)


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    moment = time.gmtime(day * 86400)
    # Not by `strftime`: what is indexed must not change with the process's locale.
    return f"{moment.tm_mday} {MONTHS[moment.tm_mon - 1]} {moment.tm_year}"


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in order, each at most 60 tokens, without code, markup and lines without a word.

    Of a very long text the middle is left out.
    """
    said = UNSAID.sub("\n\n", tokens.clip_middle(text, MAX_TEXT_TOKENS, "\n\n"))
    found = [sentence for paragraph in _paragraphs(said) for sentence in _split(paragraph)]
    return [tokens.clip(sentence, MAX_SENTENCE_TOKENS) for sentence in found if WORD.search(sentence)]


def _paragraphs(text: str) -> list[str]:
    """Join lines where one goes on in the next; items of a list, headings and blank lines begin anew."""
    joined: list[str] = []
    length_before = 0
    for line in text.splitlines():
        unled = _LEAD.sub("", line).strip()
        goes_on = length_before >= _WRAPPED_CHARS or (length_before > 0 and unled[:1].islower())
        if unled and goes_on and unled == line.strip():
            joined[-1] = f"{joined[-1]} {unled}"
        elif unled:
            joined.append(unled)
        length_before = 0 if unled.endswith((":", "|")) else len(unled)
    return [_EMPHASIS.sub(r"\2", paragraph) for paragraph in joined]


def _split(paragraph: str) -> list[str]:
    found, start = [], 0
    for match in _END.finditer(paragraph):
        end = match.end("unspaced") if match["unspaced"] else match.end("spaced")
        if match["spaced"] and not _ends(paragraph, start, end, match.end()):
            continue
        found.append(paragraph[start:end].strip())
        start = match.end()
    return [*found, paragraph[start:].strip()] if paragraph[start:].strip() else found


def _ends(paragraph: str, start: int, end: int, behind: int) -> bool:
    """Whether a mark ends a sentence: not behind an abbreviation or an initial, before a small letter, or in code."""
    following = paragraph[behind]
    if following.islower() and not re.match(f"[{UNSPACED}]", following):
        return False
    is_in_code = paragraph.count("`", start, end) % 2 and "`" in paragraph[end:]
    return not is_in_code and not _ABBREVIATED.search(paragraph[start:end])


_PART_OF_NAME = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")


def spelled(code: str) -> str:
    """Code as words, lower case, without its marks: `harken.assemble.fitBudget` is `harken assemble fit budget`."""
    return " ".join(word.lower() for word in _PART_OF_NAME.findall(code))
