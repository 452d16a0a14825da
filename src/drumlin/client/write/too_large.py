"""Explains MESSAGE_TOO_LARGE: a broker's error has neither the size of the batch nor the limit."""

from __future__ import annotations

import asyncio
from typing import Final

from drumlin.client.admin.admin import topic_configs
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError

_ASKS_FOR_S: Final = 5.0


def is_too_large(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.message_too_large


async def largest_bytes(connections: BrokerConnections, topic: str) -> int | None:
    """The topic's max.message.bytes; None if it cannot be looked up quickly."""
    try:
        async with asyncio.timeout(_ASKS_FOR_S):
            found = (await topic_configs(connections, topic))["max.message.bytes"].value
        return None if found is None else int(found)
    except Exception:  # noqa: BLE001 - only an explanation is lost, not the error
        return None


def explained(error: KafkaError, size: int, records: int, limit: int | None) -> KafkaError:
    """`error` with sizes, and a remedy for the user."""
    raising = "raise max.message.bytes of the topic"
    cure = raising if records == 1 else f"write smaller batches, or {raising}"
    known = "" if limit is None else f"; max.message.bytes is {limit}"
    reasons = [error.message, f"a batch of {size} bytes{known}", cure]
    return KafkaError(error.code, ": ".join(filter(None, reasons)))
