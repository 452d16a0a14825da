"""Reads `.log` files: record batches and the records in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from drumlin.cli.dump.findings import Item, Problem, base_offset_of, mapped
from drumlin.records.batch.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Buffer,
    crc_matches,
    iterate_headers,
    parse_header,
)
from drumlin.records.compression.compression import CODEC_NAMES
from drumlin.records.plain.record import CorruptRecord, Record, decode_batch

_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type
_CONTROL_TYPES: Final = {0: "abort", 1: "commit"}


def read_segment(path: Path, *, deep: bool) -> Iterator[Item]:
    """Batches of a `.log` file and, with `deep`, their records."""
    with mapped(path) as buffer:
        end, expected_offset = 0, base_offset_of(path)
        for position, header in iterate_headers(buffer):
            yield _describe_batch(position, header)
            faults = list(_batch_faults(buffer, position, header, expected_offset))
            yield from (Problem(path, position, fault) for fault in faults)
            if deep and not faults:
                yield from _read_records(path, buffer, position, header)
            end = position + header.size
            expected_offset = max(expected_offset, header.end_offset)
        if end < len(buffer):
            yield Problem(path, end, _tail_fault(buffer, end))


def _describe_batch(position: int, header: BatchHeader) -> dict[str, Any]:
    flags = {
        "transactional": header.is_transactional,
        "control": header.is_control,
        "log-append-time": header.is_log_append_time,
        "delete-horizon": header.has_delete_horizon,
    }
    return {
        "kind": "batch",
        "position": position,
        "size_bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "max_timestamp": header.max_timestamp,
        "compression": CODEC_NAMES.get(header.compression, str(header.compression)),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "crc": header.crc,
        "flags": [name for name, is_set in flags.items() if is_set],
    }


def _batch_faults(
    buffer: Buffer, position: int, header: BatchHeader, expected_offset: int
) -> Iterator[str]:
    if header.magic != MAGIC:
        yield f"a batch of format {header.magic} where {MAGIC} is expected"
        return
    if not crc_matches(buffer, position, header):
        yield f"the CRC of the batch at offset {header.base_offset} does not match its bytes"
    if header.base_offset < expected_offset:
        yield f"base offset {header.base_offset} where {expected_offset} or more must follow"
    if header.last_offset_delta < 0:
        yield f"last offset delta {header.last_offset_delta} is negative"
    if header.compression not in CODEC_NAMES:
        yield f"compression codec {header.compression} does not exist"


def _tail_fault(buffer: Buffer, position: int) -> str:
    rest = len(buffer) - position
    if not any(buffer[position : position + HEADER_SIZE]):
        return f"{rest} bytes that begin with zeros where a batch should begin"
    if rest >= HEADER_SIZE:
        size = parse_header(buffer, position).size
        if size > rest:
            return f"a batch of {size} bytes, of which only {rest} are there"
    return f"{rest} bytes that are no batch"


def _read_records(path: Path, buffer: Buffer, position: int, header: BatchHeader) -> Iterator[Item]:
    try:
        records = decode_batch(buffer, position)
    except (CorruptRecord, struct.error) as error:
        yield Problem(path, position, f"the batch's records cannot be read: {error}")
        return
    # Imported where records are shown: it loads the coordinators.
    from drumlin.cli.dump import internal_records

    decode = None if header.is_control else internal_records.decoder_for(path)
    previous = header.base_offset - 1
    for record in records:
        if not previous < record.offset <= header.last_offset:
            yield Problem(path, position, f"record offset {record.offset} is out of order")
        previous = record.offset
        described = _describe_record(record, header)
        if decode is not None:
            described["decoded"] = internal_records.decoded(decode, record)
        yield described


def _describe_record(record: Record, header: BatchHeader) -> dict[str, Any]:
    described: dict[str, Any] = {
        "kind": "record",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers],
    }
    if header.is_control and record.key is not None and len(record.key) >= _CONTROL_KEY.size:
        _, number = _CONTROL_KEY.unpack_from(record.key)
        described["control"] = _CONTROL_TYPES.get(number, str(number))
    return described
