"""What Apache Kafka makes of single batches, without a broker: by its own classes, in one JVM.

It starts with the first of them.
"""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from drumlin.records.plain.record import Record

_SOURCE = Path(__file__).with_name("KafkaBodies.java")


class Verdict(NamedTuple):
    """What Produce answers, and the records that a consumer gets; None if it fails."""

    code: int
    records: str | None


class KafkaBodies:
    """The JVM; close it in the end."""

    def __init__(self, java: Sequence[str], classpath: str) -> None:
        """`java` is the launcher with its options."""
        self._process = subprocess.Popen(
            [*java, "-cp", classpath, str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )

    def of(self, batch: bytes) -> Verdict:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(batch.hex() + "\n")
        answer = process.stdout.readline()
        assert answer, "the JVM has ended"
        code, records = answer.rstrip("\n").split(" ", 1)
        return Verdict(int(code), None if records.startswith("after ") else records)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def digest(records: Iterable[Record]) -> str:
    """Records as `Verdict` tells them."""
    count = checksum = 0
    for record in records:
        checksum = zlib.crc32(record.offset.to_bytes(8, "big"), checksum)
        for part in (record.key, record.value):
            size = -1 if part is None else len(part)
            checksum = zlib.crc32(size.to_bytes(4, "big", signed=True) + (part or b""), checksum)
        count += 1
    return f"{count}:{checksum}"
