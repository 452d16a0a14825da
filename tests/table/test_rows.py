"""The rows of a table, in memory and on disk, beside a dict of what each partition has written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from drumlin.client.errors import EqualKeys
from drumlin.client.table.disk_rows import DiskRows
from drumlin.client.table.rows import MemoryRows, Rows

Model = dict[bytes, tuple[bytes, int]]


@pytest.fixture(params=["memory", "disk"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Rows]:
    if request.param == "memory":
        return lambda: MemoryRows("topic")
    return lambda: DiskRows("topic", str(tmp_path))


def batch(rows: dict[bytes, bytes], partition: int) -> pa.RecordBatch:
    columns = {
        "key": list(rows),
        "value": list(rows.values()),
        "partition": [partition] * len(rows),
    }
    return pa.record_batch({name: pa.array(values) for name, values in columns.items()})


def check(rows: Rows, model: Model) -> None:
    assert len(rows) == len(model)
    assert sorted(rows) == sorted((key, *found) for key, found in model.items())
    for number in range(20):
        key = b"%d" % number
        assert rows.find(key) == model.get(key, (None,))[0]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", range(10))
def test_rows_are_as_the_model(made: Callable[[], Rows], partitions: int, seed: int) -> None:
    chance, rows, model = random.Random(seed), made(), Model()
    keys = [b"%d" % number for number in range(20)]
    for partition in range(partitions):
        new = {key: b"at first" for key in chance.sample(keys, 5) if key not in model}
        if new:
            rows.load(batch(new, partition))
        model |= {key: (value, partition) for key, value in new.items()}
        check(rows, model)
    for step in range(200):
        key, partition = chance.choice(keys), chance.randrange(partitions)
        old, owner = model.get(key, (None, partition))
        if chance.random() < 0.4:
            assert rows.remove(key, partition) == (old if owner == partition else None)
            if owner == partition:
                model.pop(key, None)
        elif owner != partition:
            with pytest.raises(EqualKeys, match=repr(key)):
                rows.put(key, b"never", partition)
        else:
            value = b"%d" % step
            assert rows.put(key, value, partition) == old
            model[key] = value, partition
        check(rows, model)
    rows.close()


@pytest.mark.parametrize("loaded", [0, 1])
def test_a_loaded_key_of_two_partitions(made: Callable[[], Rows], loaded: int) -> None:
    rows = made()
    rows.load(batch({b"a": b"1", b"b": b"2"}, loaded))
    with pytest.raises(EqualKeys, match="b'b'"):
        rows.load(batch({b"c": b"3", b"b": b"4"}, 1 - loaded))
    rows.close()


@pytest.mark.parametrize("partitions", [1, 3])
def test_iteration_shows_each_key_once_whatever_changes(partitions: int) -> None:
    rows = MemoryRows("topic")
    for number in range(30):
        rows.put(b"%d" % number, b"old", number % partitions)
    before, shown = sorted(rows), iter(rows)
    first = next(shown)
    for number in range(30):
        rows.remove(b"%d" % number, number % partitions)
        rows.put(b"%d" % number, b"new", (number + 1) % partitions)
        rows.put(b"another %d" % number, b"new", 0)
    assert sorted([first, *shown]) == before


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_memory_that_is_told_follows_the_rows(partitions: int) -> None:
    rows = MemoryRows("topic")
    empty = rows.nbytes
    for number in range(1000):
        rows.put(b"%d" % number, b"v" * 100, number % partitions)
    full = rows.nbytes
    assert full > empty + 1000 * (100 + 100)
    for number in range(1000):
        rows.put(b"%d" % number, b"v", number % partitions)
    assert full - rows.nbytes == 99 * 1000
    for number in range(1000):
        rows.remove(b"%d" % number, number % partitions)
    assert rows.nbytes < full / 2
