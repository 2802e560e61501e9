"""`harken tag` and `harken conversations`: what conversations are called, and what they are about."""

from __future__ import annotations

from harken.serve.operations import conversations, topics

# Commands of these groups stand in both modules; `LazyGroup` makes a group of those that begin with its name.
OPERATIONS = (*conversations.OPERATIONS, *topics.OPERATIONS)
