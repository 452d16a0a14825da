"""The kinds of groups."""

from __future__ import annotations

from enum import Enum


class GroupKind(Enum):
    """The values are Kafka's names, as clients see them."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
