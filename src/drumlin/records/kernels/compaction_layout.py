"""Constants shared by the kernels of compaction and their callers, as in `layout.py`."""

from __future__ import annotations

from typing import Final

# The offset map's fields, as passed to kernels.
OFFSET_MAP_ADDRESS: Final = 0
OFFSET_MAP_SLOTS: Final = 1
OFFSET_MAP_CAPACITY: Final = 2
OFFSET_MAP_COUNT: Final = 3
OFFSET_MAP_BASE_OFFSET: Final = 4
OFFSET_MAP_LATEST_OFFSET: Final = 5
OFFSET_MAP_SEED_0: Final = 6
OFFSET_MAP_SEED_1: Final = 7
OFFSET_MAP_WIDTH: Final = 8
OFFSET_MAP_SLOT_SIZE: Final = 14
OFFSET_MAP_RELATIVE_MAX: Final = 2**32 - 2

# Why a pass of compaction stopped; FAULT_MAGIC and higher say what is wrong with a batch.
STOP_ORDINARY: Final = -1  # not stopped
STOP_END: Final = 0
STOP_SPECIAL: Final = 1
STOP_DONE: Final = 2
STOP_FULL: Final = 3
FAULT_MAGIC: Final = 4
FAULT_SIZE: Final = 5
FAULT_HEADER: Final = 6
FAULT_CRC: Final = 7
FAULT_RECORDS: Final = 8
FAULT_OFFSETS: Final = 9
FAULT_ORDER: Final = 10

# The fields of a batch header that compaction needs; they begin the state of both passes.
HEAD_SIZE: Final = 0
HEAD_BASE_OFFSET: Final = 1
HEAD_LAST_DELTA: Final = 2
HEAD_ATTRIBUTES: Final = 3
HEAD_BASE_TIMESTAMP: Final = 4
HEAD_MAX_TIMESTAMP: Final = 5
HEAD_COUNT: Final = 6
HEAD_WIDTH: Final = 7
#: The highest valid base offset of a batch; a limit that keeps offsets from overflowing.
OFFSET_MAX: Final = 2**63 - 1 - 2**32

# The state of `map_batches` and `map_records`, after the header. Keys are hashed a block at a time
# before they are put into the map, which gives the prefetch of their slots time to complete.
MAP_POSITION: Final = 7
MAP_FIRST_OFFSET: Final = 8
MAP_END_OFFSET: Final = 9
MAP_BATCHES: Final = 10
MAP_BYTES: Final = 11
MAP_RECORDS: Final = 12
MAP_KEYLESS: Final = 13
MAP_WAITING: Final = 14
MAP_BLOCK: Final = 15
MAP_BLOCK_ROWS: Final = 64
MAP_ROW_HOME: Final = 0
MAP_ROW_HASH_0: Final = 1
MAP_ROW_HASH_1: Final = 2
MAP_ROW_OFFSET: Final = 3
MAP_ROW_POSITION: Final = 4
MAP_ROW_WIDTH: Final = 5
MAP_STATE_WIDTH: Final = MAP_BLOCK + MAP_BLOCK_ROWS * MAP_ROW_WIDTH

# The state of `filter_batches` and `filter_records`, after the header: the settings; the output and
# its index; counts of the last batch; total counts; a block of records to be kept or removed.
FILTER_POSITION: Final = 7
FILTER_NOW_MS: Final = 8
FILTER_NEW_HORIZON_MS: Final = 9
FILTER_BITMAP: Final = 10
FILTER_BITMAP_START: Final = 11
FILTER_BITMAP_END: Final = 12
FILTER_KEPT_EMPTY: Final = 13
FILTER_KEPT_EMPTY_COUNT: Final = 14
FILTER_OUTPUT_SIZE: Final = 15
FILTER_FILE_POSITION: Final = 16
FILTER_UNINDEXED: Final = 17
FILTER_INTERVAL: Final = 18
FILTER_LARGEST_TIMESTAMP: Final = 19
FILTER_LARGEST_OFFSET: Final = 20
FILTER_ENTRY_COUNT: Final = 21
FILTER_ROOM_NEEDED: Final = 22
FILTER_HORIZON_IS_DUE: Final = 23
FILTER_BATCH: Final = 24  # the counts of one batch; the totals come later, in the same order
BATCH_RECORDS_READ: Final = 0
BATCH_RECORDS_WRITTEN: Final = 1
BATCH_SUPERSEDED: Final = 2
BATCH_TOMBSTONES_DROPPED: Final = 3
BATCH_KEYLESS: Final = 4
BATCH_TOMBSTONES_KEPT: Final = 5
BATCH_FACTS_WIDTH: Final = 6
BATCH_MAX_TIMESTAMP: Final = 6
BATCH_MIN_TIMESTAMP: Final = 7
BATCH_HORIZON_WANTED: Final = 8  # tombstones kept that need a new delete horizon
BATCH_WIDTH: Final = 9
FILTER_FACTS: Final = FILTER_BATCH + BATCH_WIDTH
FILTER_BATCHES_READ: Final = FILTER_FACTS + BATCH_FACTS_WIDTH
FILTER_BYTES_READ: Final = FILTER_BATCHES_READ + 1
FILTER_BATCHES_WRITTEN: Final = FILTER_BATCHES_READ + 2
FILTER_BYTES_WRITTEN: Final = FILTER_BATCHES_READ + 3
FILTER_BLOCK: Final = FILTER_BATCHES_READ + 4
FILTER_BLOCK_ROWS: Final = 64
FILTER_ROW_START: Final = 0
FILTER_ROW_REST: Final = 1  # position after the timestamp delta
FILTER_ROW_END: Final = 2
FILTER_ROW_TIMESTAMP: Final = 3
FILTER_ROW_OFFSET: Final = 4
FILTER_ROW_KIND: Final = 5
FILTER_ROW_HAS_VALUE: Final = 6
FILTER_ROW_HOME: Final = 7
FILTER_ROW_HASH_0: Final = 8
FILTER_ROW_HASH_1: Final = 9
FILTER_ROW_WIDTH: Final = 10
#: Valid offsets of the next batch: the end offset of the last one read, and of the segment.
FILTER_NEXT_OFFSET: Final = FILTER_BLOCK + FILTER_BLOCK_ROWS * FILTER_ROW_WIDTH
FILTER_END_OFFSET: Final = FILTER_NEXT_OFFSET + 1
#: The earliest future delete horizon of a batch that keeps tombstones; 2^63 - 1 for none.
FILTER_EARLIEST_HORIZON: Final = FILTER_END_OFFSET + 1
FILTER_STATE_WIDTH: Final = FILTER_EARLIEST_HORIZON + 1

#: The maximum growth of a record, in bytes, when its timestamp delta is rewritten. A record has at
#: least seven bytes, so a body grows to less than three times its size.
REBASED_RECORD_GROWTH_MAX: Final = 10
REBASED_BODY_GROWTH_MAX: Final = 3
#: The largest body that gets a delete horizon: a larger one might outgrow its size field.
REBASED_BODY_MAX: Final = (2**31 - 2**16) // REBASED_BODY_GROWTH_MAX
