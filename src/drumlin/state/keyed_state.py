"""The state of one partition: a mapping of bytes to bytes, with uncommitted changes.

A store has the committed state. Uncommitted changes are kept in memory, and an abort drops them.
User code, which only reads and changes the state, gets a `KeyedState`; the processor, which also
commits and aborts, has a `JournaledState`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from drumlin.client.arguments import shown
from drumlin.state.changelog_format import POSITION_KEY
from drumlin.state.stores import Checkpoint, MemoryStore, Store

if TYPE_CHECKING:
    import pyarrow as pa

#: Keys or values: an Arrow column of binary or strings, or an iterable of bytes.
Column: TypeAlias = "pa.Array | pa.ChunkedArray | Iterable[bytes | None]"
_UNCHANGED: Final = object()


class KeyedState(MutableMapping[bytes, bytes]):
    """An unordered mapping of bytes to bytes. Do not change it while iterating over it."""

    def __init__(self, values: Mapping[bytes, bytes] | None = None) -> None:
        self._keep_in(MemoryStore(values))

    def _keep_in(self, store: Store) -> None:
        self._store = store
        self._stored = store.get
        #: The values set since the last commit; None: the key was deleted.
        self._changes: dict[bytes, bytes | None] = {}
        #: The entries of `_changes` to restore if the attempt fails; None: outside attempts.
        self._undo: dict[bytes, Any] | None = None
        #: The total size of all values set since the last commit.
        self._changed_bytes = 0

    # -- reading -------------------------------------------------------------------------

    def __getitem__(self, key: bytes) -> bytes:
        value: bytes | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key: bytes, default: Any = None) -> Any:
        """The value of a key, or `default` if the key is missing."""
        changes = self._changes
        value = changes[key] if key in changes else self._stored(key)
        return default if value is None else value

    def get_many(self, keys: Column) -> list[bytes | None]:
        """The values of many keys, in the order of the keys; None for a missing key.

        Args:
            keys: a column of binary or strings, or a sequence of bytes; none of them null.

        Raises:
            TypeError: a key is null or of another type.
        """
        names = as_bytes("keys", keys)
        _check_keys(names)
        return self._values_of(cast("list[bytes]", names))

    def _values_of(self, keys: Sequence[bytes]) -> list[bytes | None]:
        changes = self._changes
        stored = self._store.get_many([key for key in keys if key not in changes])
        return [changes[key] if key in changes else stored.get(key) for key in keys]

    def __contains__(self, key: object) -> bool:
        return type(key) is bytes and self.get(key) is not None

    def __iter__(self) -> Iterator[bytes]:
        changes = self._changes
        for key in self._store.keys():  # noqa: SIM118 - a store is no mapping
            if key not in changes:
                yield key
        yield from (key for key, value in changes.items() if value is not None)

    def __len__(self) -> int:
        changes = self._changes
        had = len(self._store.get_many(changes))
        return len(self._store) - had + sum(value is not None for value in changes.values())

    def scan(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, with their values, in the order of the keys' bytes.

        For a state in memory, this visits all keys; on disk, only those that it returns.
        """
        found: dict[bytes, bytes | None] = dict(self._store.scan(prefix))
        found.update(each for each in self._changes.items() if each[0].startswith(prefix))
        return sorted((key, value) for key, value in found.items() if value is not None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} keys>"

    # -- changing ------------------------------------------------------------------------

    def __setitem__(self, key: bytes, value: bytes) -> None:
        _check_key(key)
        if type(value) is not bytes:
            raise TypeError(f"value {shown(value)} of key {shown(key)}: expected bytes")
        if self._undo is not None and key not in self._undo:
            self._undo[key] = self._changes.get(key, _UNCHANGED)
        self._changes[key] = value
        self._changed_bytes += len(value)

    def __delitem__(self, key: bytes) -> None:
        if key not in self:
            raise KeyError(key)
        self._take({key: None})

    def delete(self, key: bytes) -> bool:
        """Delete a key if it exists; returns whether it did."""
        if key not in self:
            return False
        self._take({key: None})
        return True

    def clear(self) -> None:
        """Delete all keys. They are held in memory until the commit."""
        self._take(dict.fromkeys(self))

    def update_many(self, keys: Column, values: Column) -> None:
        """Set many keys at once. A null value deletes its key. Of equal keys the last one wins.

        Args:
            keys: a column of binary or strings, or a sequence of bytes.
            values: the value of each key, in the same order.

        Raises:
            TypeError, ValueError: an invalid key or value, or different numbers of keys and
                values. Nothing was changed.
        """
        names, contents = as_bytes("keys", keys), as_bytes("values", values)
        if len(names) != len(contents):
            raise ValueError(f"{len(names)} keys and {len(contents)} values")
        changes = dict(zip(names, contents, strict=True))
        _check_keys(changes)
        self._take(cast("Mapping[bytes, bytes | None]", changes))

    def count_by(self, keys: Column) -> pa.Table:
        """Add the number of times that each key occurs to its count, stored as decimal digits.

        Args:
            keys: a column of binary or strings, or a sequence of bytes; none of them null.

        Returns:
            A table of `key` (binary) and `count` (int64): each distinct key with its new count.

        Raises:
            TypeError: a key is null or of another type.
            ValueError: the stored value of a key is not a count. Nothing was changed.
        """
        import pyarrow as pa

        column = as_column("keys", keys)
        if column.null_count:
            raise TypeError(f"keys: {column.null_count} of {len(column)} are null")
        counted = column.value_counts()
        names, times = (part.to_pylist() for part in counted.flatten())
        _check_keys(names)
        before = zip(names, self._values_of(names), strict=True)
        totals = [_count(*each) + more for each, more in zip(before, times, strict=True)]
        self._take({name: b"%d" % total for name, total in zip(names, totals, strict=True)})
        return pa.table(
            {"key": pa.array(names, pa.binary()), "count": pa.array(totals, pa.int64())}
        )

    def _take(self, changes: Mapping[bytes, bytes | None]) -> None:
        mine, undo = self._changes, self._undo
        if undo is not None:
            for key in changes.keys() - undo.keys():
                undo[key] = mine.get(key, _UNCHANGED)
        mine.update(changes)
        self._changed_bytes += sum(map(len, filter(None, changes.values())))


class JournaledState(KeyedState):
    """A state whose changes can be committed or aborted, for the processor."""

    def __init__(self, store: Store | None = None) -> None:
        self._keep_in(MemoryStore() if store is None else store)

    @property
    def changed_bytes(self) -> int:
        """An upper bound of the total size of the uncommitted values, in bytes."""
        return self._changed_bytes

    @property
    def is_changed(self) -> bool:
        """Whether there may be uncommitted changes."""
        return bool(self._changes)

    def changes(self) -> dict[bytes, bytes | None]:
        """The changes for the changelog: the new value of each changed key; None: delete it."""
        stored = self._store.get_many(self._changes)
        return {key: now for key, now in self._changes.items() if now != stored.get(key)}

    def commit(self, changes: Mapping[bytes, bytes | None], checkpoint: Checkpoint) -> None:
        """Store `changes` after they were committed to the changelog, up to `checkpoint`."""
        self._store.apply(changes, checkpoint)
        self.abort()  # the remaining entries are equal to the stored values

    def abort(self) -> None:
        """Undo all changes since the last commit."""
        self._changes = {}
        self._undo = None
        self._changed_bytes = 0

    # -- attempts ------------------------------------------------------------------------

    def begin_attempt(self) -> None:
        """Begin an attempt, whose changes can be undone separately."""
        self._undo = {}

    def keep_attempt(self) -> None:
        """End the attempt, and keep its changes for the commit."""
        self._undo = None

    def undo_attempt(self) -> None:
        """End the attempt, and undo its changes."""
        for key, before in (self._undo or {}).items():
            if before is _UNCHANGED:
                del self._changes[key]
            else:
                self._changes[key] = before
        self._undo = None


def _count(key: bytes, value: bytes | None) -> int:
    if value is None:
        return 0
    if not value.isdigit():
        raise ValueError(f"key {shown(key)}: its value {shown(value)} is not a count")
    return int(value)


def _check_key(key: object) -> None:
    if type(key) is not bytes:
        raise TypeError(f"key {shown(key)}: expected bytes")
    if key == POSITION_KEY:
        raise ValueError(f"key {shown(key)} is reserved for the changelog")


def _check_keys(keys: Collection[bytes | None]) -> None:
    """Check keys like `_check_key`. Each is bytes or None; None is invalid."""
    for wrong in (None, POSITION_KEY):
        if wrong in keys:
            _check_key(wrong)


def as_column(name: str, data: Column) -> Any:
    """Keys or values as one Arrow array of binary.

    Raises:
        TypeError: the values are neither bytes nor strings.
    """
    import pyarrow as pa

    try:
        column = (
            data if isinstance(data, pa.Array | pa.ChunkedArray) else pa.array(data, pa.binary())
        )
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.dictionary_decode()
            kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
            return column.cast(pa.binary())
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            return column.cast(pa.large_binary())
    except pa.ArrowException as error:
        raise TypeError(f"{name}: {error}") from error
    raise TypeError(f"{name} are {kind}: expected bytes or strings; cast them")


def as_bytes(name: str, data: Column) -> list[bytes | None]:
    """Keys or values as Python bytes; raises what `as_column` raises."""
    found: list[bytes | None] = as_column(name, data).to_pylist()
    return found
