"""Compressed bodies as they are in logs, whichever broker has stored them.

Apache Kafka stores everything that its own decoders can read. So this module must read that, too:
several streams in a row, bytes after the last one, and wrong sizes and checksums that Kafka's
decoders ignore. Pure and thread-safe.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import cramjam

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.arena import Decoder, arena_of_thread, decode, decode_by
from drumlin.records.compression.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from drumlin.records.compression.gzip_members import decode_members
from drumlin.records.compression.incoming_bodies import STRICT
from drumlin.records.compression.lz4_frames import decode_first_frame
from drumlin.records.compression.snappy_streams import decode_streams
from drumlin.records.compression.zstd_frames import decode_whole_frames

_KAFKAS: Final[dict[int, Decoder]] = {
    GZIP: decode_members,
    SNAPPY: decode_streams,
    LZ4: decode_first_frame,
    ZSTD: decode_whole_frames,
}
#: Decoders for concatenated bodies. A body that is not whole streams would damage its neighbour.
JOINED: Final[dict[int, Decoder]] = {
    GZIP: partial(decode_by, cramjam.gzip),
    LZ4: partial(decode_by, cramjam.lz4),
    ZSTD: partial(decode_by, cramjam.zstd),
}


def _as_kafka(strict: Decoder, kafkas: Decoder, data: memoryview, target: memoryview) -> int | None:
    try:
        return strict(data, target)  # ordinary bodies, at the codecs' full speed
    except CorruptRecord:
        return kafkas(data, target)


_READING: Final[dict[int, Decoder]] = {
    codec: partial(_as_kafka, STRICT[codec], kafkas) for codec, kafkas in _KAFKAS.items()
}


def decompress(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """Decompress records into memory of their own; uncompressed `data` is returned itself.

    Raises:
        CorruptRecord: the data is not of this codec, or the codec does not exist.
        DecompressedTooLarge: the data decompresses to more than `limit_bytes`.
    """
    return data if codec == NONE else decode(decoder_of(codec), data, limit_bytes)


def decompress_for_now(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """Decompress like `decompress`; the result is valid until this thread's next call."""
    if codec == NONE:
        return data
    return arena_of_thread().decode(decoder_of(codec), data, limit_bytes)


def decoder_of(codec: int) -> Decoder:
    """The decoder of a codec.

    Raises:
        CorruptRecord: there is no such codec.
    """
    decoder = _READING.get(codec)
    if decoder is None:
        raise CorruptRecord(f"unknown compression codec {codec}")
    return decoder
