"""Takes over the metadata of a stopped Apache Kafka, for a broker on the same log dirs. Blocking.

Changes nothing; the new store is written afterwards, as a whole.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from drumlin.metadata.embedded.first_contents import FirstContents
from drumlin.metadata.kraft.inheritance import CannotTakeOver, alone, check_places, inherit
from drumlin.metadata.kraft.log import FOLDER, MetadataLog, UnreadableLog, read_metadata_log
from drumlin.metadata.names import CLUSTER_METADATA
from drumlin.storage.directory.directory_lock import DirectoryLock
from drumlin.storage.directory.meta_properties import MetaProperties, read_meta_properties
from drumlin.storage.directory.partition_metadata import decode_uuid
from drumlin.storage.files.files import Files
from drumlin.storage.files.partition_names import parse_directory_name

_log = logging.getLogger(__name__)


def find_metadata_log(log_dirs: Sequence[Path], metadata_log_dir: str | None) -> Path | None:
    """The folder of the metadata log, if there is one."""
    places = [Path(metadata_log_dir)] if metadata_log_dir else []
    folders = [path / FOLDER for path in (*places, *log_dirs)]
    return next((each for each in folders if each.is_dir()), None)


def take_over_alone(
    log_dirs: Sequence[Path],
    metadata_log_dir: str | None,
    node_id: int,
    *,
    are_locked: bool = False,
) -> FirstContents | None:
    """The contents for a single broker to take over; None if there is no metadata of Kafka.

    are_locked: the caller holds the locks of the log dirs.

    Raises:
        CannotTakeOver: the contents must not be taken over, or not yet.
        OSError: a file cannot be read.
    """
    folder = find_metadata_log(log_dirs, metadata_log_dir)
    if folder is None:
        return None
    places = {path.resolve() for path in log_dirs}
    to_lock = {folder.parent.resolve()} - places if are_locked else {folder.parent, *places}
    with contextlib.ExitStack() as locks:
        for path in {each.resolve() for each in to_lock if each.is_dir()}:
            locks.enter_context(_locked(path))
        log = read_checked(folder, log_dirs, node_id)
        if log is None:
            return None
        found = alone(inherit(log), node_id)
    _log.info(
        "took over the metadata of Apache Kafka in %s, up to offset %d: %d topics, configurations "
        "of %d topics, brokers and groups",
        folder,
        log.end_offset,
        len(found.topics),
        len(found.configs),
    )
    return found


def read_checked(folder: Path, log_dirs: Sequence[Path], node_id: int) -> MetadataLog | None:
    """The metadata log of the broker with these log dirs; None if it is empty.

    Raises:
        CannotTakeOver: the log is damaged, or these are not exactly the log dirs of one broker.
        OSError: a file cannot be read.
    """
    _check_owner(folder.parent, log_dirs, node_id)
    try:
        log = read_metadata_log(folder)
    except UnreadableLog as error:
        raise CannotTakeOver(f"the metadata of Apache Kafka can't be read: {error}") from error
    if not log.metadata.records:
        if any(map(_has_partitions, log_dirs)):
            raise CannotTakeOver(f"{folder} is empty, but there are logs of topics")
        return None
    known = _directory_ids(log_dirs)
    if known is not None:
        check_places(log, node_id, known)
    return log


def _check_owner(metadata_dir: Path, log_dirs: Sequence[Path], node_id: int) -> None:
    clusters = set()
    for path in (metadata_dir, *log_dirs):
        meta = _meta_of(path)
        if meta is None:
            continue
        if meta.node_id not in (None, node_id):
            raise CannotTakeOver(f"{path} belongs to broker {meta.node_id}, not {node_id}")
        if meta.cluster_id is not None:
            clusters.add(meta.cluster_id)
    if len(clusters) > 1:
        found = ", ".join(sorted(clusters))
        raise CannotTakeOver(f"{metadata_dir} and the log dirs are not of one cluster: {found}")


def _directory_ids(log_dirs: Sequence[Path]) -> frozenset[UUID] | None:
    """The ids of the log dirs; None if one in use has no id, as in older versions of Kafka."""
    metas = [each for each in map(_meta_of, log_dirs) if each is not None]
    texts = [each.directory_id for each in metas if each.directory_id is not None]
    if len(texts) < len(metas):
        return None
    try:
        return frozenset(map(decode_uuid, texts))
    except ValueError as error:
        raise CannotTakeOver(f"directory.id in meta.properties can't be read: {error}") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = DirectoryLock(str(path))
    if not lock.acquire():
        raise CannotTakeOver(f"{path} is in use by another server: stop it first")
    try:
        yield
    finally:
        lock.release()


def _meta_of(path: Path) -> MetaProperties | None:
    try:
        return read_meta_properties(str(path), Files())
    except ValueError as error:
        raise CannotTakeOver(f"meta.properties in {path} can't be read: {error}") from error


def _has_partitions(path: Path) -> bool:
    if not path.is_dir():
        return False
    found = [parse_directory_name(each) for each in Files().list_directory(str(path))]
    return any(each is not None and each[0] != CLUSTER_METADATA for each in found)
