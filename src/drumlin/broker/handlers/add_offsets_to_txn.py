"""AddOffsetsToTxn (key 25), versions 0-4: a transaction will commit offsets of a group.

The group's partition of `__consumer_offsets` joins the transaction, as other partitions do by
AddPartitionsToTxn. Producers of transactions v2 do not send this: TxnOffsetCommit adds the
partition itself. Before version 2 clients do not know PRODUCER_FENCED: they get
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.coordination.transactions.transaction import CLASSIC_VERSION
from drumlin.metadata.names import GROUP_METADATA
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FENCED_FROM: Final = 2


async def handle(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    code = await _add(context, request)
    if code is ErrorCode.producer_fenced and context.version < _FENCED_FROM:
        code = ErrorCode.invalid_producer_epoch
    return AddOffsetsToTxnResponse(throttle_time=ZERO, error_code=code)


async def _add(context: RequestContext, request: AddOffsetsToTxnRequest) -> ErrorCode:
    broker = context.broker
    try:
        context.require(Operation.WRITE, Kind.TRANSACTIONAL_ID, request.transactional_id)
        context.require(Operation.READ, Kind.GROUP, request.group_id)
        partition = (GROUP_METADATA, await broker.groups.find_partition(request.group_id))
    except KafkaError as error:
        return error.code
    codes = await broker.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [partition],
        client_version=CLASSIC_VERSION,
    )
    return codes[partition]
