"""Whose words something is, where several people's memory is read at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from typing_extensions import TypedDict


class ProvenanceView(TypedDict):
    """Where something stands and whose words it is, in a team."""

    space: str
    by: str | None
    shared_by: str | None
    shared_on: str | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where something stands, and whose words it is.

    Attributes:
        space: the name of its space; its id where who reads it sees another one of that name.
        by: the name of whoever has said or saved it; empty where that is not known, or they have been erased.
        is_mine: whether that is who reads it.
        is_here: whether that space is the one that they write to.
        shared_by: the name of whoever has copied it there; empty where it was recorded there.
        shared_on: when.
    """

    space: str
    by: str = ""
    is_mine: bool = False
    is_here: bool = False
    shared_by: str = ""
    shared_on: datetime | None = None

    @property
    def label(self) -> str:
        """In words: `space build, said by Bob, shared by Ann on 2026-11-25`."""
        said = f", said by {self.by}" if self.by and not self.is_mine else ""
        return f"space {self.space}{said}{self._sharing}"

    @property
    def _sharing(self) -> str:
        if self.shared_on is None:
            return ""
        return f", shared by {self.shared_by or 'somebody'} on {self.shared_on.astimezone():%Y-%m-%d}"

    @property
    def facts(self) -> dict[str, str]:
        """The same for a mark of a quotation."""
        said = {"by": self.by} if self.by and not self.is_mine else {}
        shared = {"shared": self._sharing.removeprefix(", shared ")} if self._sharing else {}
        return {"space": self.space, **said, **shared}

    @classmethod
    def of(cls, view: ProvenanceView) -> Provenance:
        """Return the provenance of another's words that a view tells."""
        on = datetime.fromisoformat(view["shared_on"]) if view["shared_on"] else None
        return cls(view["space"], view["by"] or "", shared_by=view["shared_by"] or "", shared_on=on)

    def view(self) -> ProvenanceView:
        """Return it as JSON."""
        on = self.shared_on.isoformat() if self.shared_on else None
        return {"space": self.space, "by": self.by or None, "shared_by": self.shared_by or None, "shared_on": on}
