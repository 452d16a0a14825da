"""The kernel that accepts ordinary batches; `validation/validation.py` parses all others."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.dialect import bytes_at, helper, int64s_at
from drumlin.records.kernels.code.integers import read_integer
from drumlin.records.kernels.code.survey import survey

_HEADER_SIZE = 61
_LOG_OVERHEAD = 12
_MAGIC = 2
_TRANSACTIONAL = 0x10
_INT64_MAX = (1 << 63) - 1

_survey = helper(survey)


def inspect(address: int, size: int, limits_address: int, now_ms: int) -> int:
    """Return 1 if the bytes at `address` are one valid batch that needs no change.

    Otherwise returns 0, for any reason, and the caller must validate the batch. The caller also
    checks the CRC. `limits` are in the order of `layout.py`, followed by room for the results of
    `survey`.
    """
    data = bytes_at(address)
    limits = int64s_at(limits_address)
    if size <= _HEADER_SIZE or size > limits[at.MAX_BYTES]:
        return 0
    if (
        read_integer(data, 0, 8) != 0
        or read_integer(data, 8, 4) != size - _LOG_OVERHEAD
        or data[16] != _MAGIC
        or read_integer(data, 21, 2) & ~_TRANSACTIONAL
    ):
        return 0
    count = read_integer(data, 57, 4)
    if count < 1 or count != read_integer(data, 23, 4) + 1:
        return 0
    if read_integer(data, 43, 8) >= 0 and read_integer(data, 53, 4) < 0:
        return 0
    facts = int64s_at(limits_address + 8 * at.FACTS)
    facts[0], facts[1] = _INT64_MAX, -1
    body_size = size - _HEADER_SIZE
    base_timestamp = read_integer(data, 27, 8)
    body = bytes_at(address + _HEADER_SIZE)
    if _survey(body, body_size, count, base_timestamp, facts) != body_size:
        return 0
    is_in_time = (
        facts[0] >= 0
        and facts[1] == read_integer(data, 35, 8)
        and now_ms - facts[0] <= limits[at.BEFORE_MAX_MS]
        and facts[1] - now_ms <= limits[at.AFTER_MAX_MS]
    )
    has_keys = limits[at.KEYS_REQUIRED] == 0 or facts[2] == 0
    return 1 if is_in_time and has_keys and facts[3] == 1 else 0
