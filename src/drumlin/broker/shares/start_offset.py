"""Where a share group begins in a partition that it has never read: `share.auto.offset.reset`.

`earliest`, `latest`, or `by_duration:` with a duration as ISO 8601 writes it: the first record
that is not older than that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.replication.partition import Partition

_BY_DURATION: Final = "by_duration:"
_NUMBER: Final = r"[-+]?\d+"
_DURATION: Final = re.compile(
    rf"P(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?"
    rf"(?:(?P<seconds>{_NUMBER}(?:\.\d{{0,9}})?)S)?)?",
    re.IGNORECASE,
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


async def first_start_offset(broker: Broker, partition: Partition, reset: str) -> int:
    """The offset that `reset` means now.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    if reset == "earliest":
        return partition.log_start_offset
    if reset.startswith(_BY_DURATION):
        since_ms = broker.clock.wall_ms() - duration_ms(reset.removeprefix(_BY_DURATION))
        found = await broker.blocking(partition.log.offset_for_timestamp, since_ms)
        if found is not None:
            return int(found.offset)
    return partition.high_watermark


def duration_ms(text: str) -> int:
    """A duration such as P1DT2H30M.

    Raises:
        ValueError: it is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"{text} is no duration")
    parts = found.groupdict()
    return round(
        sum(float(parts[name] or 0) * seconds * 1000 for name, seconds in _SECONDS.items())
    )
