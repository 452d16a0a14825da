"""The log dirs that may still have folders of deleted topics, if there are several brokers. Pure.

The store has one list for all brokers; each log dir belongs to one broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

#: The log dirs of each broker.
LogDirs = Mapping[int, Collection[str]]


def folders_of(
    node_id: int, known: Mapping[UUID, tuple[str, ...] | None], log_dirs: LogDirs
) -> dict[UUID, tuple[str, ...] | None]:
    """The deleted topics that may still have folders in log dirs of this broker."""
    others = _others(node_id, log_dirs)
    found: dict[UUID, tuple[str, ...] | None] = {}
    for topic_id, paths in known.items():
        own = None if paths is None else tuple(each for each in paths if each not in others)
        if own != ():
            found[topic_id] = own
    return found


def with_folders(
    node_id: int,
    known: tuple[str, ...] | None,
    left: Collection[str],
    log_dirs: LogDirs,
) -> tuple[str, ...]:
    """All log dirs with folders of a topic, after one broker has reported its own log dirs."""
    others = _others(node_id, log_dirs)
    rest = others if known is None else [each for each in others if each in known]
    return (*rest, *left)


def _others(node_id: int, log_dirs: LogDirs) -> list[str]:
    return [path for each, paths in log_dirs.items() if each != node_id for path in paths]
