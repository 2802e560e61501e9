"""Harken: memory for AI agents that comes back by itself."""

from __future__ import annotations

# Not from `typing`, whose import takes longer than all the rest of a hook; type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from harken.aio import AsyncHarken
    from harken.config.settings import Settings
    from harken.context.compose import FormattedContext as FormattedContext
    from harken.engine import Harken
    from harken.errors import ContextAssemblyError as ContextAssemblyError
    from harken.errors import HarkenError
    from harken.errors import InvalidContextTypeError as InvalidContextTypeError
    from harken.model.conversations import ContextItem as ContextItem
    from harken.model.conversations import (
        ExchangeStatus,
        Hit,
        Message,
        MessageType,
        Reason,
        Role,
        SearchScope,
        Segment,
        Trust,
    )
    from harken.model.lookups import SearchResult

__version__ = "0.1.0"
__all__ = [
    "AsyncHarken",
    "ExchangeStatus",
    "Harken",
    "HarkenError",
    "Hit",
    "Message",
    "MessageType",
    "Reason",
    "Role",
    "SearchResult",
    "SearchScope",
    "Segment",
    "Settings",
    "Trust",
    "__version__",
]

_ELSEWHERE = {
    "AsyncHarken": "harken.aio",
    # Beside `__all__`: seed 004 has callers import these four from the package.
    "ContextAssemblyError": "harken.errors",
    "ContextItem": "harken.model.conversations",
    "FormattedContext": "harken.context.compose",
    "InvalidContextTypeError": "harken.errors",
    "Harken": "harken.engine",
    "HarkenError": "harken.errors",
    "SearchResult": "harken.model.lookups",
    "Settings": "harken.config.settings",
}


def __getattr__(name: str) -> Any:
    # Imported when first asked for: a process that only needs a part, a hook for instance, pays for that part alone.
    if name not in __all__ and name not in _ELSEWHERE:
        raise AttributeError(f"module 'harken' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(_ELSEWHERE.get(name, "harken.model.conversations")), name)
    globals()[name] = value
    return value
