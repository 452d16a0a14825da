"""The log dirs of a stopped Apache Kafka node whose metadata is moved into ZooKeeper. Blocking.

Unlike a broker of Drumlin with embedded metadata, the node may be one of many, or only a
controller: each node has the metadata of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.metadata.image import ClusterImage
from drumlin.metadata.kraft.inheritance import CannotTakeOver, inherit
from drumlin.metadata.kraft.taking_over import find_metadata_log, read_checked
from drumlin.metadata.to_zookeeper.stopped_broker import (
    SET_ASIDE,
    AdoptionRefused,
    EmbeddedData,
    EmbeddedStore,
)


class KafkaData(EmbeddedData):
    """The log dirs of one node, and its metadata log, which is not changed."""

    def __init__(self, log_dirs: Sequence[Path], folder: Path, node_id: int | None = None) -> None:
        """`folder`: the folder of the metadata log."""
        super().__init__(log_dirs, node_id)
        self.folder = folder
        #: The end of the metadata log, and the voters; set by `read`.
        self.end_offset = self.epoch = 0
        self.voters: tuple[int, ...] = ()

    @property
    def has_store(self) -> bool:
        return True

    @property
    def is_set_aside(self) -> bool:
        return self.moved_to is not None

    def read(self) -> EmbeddedStore:
        """Read the metadata log.

        Raises:
            AdoptionRefused: the log cannot be used.
        """
        if self.cluster_id is None:
            raise AdoptionRefused(f"{self.first} does not say of which cluster it is")
        try:
            log = read_checked(self.folder, self._log_dirs, self.node_id)
            if log is None:
                raise AdoptionRefused(f"{self.folder} is empty")
            contents = inherit(log)
        except CannotTakeOver as error:
            raise AdoptionRefused(str(error)) from error
        self.end_offset, self.epoch, self.voters = log.end_offset, log.epoch, log.voters
        image = ClusterImage(self.cluster_id)
        for topic in contents.topics:
            image.put_topic(topic)
        for resource, configs in contents.configs.items():
            image.put_configs(resource, configs)
        return EmbeddedStore(image, contents.next_producer_id, {})

    def set_aside(self) -> None:
        """Nothing to do, as the log dirs already name ZooKeeper."""


def data_in(
    log_dirs: Sequence[Path], node_id: int | None, metadata_log_dir: str | None
) -> EmbeddedData:
    """The data of a Drumlin broker, or of a Kafka node whose data no Drumlin broker has
    taken over.
    """
    first = log_dirs[0]
    is_ours = (first / FILE_NAME).exists() or (first / SET_ASIDE).exists()
    folder = None if is_ours else find_metadata_log(log_dirs, metadata_log_dir)
    if folder is None:
        return EmbeddedData(log_dirs, node_id)
    return KafkaData(log_dirs, folder, node_id)
