"""What may come in: compressed bodies that every common client can read.

One batch that a client cannot read stops it at that offset for ever, though whoever wrote it was
told that all is well. So Produce takes what all of Kafka's Java clients, librdkafka, sarama,
franz-go and kafka-go read, and that is one stream with nothing after it, of which each size and
checksum is right (zstd: frames, the users' own among them). Apache Kafka takes more.

A follower never asks here: it takes what its leader has. Pure and thread-safe.
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

#: By codec. What one of these decodes, the decoder of `stored_bodies.py` decodes to the same.
STRICT: Final[dict[int, Decoder]] = {
    GZIP: decode_member,
    SNAPPY: decode_stream,
    LZ4: decode_frame,
    ZSTD: decode_frames,
}


def decompress_incoming(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """The records in `data`, valid until this thread decompresses others.

    Raises:
        CorruptRecord: not every client could read them, or no such codec.
        DecompressedTooLarge: they are more than `limit_bytes`.
    """
    if codec == NONE:
        return data
    decoder = STRICT.get(codec)
    if decoder is None:
        raise CorruptRecord(f"unknown compression codec {codec}")
    return arena_of_thread().decode(decoder, data, limit_bytes)
