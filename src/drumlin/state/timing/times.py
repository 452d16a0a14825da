"""Windows and timers, stored in a state under their name. Pure.

Time is event time: the greatest timestamp of the partition so far, which does not advance while no
records arrive; or, for timers by choice, the time of the machine's clock. Which rows are late does
not depend on the size of batches.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drumlin.client import arguments
from drumlin.state.keyed_state import as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from drumlin.state.keyed_state import KeyedState

_TIME: Final = struct.Struct(">q")
_TIME_MAX_MS: Final = 2**60
_NEVER_MS: Final = -(2**63)


class Window(NamedTuple):
    """A window that is over: start_ms <= timestamp < end_ms."""

    start_ms: int
    end_ms: int
    keys: list[bytes]
    values: list[bytes]


class Windows:
    """Tumbling windows by the records' timestamps.

    A window closes when the partition's time reaches its end plus `grace_ms`; records that arrive
    for it afterwards are late.
    """

    def __init__(self, size_ms: int, *, grace_ms: int = 0, name: str = "windows") -> None:
        """
        Args:
            size_ms: the length of a window; windows start at multiples of it since 1970.
            grace_ms: how long a window waits for records after its end.
            name: the prefix of the windows' keys in the state, which no other keys may have.

        Raises:
            TypeError, ValueError: an argument is invalid.
        """
        self._size_ms = arguments.whole_number("size_ms", size_ms, 1, 2**53)
        self._grace_ms = arguments.whole_number("grace_ms", grace_ms, 0, 2**53)
        arguments.text("name", name)
        self._clock = _Clock(name.encode())

    def add(self, state: KeyedState, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Advance the time, and find the window of each row.

        Args:
            state: the state of the rows' partition.
            rows: a batch with the columns `key` (binary or strings, not null) and `timestamp`.

        Returns:
            The rows that are not late, with another column, `window_key`: the key in the state for
            the value of this window and key, until the window closes.

        Raises:
            TypeError: a key is null, or of another type.
        """
        clock = self._clock
        now_ms, open_ones = clock.read(state)
        times = _times_of(rows)
        # The time before each row: earlier rows of the same batch may make a row late.
        seen = np.maximum.accumulate(np.concatenate(([now_ms], times)))
        starts = times - times % self._size_ms
        is_kept = starts + self._size_ms + self._grace_ms > seen[:-1]
        kept = rows.filter(pa.array(is_kept))
        keys = as_bytes("key", kept.column("key"))
        if None in keys:
            raise TypeError(f"key: {keys.count(None)} of {len(keys)} are null")
        spans = starts[is_kept].tolist()
        prefixes = {each: clock.prefix(each) for each in set(spans)}
        names = [prefixes[span] + (key or b"") for span, key in zip(spans, keys, strict=True)]
        if rows.num_rows:
            clock.write(state, int(seen[-1]), open_ones | prefixes.keys())
        return kept.append_column("window_key", pa.array(names, pa.binary()))

    def advance(self, state: KeyedState, to_ms: int) -> None:
        """Advance the time, as a record with this timestamp would; it never goes back."""
        arguments.whole_number("to_ms", to_ms, -(2**53), 2**53)
        now_ms, open_ones = self._clock.read(state)
        if to_ms > now_ms:
            self._clock.write(state, to_ms, open_ones)

    def closed(self, state: KeyedState) -> list[Window]:
        """Delete the windows that are over from the state, and return them, oldest first."""
        now_ms, open_ones = self._clock.read(state)
        over = [each for each in open_ones if each + self._size_ms + self._grace_ms <= now_ms]
        windows = []
        for start_ms in sorted(over):
            rows = self._clock.take(state, start_ms)
            end_ms = start_ms + self._size_ms
            keys, values = ([each[at] for each in rows] for at in (0, 1))
            windows.append(Window(start_ms, end_ms, keys, values))
        if over:
            self._clock.write(state, now_ms, open_ones - {*over})
        return windows


class Timers:
    """At most one timer per key, by the records' timestamps or by the clock."""

    def __init__(
        self,
        *,
        resolution_ms: int = 1_000,
        name: str = "timers",
        clock: Callable[[], int] | None = None,
    ) -> None:
        """
        Args:
            resolution_ms: timers in an interval of this length are due together, at its end.
            name: the prefix of the timers' keys in the state, which no other keys may have.
            clock: returns the time in milliseconds since 1970, as `wall_clock` does; None: the
                records' timestamps are the time.

        Raises:
            TypeError, ValueError: an argument is invalid.
        """
        self._size_ms = arguments.whole_number("resolution_ms", resolution_ms, 1, 2**53)
        arguments.text("name", name)
        self._clock = _Clock(name.encode())
        self._times = name.encode() + b"\x00key\x00"
        self._wall_ms = clock

    def set(self, state: KeyedState, key: bytes, at_ms: int) -> None:
        """Set the timer of a key, replacing any previous one."""
        arguments.whole_number("at_ms", at_ms, -(2**53), 2**53)
        self.cancel(state, key)
        start_ms = at_ms - at_ms % self._size_ms
        state[self._times + key] = state[self._clock.prefix(start_ms) + key] = _TIME.pack(at_ms)
        now_ms, open_ones = self._clock.read(state)
        if start_ms not in open_ones:
            self._clock.write(state, now_ms, open_ones | {start_ms})

    def cancel(self, state: KeyedState, key: bytes) -> bool:
        """Delete the timer of a key; returns whether it had one."""
        told = state.pop(self._times + key, None)
        if told is None:
            return False
        (at_ms,) = _TIME.unpack(told)
        state.delete(self._clock.prefix(at_ms - at_ms % self._size_ms) + key)
        return True

    def due(self, state: KeyedState, rows: pa.RecordBatch) -> list[tuple[bytes, int]]:
        """Advance the time, delete the timers that are due, and return their keys and times.

        Args:
            state: the state of the rows' partition.
            rows: a batch whose column `timestamp` advances the time, if there is no clock.

        Returns:
            Keys and times in milliseconds, ordered by time.
        """
        was_ms, open_ones = self._clock.read(state)
        if self._wall_ms is None:
            now_ms = max([was_ms, *_times_of(rows).tolist()])
        else:
            now_ms = self._wall_ms()
        over = {each for each in open_ones if each + self._size_ms <= now_ms}
        if not over and (self._wall_ms is not None or now_ms == was_ms):
            return []
        found: list[tuple[int, bytes]] = []
        for start_ms in over:
            here = self._clock.take(state, start_ms)
            found += [(_TIME.unpack(at)[0], key) for key, at in here]
        for _, key in found:
            state.delete(self._times + key)
        self._clock.write(state, was_ms if self._wall_ms else now_ms, open_ones - over)
        return [(key, at) for at, key in sorted(found)]


class _Clock:
    """The data stored under a name: the time, and the start of each span that has keys."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._own_key = name + b"\x00time"

    def prefix(self, start_ms: int) -> bytes:
        """The prefix of all keys of a span."""
        return self._name + b"\x00at\x00" + _TIME.pack(start_ms)

    def read(self, state: KeyedState) -> tuple[int, frozenset[int]]:
        told = state.get(self._own_key)
        if told is None:
            return _NEVER_MS, frozenset()
        now_ms, *starts = (each for (each,) in _TIME.iter_unpack(told))
        return now_ms, frozenset(starts)

    def write(self, state: KeyedState, now_ms: int, starts: Iterable[int]) -> None:
        state[self._own_key] = b"".join(map(_TIME.pack, [now_ms, *sorted(starts)]))

    def take(self, state: KeyedState, start_ms: int) -> list[tuple[bytes, bytes]]:
        """Delete the keys of a span; returns them, without the prefix, with their values."""
        prefix = self.prefix(start_ms)
        rows = state.scan(prefix)
        state.update_many([key for key, _ in rows], [None] * len(rows))
        return [(key.removeprefix(prefix), value) for key, value in rows]


def _times_of(rows: pa.RecordBatch) -> Any:
    """The timestamps in milliseconds, clipped to avoid overflows."""
    times = rows.column("timestamp").cast(pa.timestamp("ms")).cast(pa.int64())
    numbers = pc.fill_null(times, -1).to_numpy(zero_copy_only=False)
    return np.clip(numbers, -_TIME_MAX_MS, _TIME_MAX_MS)
