"""Names and ids that others choose, as they may be kept: of conversations, people, tools, calls, projects."""

from __future__ import annotations

import re
from functools import lru_cache

from harken.model import ProjectIdentity
from harken.record.characters import sound
from harken.record.redact import Redactor

_REMEMBERED = 4096
# What agents number their messages and calls with holds nothing, and there are as many as messages.
_NUMBER = re.compile(
    r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:toolu|call|msg|fc|fco)_\w{1,60})?(?:#\d{1,9})?", re.ASCII
)


class CleanNames:
    """Takes secrets, private passages and characters that no database knows out of names.

    Ids of records are made from the names as they were given, so that what is called by one is found again.
    """

    def __init__(self, redactor: Redactor) -> None:
        @lru_cache(maxsize=_REMEMBERED)
        def clean(text: str) -> str:
            return redactor.redact(sound(text)).text

        self._clean = clean

    def text(self, name: str) -> str:
        """The name as it is kept."""
        return name if _NUMBER.fullmatch(name) else self._clean(name)

    def optional(self, name: str | None) -> str | None:
        """The same of what may have no name."""
        return None if name is None else self.text(name)

    def project(self, project: ProjectIdentity | None) -> ProjectIdentity | None:
        """A project with its names as they are kept."""
        if project is None:
            return None
        return ProjectIdentity(self.text(project.key), self.text(project.name), tuple(map(self.text, project.aliases)))
