"""What records look like here: a unique number, and padding so that segments roll."""

from __future__ import annotations

import itertools
import random
from typing import Any

from confluent_kafka import Message

from guarantees.histories.history import Read

_values = itertools.count(1)


def next_value() -> int:
    """A number that no other record of this process has."""
    return next(_values)


def encode(value: int, chance: random.Random) -> bytes:
    return b"%d %s" % (value, b"." * chance.choice((0, 10, 100, 2000)))


def decode(message: Message | Any) -> Read:
    return Read(
        f"{message.topic()}-{message.partition()}",
        message.offset(),
        int(message.value().split(b" ")[0]),
    )


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"
