"""The tables of the sample store."""

from __future__ import annotations

from srifty.database import DatabaseKind

_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # A token of its own for every content the store ever had: see SampleStore.fingerprint.
        "CREATE TABLE store (fingerprint TEXT NOT NULL)",
        "INSERT INTO store VALUES (lower(hex(randomblob(16))))",
        """CREATE TABLE files (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            sha256 TEXT NOT NULL,
            answers TEXT NOT NULL,
            name TEXT NOT NULL,
            imported_at TEXT NOT NULL,
            rows INTEGER NOT NULL)""",
        """CREATE TABLE allocations (
            id INTEGER PRIMARY KEY,
            cloud TEXT NOT NULL,
            instance_type TEXT NOT NULL,
            region TEXT NOT NULL,
            zone TEXT NOT NULL,
            source TEXT NOT NULL,
            name TEXT NOT NULL,
            stored_at TEXT NOT NULL,
            UNIQUE (cloud, instance_type, region, zone, source, name))""",
        # placement_group: -1 where unknown, since a NULL would be equal to no other.
        """CREATE TABLE series (
            id INTEGER PRIMARY KEY,
            allocation_id INTEGER NOT NULL REFERENCES allocations,
            collective TEXT NOT NULL,
            run TEXT NOT NULL,
            gpu TEXT NOT NULL,
            vms INTEGER NOT NULL,
            world_size INTEGER NOT NULL,
            library_version TEXT NOT NULL,
            transport TEXT NOT NULL,
            config TEXT NOT NULL,
            dtype TEXT NOT NULL,
            concurrent INTEGER NOT NULL,
            placement_group INTEGER NOT NULL,
            UNIQUE (allocation_id, collective, run, gpu, vms, world_size, library_version,
                    transport, config, dtype, concurrent, placement_group))""",
        # measured_at: in UTC; empty where unknown, for the same reason.
        """CREATE TABLE samples (
            id INTEGER PRIMARY KEY,
            series_id INTEGER NOT NULL REFERENCES series,
            size_bytes INTEGER NOT NULL,
            in_place INTEGER NOT NULL,
            time_s REAL NOT NULL,
            measured_at TEXT NOT NULL,
            UNIQUE (series_id, size_bytes, in_place, time_s, measured_at))""",
        # Which files hold a sample: it leaves with the last of them.
        """CREATE TABLE holdings (
            file_id INTEGER NOT NULL REFERENCES files,
            sample_id INTEGER NOT NULL REFERENCES samples,
            PRIMARY KEY (file_id, sample_id)) WITHOUT ROWID""",
        "CREATE INDEX holders ON holdings (sample_id)",
    ),
)

STORE = DatabaseKind(
    "store of allreduce samples",
    0x53726674,  # "Srft"
    _MIGRATIONS,
    remedy="import again",
)
