"""The kernels of `records/latest/row_index.py`: the last offset of every key, and shares of keys.

A key is identified by the 128-bit keyed hash of its partition and its bytes. The seed of each
partition is a hash of its number, which spreads equal keys of many partitions over the table.
"""

from __future__ import annotations

from drumlin.records.kernels import row_index_layout as at
from drumlin.records.kernels.code.binary_columns import value_length
from drumlin.records.kernels.code.dialect import Pointer, bytes_at, helper, int32s_at, int64s_at
from drumlin.records.kernels.code.siphash import keyed_hash
from drumlin.records.kernels.code.words import high_product, prefetch
from drumlin.records.kernels.layout import BYTES, ENDS, KEYS

_WORD = 8
_INT32 = 4
_ENTRY_BYTES = at.ENTRY_WIDTH * _WORD
_LOW = 0xFFFFFFFF


def index_rows(columns: Pointer, state: Pointer) -> int:
    """Find or create the entries of rows, and write the entries' numbers.

    A row that is not the last of its key so far gets NOWHERE. The kernel stops if the table may
    have no room for the next keys; the caller must then enlarge the table and call again.

    Returns:
        The number of rows left.
    """
    left: int = state[at.INDEX_ROWS_LEFT]
    while left > 0:
        first = max(0, left - at.INDEX_BLOCK_ROWS)
        if state[at.INDEX_COUNT] + left - first > state[at.INDEX_COUNT_MAX]:
            break
        _hash_block(columns, first, left, state)
        _expect_block(left - first, state)
        _find_block(first, left, state)
        left = first
    state[at.INDEX_ROWS_LEFT] = left
    return left


def reindex_rows(state: Pointer) -> int:
    """Insert all entries into the empty slots."""
    slots, entries = int64s_at(state[at.INDEX_SLOTS]), int64s_at(state[at.INDEX_ENTRIES])
    mask = state[at.INDEX_SLOT_MASK]
    for number in range(state[at.INDEX_COUNT]):
        first = entries[number * at.ENTRY_WIDTH + at.ENTRY_HASH_0]
        slot = first & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = (first & ~_LOW) | (number + 1)
    return 0


def mark_last(state: Pointer, count: int, marks: Pointer) -> int:
    """Write 1 for each row that is still the last of its key, 0 for all other rows."""
    offsets, ids = int64s_at(state[at.INDEX_OFFSETS]), int32s_at(state[at.INDEX_IDS])
    entries = int64s_at(state[at.INDEX_ENTRIES])
    for row in range(count):
        number = max(0, ids[row])  # for NOWHERE, any entry: the first one exists if there is a row
        is_last = entries[number * at.ENTRY_WIDTH + at.ENTRY_OFFSET] == offsets[row]
        marks[row] = is_last & (ids[row] >= 0)
    return count


def share_rows(columns: Pointer, state: Pointer) -> int:
    """Write the share of each row's key; NOWHERE for rows without a key."""
    shares = int32s_at(state[at.INDEX_IDS])
    left: int = state[at.INDEX_ROWS_LEFT]
    while left > 0:
        first = max(0, left - at.INDEX_BLOCK_ROWS)
        _hash_block(columns, first, left, state)
        place = at.INDEX_BLOCK
        for row in range(first, left):
            share = at.NOWHERE
            if state[place + at.BLOCK_HAS_KEY]:
                share = high_product(state[place + at.BLOCK_HASH_0], state[at.INDEX_SHARES])
            shares[row] = share
            place += at.BLOCK_WIDTH
        left = first
    state[at.INDEX_ROWS_LEFT] = left
    return left


@helper
def _hash_block(columns: Pointer, first: int, end: int, state: Pointer) -> None:
    """Hash the keys of `rows[first:end]` into the block, and prefetch their slots."""
    data, ends = bytes_at(columns[KEYS + BYTES]), int32s_at(columns[KEYS + ENDS])
    data_end = ends[end]
    slots, mask = bytes_at(state[at.INDEX_SLOTS]), state[at.INDEX_SLOT_MASK]
    partitions = int32s_at(state[at.INDEX_PARTITIONS])
    has_partitions = state[at.INDEX_PARTITIONS] != 0
    seed_0, seed_1 = state[at.INDEX_SEED], state[at.INDEX_SEED + 1]
    if has_partitions:
        seed_0, seed_1 = _seed_of(first, state)
    place = at.INDEX_BLOCK
    for row in range(first, end):
        if has_partitions and row > first and partitions[row] != partitions[row - 1]:
            seed_0, seed_1 = _seed_of(row, state)
        size = value_length(columns, KEYS, row)
        state[place + at.BLOCK_HAS_KEY] = size >= 0
        if size >= 0:
            one, other = keyed_hash(data, ends[row], size, data_end, seed_0, seed_1)
            state[place + at.BLOCK_HASH_0], state[place + at.BLOCK_HASH_1] = one, other
            prefetch(slots, (one & mask) * _WORD)
        place += at.BLOCK_WIDTH


@helper
def _seed_of(row: int, state: Pointer) -> tuple[int, int]:
    """The seed of a row's partition."""
    place = row * _INT32
    return keyed_hash(
        bytes_at(state[at.INDEX_PARTITIONS]),
        place,
        _INT32,
        place + _INT32,
        state[at.INDEX_SEED],
        state[at.INDEX_SEED + 1],
    )


@helper
def _expect_block(count: int, state: Pointer) -> None:
    """Prefetch the entries of the block's slots."""
    slots, mask = int64s_at(state[at.INDEX_SLOTS]), state[at.INDEX_SLOT_MASK]
    entries = bytes_at(state[at.INDEX_ENTRIES])
    place = at.INDEX_BLOCK
    for _ in range(count):
        if state[place + at.BLOCK_HAS_KEY]:
            number = slots[state[place + at.BLOCK_HASH_0] & mask] & _LOW
            prefetch(entries, (number - 1) * _ENTRY_BYTES)
        place += at.BLOCK_WIDTH


@helper
def _find_block(first: int, end: int, state: Pointer) -> None:
    """Find the entries of `rows[first:end]`, from the last row to the first.

    If rows are in the order of their offsets, the last row of a key comes first; the earlier ones
    then get NOWHERE.
    """
    offsets, ids = int64s_at(state[at.INDEX_OFFSETS]), int32s_at(state[at.INDEX_IDS])
    entries = int64s_at(state[at.INDEX_ENTRIES])
    for row in range(end - 1, first - 1, -1):
        place = at.INDEX_BLOCK + (row - first) * at.BLOCK_WIDTH
        ids[row] = at.NOWHERE
        if state[place + at.BLOCK_HAS_KEY]:
            count = state[at.INDEX_COUNT]
            number = _find(state[place + at.BLOCK_HASH_0], state[place + at.BLOCK_HASH_1], state)
            entry = number * at.ENTRY_WIDTH
            if number == count or offsets[row] > entries[entry + at.ENTRY_OFFSET]:
                entries[entry + at.ENTRY_OFFSET] = offsets[row]
                ids[row] = number


@helper
def _find(one: int, other: int, state: Pointer) -> int:
    """The number of the entry with this hash; adds an entry at the end if there is none."""
    slots, entries = int64s_at(state[at.INDEX_SLOTS]), int64s_at(state[at.INDEX_ENTRIES])
    mask = state[at.INDEX_SLOT_MASK]
    slot = one & mask
    while slots[slot] != 0:
        if (slots[slot] ^ one) & ~_LOW == 0:
            number = (slots[slot] & _LOW) - 1
            entry = number * at.ENTRY_WIDTH
            if (
                entries[entry + at.ENTRY_HASH_0] == one
                and entries[entry + at.ENTRY_HASH_1] == other
            ):
                return int(number)
        slot = (slot + 1) & mask
    number = state[at.INDEX_COUNT]
    state[at.INDEX_COUNT] = number + 1
    slots[slot] = (one & ~_LOW) | (number + 1)
    entry = number * at.ENTRY_WIDTH
    entries[entry + at.ENTRY_HASH_0], entries[entry + at.ENTRY_HASH_1] = one, other
    return int(number)
