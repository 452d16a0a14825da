"""The requirements that a MariaDB must meet, and the statements that fix what is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drumlin.capture.binlog.catalog import FoundColumn, FoundTable, Server
from drumlin.capture.binlog.connections import quoted
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.column_types import kind_of
from drumlin.capture.database.checks import Problem

_VERSION_MIN: Final = (10, 5)
_NEEDED: Final = {"binlog_row_image": ("FULL", "FULL_NODUP"), "binlog_row_metadata": ("FULL",)}


def version_problems(server: Server) -> list[Problem]:
    if server.version < _VERSION_MIN:
        version = ".".join(map(str, server.version))
        return [Problem(f"MariaDB {version} is too old", "10.5 is the first that is known")]
    return []


def server_problems(server: Server) -> list[Problem]:
    """Problems of the server's configuration."""
    settings = server.settings
    if settings.get("log_bin") != "ON":
        cure = "start the server with --log-bin and --binlog-format=ROW"
        return [Problem("the server writes no binlog", cure)]
    found = []
    if settings["binlog_format"] != "ROW":
        cure = "SET GLOBAL binlog_format = 'ROW', and connect all sessions anew"
        found.append(Problem(f"binlog_format is {settings['binlog_format']!r}", cure))
    for name, allowed in _NEEDED.items():
        value = settings.get(name, "")
        if value not in allowed:
            cure = f"SET GLOBAL {name} = 'FULL', and connect all sessions anew"
            found.append(Problem(f"{name} is {value!r}", cure))
    if settings.get("gtid_slave_pos") and settings.get("log_slave_updates") != "ON":
        cure = "start the server with --log-slave-updates, or capture the primary"
        found.append(Problem("a replica's binlog leaves out what it replicates", cure))
    return found


def table_problems(tables: Sequence[FoundTable], charsets: Charsets) -> list[Problem]:
    """Problems of the tables."""
    found = []
    for each in tables:
        name = f"{quoted(each.schema)}.{quoted(each.name)}"
        if each.kind != "BASE TABLE":
            cure = "leave it out by --tables"
            found.append(Problem(f"table {each.full_name} has system versioning", cure))
            continue
        if each.engine != "InnoDB":
            cure = f"ALTER TABLE {name} ENGINE = InnoDB, or leave it out by --tables"
            found.append(Problem(f"table {each.full_name} is of the engine {each.engine}", cure))
        if not each.key:
            cure = f"ALTER TABLE {name} ADD PRIMARY KEY (...), or leave it out by --tables"
            found.append(Problem(f"table {each.full_name} has no primary key", cure))
        for constraint in each.cascades:
            cure = (
                f"ALTER TABLE {name} DROP FOREIGN KEY {quoted(constraint)}, ADD it without CASCADE "
                "and SET NULL, or leave the table out by --tables"
            )
            why = (
                f"table {each.full_name} has the foreign key {constraint}, which changes rows that "
                "MariaDB does not write to the binlog"
            )
            found.append(Problem(why, cure))
        for column in each.columns:
            why_not = _column_problem(column, charsets)
            if why_not is not None:
                what, cure = why_not
                shown = f"table {each.full_name}, column {column.name!r}: {what}"
                cure = cure.format(table=name, column=quoted(column.name))
                found.append(Problem(shown, f"{cure}, or leave the table out by --tables"))
    return found


def _column_problem(column: FoundColumn, charsets: Charsets) -> tuple[str, str] | None:
    if kind_of(column.type) is None:
        cure = "ALTER TABLE {table} MODIFY {column} ..."
        return f"type {column.type.whole} is not supported", cure
    if column.type.charset is not None and not charsets.knows(column.type.charset):
        cure = "ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4"
        return f"character set {column.type.charset} is not supported", cure
    return None
