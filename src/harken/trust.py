"""Where words came from, and so how far they may be believed: the one place that says whose are not to be trusted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Trust(StrEnum):
    """Where words came from, and so how far they may be believed."""

    OWNER = "owner"
    AGENT = "agent"
    TOOL = "tool"
    IMPORTED = "imported"
    UNTRUSTED = "untrusted"

    @property
    def is_untrusted(self) -> bool:
        """Whether anybody may have written it: a recalled one must be nearer, stands lower, and says what it is.

        What a tool brought counts whatever the tool: a page, an issue, a file of somebody else's, a foreign server's
        answer all come as its result, and no name of a tool tells which. It stays `tool` on record, so that what was
        recorded before counts the same. What was exported elsewhere, or read from the disk because its owner asked for
        it, is `imported`: chosen by the owner, if not written by them.
        """
        return self in UNTRUSTED

    @property
    def label(self) -> str:
        """As it is shown: `tool, untrusted`."""
        return f"{self.value}, untrusted" if self.is_untrusted and self is not Trust.UNTRUSTED else self.value


@dataclass(frozen=True, slots=True)
class Trusted:
    """A message that came as `imported` is the owner's or an agent's own after all."""

    uid: str
    conversation_uid: str
    trust: Trust
    at: datetime


UNTRUSTED = (Trust.TOOL, Trust.UNTRUSTED)
_ORDER = (Trust.OWNER, Trust.AGENT, Trust.IMPORTED, Trust.TOOL, Trust.UNTRUSTED)


def least_trusted(found: Iterable[Trust]) -> Trust:
    """The one that may be believed least; of nothing, what an agent says."""
    return max(found, key=_ORDER.index, default=Trust.AGENT)
