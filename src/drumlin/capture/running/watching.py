"""Detects changes that the stream does not show: recreated topics, and changed partitions. Pure.

The definition has the topics' ids and the partitions, so changes made while the capture was not
running are detected as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from drumlin.capture.changes import Table
from drumlin.capture.database.catalog import Leaf
from drumlin.capture.log.position import Definition


def with_topics(
    definition: Definition, ids: Mapping[str, str | None]
) -> tuple[Definition, list[str]]:
    """The definition with these topic ids: a table whose topic has a new id must be read again.

    Returns:
        The definition, and a sentence for each of these tables.
    """
    changed, told = [], []
    for each in definition.tables:
        topic_id = ids.get(each.topic)
        if topic_id is None or topic_id == each.topic_id:
            continue
        if each.topic_id is not None and each.is_read:
            told.append(
                f"topic {each.topic} was deleted by somebody else and made anew: reading table "
                f"{each.full_name} into it"
            )
        is_read = each.is_read and each.topic_id is None
        changed.append(each._replace(topic_id=topic_id, is_read=is_read))
    return definition.with_tables(changed) if changed else definition, told


def has_lost_topic(definition: Definition, ids: Mapping[str, str | None]) -> bool:
    """Whether a topic was deleted or recreated. `ids`: the ids of the topics that exist."""
    return any(
        each.topic not in ids or ids[each.topic] not in (None, each.topic_id)
        for each in definition.tables
        if each.topic_id is not None
    )


def with_leaves(
    definition: Definition, leaves: Iterable[Leaf], has_older_rows: Callable[[Leaf], bool | None]
) -> tuple[Definition, list[str]]:
    """The definition with these partitions of the database's tables.

    `has_older_rows`: whether a partition has rows from before it was attached; None: unknown.

    Returns:
        The definition, and a sentence for each table whose topic may differ from it now.
    """
    found: dict[int, dict[int, Leaf]] = {}
    for leaf in leaves:
        found.setdefault(leaf.root, {})[leaf.oid] = leaf
    changed, told = [], []
    for each in definition.tables:
        now = found.get(each.oid, {})
        if each.leaves == tuple(sorted(now)) or (each.leaves is None and not now):
            continue
        changed.append(each._replace(leaves=tuple(sorted(now))))
        if each.leaves is not None and each.is_read:
            told += _differences(each, now, set(each.leaves), has_older_rows)
    return definition.with_tables(changed) if changed else definition, told


def _differences(
    table: Table,
    now: Mapping[int, Leaf],
    before: set[int],
    has_older_rows: Callable[[Leaf], bool | None],
) -> list[str]:
    cure = f"`drumlin capture reread --tables {table.full_name}`"
    told = []
    for oid, leaf in sorted(now.items()):
        if oid not in before and has_older_rows(leaf) is not False:
            told.append(
                f"table {table.full_name}: {leaf.name} was attached with rows, of which PostgreSQL "
                f"does not tell: {cure} writes them to topic {table.topic}"
            )
    gone = len(before - set(now))
    if gone:
        told.append(
            f"table {table.full_name}: {gone} of its partitions were detached or dropped, of which "
            f"PostgreSQL does not tell: {cure} deletes their rows in topic {table.topic}"
        )
    return told
