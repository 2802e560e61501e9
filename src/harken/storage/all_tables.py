"""Every table that a database must have, those of the sources included."""

from __future__ import annotations

from sqlalchemy import Table

from harken.storage.checks import checks
from harken.storage.clusters import cluster_members, clusters
from harken.storage.indexed.tables import INDEXED
from harken.storage.kept.registry import KEPT
from harken.storage.tables import metadata

# By name; the registry's are in the same metadata once it is imported.
ALL_TABLES: dict[str, Table] = {
    **metadata.tables,
    **{kept.table.name: kept.table for kept in KEPT.values()},
    **{table.name: table for table in (*INDEXED, checks, clusters, cluster_members)},
}
