"""The tables of a run's ledger. Times are seconds since the run's command."""

from __future__ import annotations

from srifty.database import DatabaseKind

LEDGER = DatabaseKind(
    "ledger of a run",
    0x53726C67,  # "Srlg"
    (
        (
            """CREATE TABLE run (
                one INTEGER PRIMARY KEY CHECK (one = 1),
                run_id TEXT NOT NULL,
                user TEXT NOT NULL,
                backend TEXT NOT NULL,
                began_unix_s REAL NOT NULL,
                clock_factor REAL NOT NULL,
                document TEXT NOT NULL,
                ended_s REAL,
                outcome TEXT)""",
            # What was begun is written before it is done, and again when it is.
            """CREATE TABLE steps (
                number INTEGER PRIMARY KEY,
                kind TEXT NOT NULL,
                document TEXT NOT NULL,
                begun_s REAL NOT NULL,
                done_s REAL,
                outcome TEXT)""",
            """CREATE TABLE vms (
                number INTEGER PRIMARY KEY,
                vm TEXT NOT NULL UNIQUE,
                instance_type TEXT NOT NULL,
                region TEXT NOT NULL,
                zone TEXT,
                market TEXT NOT NULL,
                gpus INTEGER NOT NULL,
                provider TEXT NOT NULL,
                rented_on TEXT NOT NULL,
                asked_s REAL NOT NULL,
                running_s REAL,
                stopped_s REAL,
                taken_back INTEGER NOT NULL)""",
            """CREATE TABLE prices (
                number INTEGER PRIMARY KEY,
                vm TEXT NOT NULL REFERENCES vms (vm),
                since_s REAL NOT NULL,
                usd_per_hour REAL NOT NULL,
                source TEXT NOT NULL)""",
            """CREATE TABLE disks (
                name TEXT PRIMARY KEY,
                gigabytes REAL NOT NULL,
                provider TEXT NOT NULL,
                made_on TEXT NOT NULL,
                created_s REAL NOT NULL,
                deleted_s REAL)""",
            # number: as the back end counts them, from 0.
            """CREATE TABLE events (
                number INTEGER PRIMARY KEY,
                at_s REAL NOT NULL,
                kind TEXT NOT NULL,
                vm TEXT NOT NULL REFERENCES vms (vm),
                failure TEXT,
                detail TEXT NOT NULL)""",
            """CREATE TABLE progress (
                number INTEGER PRIMARY KEY,
                at_s REAL NOT NULL,
                iteration REAL NOT NULL,
                durable_iteration REAL NOT NULL,
                spent_usd REAL NOT NULL,
                paused_s REAL NOT NULL)""",
            """CREATE TABLE decisions (
                number INTEGER PRIMARY KEY,
                at_s REAL NOT NULL,
                document TEXT NOT NULL)""",
            """CREATE TABLE forecasts (
                number INTEGER PRIMARY KEY,
                made_s REAL NOT NULL,
                document TEXT NOT NULL,
                ended_s REAL,
                outcome TEXT)""",
        ),
    ),
)
