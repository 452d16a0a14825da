"""InitProducerId (key 22), versions 0-5: an id for an idempotent or transactional producer.

- A client that may write to at least one topic may have an id.
- Without a transactional id the answer is always a new id with epoch 0, even if the producer
  sends its current one (3+, KIP-360).
- With a transactional id, the producer replaces the previous producer, which is fenced. An open
  transaction is aborted first, and the new producer must retry (CONCURRENT_TRANSACTIONS). A
  producer that sends its current id and epoch gets the next epoch, unless it was fenced.
- Before version 4 clients do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH.
- Version 6 (two-phase commit, KIP-939) is not served: in Apache Kafka 4.3 it is unstable.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from drumlin.coordination.shards.state_batches import Producer
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_MILLISECOND: Final = timedelta(milliseconds=1)
_NONE: Final = -1
_NOBODY: Final = Producer(_NONE, _NONE)
_FENCED_FROM: Final = 4


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    code, producer = ErrorCode.none, _NOBODY
    try:
        producer = await _init(context, request)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.producer_fenced and context.version < _FENCED_FROM:
            code = ErrorCode.invalid_producer_epoch
    return InitProducerIdResponse(
        throttle_time=ZERO,
        error_code=code,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )


def _check_rights(context: RequestContext, transactional_id: str | None) -> None:
    """
    Raises:
        KafkaError: the client may not have this id, or not any id.
    """
    authorizer, session = context.broker.authorizer, context.session
    if transactional_id is not None:
        context.require(Operation.WRITE, Kind.TRANSACTIONAL_ID, transactional_id)
    elif not (
        authorizer is None
        or context.sees_cluster(Operation.IDEMPOTENT_WRITE)
        or authorizer.allows_any(session.principal, session.host, Operation.WRITE, Kind.TOPIC)
        or context.may_cluster(Operation.IDEMPOTENT_WRITE)  # false; audits the denial
    ):
        raise denied(Kind.CLUSTER)


async def _init(context: RequestContext, request: InitProducerIdRequest) -> Producer:
    _check_rights(context, request.transactional_id)
    expected = Producer(request.producer_id, request.producer_epoch)
    if (expected.producer_id == _NONE) is not (expected.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.invalid_request)
    if request.transactional_id is None:
        return Producer(await context.broker.producer_ids.next_id(), 0)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.invalid_request)
    return await context.broker.transactions.init_producer(
        request.transactional_id,
        request.transaction_timeout // _MILLISECOND,
        None if expected == _NOBODY else expected,
    )
