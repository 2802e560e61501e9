"""Write the table of docs/http-api.md: every operation, the scope that its key needs, and where it is answered.

    python tools/access_table.py

The tests try each cell over HTTP and MCP, and hold the table against the operations.
"""

from __future__ import annotations

from pathlib import Path

from harken.serve.operations.operation import AnyOperation, Effect
from harken.serve.operations.registry import TEAM_OPERATIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "http-api.md"
BEGIN, END = "<!-- table of operations: tools/access_table.py -->", "<!-- end of the table -->"
OWN, WRITTEN, READ, UNSHARED, ELSEWHERE = "own", "shared, to write", "shared, to read", "not shared", "another team's"
PLACES = (OWN, WRITTEN, READ, UNSHARED, ELSEWHERE)
HOST = {"status"}
"""Answered to who manages the team whose server it is: it tells of the machine."""


def answered(operation: AnyOperation, place: str) -> bool | int:
    """Whether an operation is answered in a space, to a key of its scope; else the status of the refusal."""
    if operation.is_of_team or place in (OWN, WRITTEN):
        return True
    if place == READ:
        return True if operation.effect is Effect.READS else 403
    return 404


def table() -> str:
    """The table, as Markdown."""
    lines = [f"| verb | scope | {' | '.join(PLACES)} |", f"|{'---|' * (len(PLACES) + 2)}"]
    for name, operation in TEAM_OPERATIONS.items():
        scope = " and ".join(f"`{each}`" for each in operation.scopes) or "any"
        found = [answered(operation, place) for place in PLACES]
        cells = (
            ["of the team"] * len(PLACES)
            if operation.is_of_team
            else ["yes" if each is True else str(each) for each in found]
        )
        lines.append(f"| `{name}` | {scope}{' of the host' if name in HOST else ''} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
