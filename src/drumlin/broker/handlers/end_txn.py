"""EndTxn (key 26), versions 0-5: a transaction is committed or aborted.

- The answer comes when the decision is in the log of the coordinator; the partitions are told
  afterwards, and nobody can take it back.
- From version 5 (transactions v2, KIP-890) the producer goes on with the next epoch, or a new
  producer id, which the answer tells. Who asks again is told the same again.
- Before version 2 clients know no PRODUCER_FENCED: it is INVALID_PRODUCER_EPOCH to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.context import RequestContext
from drumlin.coordination.transactions.transaction import (
    CLASSIC_VERSION,
    EPOCH_BUMP_VERSION,
    Producer,
)
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from kio.schema.end_txn.v5.request import EndTxnRequest

_FENCED_FROM: Final = 2
_EPOCH_BUMP_FROM: Final = 5
_NOBODY: Final = Producer(-1, -1)


async def handle(context: RequestContext, request: EndTxnRequest, shape: Shape) -> Any:
    version = EPOCH_BUMP_VERSION if context.version >= _EPOCH_BUMP_FROM else CLASSIC_VERSION
    code, producer = ErrorCode.none, _NOBODY
    try:
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
    return shape(
        "EndTxnResponse",
        throttle_time=ZERO,
        error_code=code,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
