"""OpenTelemetry's MetricsData as clients encode it, field by field."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

DELTA, CUMULATIVE = 1, 2
GAUGE, SUM, HISTOGRAM = 5, 7, 9


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*octets, value))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def inner(field: int, content: bytes | str) -> bytes:
    octets = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(octets)) + octets


def fixed(field: int, value: float) -> bytes:
    form = "<q" if isinstance(value, int) else "<d"
    return varint(field << 3 | 1) + struct.pack(form, value)


def attribute(name: str, value: object) -> bytes:
    match value:
        case bool():
            content = number(2, value)
        case int():
            content = number(3, value)
        case float():
            content = fixed(4, value)
        case _:
            content = inner(1, str(value))
    return inner(1, name) + inner(2, content)


def point(value: float, labels: Mapping[str, object] | None = None) -> bytes:
    own = b"".join(inner(7, attribute(*each)) for each in (labels or {}).items())
    return fixed(3, 1) + fixed(6 if isinstance(value, int) else 4, value) + own


def metric(
    name: str, points: Iterable[bytes], kind: int = GAUGE, temporality: int = 0, monotonic: int = 0
) -> bytes:
    data = b"".join(inner(1, each) for each in points)
    if kind == SUM:
        data += number(2, temporality) + number(3, monotonic)
    return inner(1, name) + inner(2, "said by a client") + inner(kind, data)


def counter(name: str, value: float, temporality: int = DELTA) -> bytes:
    return metric(name, [point(value)], SUM, temporality, 1)


def pushed(*metrics: bytes, resource: Mapping[str, object] | None = None) -> bytes:
    own = b"".join(inner(1, attribute(*each)) for each in (resource or {}).items())
    scope = inner(1, inner(1, "a scope")) + b"".join(inner(2, each) for each in metrics)
    return inner(1, inner(1, own) + inner(2, scope) + inner(3, ""))
