"""Opening of the metadata store that a broker is configured for: the only place that knows all
stores.

It never creates a new store for data whose metadata may be elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from drumlin.clock import Clock
from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import LogConfig, log_config
from drumlin.metadata.embedded.database import FILE_NAME, UnreadableMetadata, is_begun
from drumlin.metadata.embedded.metadata import EmbeddedMetadata
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import ClusterImage
from drumlin.metadata.kraft.inheritance import CannotTakeOver
from drumlin.metadata.kraft.taking_over import take_over_alone
from drumlin.metadata.store.mutations import Listeners
from drumlin.metadata.store.store import MetadataStore, UnusableMetadata
from drumlin.storage.directory.meta_properties import FILE_NAME as META_PROPERTIES
from drumlin.storage.directory.meta_properties import read_meta_properties
from drumlin.storage.files.files import Files

_log = logging.getLogger(__name__)

#: A file in each log dir whose metadata is in ZooKeeper; it has the addresses of ZooKeeper.
IN_ZOOKEEPER: Final = "drumlin-metadata.zookeeper"


async def open_metadata(config: BrokerConfig, clock: Clock) -> MetadataStore:
    """Open the metadata store of the broker's cluster.

    Raises:
        UnusableMetadata: the store cannot be used.
    """
    paths = [Path(path) for path in config.log_dirs]
    if not config.zookeeper_connect:
        store = await asyncio.to_thread(open_embedded, config)
        return EmbeddedMetadata(store, config.node_id, configs_in(store.image, config))
    cluster_id = await asyncio.to_thread(_cluster_in_zookeeper, paths)
    from drumlin.metadata.zookeeper.metadata import ZooKeeperMetadata

    metadata = await ZooKeeperMetadata.open(config, clock, cluster_id)
    try:
        await asyncio.to_thread(_note_zookeeper, paths, config.zookeeper_connect)
    except BaseException:
        await metadata.close()
        raise
    return metadata


def _note_zookeeper(paths: list[Path], hosts: str) -> None:
    """Note in the log dirs that their metadata is in ZooKeeper, and must not be created anew."""
    noted = 0
    for path in paths:
        with contextlib.suppress(OSError):  # a log dir may be offline
            path.mkdir(parents=True, exist_ok=True)
            Files().replace_file(str(path / IN_ZOOKEEPER), f"{hosts}\n".encode())
            noted += 1
    if not noted:
        raise UnusableMetadata(f"cannot write into {paths[0]}")


def _cluster_in_zookeeper(paths: list[Path]) -> str | None:
    """The cluster id of the log dirs, if the cluster's metadata is not in one of them."""
    for path in paths:
        if (path / FILE_NAME).exists():
            _check_is_not_moving(path)
            raise UnusableMetadata(
                f"the metadata of {path} is in its {FILE_NAME}, so zookeeper.connect must not be "
                "set: 'drumlin cluster adopt' moves it into ZooKeeper"
            )
    return _known_cluster_id(paths, is_new=False)


def _check_is_not_moving(path: Path) -> None:
    if (path / IN_ZOOKEEPER).exists():
        raise UnusableMetadata(
            f"the metadata of {path} is being moved into ZooKeeper: run 'drumlin cluster adopt' "
            "again, which completes that"
        )


def configs_in(image: ClusterImage, config: BrokerConfig) -> Callable[[str], LogConfig]:
    """A function that returns a topic's current configuration, including the broker's defaults."""
    return lambda topic: log_config(image.topic_configs(topic), config.topic_defaults())


def open_embedded(
    config: BrokerConfig, listeners: Listeners | None = None, *, are_locked: bool = False
) -> SqliteMetadata:
    """Open the embedded store in the first log dir; `listeners`: see `SqliteMetadata.open`. Blocks.

    A new store takes over the metadata of an Apache Kafka that has used the log dirs.

    are_locked: the caller holds the locks of the log dirs.

    Raises:
        UnusableMetadata: the store cannot be used.
    """
    paths = [Path(path) for path in config.log_dirs]
    first = paths[0]
    for path in paths:
        if Files().exists(str(path / IN_ZOOKEEPER)):  # not if the folder cannot be read
            if (first / FILE_NAME).exists():
                _check_is_not_moving(path)
            raise UnusableMetadata(
                f"the metadata of {path} is in ZooKeeper, as its {IN_ZOOKEEPER} says: set "
                "zookeeper.connect"
            )
    try:
        first.mkdir(parents=True, exist_ok=True)
        _check_is_allowed(first)
        _check_is_allowed(first / FILE_NAME)
        cluster_id = _known_cluster_id(paths, is_new=not (first / FILE_NAME).exists())
        first_contents = None
        if not is_begun(first / FILE_NAME):
            first_contents = take_over_alone(
                paths, config.metadata_log_dir, config.node_id, are_locked=are_locked
            )
        metadata = SqliteMetadata.open(first, cluster_id, listeners, first_contents)
    except OSError as error:
        raise UnusableMetadata(f"cannot use {first}: {error}") from error
    except (UnreadableMetadata, CannotTakeOver) as error:
        raise UnusableMetadata(f"cannot use {first}: {error}") from error
    if metadata.is_new and cluster_id is not None:
        _log.warning(
            "There is no metadata in %s, but data of cluster %s: topics are made of the folders "
            "that are there, without their configuration. Where Kafka had its metadata.log.dir "
            "elsewhere, stop, remove %s, and set that",
            first,
            cluster_id,
            FILE_NAME,
        )
    return metadata


def _check_is_allowed(path: Path) -> None:
    needed = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
    if path.exists() and not os.access(path, needed, effective_ids=True):
        raise UnusableMetadata(
            f"user {os.geteuid()} may not read and write {path}, which belongs to user "
            f"{path.stat().st_uid}"
        )


def _known_cluster_id(paths: Sequence[Path], *, is_new: bool) -> str | None:
    """The cluster id of the log dirs; None if no log dir has one.

    An unreadable log dir is skipped. But a new store must see all log dirs before it chooses an id
    or takes over logs.
    """
    found: dict[str, Path] = {}
    for path in paths:
        try:
            if is_new and (path / FILE_NAME).exists():
                raise UnusableMetadata(
                    f"the metadata lies in {path}, not in {paths[0]}: it must be the first log dir"
                )
            known = read_meta_properties(str(path), Files())
        except OSError as error:
            if is_new:
                raise UnusableMetadata(
                    f"there is no metadata in {paths[0]}, and to start afresh all log dirs are "
                    f"needed, but {path} can't be used: {error.strerror}"
                ) from error
            continue
        except ValueError as error:
            raise UnusableMetadata(f"{path}/{META_PROPERTIES} can't be read: {error}") from error
        if known is not None and known.cluster_id is not None:
            found.setdefault(known.cluster_id, path)
    if len(found) > 1:
        whose = ", ".join(f"{path} belongs to cluster {each}" for each, path in found.items())
        raise UnusableMetadata(f"the log dirs are not of one cluster: {whose}")
    return next(iter(found), None)
