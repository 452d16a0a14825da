"""A data directory on which no broker runs, as commands see it. Changes nothing there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drumlin.cli.terminal.output import Failure
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.machine_folders import FOLDER
from drumlin.config.topic import LogConfig, log_config
from drumlin.metadata.embedded.database import FILE_NAME, Database
from drumlin.metadata.image import ClusterImage
from drumlin.metadata.opening import IN_ZOOKEEPER
from drumlin.storage.all_logs.read_only import look_at_log, open_read_only, partitions_of
from drumlin.storage.directory.meta_properties import read_meta_properties
from drumlin.storage.log.partition_log import PartitionLog

_NO_CLUSTER: Final = ""


class DataDirectory:
    """A data directory on which no broker runs.

    Raises:
        Failure: the path is not a broker's data directory.
        OSError: the directory cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.clock = SystemClock()
        folders = sorted((self.path / FOLDER).glob("[0-9]*"))  # of a server's further brokers
        self._directories = [
            open_read_only(str(each), self.clock) for each in (self.path, *folders)
        ]
        self._image = _read_image(self.path)
        self.config = self._read_config()

    def _read_config(self) -> BrokerConfig:
        """The defaults and the dynamic configuration; the static one is unknown."""
        meta = read_meta_properties(str(self.path), self._directories[0].files)
        node_id = "" if meta is None or meta.node_id is None else str(meta.node_id)
        config = BrokerConfig({"node.id": node_id} if node_id else {})
        config.update_dynamic(self._image.broker_configs(""), self._image.broker_configs(node_id))
        return config

    def compacted_logs(
        self, topic: str | None = None, partition: int | None = None
    ) -> Iterator[tuple[str, int, PartitionLog | Exception]]:
        """Topic, partition, and the log, or the error of opening it."""
        for directory in self._directories:
            for each, index in partitions_of(directory):
                config = self._log_config(each)
                if topic in (None, each) and partition in (None, index) and config.is_compacted:
                    try:
                        log = look_at_log(directory, each, index, config)
                    except (OSError, ValueError) as error:
                        yield each, index, error
                    else:
                        yield each, index, log

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(self._image.topic_configs(topic), self.config.topic_defaults())


def _read_image(path: Path) -> ClusterImage:
    """The metadata, read from a copy: SQLite creates files next to a database even to read it."""
    if (path / IN_ZOOKEEPER).exists():
        raise Failure(f"the metadata of {path} are in ZooKeeper: its broker has to run")
    if not (path / FILE_NAME).exists():
        raise Failure(f"{path} has no {FILE_NAME}: give the first of a broker's log.dirs")
    with tempfile.TemporaryDirectory(prefix="drumlin-") as copy:
        for name in (FILE_NAME, f"{FILE_NAME}-wal"):
            if (path / name).exists():
                shutil.copyfile(path / name, Path(copy, name))
        database = Database(Path(copy, FILE_NAME))
        try:
            return database.load(_NO_CLUSTER)
        finally:
            database.close()
