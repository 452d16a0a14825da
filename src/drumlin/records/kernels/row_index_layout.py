"""Constants shared by the kernels of the row index and their callers, as in `layout.py`."""

from __future__ import annotations

from typing import Final

# The state of `index_rows`, `reindex_rows` and `share_rows`: the table, the rows to process, and a
# block of hashed keys. Hashing a block of keys before any is looked up gives the prefetch of their
# slots time to complete.
INDEX_SLOTS: Final = 0  # address: upper half of a slot from the hash, lower half entry number + 1
INDEX_SLOT_MASK: Final = 1  # number of slots (a power of two) - 1
INDEX_ENTRIES: Final = 2  # address
INDEX_COUNT: Final = 3
INDEX_COUNT_MAX: Final = 4
INDEX_SEED: Final = 5  # two words
INDEX_ROWS_LEFT: Final = 7  # rows are processed from the last to the first
INDEX_OFFSETS: Final = 8  # address of 64-bit integers
INDEX_PARTITIONS: Final = 9  # address of 32-bit integers; 0: all rows have one partition
INDEX_IDS: Final = 10  # address of 32-bit integers, for output
INDEX_SHARES: Final = 11  # `share_rows`: the number of shares
INDEX_BLOCK: Final = 12
INDEX_BLOCK_ROWS: Final = 64
BLOCK_HASH_0: Final = 0
BLOCK_HASH_1: Final = 1
BLOCK_HAS_KEY: Final = 2
BLOCK_WIDTH: Final = 3
INDEX_STATE_WIDTH: Final = INDEX_BLOCK + INDEX_BLOCK_ROWS * BLOCK_WIDTH

# An entry: the hash of partition and key, and the largest offset so far.
ENTRY_HASH_0: Final = 0
ENTRY_HASH_1: Final = 1
ENTRY_OFFSET: Final = 2
ENTRY_WIDTH: Final = 3

#: The entry number or share of a row without a key, or of one superseded by a later row.
NOWHERE: Final = -1
