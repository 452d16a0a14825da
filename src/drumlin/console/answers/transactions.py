"""Transactional ids, and what of their open transactions holds readers up."""

from __future__ import annotations

from typing import Final

from drumlin.client.transactions import descriptions
from drumlin.client.transactions.descriptions import TransactionDescription
from drumlin.console.answers.asking import Answer
from drumlin.peer.broker_connections import BrokerConnections

_OPEN: Final = "Ongoing"
_LISTED_MAX: Final = 5_000
_DESCRIBED_MAX: Final = 200
_PARTITIONS_MAX: Final = 100


async def transactions(connections: BrokerConnections) -> Answer:
    """All transactional ids that this user may see, and the open transactions in detail."""
    listed = await descriptions.list_transactions(connections)
    listed.sort(key=lambda each: each.state != _OPEN)  # stable: open ones first, each by name
    is_open = [each.transactional_id for each in listed if each.state == _OPEN]
    described = await descriptions.describe(connections, is_open[:_DESCRIBED_MAX])
    return {
        "transactions": [
            {**each._asdict(), "open": _details(described.get(each.transactional_id))}
            for each in listed[:_LISTED_MAX]
        ],
        "not_shown": max(len(listed) - _LISTED_MAX, 0),
    }


def _details(found: TransactionDescription | None) -> Answer | None:
    if found is None or not found.is_open:
        return None
    start = found.start_time
    return {
        "epoch": found.epoch,
        "start_ms": None if start is None else round(start.timestamp() * 1000),
        "timeout_ms": found.timeout_ms,
        "partitions": [f"{t}-{p}" for t, p in found.partitions[:_PARTITIONS_MAX]],
        "partition_count": len(found.partitions),
    }
