"""Transaction markers, sent to the leaders of all partitions of a transaction.

Sends WriteTxnMarkers to other brokers in parallel. Leaders are looked up in the image each time,
and no request is repeated: the coordinator retries failed partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from drumlin.broker.hosting.markers import write_markers
from drumlin.broker.parts.parts import Coordinators
from drumlin.broker.peers.partitions import AT_ONCE, by_topic, in_pieces
from drumlin.broker.peers.peers import not_asked
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.metadata.image import NO_LEADER
from drumlin.peer.peer_error import PeerError
from drumlin.together import Together
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from drumlin.wire.schema.declaration import Message

_log = logging.getLogger(__name__)

_API: Final = "write_txn_markers"
#: Partitions in a request, of all transactions.
_PARTITIONS_MAX: Final = 2 * AT_ONCE

_Codes = dict[TopicPartition, ErrorCode]


class MarkerRoutes:
    """Writes the markers of this broker's transaction coordinator."""

    def __init__(self, broker: Coordinators) -> None:
        self._broker = broker
        self._markers = Together(
            self._send,
            lambda each: each.producer_id,  # the key in responses
            lambda each: len(each.partitions),
            _PARTITIONS_MAX,
            not_asked,
        )

    async def write(self, marker: Marker) -> _Codes:
        """Write one marker to all of its partitions; returns a code for each, NONE if it is
        written.

        LEADER_NOT_AVAILABLE: there is no leader now; NETWORK_EXCEPTION: the leader did not answer.
        """
        own_id = self._broker.node_id
        by_leader, codes = await self._sorted(marker)
        here = by_leader.pop(own_id, ())
        if len(here) == len(marker.partitions):
            return await write_markers(self._broker, marker)
        elsewhere = [
            self._write_to(leader, marker._replace(partitions=partitions))
            for leader, partitions in by_leader.items()
        ]
        own = write_markers(self._broker, marker._replace(partitions=here))
        for told in await asyncio.gather(own, *elsewhere):
            codes.update(told)
            await give_way()
        return codes

    async def close(self) -> None:
        await self._markers.close()

    async def _sorted(self, marker: Marker) -> tuple[dict[int, list[TopicPartition]], _Codes]:
        """The partitions by leader, and the codes of those without one."""
        by_leader: dict[int, list[TopicPartition]] = {}
        codes: _Codes = {}
        topics = self._broker.metadata.image.topics
        for key in marker.partitions:
            topic = topics.get(key[0])
            state = None if topic is None else topic.partition(key[1])
            if state is None:
                codes[key] = ErrorCode.unknown_topic_or_partition
            elif state.leader == NO_LEADER:
                codes[key] = ErrorCode.leader_not_available
            else:
                by_leader.setdefault(state.leader, []).append(key)
            await give_way()
        return by_leader, codes

    async def _write_to(self, leader: int, marker: Marker) -> _Codes:
        codes: _Codes = {}
        for some in in_pieces(marker.partitions):
            try:
                codes.update(await self._markers.ask(leader, marker._replace(partitions=some)))
            except (PeerError, KafkaError) as error:
                code = error.code if isinstance(error, KafkaError) else None
                codes.update(dict.fromkeys(some, code or ErrorCode.network_exception))
        return codes

    async def _send(self, node_id: int, markers: Sequence[Marker]) -> list[_Codes]:
        try:
            response = await self._broker.peers.ask(node_id, "markers", _API, _request(markers))
        except (PeerError, KafkaError) as error:
            _log.debug("markers of %d transactions: %s", len(markers), error)
            raise
        told = {each.producer_id: each for each in response.markers}
        return [_codes(each, told.get(each.producer_id)) for each in markers]


def _request(markers: Sequence[Marker]) -> Message:
    told = [
        WritableTxnMarker(
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            transaction_result=each.is_commit,
            topics=tuple(
                WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(each.partitions).items()
            ),
            coordinator_epoch=each.coordinator_epoch,
            transaction_version=each.transaction_version,
        )
        for each in markers
    ]
    return WriteTxnMarkersRequest(markers=tuple(told))


def _codes(marker: Marker, told: Any) -> _Codes:
    codes = dict.fromkeys(marker.partitions, ErrorCode.network_exception)
    for topic in () if told is None else told.topics:
        for each in topic.partitions:
            codes[topic.name, each.partition_index] = each.error_code
    return codes
