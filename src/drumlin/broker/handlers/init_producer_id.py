"""InitProducerId (key 22), versions 0-5: an id for an idempotent producer.

- Without a transactional id the answer is always a new id with epoch 0, also if the producer
  brings the one that it had (3+, KIP-360).
- Transactions are not offered: what Apache Kafka would refuse is refused alike, and a valid
  transactional id is UNSUPPORTED_VERSION, which clients report at once instead of retrying.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_MILLISECOND: Final = timedelta(milliseconds=1)
_NONE: Final = -1
_FIRST_EPOCH: Final = 0


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    code, producer_id, epoch = _refusal(context, request), _NONE, _NONE
    if code is ErrorCode.none:
        try:
            producer_id, epoch = await context.broker.producer_ids.next_id(), _FIRST_EPOCH
        except KafkaError as error:
            code = error.code
    return shape(
        "InitProducerIdResponse",
        throttle_time=ZERO,
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def _refusal(context: RequestContext, request: Any) -> ErrorCode:
    producer_id = getattr(request, "producer_id", _NONE)
    epoch = getattr(request, "producer_epoch", _NONE)
    if (producer_id == _NONE) is not (epoch == _NONE):
        return ErrorCode.invalid_request
    if request.transactional_id is None:
        return ErrorCode.none
    if not request.transactional_id:
        return ErrorCode.invalid_request
    timeout_ms = request.transaction_timeout // _MILLISECOND
    if not 0 < timeout_ms <= context.broker.config.transaction_max_timeout_ms:
        return ErrorCode.invalid_transaction_timeout
    return ErrorCode.unsupported_version
