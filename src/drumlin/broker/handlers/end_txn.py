"""EndTxn (key 26), versions 0-5: a transaction is committed or aborted.

- Answered when the decision is in the coordinator's log, and so final; the markers are
  written to the partitions afterwards.
- From version 5 (transactions v2, KIP-890) the answer gives the producer its next epoch, or a new
  producer id. A repeated request gets the same answer.
- Before version 2 clients do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.transactions.transaction import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_FROM: Final = 2
_EPOCH_BUMP_FROM: Final = 5
_NOBODY: Final = Producer(-1, -1)


async def handle(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    version = EPOCH_BUMP_VERSION if context.version >= _EPOCH_BUMP_FROM else CLASSIC_VERSION
    code, producer = ErrorCode.none, _NOBODY
    try:
        context.require(Operation.WRITE, Kind.TRANSACTIONAL_ID, request.transactional_id)
        producer = await context.broker.transactions.end(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            client_version=version,
        )
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.producer_fenced and context.version < _FENCED_FROM:
            code = ErrorCode.invalid_producer_epoch
    return EndTxnResponse(
        throttle_time=ZERO,
        error_code=code,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
