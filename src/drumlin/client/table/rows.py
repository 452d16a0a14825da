"""The rows of a table in memory: the last value of every key, and the partition it came from."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from drumlin.client.errors import EqualKeys

if TYPE_CHECKING:
    import pyarrow as pa

#: The memory overhead of a row's two objects, key and value, without the data; with sizes rounded
#: up to multiples of 16.
_OBJECTS_SIZE: Final = 2 * sys.getsizeof(b"") + 16


class Row(NamedTuple):
    key: bytes
    value: bytes
    partition: int


class Rows(Protocol):
    """The rows of a table. One thread writes; any thread may read meanwhile."""

    @property
    def nbytes(self) -> int:
        """The approximate memory of the rows."""

    def load(self, batch: pa.RecordBatch) -> None:
        """Add one partition's rows, all with new keys: columns `key`, `value`, `partition`."""

    def put(self, key: bytes, value: bytes, partition: int) -> bytes | None:
        """Set a key's value; returns its old value."""

    def remove(self, key: bytes, partition: int) -> bytes | None:
        """Remove a key, if it came from this partition; returns its old value."""

    @property
    def find(self) -> Callable[[bytes], bytes | None]:
        """A function from a key to its value; None if there is no such key."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Row]:
        """All rows, in no particular order."""

    def close(self) -> None:
        """Free the rows. Other threads may still be reading them."""


class MemoryRows:
    """Rows in a dictionary. Iteration shows the rows as of its beginning.

    The dictionary holds the bare values: a tuple with the partition would cost each load and each
    look-up more than everything else together.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._values: dict[bytes, bytes] = {}
        #: The keys of each partition; None for all keys, if there is only one partition.
        self._keys: dict[int, set[bytes] | None] = {}
        self._content_size = 0
        self._lock = threading.Lock()  # held by the writer, and to copy rows
        #: The dictionary's own method, as a wrapper would slow down each look-up.
        self.find = self._values.get

    @property
    def nbytes(self) -> int:
        with self._lock:
            tables = sum(map(sys.getsizeof, (self._values, *self._keys.values())))
        return tables + len(self._values) * _OBJECTS_SIZE + self._content_size

    def load(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        names, column = batch.column("key").to_pylist(), batch.column("value")
        with self._lock:
            keys = self._keys_of(batch.column("partition")[0].as_py())
            values, before = self._values, len(self._values)
            for key, value in zip(names, column.to_pylist(), strict=True):  # faster than `update`
                values[key] = value
            if len(values) != before + len(names):
                new = set(names)
                again = next(key for key in islice(values, before) if key in new)
                raise EqualKeys(self._topic, again)
            if keys is not None:
                keys.update(names)
            self._content_size += batch.column("key").nbytes + column.nbytes

    def put(self, key: bytes, value: bytes, partition: int) -> bytes | None:
        with self._lock:
            keys = self._keys_of(partition)
            old = self._values.get(key)
            if old is None:
                if keys is not None:
                    keys.add(key)
                self._content_size += len(key) + len(value)
            elif keys is None or key in keys:
                self._content_size += len(value) - len(old)
            else:
                raise EqualKeys(self._topic, key)
            self._values[key] = value
            return old

    def remove(self, key: bytes, partition: int) -> bytes | None:
        with self._lock:
            keys = self._keys_of(partition)
            if keys is not None:
                if key not in keys:
                    return None
                keys.remove(key)
            old = self._values.pop(key, None)
            if old is not None:
                self._content_size -= len(key) + len(old)
            return old

    def _keys_of(self, partition: int) -> set[bytes] | None:
        """The keys of a partition, to be changed with the rows; None for all keys."""
        if partition not in self._keys:
            for other, keys in self._keys.items():
                self._keys[other] = set(self._values) if keys is None else keys
            self._keys[partition] = set() if self._keys else None
        return self._keys[partition]

    def __len__(self) -> int:
        return len(self._values)

    def close(self) -> None:
        """Do nothing: the memory is freed when no thread refers to the rows."""

    def __iter__(self) -> Iterator[Row]:
        with self._lock:
            values = self._values.copy()
            keys_of = {
                each: None if keys is None else list(keys) for each, keys in self._keys.items()
            }
        for partition, keys in keys_of.items():
            for key in values if keys is None else keys:
                yield Row(key, values[key], partition)
