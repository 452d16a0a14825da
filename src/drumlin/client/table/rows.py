"""The rows of a table in memory: the last value of every key, and the partition it came from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from drumlin.client.errors import EqualKeys

if TYPE_CHECKING:
    import pyarrow as pa

#: The memory overhead of a row's objects: key, value, and the value's tuple, without the data; with
#: the tuple's header for the garbage collector, and sizes rounded up to multiples of 16.
_OBJECTS_SIZE: Final = 2 * sys.getsizeof(b"") + sys.getsizeof((None, None)) + 32


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
    def find(self) -> Callable[[bytes], tuple[bytes, int] | None]:
        """A function from a key to its value and partition; None if there is no such key."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Row]:
        """All rows, in no particular order."""

    def close(self) -> None:
        """Free the rows. Other threads may still be reading them."""


class MemoryRows:
    """Rows in a dictionary. Iteration shows the rows as of its beginning."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._rows: dict[bytes, tuple[bytes, int]] = {}
        self._content_size = 0
        #: The dictionary's own method, as a wrapper would slow down each look-up.
        self.find = self._rows.get

    @property
    def nbytes(self) -> int:
        return sys.getsizeof(self._rows) + len(self._rows) * _OBJECTS_SIZE + self._content_size

    def load(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        keys, values = batch.column("key"), batch.column("value")
        partition = batch.column("partition")[0].as_py()
        names, before = keys.to_pylist(), len(self._rows)
        self._rows.update(zip(names, zip(values.to_pylist(), repeat(partition)), strict=False))
        if len(self._rows) != before + len(names):
            new = set(names)
            again = next(key for key in islice(self._rows, before) if key in new)
            raise EqualKeys(self._topic, again)
        self._content_size += keys.nbytes + values.nbytes

    def put(self, key: bytes, value: bytes, partition: int) -> bytes | None:
        old = self._rows.get(key)
        if old is None:
            self._content_size += len(key) + len(value)
            self._rows[key] = value, partition
            return None
        if old[1] != partition:
            raise EqualKeys(self._topic, key)
        self._content_size += len(value) - len(old[0])
        self._rows[key] = value, partition
        return old[0]

    def remove(self, key: bytes, partition: int) -> bytes | None:
        old = self._rows.get(key)
        if old is None or old[1] != partition:
            return None
        self._content_size -= len(key) + len(old[0])
        del self._rows[key]
        return old[0]

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Do nothing: the memory is freed when nobody reads the rows any more."""

    def __iter__(self) -> Iterator[Row]:
        for key, (value, partition) in list(self._rows.items()):
            yield Row(key, value, partition)
