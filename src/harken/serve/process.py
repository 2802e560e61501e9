"""This process: who started it, remembered before anything that takes long is imported, and how it ends."""

from __future__ import annotations

import os

_PARENT = os.getppid()


def is_parent_gone() -> bool:
    """Whether the process that started this one has ended since, whatever way."""
    return os.getppid() != _PARENT


EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
