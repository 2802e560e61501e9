"""The map in docs/architecture.md shows the house as it stands."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import harken

HOUSE = Path(harken.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its two head lines."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_room_of_the_house_is_on_the_map_and_no_other() -> None:
    shown = [row[0].strip("`") for row in rows_of("The rooms")]
    folders = {f"{path.parent.relative_to(HOUSE).as_posix()}/" for path in HOUSE.rglob("__init__.py")} - {"./"}
    modules = {path.name for path in HOUSE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert sorted(shown) == sorted(folders | modules)


def test_every_word_of_the_glossary_names_classes_that_stand_once() -> None:
    modules = (path.read_text(encoding="utf-8") for path in HOUSE.rglob("*.py"))
    classes = Counter(name for module in modules for name in re.findall(r"^ *class (\w+)[(:]", module, re.MULTILINE))
    named = [name for row in rows_of("Words") for name in re.findall(r"`(\w+)`", row[2])]
    assert named
    assert {name: classes[name] for name in named} == dict.fromkeys(named, 1)


def test_the_order_of_the_rooms_is_the_one_that_the_build_checks() -> None:
    settings = (HOUSE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.findall(r'"([^"]+)"', settings.split("layers = [", 1)[1].split("]", 1)[0])
    told = PAGE.split("Imports only go down", 1)[1].split(": `testing`", 1)[1].split(". Rooms", 1)[0]
    steps = [re.findall(r"`(\w+)`", step) for step in f"`testing`{told}".split("→")]
    assert [sorted(step) for step in steps] == [sorted(layer.split(" | ")) for layer in layers if layer != "__main__"]
