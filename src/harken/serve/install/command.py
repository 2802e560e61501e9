"""How an agent starts Harken later, from wherever it is."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from harken.errors import UsageError

_NAME = "harken"
# Where `uvx` puts what it runs; its next cleaning takes it away.
_PASSING = ("archive-v", "environments-v")


class Command(NamedTuple):
    """How Harken is started.

    Attributes:
        words: the program, and what it is always given.
        home: named where it is not the one that Harken finds by itself.
    """

    words: tuple[str, ...]
    home: str | None = None

    def hook(self, event: str, agent: str) -> str:
        """As a line of a shell."""
        home = () if self.home is None else ("--home", self.home)
        return shlex.join([*self.words, "hook", event, "--agent", agent, *home])

    @property
    def server(self) -> tuple[str, list[str]]:
        """The program of the MCP server, and its arguments."""
        return self.words[0], [*self.words[1:], "mcp"]

    @property
    def environment(self) -> Mapping[str, str]:
        """What the MCP server is to find in its environment."""
        return {} if self.home is None else {"HARKEN_HOME": self.home}


def own_command() -> tuple[str, ...]:
    """This Harken, named so that it is found without a PATH: agents that were not started in a shell have another.

    Raises:
        UsageError: this one will be gone soon.
    """
    script = Path(sys.executable).parent / _NAME
    if any(part.startswith(_PASSING) for part in script.parts):
        raise UsageError(
            "This Harken runs out of a cache that is emptied some day. First, in a clone: uv tool install '.[all]'"
        )
    found = shutil.which(_NAME)
    if found and script.exists() and Path(found).samefile(script):
        # The link that `uv tool` and `pipx` make outlives the environment that it points into.
        return (str(Path(found).absolute()),)
    return (str(script),) if script.exists() else (sys.executable, "-m", _NAME)


def shared_command() -> tuple[str, ...]:
    """Harken as a file names it that others get with the project: their machines have it elsewhere."""
    return (_NAME,)


def is_found() -> bool:
    """Whether a shell finds Harken by its name."""
    return shutil.which(_NAME) is not None
