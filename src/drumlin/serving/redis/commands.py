"""Redis commands as bytes. Arrow packs the cells of many rows at once, several times as fast. Pure.

A command is an array of strings, each with its length in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.serving.target import Cell

Word = bytes | str | int
#: A part of a command; parts are sent one after the other.
Part: TypeAlias = bytes | memoryview
#: Their offsets have 64 bits, so many large values fit.
_CELLS: Final = pa.large_binary()
_LENGTH: Final = pa.scalar(b"$", _CELLS)
_END: Final = pa.scalar(b"\r\n", _CELLS)
_END_LENGTH: Final = pa.scalar(b"\r\n$", _CELLS)
_NOTHING: Final = pa.scalar(b"", _CELLS)


def cells(values: Sequence[Cell]) -> pa.Array:
    """Keys or values as an array of bytes."""
    return pa.array(values, _CELLS)


def prefixed(prefix: str, names: pa.Array) -> pa.Array:
    """The names, each with the prefix."""
    return pc.binary_join_element_wise(pa.scalar(prefix.encode(), _CELLS), names, _NOTHING)


def command(*words: Word) -> bytes:
    """A whole command."""
    return begun(0, *words)


def begun(more: int, *words: Word) -> bytes:
    """The beginning of a command; `more` strings follow."""
    written = [each if isinstance(each, bytes) else str(each).encode() for each in words]
    parts = [b"$%d\r\n%b\r\n" % (len(each), each) for each in written]
    return b"*%d\r\n" % (len(words) + more) + b"".join(parts)


def strings(values: pa.Array) -> memoryview:
    """The strings of a command."""
    return _data(
        pc.binary_join_element_wise(_LENGTH, _lengths(values), _END, values, _END, _NOTHING)
    )


def pairs(names: pa.Array, values: pa.Array) -> memoryview:
    """The strings of a command: each name, and after it its value."""
    of_name = (_LENGTH, _lengths(names), _END, names)
    of_value = (_END_LENGTH, _lengths(values), _END, values, _END)
    return _data(pc.binary_join_element_wise(*of_name, *of_value, _NOTHING))


def _lengths(values: pa.Array) -> pa.Array:
    return pc.binary_length(values).cast(pa.large_string()).cast(_CELLS)


def _data(joined: pa.Array) -> memoryview:
    """The bytes of all values of the array, which are contiguous."""
    size = pc.sum(pc.binary_length(joined)).as_py() or 0
    return memoryview(joined.buffers()[2])[:size] if size else memoryview(b"")
