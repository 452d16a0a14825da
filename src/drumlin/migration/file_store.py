"""A file as an offset store, which is read as a whole, and written as a whole by `save`."""

from __future__ import annotations

from pathlib import Path

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.topic_partition import TopicPartition
from drumlin.migration.offsets_file import OffsetRow, read_file, write_file
from drumlin.migration.store_error import StoreError
from drumlin.migration.stores import Positions, Refusals


class FileStore:
    """Offsets of several groups in one file. Written offsets stay in memory until `save`."""

    def __init__(self, path: Path | None, rows: list[OffsetRow] | None = None) -> None:
        self.name = str(path or "standard output")
        self.notes: list[str] = []
        self.rows = rows or []
        self._path = path

    @classmethod
    def load(cls, path: Path) -> FileStore:
        """Read a file.

        Raises:
            StoreError: the file does not name groups, or is not a file of offsets.
        """
        try:
            rows = read_file(path)
        except ValueError as error:
            raise StoreError(str(error)) from error
        if any(row.group is None for row in rows):
            raise StoreError(f"{path} does not say which groups its offsets are of")
        return cls(path, rows)

    def groups(self) -> list[str]:
        return sorted({row.group for row in self.rows if row.group is not None})

    def read(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            TopicPartition(row.topic, row.partition): OffsetAndMetadata(
                row.offset, metadata=row.metadata
            )
            for row in self.rows
            if row.group == group
        }

    def write(self, group: str, positions: Positions) -> Refusals:
        for (topic, partition), each in sorted(positions.items()):
            self.rows.append(OffsetRow(group, topic, partition, each.offset, each.metadata))
        return {}

    def live_consumers(self, group: str) -> str | None:  # noqa: ARG002
        return None

    def save(self) -> None:
        assert self._path is not None
        write_file(self._path, self.rows)
