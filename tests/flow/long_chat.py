"""A chat of three hundred messages about many things, with one decision early in it."""

from __future__ import annotations

from collections.abc import Iterator

DECISION = (
    "Then it is settled: the deploy of the checkout service goes out on Thursday at noon, a canary for five percent "
    "of the traffic first, and Priya approves the full rollout."
)
DECIDING = ("How do we want to handle the checkout deploy: big bang or canary, and who approves it?", DECISION)
SUBJECTS = {
    "tomato seedlings": ("hardening them off", "watering in the heat", "tying up the stems", "late blight", "compost"),
    "sourdough": ("feeding the starter", "a crust that is too hard", "proofing overnight", "rye flour", "a banneton"),
    "the Lisbon trip": ("train tickets", "a quiet guesthouse", "day trips to Sintra", "fado evenings", "packing light"),
    "my old bicycle": ("a slipping chain", "squeaking brakes", "truing the wheel", "winter tyres", "a dynamo lamp"),
    "the piano": ("learning the fugue", "a stiff pedal", "tuning before winter", "sight reading", "wrist pain"),
    "our kitchen": ("moving the sink", "oak worktops", "a louder extractor fan", "tiles behind the stove", "lighting"),
    "the thesis": ("the literature chapter", "a stubborn reviewer", "citing preprints", "figures in colour", "proofs"),
    "Rust": ("lifetimes in structs", "async traits", "error enums", "a slow build", "borrowing in loops"),
    "running": ("sore knees", "a ten kilometre plan", "shoes for rain", "breathing uphill", "stretching after"),
    "the cat": (
        "a picky eater",
        "scratching the sofa",
        "the yearly vaccination",
        "long car rides",
        "a second litter box",
    ),
    "taxes": ("the home office form", "donation receipts", "a late notice", "depreciation", "childcare costs"),
    "chess": ("the Caro-Kann", "rook endings", "calculating deeper", "blitz nerves", "a training partner"),
    "photography": (
        "portraits at dusk",
        "a dusty sensor",
        "choosing a prime lens",
        "film grain",
        "backing up raw files",
    ),
    "the choir": ("a new hall", "altos who are flat", "the Christmas programme", "sheet music", "warming up"),
    "astronomy": ("seeing Saturn", "collimating mirrors", "a red torch", "dew on the lens", "star charts"),
}
QUESTIONS = ("What would you do about {aspect}, with {subject}?", "I worry about {aspect}. Any idea for {subject}?")
ANSWERS = (
    "With {subject}, {aspect} needs patience: try one small change a week and write down what happens.",
    "I would look at {aspect} first thing in the morning, when {subject} can have your whole attention.",
)


def messages(count: int = 300) -> Iterator[str]:
    """Question and answer in turn; the decision is the fourth message."""
    yield from ("Hello! Can we plan the next weeks together?", "Of course. Where do you want to begin?")
    yield from DECIDING
    said = 4
    rounds = range(5)
    pairs = [(subject, aspects[number]) for number in rounds for subject, aspects in SUBJECTS.items()]
    while said < count:
        subject, aspect = pairs[(said // 2 - 2) % len(pairs)]
        style = (said // 2 // len(pairs)) % 2
        yield QUESTIONS[style].format(subject=subject, aspect=aspect)
        yield ANSWERS[style].format(subject=subject, aspect=aspect).capitalize()
        said += 2
