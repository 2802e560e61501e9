"""Conversations that are not English prose, with the default model: full text carries them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from chatting import TALK, recalled, say
from harken.engine import Harken

pytestmark = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs harken[local]")

RUSSIAN = "Решили так: деплой сервиса оплаты в четверг в полдень, сначала канарейка, утверждает Прия."
CHINESE = "那就这么决定：支付服务周四中午部署，先做金丝雀发布，由李娜批准。"
CODE = "def retry_budget(attempts, base=0.25):\n    return [min(30, base * 2 ** n) for n in range(attempts)]"
OTHER_RUSSIAN = (
    "Чем подкормить рассаду помидоров весной?",
    "Рассаду лучше подкормить золой и поливать тёплой водой раз в неделю.",
    "Как настроить пианино перед зимой?",
    "Пианино настраивают после начала отопительного сезона, когда воздух подсохнет.",
    "Куда поехать из Лиссабона на один день?",
    "Из Лиссабона удобно съездить в Синтру на утренней электричке.",
)
OTHER_CHINESE = (
    "番茄苗春天应该施什么肥？",
    "番茄苗每周浇一次温水，加一点草木灰就够了。",
    "冬天之前钢琴需要调音吗？",
    "等暖气开始以后再调音，空气干燥了更稳定。",
    "从里斯本一日游去哪里好？",
    "早上坐火车去辛特拉最方便。",
)
OTHER_CODE = (
    "Why does `git push --force-with-lease` refuse?",
    "Because origin/main moved: run `git fetch`, then look at `git log origin/main..HEAD`.",
    "How do I read the CSV in chunks?",
    "```python\nfor chunk in pd.read_csv(path, chunksize=10_000):\n    process(chunk)\n```",
    "pytest says fixture 'tmp_home' not found",
    "Define `tmp_home` in tests/conftest.py; fixtures of another folder are not seen.",
)


@pytest.fixture
def harken(ready_home: Path, engine_settings: dict[str, Any]) -> Iterator[Harken]:
    settings = {"context.sliding_window": 6, **engine_settings}
    with Harken(ready_home, env={}, settings=settings) as harken:
        yield harken


def talk_about(harken: Harken, question: str, answer: str, others: tuple[str, ...]) -> None:
    say(harken, question, answer, *others, *others)
    harken.embed()


@pytest.mark.parametrize("question", ["что мы решили: когда деплой?", "кто утверждает деплой оплаты?"])
def test_russian(harken: Harken, question: str) -> None:
    talk_about(harken, "Когда будет деплой сервиса оплаты?", RUSSIAN, OTHER_RUSSIAN)
    assert RUSSIAN in recalled(harken.build_context(TALK, [question]))


@pytest.mark.parametrize("question", ["我们关于部署的决定是什么？", "谁批准部署？"])
def test_chinese(harken: Harken, question: str) -> None:
    talk_about(harken, "支付服务什么时候部署？", CHINESE, OTHER_CHINESE)
    assert CHINESE in recalled(harken.build_context(TALK, [question]))


@pytest.mark.parametrize(
    "question", ["what did retry_budget return?", "show me the base default of retry_budget again"]
)
def test_code(harken: Harken, question: str) -> None:
    talk_about(harken, "Write retry_budget for the HTTP client", CODE, OTHER_CODE)
    assert CODE in recalled(harken.build_context(TALK, [question]))


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (OTHER_RUSSIAN, ("да", "спасибо!", "ок, понял", "Сколько спутников у Сатурна?", "Кто написал «Войну и мир»?")),
        (OTHER_CHINESE, ("好的", "谢谢", "嗯", "法国的首都是哪里？", "冒泡排序的复杂度？")),
        (OTHER_CODE, ("ok", "lgtm, thanks", "How tall is Mount Kilimanjaro?")),
    ],
)
def test_nothing_comes_back_for_small_talk_and_what_was_never_discussed(
    harken: Harken, others: tuple[str, ...], words: tuple[str, ...]
) -> None:
    talk_about(harken, "Начнём?", "Let us begin, 开始吧", others)
    for asked in words:
        assert recalled(harken.build_context(TALK, [asked])) == [], asked


def test_the_default_model_finds_all_russian_alike_so_its_similarity_is_not_asked(
    ready_home: Path, engine_settings: dict[str, Any]
) -> None:
    """Where the second model, which knows Russian, is not wanted."""
    settings = {"context.sliding_window": 6, "embedding.multilingual": False, **engine_settings}
    with Harken(ready_home, env={}, settings=settings) as harken:
        embedder = harken.spaces.embedder()
        assert embedder is not None
        query = embedder.embed_query("Сколько спутников у Сатурна?")
        off_topic = [float(query @ vector) for vector in embedder.embed_passages([RUSSIAN, *OTHER_RUSSIAN])]
        assert min(off_topic) > embedder.space.threshold
        talk_about(harken, "Когда деплой?", RUSSIAN, OTHER_RUSSIAN)
        context = harken.build_context(TALK, ["Сколько спутников у Сатурна?"])
        assert recalled(context) == []
        assert any("does not know this script" in note for note in context.notes)
