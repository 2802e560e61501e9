from __future__ import annotations

import pytest

from harken.text.words import is_english, stop_words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "What did we decide about the deploy?",
        "the café near Müller's office",
        "def retry(attempts):\n    return attempts",
        "docker compose up -d",
        "const newUrl = URL('https://example.com',",
        "git clone https://example.com/de/la.git",
        "Which word did she translate, 钢琴 or piano?",
        "Convert 72 degrees Fahrenheit to Celsius.",
        "I’ve managing professional development",
        "using AI",
        "probability die",
        "3.125% per problem",
        "remove todo comment",
    ],
)
def test_english_names_and_code_are_taken_for_english(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "Wie heißt die Seite https://example.com?",
        "когда мне к зубному?",
        "Почему docker-compose build падает с exit code 137",
        "钢琴考试是哪一天？",
        "なぜ落ちた？",
        "Wann muss der Wagen zur Hauptuntersuchung?",
        "wie war das mit Stripe",
        "¿cuándo?",
        "quanto costa il corso di Anna?",
        "quand est mon rendez-vous",
        "die Katze ist krank",
        "come stai oggi?",
        "onde fica a chave do cadeado?",
    ],
)
def test_other_languages_are_told_by_script_and_by_function_words(text: str) -> None:
    assert not is_english(text)


def test_the_silent_words_are_those_of_the_language() -> None:
    assert {"wann", "muss", "der"} <= stop_words("Wann muss der Wagen in die Werkstatt?")
    assert "der" not in stop_words("Who owns the der file?")
