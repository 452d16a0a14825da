"""The four codecs of record batches, in the framings that Kafka uses. Pure and thread-safe.

gzip is a plain gzip stream, lz4 and zstd are frames, and snappy consists of blocks after the header
of the Java library xerial/snappy-java. Other clients write other variants: `incoming_bodies.py` has
the variants that Produce accepts, `stored_bodies.py` those that are read from logs.
"""

from __future__ import annotations

from typing import Any, Final

import cramjam

from drumlin.records.batch.batch import Buffer
from drumlin.records.compression.lz4_frames import compress_frame
from drumlin.records.compression.snappy_streams import compress_stream
from drumlin.turns import give_way

#: Codec numbers, as in the attributes of a batch, by their names in Kafka's configuration.
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

#: The default levels of Kafka's configuration.
_DEFAULT_LEVELS: Final = {GZIP: 6, LZ4: 9, ZSTD: 3}

#: The size that is compressed in about a millisecond.
_GZIP_STEP_BYTES: Final = 16 * 1024

_LIBRARIES: Final[dict[int, Any]] = {GZIP: cramjam.gzip, ZSTD: cramjam.zstd}


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the records of a batch; `level` is Kafka's `compression.<codec>.level`."""
    if codec == NONE:
        return bytes(data)
    if codec == SNAPPY:
        return compress_stream(data)
    if level is None or level == -1:
        level = _DEFAULT_LEVELS[codec]
    if codec == LZ4:
        # lz4's default level means the fast compressor, any other the "high" one.
        return compress_frame(data, None if level == _DEFAULT_LEVELS[LZ4] else level)
    return bytes(_LIBRARIES[codec].compress(data, level=level))


async def compress_in_steps(codec: int, data: Buffer) -> bytes:
    """Compress like `compress`, but yield from time to time with gzip, which takes long."""
    if codec != GZIP or len(data) <= _GZIP_STEP_BYTES:
        return compress(codec, data)
    stream = cramjam.gzip.Compressor(_DEFAULT_LEVELS[GZIP])
    view = memoryview(data)
    for start in range(0, len(view), _GZIP_STEP_BYTES):
        stream.compress(bytes(view[start : start + _GZIP_STEP_BYTES]))  # memoryviews are refused
        await give_way()
    return bytes(stream.finish())
