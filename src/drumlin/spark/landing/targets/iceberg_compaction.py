"""Merges small files of an Iceberg table that is appended to. No row changes, and no position."""

from __future__ import annotations

import uuid
from collections import defaultdict

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from drumlin.spark.landing.rows.small_files import worth_merging
from drumlin.spark.landing.targets.iceberg_files import Writing, described, read_files


def compacted(table: Table) -> list[tuple[list[DataFile], DataFile]]:
    """Merge small files of each partition, in the driver; returns old files with the new one."""
    by_partition: dict[tuple[object, ...], list[FileScanTask]] = defaultdict(list)
    for task in table.scan().plan_files():
        if task.file.spec_id == table.metadata.default_spec_id:
            partition = task.file.partition
            by_partition[tuple(partition[index] for index in range(len(partition)))].append(task)
    writing = Writing.of(table)
    return [
        ([each.file for each in tasks], _merge(writing, tasks, partition))
        for partition, found in by_partition.items()
        for tasks in worth_merging((task, task.file.file_size_in_bytes) for task in found)
    ]


def _merge(writing: Writing, tasks: list[FileScanTask], partition: tuple[object, ...]) -> DataFile:
    """A new file with the rows of these files, reading one of them at a time."""
    schema = writing.schema()
    path, stream = writing.create(f"{uuid.uuid4()}.parquet")
    with stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for task in tasks:
            writer.write_table(read_files(writing, [task]).select(schema.names).cast(schema))
    return described(writing, path, *partition)
