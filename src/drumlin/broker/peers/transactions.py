"""AddPartitionsToTxn (v4+) to the transaction coordinators on other brokers.

As in Apache Kafka, one request to a broker is in flight at a time, and the next request collects
all partitions that callers name meanwhile. A request is never repeated: the waiting producer is
told to retry.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from drumlin.broker.peers.partitions import AT_ONCE, by_topic, in_pieces
from drumlin.broker.peers.peers import Peers, not_asked
from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.peer.peer_error import PeerError
from drumlin.together import Together
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from drumlin.wire.schema.declaration import Message

_log = logging.getLogger(__name__)

_API: Final = "add_partitions_to_txn"
_FROM_BROKERS: Final = 4
#: Partitions in a request, of all transactions.
_PARTITIONS_MAX: Final = 2 * AT_ONCE

_Codes = dict[TopicPartition, ErrorCode]


class _Question(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    verify_only: bool


class RemoteTransactions:
    """The transaction coordinators of other brokers."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._questions = Together(
            self._ask,
            lambda each: each.transactional_id,
            lambda each: len(each.partitions),
            _PARTITIONS_MAX,
            not_asked,
        )

    async def add_partitions(
        self,
        node_id: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> _Codes:
        """Like `TransactionCoordinator.add_partitions`, on the broker `node_id`.

        Returns:
            A code for each partition: NETWORK_EXCEPTION if there was no answer.
        """
        codes: _Codes = {}
        for some in in_pieces(partitions):
            question = _Question(transactional_id, producer_id, producer_epoch, some, verify_only)
            try:
                codes.update(await self._questions.ask(node_id, question))
            except (PeerError, KafkaError) as error:
                code = error.code if isinstance(error, KafkaError) else None
                codes.update(dict.fromkeys(some, code or ErrorCode.network_exception))
        return codes

    async def close(self) -> None:
        await self._questions.close()

    async def _ask(self, node_id: int, questions: Sequence[_Question]) -> list[_Codes]:
        try:
            response = await self._peers.ask(
                node_id,
                "transactions",
                _API,
                _request(questions),
                low=_FROM_BROKERS,
            )
        except (PeerError, KafkaError) as error:
            _log.debug("partitions of %d transactions: %s", len(questions), error)
            raise
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, f"broker {node_id}: {_API}")
        told = {each.transactional_id: each for each in response.results_by_transaction}
        return [_codes(each, told.get(each.transactional_id)) for each in questions]


def _request(questions: Sequence[_Question]) -> Message:
    transactions = [
        AddPartitionsToTxnTransaction(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            verify_only=each.verify_only,
            topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in by_topic(each.partitions).items()
            ),
        )
        for each in questions
    ]
    return AddPartitionsToTxnRequest(transactions=tuple(transactions))


def _codes(question: _Question, told: Any) -> _Codes:
    codes = dict.fromkeys(question.partitions, ErrorCode.network_exception)
    for topic in () if told is None else told.topic_results:
        for each in topic.results_by_partition:
            codes[topic.name, each.partition_index] = each.partition_error_code
    return codes
