"""The state of one partition in memory: a mapping of bytes, and the changes since the last commit.

Pure. Each change is made at once; each changed key's old value is kept until the commit, and an
abort restores it. Code that may only read and change the state gets a `KeyedState`; its owner, who
also commits and aborts, has a `JournaledState`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from drumlin.client.arguments import shown
from drumlin.state.changelog_format import POSITION_KEY

if TYPE_CHECKING:
    import pyarrow as pa

#: Keys or values: a column of binary or strings, or any Python bytes.
Column: TypeAlias = "pa.Array | pa.ChunkedArray | Iterable[bytes | None]"


class KeyedState(MutableMapping[bytes, bytes]):
    """A mapping of bytes to bytes, in no particular order. It must not change during iteration."""

    def __init__(self, values: Mapping[bytes, bytes] | None = None) -> None:
        self._values: dict[bytes, bytes] = dict(values or {})
        #: The old value of each changed key; None: it had none.
        self._before: dict[bytes, bytes | None] = {}

    # -- reading -------------------------------------------------------------------------

    def __getitem__(self, key: bytes) -> bytes:
        return self._values[key]

    def get(self, key: bytes, default: Any = None) -> Any:
        """The value of a key, or `default` if it has none."""
        return self._values.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def scan(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, with their values, in the order of the keys' bytes.

        It visits every key of the state.
        """
        return sorted(each for each in self._values.items() if each[0].startswith(prefix))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._values)} keys>"

    # -- changing ------------------------------------------------------------------------

    def __setitem__(self, key: bytes, value: bytes) -> None:
        _check_key(key)
        if type(value) is not bytes:
            raise TypeError(f"value {shown(value)} of key {shown(key)}: expected bytes")
        values, before = self._values, self._before
        if key not in before:
            before[key] = values.get(key)
        values[key] = value

    def __delitem__(self, key: bytes) -> None:
        before = self._values.pop(key)
        self._before.setdefault(key, before)

    def delete(self, key: bytes) -> bool:
        """Delete a key if it exists; returns whether it did."""
        if key not in self._values:
            return False
        del self[key]
        return True

    def update_many(self, keys: Column, values: Column) -> None:
        """Set many keys at once; None (null) as a value deletes its key. Later rows win.

        Args:
            keys: a column of binary or strings, or a sequence of bytes.
            values: as many, in the same order.

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
        """Add to each key's count how often the key occurs; values are decimal digits.

        Args:
            keys: a column of binary or strings, or a sequence of bytes; none of them null.

        Returns:
            A table of `key` (binary) and `count` (int64): each distinct key with its new count.

        Raises:
            TypeError: a key is null or of another type.
            ValueError: the value of one of these keys is no count. Nothing was changed.
        """
        import pyarrow as pa

        column = as_column("keys", keys)
        if column.null_count:
            raise TypeError(f"keys: {column.null_count} of {len(column)} are null")
        counted = column.value_counts()
        names, times = (part.to_pylist() for part in counted.flatten())
        totals = [int(self._count(name)) + more for name, more in zip(names, times, strict=True)]
        _check_keys(names)
        self._take({name: b"%d" % total for name, total in zip(names, totals, strict=True)})
        return pa.table(
            {"key": pa.array(names, pa.binary()), "count": pa.array(totals, pa.int64())}
        )

    def _count(self, key: bytes) -> bytes:
        value = self._values.get(key, b"0")
        if not value.isdigit():
            raise ValueError(f"key {shown(key)}: its value {shown(value)} is no count")
        return value

    def _take(self, changes: Mapping[bytes, bytes | None]) -> None:
        values, before = self._values, self._before
        for key in changes.keys() - before.keys():
            before[key] = values.get(key)
        gone = [key for key, value in changes.items() if value is None]
        values.update(changes)  # type: ignore[arg-type]  # the others are deleted just below
        for key in gone:
            del values[key]


class JournaledState(KeyedState):
    """A state for its owner, who can commit or abort its changes."""

    def changes(self) -> dict[bytes, bytes | None]:
        """The changes for the changelog: the new value of each changed key; None: deleted."""
        found = {}
        for key, before in self._before.items():
            now = self._values.get(key)
            if now != before:
                found[key] = now
        return found

    def commit(self) -> None:
        """Keep the changes, which are committed in the changelog."""
        self._before.clear()

    def abort(self) -> None:
        """Undo the changes since the last commit."""
        values = self._values
        for key, before in self._before.items():
            if before is None:
                values.pop(key, None)
            else:
                values[key] = before
        self._before.clear()


def _check_key(key: object) -> None:
    if type(key) is not bytes:
        raise TypeError(f"key {shown(key)}: expected bytes")
    if key == POSITION_KEY:
        raise ValueError(f"key {shown(key)}: that one is the changelog's own")


def _check_keys(keys: Collection[bytes | None]) -> None:
    """Check keys like `_check_key`; each is bytes or None, and None is refused."""
    for wrong in (None, POSITION_KEY):
        if wrong in keys:
            _check_key(wrong)


def as_column(name: str, data: Column) -> Any:
    """Keys or values as one Arrow array of binary.

    Raises:
        TypeError: they are neither bytes nor strings.
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
