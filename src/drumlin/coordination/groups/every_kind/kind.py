"""The kinds of groups."""

from __future__ import annotations

from enum import Enum


class GroupKind(Enum):
    """A kind of group; the values are Kafka's names, which clients see."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
