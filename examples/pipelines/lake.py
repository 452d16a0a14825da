"""An offline load: a topic into a lake of Parquet files, every record once.

Each run adds what is new since the last one, in loads. A load is a folder with records and with the
offsets up to which they reach, in which topic:

    lake/load=00000000/0-00000000000000000000-00000000000000000750.parquet
                       1-00000000000000000000-00000000000000000730.parquet
                       _offsets.json
    lake/load=00000001/...

Tasks write files aside, and the driver renames the finished folder into its place: from that moment
records and offsets are there, together. So a checkpoint may be deleted at any time. Of two runs at
once one finds its place taken, and fails.

A lake is a local folder, or one on Hadoop: `hdfs://namenode:8020/lake`. Object stores cannot
rename a folder at once; use `delta_table.py` there.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from log_stream import Source, check, look_up, run, source_options
from pyarrow import fs
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from session import Cluster, cluster_of, parser, start_spark

from drumlin.spark import map_batches

BATCH_OFFSETS = 5_000_000
_COLUMNS = "partition,offset,timestamp,key,value,headers"
_WRITTEN = "path string, partition int, first_offset long, end_offset long"
#: Whoever reads a folder with Spark or Arrow does not see names that begin with an underscore.
_OFFSETS = "_offsets.json"
_ASIDE = "_aside"
#: No load takes so long without beginning another task.
_DEAD_AFTER = timedelta(days=1)


def main() -> None:
    explained = parser(__doc__, topic="what to load", lake="where to", checkpoint="Spark's folder")
    arguments = explained.parse_args()
    spark = start_spark("lake")
    load(spark, cluster_of(arguments), arguments.topic, arguments.lake, arguments.checkpoint)
    columns = ("string(key)", "offset", "timestamp", "string(value)")
    table(spark, arguments.lake).selectExpr(*columns).show()
    spark.stop()


def load(
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    url: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Add what the topic has and the lake has not; a load for each micro-batch."""
    source = look_up(cluster, topic)
    lake = Lake(url, source)
    options = source_options(source, lake.position, _COLUMNS, batch_offsets)
    # Spark sees the names of files only: the workers that fetch records write them.
    write = partial(write_files, url, lake.aside, dict(lake.position))
    files = map_batches(spark, topic, write, _WRITTEN, stream=True, **cluster.arguments, **options)
    try:
        run(files, checkpoint, lambda batch: lake.add(batch.collect()))
    finally:
        lake.tidy()


def table(spark: SparkSession, url: str) -> DataFrame:
    """The last value of each key, without those whose last record is a tombstone.

    Within a partition offsets say what is last. A key is in several partitions if the topic was
    given more of them: then the latest timestamp decides, as nothing else says what came first.
    """
    records = spark.read.parquet(url).where("key IS NOT NULL")
    record = f.struct("timestamp", "partition", "offset", "value")
    by_partition = records.groupBy("key", "partition").agg(f.max_by(record, "offset").alias("last"))
    last = f.max_by("last", f.struct("last.timestamp", "last.partition")).alias("last")
    found = by_partition.groupBy("key").agg(last).where("last.value IS NOT NULL")
    return found.select("key", "last.offset", "last.timestamp", "last.value")


class Lake:
    """A lake as one run sees it. A load that another run has added meanwhile makes `add` fail."""

    def __init__(self, url: str, source: Source) -> None:
        """
        Raises:
            OtherTopic: the lake is of another topic.
        """
        self._url, self._source = url, source
        self._files, self._folder = open_lake(url)
        self._newest = self._find_newest()
        #: The first offset of each partition that the lake does not hold.
        self.position = {} if self._newest < 0 else self._read_position()
        #: A folder of this run, for what is not finished.
        self.aside = f"{self._folder}/{_ASIDE}/{uuid.uuid4()}"

    def add(self, written: Sequence[Row]) -> None:
        """Make a load of these files; of none, no load."""
        if not written:
            return
        number, position = self._newest + 1, dict(self.position)
        finished = f"{self.aside}/{_load(number)}"
        self._files.create_dir(finished)
        for each in written:
            name = f"{each.partition}-{each.first_offset:020}-{each.end_offset:020}.parquet"
            self._files.move(each.path, f"{finished}/{name}")
            position[each.partition] = max(position.get(each.partition, 0), each.end_offset)
        with self._files.open_output_stream(f"{finished}/{_OFFSETS}") as file:
            told = {"topic": self._source.topic, "topic_id": self._source.topic_id}
            file.write(json.dumps({**told, "offsets": position}).encode())
        self._files.move(finished, f"{self._folder}/{_load(number)}")
        self._newest, self.position = number, position

    def tidy(self) -> None:
        """Remove what tasks have left that did not count, of this run and of those long dead."""
        left = fs.FileSelector(f"{self._folder}/{_ASIDE}", allow_not_found=True)
        before = datetime.now(UTC) - _DEAD_AFTER
        found = self._files.get_file_info(left)
        dead = [each.path for each in found if each.mtime is not None and each.mtime < before]
        for path in (self.aside, *dead):
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_dir(path)

    def _find_newest(self) -> int:
        entries = self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        names = [each.base_name for each in entries if each.base_name.startswith("load=")]
        return max((int(name.partition("=")[2]) for name in names), default=-1)

    def _read_position(self) -> dict[int, int]:
        with self._files.open_input_file(
            f"{self._folder}/{_load(self._newest)}/{_OFFSETS}"
        ) as file:
            found = json.loads(file.read())
        advice = "A lake is of one topic: load this one into another folder."
        topic, topic_id = found.get("topic"), found.get("topic_id")
        check(f"the lake {self._url}", topic, topic_id, self._source, advice)
        return {int(partition): offset for partition, offset in found["offsets"].items()}


def write_files(
    url: str, aside: str, position: Mapping[int, int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """What a task does: write a file for each partition of which it has records, and name it.

    An attempt has a folder of its own: one that Spark has given up touches no other's files.
    Records before `position` are left out: a batch may be repeated that is in the lake already.
    """
    files, _ = open_lake(url)
    folder = f"{aside}/{uuid.uuid4()}"
    files.create_dir(folder)
    written: dict[int, Row] = {}
    with contextlib.ExitStack() as stack:
        writers: dict[int, pq.ParquetWriter] = {}
        for partition, rows in _by_partition(batches, position):
            path = f"{folder}/{partition}.parquet"
            if partition not in writers:
                opened = pq.ParquetWriter(path, rows.schema, filesystem=files, compression="zstd")
                writers[partition] = stack.enter_context(opened)
            writers[partition].write_batch(rows)
            before = written.get(partition)
            first = before.first_offset if before else rows["offset"][0].as_py()
            end = rows["offset"][-1].as_py() + 1
            written[partition] = Row(
                path=path, partition=partition, first_offset=first, end_offset=end
            )
        for partition, each in written.items():
            offsets = {"first_offset": str(each.first_offset), "end_offset": str(each.end_offset)}
            writers[partition].add_key_value_metadata(offsets)
    if written:
        yield pa.Table.from_pylist([each.asDict() for each in written.values()])


def _by_partition(
    batches: Iterator[pa.RecordBatch], position: Mapping[int, int]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records from there on, partition by partition."""
    for batch in batches:
        for partition in batch["partition"].unique().to_pylist():
            is_wanted = pc.and_(
                pc.equal(batch["partition"], partition),
                pc.greater_equal(batch["offset"], position.get(partition, 0)),
            )
            rows = batch.filter(is_wanted)
            if rows.num_rows:
                yield partition, rows


def open_lake(url: str) -> tuple[fs.FileSystem, str]:
    """The file system of the lake, and its path there."""
    parts = urlsplit(url)
    if parts.scheme == "hdfs":
        from hdfs_native.fsspec import HdfsFileSystem  # needs no Java, in tasks neither

        # Not in fsspec's cache: a process that is forked later empties it, and would wait for ever
        # for threads of this client, which it does not have.
        hadoop = HdfsFileSystem(parts.hostname, parts.port, skip_instance_cache=True)
        return fs.PyFileSystem(fs.FSSpecHandler(hadoop)), parts.path
    return fs.LocalFileSystem(), str(Path(url).absolute())


def _load(number: int) -> str:
    return f"load={number:08}"


if __name__ == "__main__":
    main()
