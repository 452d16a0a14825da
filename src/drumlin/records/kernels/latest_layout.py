"""Constants shared by the kernels of loading and their callers, as in `layout.py`."""

from __future__ import annotations

from typing import Final

from drumlin.records.kernels.compaction_layout import HEAD_WIDTH

# The state of `keep_latest` and `keep_latest_of`, after the header of the current batch.
LATEST_POSITION: Final = HEAD_WIDTH
LATEST_SLOTS: Final = HEAD_WIDTH + 1  # address of the hash table: entry number + 1, or 0
LATEST_SLOT_MASK: Final = HEAD_WIDTH + 2  # number of slots (a power of two) - 1
LATEST_ENTRIES: Final = HEAD_WIDTH + 3  # address of the entries
LATEST_COUNT: Final = HEAD_WIDTH + 4
LATEST_COUNT_MAX: Final = HEAD_WIDTH + 5
LATEST_ARENA: Final = HEAD_WIDTH + 6  # address of the bytes of keys and values
LATEST_ARENA_USED: Final = HEAD_WIDTH + 7
LATEST_ARENA_SIZE: Final = HEAD_WIDTH + 8
LATEST_ORDER: Final = HEAD_WIDTH + 9  # the number of the next record in the partition
LATEST_SEED_0: Final = HEAD_WIDTH + 10
LATEST_SEED_1: Final = HEAD_WIDTH + 11
LATEST_WIDTH: Final = HEAD_WIDTH + 12

# An entry: where its key and value are in the arena, and the order numbers of its records.
ENTRY_KEY: Final = 0
ENTRY_KEY_SIZE: Final = 1
ENTRY_VALUE: Final = 2
ENTRY_VALUE_SIZE: Final = 3  # -1: a tombstone
ENTRY_ROOM: Final = 4  # capacity reserved for the value
ENTRY_ORDER: Final = 5
ENTRY_TOMBSTONE_ORDER: Final = 6  # order of the last tombstone; -1: none
ENTRY_HASH: Final = 7
ENTRY_WIDTH: Final = 8

# The state of `walk`.
WALK_POSITION: Final = 0
WALK_OFFSET: Final = 1  # end offset of the last batch; the next batch must end after it
WALK_WIDTH: Final = 2
