"""AddOffsetsToTxn (key 25), versions 0 to 4."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int16, Int64, Milliseconds32


@message
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@message
class AddOffsetsToTxnResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
