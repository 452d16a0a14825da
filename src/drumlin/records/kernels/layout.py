"""Constants shared by kernels and their callers: positions in tables, and signatures.

Plain Python: the broker, the client and the toolchain import this.
"""

from __future__ import annotations

from typing import Final

# One row of the table of bodies that `decode` reads: where a batch's records are, and the fields of
# its header that are needed to decode them.
BODY_START: Final = 0
BODY_END: Final = 1
BODY_COUNT: Final = 2
BODY_BASE_OFFSET: Final = 3
BODY_BASE_TIMESTAMP: Final = 4
BODY_IS_LOG_APPEND_TIME: Final = 5
BODY_MAX_TIMESTAMP: Final = 6
BODY_ATTRIBUTES: Final = 7
BODY_LAST_OFFSET: Final = 8
BODY_WIDTH: Final = 9
#: As a start: the end of the previous body's records. As an end: wherever the records end.
OPEN: Final = -1

# The state of `find_bodies`: its position, the rows written to the table, the wanted offsets.
FIND_POSITION: Final = 0
FIND_COUNT: Final = 1
FIND_COUNT_MAX: Final = 2
FIND_FIRST_OFFSET: Final = 3
FIND_END_OFFSET: Final = 4  # exclusive
FIND_IN_TRANSACTIONS: Final = 5  # 1: also markers, and earlier batches of transactions
FIND_CHECKS_CRC: Final = 6
FIND_STATE_WIDTH: Final = 7

# What `find_bodies` and `decode` return; a negative number means malformed data.
DONE: Final = 0
IS_FULL: Final = 1  # no room in the table or columns for the next batch or record
IS_CUT: Final = 2  # `decode`: the body ends within a record

# The table of columns: addresses of Arrow buffers. A binary column is three of them: 32-bit
# offsets, bytes, and the validity bitmap (for `decode`: all zeros; for `encode`: address 0 if the
# column has no nulls). For `decode`, columns that are not wanted have address 0.
OFFSETS: Final = 0
TIMESTAMPS: Final = 1
TIMESTAMP_TYPES: Final = 2
KEYS: Final = 3
VALUES: Final = 6
HEADER_LISTS: Final = 9
HEADER_KEYS: Final = 10
HEADER_VALUES: Final = 13
COLUMN_COUNT: Final = 16

# A binary column's buffers, relative to its position in the table of columns.
ENDS: Final = 0
BYTES: Final = 1
VALIDITY: Final = 2

# The state of `decode`: how much of each column is written, the wanted offsets, how much room the
# columns have, and where to continue. Room for bytes is counted in the bytes of whole records.
ROWS: Final = 0
KEY_BYTES: Final = 1
VALUE_BYTES: Final = 2
HEADER_ROWS: Final = 3
HEADER_KEY_BYTES: Final = 4
HEADER_VALUE_BYTES: Final = 5
FIRST_OFFSET: Final = 6
END_OFFSET: Final = 7  # exclusive
RECORD_BYTES: Final = 8  # total size of the records in the columns
ROWS_MAX: Final = 9
RECORD_BYTES_MAX: Final = 10
HEADER_ROWS_MAX: Final = 11
AT_BODY: Final = 12
AT_RECORD: Final = 13
AT_POSITION: Final = 14  # valid only in the middle of a body
NEXT_RECORD_BYTES: Final = 15  # size of the record that did not fit
NEXT_HEADER_ROWS: Final = 16
DECODE_STATE_WIDTH: Final = 17

# The state of `write_lines`: how much of the target is filled, the wanted offsets and lines, and
# where to continue.
LINES_COUNT: Final = 0
LINES_BYTES: Final = 1
LINES_LAST_OFFSET: Final = 2  # of the last record that became a line
LINES_FIRST_OFFSET: Final = 3
LINES_END_OFFSET: Final = 4  # exclusive
LINES_COUNT_MAX: Final = 5
LINES_ROOM: Final = 6
LINES_AT_BODY: Final = 7
LINES_AT_RECORD: Final = 8
LINES_AT_POSITION: Final = 9  # valid only in the middle of a body
LINES_NEEDED: Final = 10  # room for the line that did not fit
LINES_STATE_WIDTH: Final = 11

# A line for `write_lines`: its number of parts, how many of them are keys and values, the largest
# size of the others. Then for each part its kind, and where its text begins and ends; that of a key
# or value stands for a null.
LINE_PARTS: Final = 0
LINE_KEYS: Final = 1
LINE_VALUES: Final = 2
LINE_BYTES_MAX: Final = 3
LINE_WIDTH: Final = 4
LINE_PART_WIDTH: Final = 3
LINE_TEXT: Final = 0
LINE_KEY: Final = 1
LINE_VALUE: Final = 2
LINE_OFFSET: Final = 3
LINE_TIMESTAMP: Final = 4
#: The longest number: a sign and 19 digits.
LINE_NUMBER_BYTES_MAX: Final = 20

#: Bytes that `decode` and `write_lines` may write after what they have written.
PADDING: Final = 32

# What `encode` reports about the batch that it wrote.
ENCODED_BYTES: Final = 0
ENCODED_MAX_TIMESTAMP: Final = 1
ENCODE_RESULT_WIDTH: Final = 2

# A row of the table of open batches to which `fill` adds records: the address of a batch's memory,
# and how much of it is filled. A batch without memory has room 0.
OPEN_TARGET: Final = 0
OPEN_ROOM: Final = 1
OPEN_BYTES: Final = 2
OPEN_COUNT: Final = 3
OPEN_BASE_TIMESTAMP: Final = 4
OPEN_MAX_TIMESTAMP: Final = 5
OPEN_WANTED: Final = 6  # bytes needed by the record that did not fit
OPEN_WIDTH: Final = 8

# In the table of columns of `checksum`, the column of offsets holds the chosen partitions.
PARTITIONS: Final = OFFSETS
#: A row without a timestamp (and, for its partition, any negative number: none was chosen).
NO_TIMESTAMP: Final = -(2**63)

# The state of `checksum`: two words of seed, and two words of sum so far.
CHECKSUM_SEED: Final = 0
CHECKSUM_SUM: Final = 2
CHECKSUM_STATE_WIDTH: Final = 4
#: Constants of the hash of a row: 64-bit words of the digits of pi, the first below 2^63.
ROW_HASH_WORDS: Final = (
    0x243F6A8885A308D3,
    0x13198A2E03707344,
    0x082EFA98EC4E6C89,
    0x452821E638D01377,
)

# The limits passed to `inspect`, followed by room for the results of `survey`.
MAX_BYTES: Final = 0
BEFORE_MAX_MS: Final = 1
AFTER_MAX_MS: Final = 2
KEYS_REQUIRED: Final = 3
FACTS: Final = 4
LIMITS_WIDTH: Final = 8

# The state of `scan`: its position, its limits, and what it has found so far.
SCAN_POSITION: Final = 0
SCAN_OFFSET: Final = 1  # the lowest valid base offset of the next batch
SCAN_END_OFFSET: Final = 2
SCAN_LEADER_EPOCH: Final = 3
SCAN_LARGEST_TIMESTAMP: Final = 4
SCAN_LARGEST_OFFSET: Final = 5
SCAN_UNINDEXED: Final = 6  # bytes since the last index entry
SCAN_INTERVAL: Final = 7
SCAN_ENTRY_COUNT: Final = 8
SCAN_PRODUCER_COUNT: Final = 9
SCAN_STATE_WIDTH: Final = 10

#: An index entry of `scan`: last offset, position, largest timestamp so far and its offset.
SCAN_ENTRY_WIDTH: Final = 4
SCAN_ENTRIES_MAX: Final = 1024
#: A producer of `scan`: its id, its number of batches, and a ring of their latest positions.
SCAN_BATCHES_REMEMBERED: Final = 5
SCAN_PRODUCER_WIDTH: Final = 2 + SCAN_BATCHES_REMEMBERED
SCAN_PRODUCERS_MAX: Final = 64
#: The CRC of larger batches is left to a library, which is faster.
SCAN_SIZE_MAX: Final = 16 * 1024

#: The table for combining the CRC32Cs of adjacent stretches.
CRC_TABLE_WIDTH: Final = 256
CRC_STRETCH_SIZE: Final = 256

# Signatures: p: address of bytes; l: address of 64-bit integers; i: 64-bit integer.
SIGNATURES: Final = {
    "survey": "piiil",
    "inspect": "iiii",
    "find_bodies": "pilll",
    "decode": "pilill",
    "write_lines": "pililppl",
    "encode": "lliipil",
    "fill": "lliil",
    "checksum": "llil",
    "murmur2": "lii",
    "scan": "pillll",
    "index_rows": "ll",
    "reindex_rows": "l",
    "share_rows": "ll",
    "mark_last": "lip",
}
#: The kernels of compaction, and of loading compacted logs.
COMPACTION_SIGNATURES: Final = {
    "mark_survivors": "liip",
    "map_batches": "pilll",
    "map_records": "pill",
    "filter_batches": "pipillll",
    "filter_records": "pipill",
    "keep_latest": "pil",
    "keep_latest_of": "pil",
    "index_latest": "l",
    "walk": "pil",
    "lay_out": "pipipll",
}
#: The kernels of typed values.
VALUES_SIGNATURES: Final = {"decode_avro": "pplllll", "decode_protobuf": "plllllll"}
