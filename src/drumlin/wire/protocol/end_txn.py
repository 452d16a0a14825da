"""EndTxn (key 26), versions 0 to 5."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int16, Int64, Milliseconds32


@message
class EndTxnRequest:
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


@message
class EndTxnResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    producer_id: Annotated[Int64, Versions(5)] = -1
    producer_epoch: Annotated[Int16, Versions(5)] = -1
