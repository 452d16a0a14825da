"""Leftover folders of deleted topics in log dirs: their deletion, and notes about them in the
metadata.

A crash, or a log dir that was offline, may leave some. Nothing else is ever removed: a folder
without a topic may have been restored from a backup.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from uuid import UUID

from drumlin.metadata.store.store import MetadataStore
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)


class DeletedFolders:
    """See the module."""

    def __init__(
        self, metadata: MetadataStore, logs: LogDirectories, partitions: PartitionRegistry
    ) -> None:
        self._metadata = metadata
        self._logs = logs
        self._partitions = partitions
        #: Topics for which the note could not be stored yet.
        self._to_note: set[UUID] = set()

    async def finish(self) -> None:
        """Delete the leftover folders."""
        served = self._partitions.topic_ids()  # to be deleted with their topics
        deleted = {
            topic_id: log_dirs
            for topic_id, log_dirs in self._metadata.deleted_topics.items()
            if topic_id not in served
        }
        for log in self._logs.with_second_logs():
            log_dirs = deleted.get(log.topic_id, ())
            if log_dirs is None or log.log_directory.path in log_dirs:
                _log.info("%s is of a topic that was deleted, and is removed", log.path)
                self._logs.delete_log(log)
        await self.note(deleted)

    async def note(self, topic_ids: Iterable[UUID]) -> None:
        """Note in the metadata which log dirs may still have a folder of these topics.

        Those are the offline log dirs, and those with a folder that could not be loaded. Notes that
        failed before are repeated.
        """
        self._to_note.update(topic_ids)
        noting = list(self._to_note)
        dirs = self._logs.directories
        offline = [each.path for each in dirs if not each.is_online or each.not_loaded]
        deleted = self._metadata.deleted_topics
        left: dict[UUID, Sequence[str]] = {}
        for topic_id in noting:
            known = deleted.get(topic_id, ())
            log_dirs = [path for path in offline if known is None or path in known]
            if known is None or len(log_dirs) < len(known):
                left[topic_id] = log_dirs
        with contextlib.suppress(KafkaError):  # the store has logged it; the next call tries again
            if left:
                await self._metadata.note_folders_left(left)
            self._to_note.difference_update(noting)
