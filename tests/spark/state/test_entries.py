"""Entries in tasks and reducers, without Spark: packed and compared, beside dicts; and options."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.client.places import Milliseconds
from drumlin.spark.options.offsets import LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.state.cells import cells, unpacked
from drumlin.spark.state.change_rows import CHANGES, ENTRY_COLUMNS, changes
from drumlin.spark.state.entries import Entries, entry_columns, entry_schema, offsets_by_partition
from drumlin.spark.state.moment import limit_of
from drumlin.spark.state.options import StateOptions
from drumlin.spark.state.plan import reducer_count
from rig.depth import so_many

SEED = bytes(range(16))

#: Partition, key and value of each record, in the order of offsets.
LOGS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.none() | st.sampled_from([b"", *(b"key-%d" % number for number in range(12))]),
        st.none() | st.binary(max_size=30),
    ),
    max_size=120,
)
Log = list[tuple[int, bytes | None, bytes | None]]


def batches(log: Log, rows: int) -> Iterator[pa.RecordBatch]:
    """The records of a log, whose offsets are their places in it."""
    schema = entry_schema(ENTRY_COLUMNS)
    for start in range(0, len(log), rows):
        part = log[start : start + rows]
        columns: list[list[Any]] = [
            [key for _, key, _ in part],
            [value for _, _, value in part],
            [partition for partition, _, _ in part],
            list(range(start, start + len(part))),
            [1000 * offset for offset in range(start, start + len(part))],
        ]
        arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def last_offsets(log: Log) -> list[int]:
    last = {
        (partition, key): offset
        for offset, (partition, key, _) in enumerate(log)
        if key is not None
    }
    return sorted(last.values())


@settings(max_examples=so_many(60, 1000))
@given(LOGS, st.integers(1, 40), st.integers(1, 5), st.integers(1, 3000))
def test_cells_bring_all_entries_of_a_key_to_one_reducer(
    log: Log, rows: int, reducers: int, cell_bytes: int
) -> None:
    arrived: list[int] = []
    places: dict[tuple[int, bytes], int] = {}
    for part in (log[: len(log) // 2], log[len(log) // 2 :]):  # two tasks
        entries = Entries({})
        for batch in batches(part, rows):
            entries.add(batch)
        for packed in cells(entries.taken(), reducers, SEED, cell_bytes):
            for reducer, each in zip(
                packed["reducer"].to_pylist(), unpacked(packed, ENTRY_COLUMNS), strict=True
            ):
                assert 0 <= reducer < reducers
                arrived += each["offset"].to_pylist()
                for key in zip(each["partition"].to_pylist(), each["key"].to_pylist(), strict=True):
                    assert places.setdefault(key, reducer) == reducer
        assert not list(entries.taken())
        assert sorted(arrived) == last_offsets(part)
        arrived.clear()


def test_cells_are_bounded_and_let_go() -> None:
    log: Log = [(0, b"key-%d" % number, b"x" * 100) for number in range(2000)]
    before = pa.total_allocated_bytes()
    for packed in cells(batches(log, 500), 3, SEED, 4000):
        assert packed["packed"].nbytes < 8000
    del packed
    assert pa.total_allocated_bytes() == before


@settings(max_examples=so_many(80, 1000))
@given(LOGS, st.integers(1, 40), st.integers(0, 60), st.integers(1, 2000))
def test_changes_are_what_a_dict_sees(log: Log, rows: int, since: int, batch_bytes: int) -> None:
    entries = Entries(dict.fromkeys(range(3), since))
    for batch in batches(log, rows):
        entries.add(batch)
    taken = list(entries.taken())
    random.Random(len(log)).shuffle(taken)  # cells of several tasks come in any order
    if not taken:
        return
    together, where = pa.concat_batches(taken), offsets_by_partition(dict.fromkeys(range(3), since))
    found = pa.Table.from_batches(changes(together, where, batch_bytes), CHANGES)
    assert sorted(wanted_changes(log, since), key=lambda each: each[0]) == sorted(
        tuple(row[name] for name in ("offset", "operation", "partition", "key", "before", "after"))
        for row in found.to_pylist()
    )
    last: dict[tuple[int, bytes], int] = {}
    for row in found.to_pylist():  # in offset order of each key
        assert last.get((row["partition"], row["key"]), -1) < row["offset"]
        last[row["partition"], row["key"]] = row["offset"]


def wanted_changes(log: Log, since: int) -> Iterator[tuple[Any, ...]]:
    state: dict[tuple[int, bytes], bytes] = {}
    for offset, (partition, key, value) in enumerate(log):
        if key is None:
            continue
        before = state.pop((partition, key), None)
        if value is not None:
            state[partition, key] = value
        if offset >= since and (before is not None or value is not None):
            written = "insert" if before is None else "update"
            operation = "delete" if value is None else written
            yield offset, operation, partition, key, before, value


def test_moments() -> None:
    after = OffsetLimit(1_000_001, is_timestamp=True)
    berlin = timezone(timedelta(hours=1))
    for moment in (
        Milliseconds(1_000_000),
        "1000000",
        datetime(1970, 1, 1, 0, 16, 40, 999, UTC),
        datetime(1970, 1, 1, 1, 16, 40, tzinfo=berlin),
    ):
        assert limit_of(moment, "t", "at") == after
    assert limit_of(None, "t", "at") == limit_of("Latest", "t", "at") == OffsetLimit(LATEST)
    offsets = OffsetLimit({TopicPartition("t", 0): 5, TopicPartition("t", 1): 7})
    for moment in ({0: 5, 1: 7}, {"t": {0: 5, 1: 7}}, '{"t": {"0": 5, "1": 7}}'):
        assert limit_of(moment, "t", "at") == offsets


@pytest.mark.parametrize(
    ("moment", "problem"),
    [
        (datetime(2020, 1, 1), "has no time zone"),
        (-1, "an int is an offset"),
        (True, "a datetime, Milliseconds or offsets"),
        (3, "an int is an offset, not a time"),
        ("yesterday", "at"),
        ({0: -1}, "expected offsets such as"),
        ({}, "expected offsets such as"),
        ({"t": 5}, "expected offsets such as"),
        ("{0: 5}", "expected e.g."),
    ],
)
def test_what_is_no_moment(moment: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        limit_of(moment, "t", "at")


def options(**more: Any) -> StateOptions:
    return StateOptions.of("t", "127.0.0.1:9", ("key", "offset"), more)


def test_options() -> None:
    parsed = options(**{"kafka.client.rack": "a", "reducers": 7, "taskMemory": 1000})
    assert parsed.source.isolation_level == "read_committed"
    assert "client_rack" not in dict(parsed.source.client_options), "only the leader is read"
    assert reducer_count(parsed, 1e12, 2) == 7
    assert reducer_count(options(), 0, 2) == 2
    assert reducer_count(options(), 10 << 30, 2) > 100
    assert parsed.cell_bytes == 125
    assert options(**{"kafka.isolation.level": "read_uncommitted"}).source.isolation_level == (
        "read_uncommitted"
    )
    assert entry_columns(("offset", "key", "topic")) == ("key", "partition", "offset", "has_value")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "earliest"),
        ("endingTimestamp", 5),
        ("failOnDataLoss", False),
        ("maxOffsetsPerTrigger", 5),
        ("subscribePattern", ".*"),
        ("reducers", 0),
        ("taskMemory", "x"),
    ],
)
def test_options_that_are_refused(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"(?i){name}"):
        options(**{name: value})


def test_a_snapshot_is_of_one_topic_and_no_other_read() -> None:
    with pytest.raises(OptionError, match="exactly one topic, not a, b"):
        StateOptions.of("a,b", "127.0.0.1:9", ("key",), {})
    with pytest.raises(OptionError, match="'snapshot' is for"):
        SourceOptions.parse(
            {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "snapshot": "latest"}
        )
