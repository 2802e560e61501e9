"""What asks for nothing: greetings, thanks, agreement; and which words of a query say what it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harken.retrieve.query import Query
from harken.words import STOP_WORDS

# Words that keep a talk going. A query of nothing else is about nothing that was said before.
_SMALL_TALK = """
    ok okay k kk yes yeah yep yup no nope nah thanks thank thx ty cheers great good fine cool nice perfect awesome
    excellent wonderful lovely amazing brilliant fantastic sure right alright hi hello hey hiya bye goodbye morning
    afternoon evening night day lol haha hmm hm mhm uh um oh ah wow oops sorry pardon welcome go going gone ahead
    continue proceed carry keep stop wait done got gotcha it's understood sounds sound makes make sense agreed agree
    exactly correct true absolutely definitely indeed maybe perhaps mind never let let's move moment minute second
    later soon tomorrow today now see much many lot help helped helpful appreciate appreciated need needed needs well
    say said tell told repeat thought think thinking know want wanted like liked love loved looks look way works work
    really actually also still yet just quick quickly question thing things anything everything something nothing bit
    first next last back away long time start started begin ready please kindly happy glad hope hopefully forward
    да нет ок окей ага угу спасибо благодарю пожалуйста хорошо ладно понял поняла понятно ясно привет здравствуй
    здравствуйте пока отлично супер класс круто давай давайте конечно точно верно согласен согласна продолжай
    продолжайте дальше готово стоп подожди подождите спс норм добрый доброе утро день вечер ночи большое очень
    правильно именно наверное возможно извини извините прости сейчас потом скажи думаю знаю
    oui non merci d'accord bonjour salut ja nein danke bitte gut hallo tschüss si sí gracias vale hola bueno
    好 好的 好吧 行 可以 是 是的 对 对的 不 不是 没有 没事 谢谢 谢谢你 多谢 感谢 嗯 嗯嗯 哦 你好 您好 再见 明白
    明白了 知道 知道了 继续 没问题 当然 はい いいえ ありがとう ありがとうございます わかりました
    了解 了解です 네 아니요 감사합니다 알겠습니다
"""
SMALL_TALK = frozenset(_SMALL_TALK.split())
# Signs that hold a Chinese or Japanese sentence together: a pair with one of them in it names nothing.
_FUNCTION_SIGNS = frozenset(
    "的是了我们你您他她它这那在有和与或就不也都很吗呢吧啊么什怎哪谁几多少为对把被给到说要去会能可以过着没还再请让"
)
_HIRAGANA = re.compile("[\u3040-\u309f]")


def is_small_talk(query: Query) -> bool:
    """Whether nothing was said but stop words, what keeps a talk going, and the number of a choice."""
    return all(word in STOP_WORDS or word in SMALL_TALK or _is_choice(word) for word in query.words)


def telling_terms(terms: Iterable[str]) -> list[str]:
    """The terms of a query that say what it is about; all of them where none does."""
    given = list(terms)
    telling = [term for term in given if term not in SMALL_TALK and term not in STOP_WORDS and not _joins(term)]
    return telling or given


def is_mostly_foreign(text: str) -> bool:
    """Whether more than half of a text's letters are of another script than the Latin one."""
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(character > "\u024f" for character in letters) > len(letters)


def _is_choice(word: str) -> bool:
    return word.isdigit() and len(word) < 3


def _joins(term: str) -> bool:
    return len(term) <= 2 and any(sign in _FUNCTION_SIGNS or _HIRAGANA.match(sign) for sign in term)
