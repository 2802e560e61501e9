"""Asks a model one question after another, booked; writes a line for each answer."""

from __future__ import annotations

import sys
from decimal import Decimal

from harken.engine import Harken
from harken.jobs.spend import MeteredModel, SpendBook
from harken.model.conversations import Role
from harken.providers.chat_model import ChatMessage
from harken.providers.options import ChatOptions
from harken.providers.registry import open_chat_model


def main(home: str, url: str, questions: int) -> None:
    options = ChatOptions("openai", "any", url, max_tokens=100, prices=(Decimal(2), Decimal(10)))
    with Harken(home, settings={"embedder": "none"}, env={}) as harken:
        book = SpendBook(harken.store)
        model = open_chat_model(options)
        for number in range(questions):
            MeteredModel(book, model, "exchange", f"e{number}").complete(
                [ChatMessage(Role.USER, f"Question {number}?")]
            )
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
        model.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
