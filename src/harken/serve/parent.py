"""The process that started this one, remembered before anything that takes long is imported."""

from __future__ import annotations

import os

_PARENT = os.getppid()


def is_gone() -> bool:
    """Whether it has ended since, whatever way."""
    return os.getppid() != _PARENT
