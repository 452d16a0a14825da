"""The compressed bodies that Produce accepts: those that every common client can read.

A batch that a client cannot read stops the client at that offset forever, although the producer got
no error. So Produce accepts what Kafka's Java clients, librdkafka, sarama, franz-go and kafka-go
can all read: one stream with nothing after it, with correct sizes and checksums (for zstd several
frames, including skippable ones). Apache Kafka accepts more.

A follower must not use this module: it accepts whatever its leader has. Pure and thread-safe.
"""

from __future__ import annotations

from typing import Final

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.arena import Decoder, arena_of_thread
from drumlin.records.compression.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from drumlin.records.compression.gzip_members import decode_member
from drumlin.records.compression.lz4_frames import decode_frame
from drumlin.records.compression.snappy_streams import decode_stream
from drumlin.records.compression.zstd_frames import decode_frames

#: The decoders by codec. Whatever they accept, `stored_bodies.py` decodes to the same result.
STRICT: Final[dict[int, Decoder]] = {
    GZIP: decode_member,
    SNAPPY: decode_stream,
    LZ4: decode_frame,
    ZSTD: decode_frames,
}


def decompress_incoming(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """Decompress produced records; the result is valid until this thread's next call.

    Raises:
        CorruptRecord: some client could not read the records, or there is no such codec.
        DecompressedTooLarge: the records have more than `limit_bytes`.
    """
    if codec == NONE:
        return data
    decoder = STRICT.get(codec)
    if decoder is None:
        raise CorruptRecord(f"unknown compression codec {codec}")
    return arena_of_thread().decode(decoder, data, limit_bytes)
