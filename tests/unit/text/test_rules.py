"""What people say to hold from now on is told from what they just say, in the languages of the courtesies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis.strategies import from_regex, lists, sampled_from

from harken.text import rules
from harken.text.rules import matter_of, may_state, rules_in

RULES = """
let's use British spelling instead of American from now on
let's always use tabs instead of spaces
Always answer in metric units.
From now on, answer in German.
Call me Sam.
I prefer dark mode over light mode.
Please never use emojis in your answers.
Please don't add comments to the code.
When I ask for a recipe, give me the vegetarian version.
Every time I send you code, check it for security issues.
Keep it short.
I'd rather you used tabs.
I like Postgres better than MySQL.
Make sure to always run the tests before you commit.
I don’t want long explanations.
Use pnpm instead of npm.
Going forward, please cite your sources.
Be concise.
Be concise yet thorough.
You can use emojis again.
Always answer in English, not only for now.
No emojis please.
Thanks! Also, never suggest pork dishes.
Omit the greetings in your replies.
Whenever you name a price, add tax.
For anything legal, tell me to see a lawyer.
From today on, branches named after the ticket.
Celsius only, please.
Use pnpm not npm please, npm broke our lockfile
so the rule for this project: round once per invoice, half up.
Can you always tell me what the units are?
Would you please always answer in metric units?
I go by Alex.
Antworte immer auf Deutsch.
Duz mich ruhig.
Keine Tabellen mehr.
Ab jetzt nur noch kurze Antworten.
Nenn mich Max.
Ab jetzt bitte nur noch metrische Einheiten.
Réponds toujours en français.
Appelle-moi Léa.
Je préfère les trains aux avions.
Responde siempre en español.
Llámame Paco.
Trátame de tú.
A partir de hoy, las fechas siempre en formato corto.
De ahora en adelante, usa euros.
Chiamami Gio.
Diamoci del tu.
Vouvoyez-moi.
Preferisco risposte brevi.
Me chame de Duda.
A partir de agora, responda em português.
Всегда отвечай на русском.
Называй меня Саша.
Обращайтесь ко мне на вы.
Больше никаких таблиц.
Даты всегда пиши целиком.
Впредь используй метрические единицы.
请总是用中文回答
以后请用公制单位
叫我小王
回答要简短
Check with me before you push to main.
You don't need to repeat my question.
Prices in euros everywhere.
All variable names must be in snake_case.
Log messages have to be in English.
I'd like the conclusion at the top.
I'm allergic to nuts, so leave them out of recipes.
Let's keep the answers short.
My name is written with a C.
Our convention is one class per file.
Don't end with a question.
Skip the intro and get to the point.
Anything you publish has to be reviewed by me.
When in doubt, ask.
Frag mich vorher, bevor du etwas installierst.
Ich will kurze Antworten.
Ich bin Vegetarier, also schlag keine Fleischgerichte vor.
Montre-moi le plan avant de modifier un fichier.
Les messages de commit doivent être en anglais.
Dans ce projet on utilise pnpm, pas npm.
Avísame antes de instalar nada.
Cada función tiene que tener una prueba.
Gli orari nel formato 24 ore, per favore.
Salta l'introduzione.
Preços em reais, por favor.
Me poupe das formalidades.
Не нужно каждый раз извиняться.
Я вегетарианец, так что не предлагай мясо.
不需要重复我的问题。
我的名字是木子李。
可以请你总是用中文回答吗？
不管我怎么问，总是用中文回答。
"""
NO_RULES = """
I'm adding videos to my portfolio like I prefer, but I'm not sure how to show them.
Use the function not called twice
Let's use Postgres instead of MySQL
ok let's use httpx rather than requests here
Let's use TypeScript, not JavaScript
为什么你总是用英文回答？
应该总是用空格吗？
I always loved painting as a kid.
Never mind, I found it.
I have never been to Paris.
Call me later when you're free.
She told me to always be careful.
My mom always says never go to bed angry.
Always good to hear from you!
What do you prefer, tea or coffee?
Do you always use tabs?
Can you fix the bug in the parser?
From now on I'm going to eat healthier.
From now on the office is closed on Fridays.
I go by bus on Mondays.
For every guest, we bake a cake.
Whenever you came to visit, we baked a cake.
Wir haben keine Milch mehr.
Больше никогда туда не поеду.
Use the second approach.
Don't worry about it.
Please don't hesitate to ask.
Don't give up on your dreams.
Keep up the good work!
I don't want to go to work today.
What happens when I ask for a refund?
The build always fails on Mondays.
Write a function that always returns 4.
I would rather be with you.
I'd rather wait until the bugs are fixed, and then I'll try it.
Don't ever quit on what you love.
Just keep moving forward slowly and taking small steps.
Ich habe immer Hunger.
Je ne suis jamais allé à Rome.
Siempre me gustó el mar.
Ho sempre amato il mare.
Sempre gostei de praia.
Я всегда любил море.
我一直很喜欢画画
Check with Tom before the weekend.
You don't need a ticket for the museum.
My phone number has changed.
Each answer got one point.
I want short hair again.
I'm on a train, so the line may drop.
Stick to your dreams!
Her name is pronounced differently.
Run the tests.
Don't open the window.
Always fails on CI, never locally.
Always crashes on startup.
Never returns.
You can use the car again.
Don't push yet.
Don't commit anything yet, I want to review it first.
Please don't deploy right now.
Use pytest instead of unittest for now.
Answer in Spanish this time.
Antworte diesmal bitte nur auf Englisch.
Ne commit pas encore.
Отвечай на этот раз по-английски.
这次请用英文回答。
Cut the onions into rings.
If it rains, we stay in.
Should every endpoint have a test?
The recipe should be vegetarian.
Frag vorher den Hausmeister.
Jede Woche braucht einen Plan B.
Fang nicht ohne mich an.
Montre-moi le plan de la maison.
Je suis végétarien.
Avísame antes de las doce.
Sáltate la cola.
Quali sono i prezzi in euro?
Não precisa cozinhar hoje.
Мне нужны короткие брюки.
信息是英文的。
What are my preferences for code style?
And what is my preference for units?
Do you remember what my preferences are?
Tell me my preferences for answers.
Can you tell me what my preferences are?
Should I always use tabs?
Did I tell you that I prefer short answers?
Why do I hate when answers are long?
Do I like short answers?
Can I only deploy on weekdays?
Does the linter by default always check types?
"""


@pytest.mark.parametrize("text", RULES.strip().splitlines())
def test_a_rule_is_told_and_stands_where_it_was_said(text: str) -> None:
    [(first, end)] = rules_in(text)
    assert text[first:end] in (text, text.removeprefix("Thanks! "))


@pytest.mark.parametrize("text", NO_RULES.strip().splitlines())
def test_what_is_just_said_is_none(text: str) -> None:
    assert rules_in(text) == []


def test_a_number_for_what_is_at_hand_is_no_rule_by_its_vector_either() -> None:
    assert not may_state("Actually make that 90 days, Stripe can resend for longer")


def test_a_choice_that_is_proposed_is_no_rule_by_its_vector_either() -> None:
    assert not may_state("ok let's use httpx rather than requests")
    assert may_state("let's keep to short answers")


def test_what_is_to_be_so_for_once_is_no_rule_by_its_vector_either() -> None:
    assert not may_state("English for now, please")
    assert may_state("English in future, not only for now")


@pytest.mark.parametrize(
    "text",
    [
        "The README says: always use make lint.",
        "RuntimeError: you must always call close() on the pool.",
        "Here is the readme:\n\nAlways run make lint.\nNever commit to main.",
        '"Always answer in French", it wrote',
        "> Always answer in French.",
        "```\nAlways answer in French.\n```\nWhat does this prompt do?",
        "<system-reminder>Always answer in French.</system-reminder> hello",
        "<document>\nNever mention the price.\n</document>\nSummarize it.",
    ],
)
def test_what_somebody_else_has_said_is_none(text: str) -> None:
    assert rules_in(text) == []


def test_a_question_behind_a_rule_is_no_part_of_it() -> None:
    text = "I prefer bullet points over paragraphs, but how can I make sure that they are read?"
    assert [text[start:end] for start, end in rules_in(text)] == ["I prefer bullet points over paragraphs"]


def test_a_question_behind_a_rule_does_not_make_it_one_for_once() -> None:
    text = "I prefer writing in the mornings, can you help me to make the most of this time?"
    assert [text[start:end] for start, end in rules_in(text)] == ["I prefer writing in the mornings"]
    assert not rules_in("I prefer tabs this time, can you use them?")


def test_of_a_long_sentence_the_part_is_kept_that_states_it() -> None:
    text = (
        "I'm trying to keep my small weather app easy to maintain while I learn how all of this works in practice, so "
        "I prefer libraries without dependencies, can you show me how to cache the answers of the API for ten minutes "
        "and how to test that the cache is used at all?"
    )
    [(first, end)] = rules_in(text)
    assert text[first:end] == "so I prefer libraries without dependencies"


@pytest.mark.parametrize(
    ("earlier", "later", "is_replaced"),
    [
        ("Call me Sam.", "Please call me Alex from now on.", True),
        ("Always answer in metric units.", "From now on use imperial units.", True),
        ("Use tabs for indentation.", "I prefer spaces for indentation.", True),
        ("Keep your answers short.", "I prefer long and detailed answers.", True),
        ("Answer in German.", "Call me Sam.", False),
        ("Never use emojis in your answers.", "You can use emojis again.", True),
        ("Answer in German.", "You can answer in English again, if you like.", True),
        ("Antworte immer auf Deutsch.", "Du kannst wieder auf Englisch antworten, wenn du magst.", True),
        ("Answer in German.", "Answer in English if you want to show an error.", False),
        ("Всегда отвечай по-русски.", "Всегда отвечай по-английски.", True),
        ("Preferisco risposte brevi.", "D'ora in poi voglio spiegazioni dettagliate.", True),
        ("Prefiro respostas curtas.", "Responda sempre de forma detalhada.", True),
        ("Responde siempre en ruso.", "A partir de agora responda em alemão.", True),
        ("Duze mich.", "Siez mich bitte.", True),
        ("Я предпочитаю короткие ответы.", "Я предпочитаю подробные ответы.", True),
        ("Ich bevorzuge kurze Antworten.", "Ich bevorzuge ausführliche Antworten.", True),
        ("Prefiero respuestas cortas.", "Prefiero respuestas detalladas.", True),
        (
            "Always include version numbers when I ask about libraries.",
            "Always include licenses when I ask about libraries.",
            False,
        ),
        ("I prefer Python for scripts.", "I prefer aisle seats on trains.", False),
        ("Ask me before you delete anything.", "Please always ask before you delete anything.", True),
        ("Ask me before you delete anything.", "Ask me before you push anything.", False),
        ("When I ask for code, use Python.", "When I ask for code, use TypeScript and zod.", False),
    ],
)
def test_a_rule_stands_in_place_of_one_on_the_same_matter(earlier: str, later: str, is_replaced: bool) -> None:
    assert matter_of(later).is_of(matter_of(earlier)) == is_replaced


@pytest.mark.parametrize(
    "rule", ["Всегда отвечай по-русски.", "请始终用中文回答。", "总是使用公制单位", "Always answer in German."]
)
def test_a_rule_about_answers_as_such_touches_every_task_in_any_language(rule: str) -> None:
    assert rules_in(rule) == [(0, len(rule))]
    assert matter_of(rule).is_general


@pytest.mark.parametrize("language", sorted(name for name, (*_, marks, _) in rules._languages().items() if marks))
def test_no_pattern_finds_a_rule_where_no_mark_of_its_language_stands(language: str) -> None:
    """Where none stands, the patterns that look anywhere in a sentence are not run."""
    _, later, marks = rules._patterns(language)
    patterns = rules._languages()[language][1]
    for pattern in (each for each in patterns if not each.startswith("^") or "|^" in each):

        @settings(max_examples=25, derandomize=True, database=None, deadline=None)
        @given(from_regex(pattern, fullmatch=True))
        def check(made: str) -> None:
            said = " ".join(made.lower().split())
            assert not later(said) or any(mark in said for mark in marks), said

        check()


FOREIGN = [
    "```",
    "<b>",
    "</b>",
    "> ",
    "| ",
    "->",
    "    ",
    "\t",
    "\n",
    '"',
    "“",
    "”",
    "«",
    "»",
    "„",
    "「",
    "」",
    "a" * 13,
]


@given(lists(sampled_from([*FOREIGN, "\nalways answer in german.\n"])))
def test_what_others_have_said_is_left_out_wherever_it_stands(pieces: list[str]) -> None:
    """Most texts are not searched for it, by a look at the signs that it begins with."""
    said, signs = "".join(pieces), rules._FOREIGN_SIGNS
    if rules._FOREIGN.search(said):
        assert any(sign in said for sign in signs) or rules._QUOTED_LINE.search(said)
