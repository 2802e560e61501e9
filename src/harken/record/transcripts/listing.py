"""Files below a folder that others write to and clear up: one that goes away meanwhile is left out."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any


def files_below(folder: Path, pattern: str) -> Iterator[Path]:
    """The files in a folder and all folders in it whose names match, in no order."""
    for place, _, names in os.walk(folder):
        yield from (file for name in fnmatch.filter(names, pattern) if (file := Path(place, name)).is_file())


def in_order(files: Iterable[Path], key: Callable[[Path], Any]) -> list[Path]:
    """The files by what a look at each says of its place; None leaves it out."""
    found: list[tuple[Any, Path]] = []
    for file in files:
        with suppress(FileNotFoundError):
            found.append((key(file), file))
    return [file for place, file in sorted(each for each in found if each[0] is not None)]
