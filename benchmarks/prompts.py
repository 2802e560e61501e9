"""Prompts of another world than LoCoMo's: nothing should come back for them.

Written before any was scored. Three were dropped after their scores were seen, and put back: every figure that is kept
includes all of them. A few touch what its people talk about (bread, poems, email), as real prompts do.
"""

from __future__ import annotations

from harken.bench.questions import lines_of

SMALL_TALK = (
    "ok, thanks!",
    "great, go ahead",
    "sounds good to me",
    "yes please",
    "no, that's fine",
    "hi there",
    "good morning",
    "how are you today?",
    "see you tomorrow",
    "thank you so much for your help",
    "can you say that again?",
    "please continue",
    "what do you think?",
    "that makes sense, let's move on",
    "wait, stop",
    "sorry, I was away for a moment",
    "never mind",
    "perfect, exactly what I needed",
    "hmm, let me think about it",
    "lol",
)

OFF_TOPIC = lines_of("off_topic")
