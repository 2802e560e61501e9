"""Every kept source, by name."""

from __future__ import annotations

from harken.model import KEPT_FOLDERS
from harken.storage.kept.experiences import EXPERIENCES
from harken.storage.kept.memories import MEMORIES
from harken.storage.kept.table import KeptTable
from harken.storage.kept.values import VALUES

KEPT: dict[str, KeptTable] = {one.source: one for one in (MEMORIES, EXPERIENCES, VALUES)}
SOURCE_OF_FOLDER = {KEPT_FOLDERS[source]: source for source in KEPT}
