"""The requirements that a database must meet, and the statements that fix what is missing. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from drumlin.capture.database.catalog import (
    FoundTable,
    Publication,
    Server,
    Slot,
    only,
    quoted,
    quoted_name,
)

_VERSION_MIN: Final = 120000
#: The first version that can publish a partitioned table as one.
_ROOTS_FROM: Final = 130000
#: The first version that can publish generated columns.
_STORED_FROM: Final = 180000
#: The first version whose slots can be synchronized to standbys.
FAILOVER_FROM: Final = 170000


class Problem(NamedTuple):
    """A problem, and its cure: an SQL statement where possible."""

    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.what}: {self.cure}"


def chosen(tables: Iterable[FoundTable], patterns: Sequence[str]) -> list[FoundTable]:
    """The tables whose `schema.table` one of the patterns matches."""
    return [each for each in tables if matches(each.full_name, patterns)]


def matches(full_name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns, in which only `*` and `?` are special, matches the name."""
    literal = (each.replace("[", "[[]") for each in patterns)
    return any(fnmatch.fnmatchcase(full_name, each) for each in literal)


def server_problems(server: Server, slot: Slot | None, is_failover: bool) -> list[Problem]:
    """Problems of the server's configuration, the slot, and the user's rights."""
    found = []
    if server.version < _VERSION_MIN:
        version = server.version // 10000
        found.append(Problem(f"PostgreSQL {version} is too old", "12 is the first that is known"))
    if is_failover and server.version < FAILOVER_FROM:
        version = server.version // 10000
        cure = "PostgreSQL 17 is the first; leave out --failover"
        found.append(Problem(f"PostgreSQL {version} does not bring slots to standbys", cure))
    if server.is_in_recovery:
        found.append(Problem("the server is a standby", "give the --url of the primary"))
    if server.wal_level != "logical":
        cure = "ALTER SYSTEM SET wal_level = 'logical', and restart the server"
        found.append(Problem(f"wal_level is {server.wal_level!r}", cure))
    if not server.may_replicate:
        cure = f"ALTER ROLE {quoted(server.user)} REPLICATION"
        found.append(Problem(f"user {server.user} may not replicate", cure))
    if slot is None and server.slot_count >= server.slots_max:
        cure = (
            f"ALTER SYSTEM SET max_replication_slots = {server.slot_count + 4}, and restart the "
            "server; or drop one that nobody uses by SELECT pg_drop_replication_slot('...')"
        )
        found.append(Problem(f"all {server.slots_max} replication slots are in use", cure))
    return found


def table_problems(tables: Sequence[FoundTable], server: Server) -> list[Problem]:
    """Problems of the tables."""
    found = []
    for each in tables:
        name = quoted_name(each)
        if not each.is_permanent:
            cure = f"ALTER TABLE {name} SET LOGGED, or leave it out by --tables"
            found.append(Problem(f"table {each.full_name} is unlogged", cure))
        elif each.identity == "n":
            cure = f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
            found.append(Problem(f"table {each.full_name} has no replica identity", cure))
        elif not each.key:
            cure = (
                f"ALTER TABLE {name} ADD PRIMARY KEY (...), not deferrable; or ALTER TABLE {name} "
                "REPLICA IDENTITY USING INDEX ...; or leave it out by --tables"
            )
            found.append(Problem(f"table {each.full_name} has no key", cure))
        elif hidden := set(each.key) - {name for name, *_ in each.columns}:
            columns = ", ".join(sorted(hidden))
            why = f"the key of table {each.full_name} has generated columns ({columns})"
            cure = "a publication without them cannot tell the key; leave it out by --tables"
            if server.version >= _STORED_FROM:
                cure = "have the publication publish_generated_columns = stored"
            found.append(Problem(why, cure))
        if each.kind == "p" and server.version < _ROOTS_FROM:
            cure = "PostgreSQL 13 publishes them as a whole; leave it out by --tables"
            found.append(Problem(f"table {each.full_name} is partitioned", cure))
        if not each.may_select:
            cure = f"GRANT SELECT ON {name} TO {quoted(server.user)}"
            found.append(Problem(f"user {server.user} may not read table {each.full_name}", cure))
    return found


def publication_problems(
    name: str,
    publication: Publication | None,
    tables: Sequence[FoundTable],
    all_tables: Sequence[FoundTable],
    server: Server,
) -> list[Problem]:
    """Reasons why the publication cannot be used, or cannot be created by this user."""
    if publication is None:
        others = [each.full_name for each in tables if not each.is_owner]
        if others or not server.may_create:
            cure = f"have their owner run {publication_statement(name, tables, server)}"
            why = f"user {server.user} may not publish {', '.join(others) or 'in this database'}"
            return [Problem(why, cure)]
        return []
    found = []
    if not publication.is_complete:
        cure = f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')"
        found.append(Problem(f"publication {name} leaves out a kind of change", cure))
    if any(each.kind == "p" for each in tables) and not publication.is_by_root:
        cure = f"ALTER PUBLICATION {name} SET (publish_via_partition_root)"
        found.append(Problem(f"publication {name} names partitions, not their table", cure))
    wanted = {each.oid for each in tables}
    for each in all_tables:
        table = quoted_name(each)
        if each.oid in wanted and each.oid not in publication.oids:
            cure = f"ALTER PUBLICATION {name} ADD TABLE {only(each)}"
            found.append(Problem(f"table {each.full_name} is not in publication {name}", cure))
        elif each.oid in wanted and each.oid in publication.filtered:
            cure = f"ALTER PUBLICATION {name} DROP TABLE {table}, then ADD TABLE {only(each)}"
            why = f"publication {name} leaves out rows or columns of table {each.full_name}"
            found.append(Problem(why, cure))
        elif each.oid not in wanted and each.oid in publication.oids:
            cure = f"ALTER PUBLICATION {name} DROP TABLE {table}"
            why = f"table {each.full_name} is in publication {name}, and is not captured"
            found.append(Problem(why, cure))
    return found


def publication_statement(name: str, tables: Sequence[FoundTable], server: Server) -> str:
    """The statement that creates the publication."""
    named = ", ".join(only(each) for each in tables)
    options = ["publish_via_partition_root"] if server.version >= _ROOTS_FROM else []
    if server.version >= _STORED_FROM:
        options.append("publish_generated_columns = stored")
    how = f" WITH ({', '.join(options)})" if options else ""
    return f"CREATE PUBLICATION {quoted(name)} FOR TABLE {named}{how}"
