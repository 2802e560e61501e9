"""Ids of records: random and time-ordered for what is said now, derived from its origin for what is imported.

A derived id makes importing idempotent by itself: the same words of the same transcript always get the same id, in
any order, on any machine; and a tombstone keeps them out for good.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from datetime import datetime
from functools import lru_cache

from harken.model.arguments import check_names
from harken.model.conversations import TASK_CHANNEL, TASK_UID

_SEPARATOR = "\x1f"
_TASK_NAME = re.compile(r"\w[\w.-]{0,63}")


def new_uid(moment: datetime) -> str:
    """A UUIDv7: milliseconds of the moment, then 74 random bits."""
    return _uuid(7, moment, int.from_bytes(os.urandom(10), "big"))


def derived_uid(*parts: str, moment: datetime | None = None) -> str:
    """A UUIDv8 that is the same whenever the parts and the moment are.

    Args:
        *parts: what makes the record itself, the kind of record first.
        moment: leads the id, so that ids sort by time; only where the origin states it.
    """
    digest = hashlib.sha256(_SEPARATOR.join(parts).encode("utf-8", "surrogatepass")).digest()
    return _uuid(8, moment, int.from_bytes(digest[:16], "big"))


# A talk that goes on asks for it with each message, more than once.
@lru_cache(maxsize=1024)
def conversation_uid(channel: str, external_id: str) -> str:
    """The id of the conversation that a channel knows by that name; a task's is where its runs are journalled."""
    check_names(channel=channel, conversation=external_id)
    if channel == TASK_CHANNEL and external_id == task_name(external_id):
        return f"{TASK_UID}{external_id}"
    return derived_uid("conversation", channel, external_id)


def task_name(name: str) -> str | None:
    """A task's name as it is kept, in small letters; None for one that no folder can have."""
    # Some file systems take two names that differ in capitals, or in how an accent is written, for one.
    small = unicodedata.normalize("NFC", name.strip().casefold())
    return small if _TASK_NAME.fullmatch(small) else None


def _uuid(version: int, moment: datetime | None, bits: int) -> str:
    leading = bits >> 80 if moment is None else int(moment.timestamp() * 1000)
    high = leading & ((1 << 48) - 1)
    value = high << 80 | version << 76 | ((bits >> 62) & 0xFFF) << 64 | 0b10 << 62 | (bits & ((1 << 62) - 1))
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
