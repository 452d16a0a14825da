"""InitProducerId (key 22), versions 0 to 6."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int16, Int64, Milliseconds32


@message
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout: Milliseconds32
    producer_id: Annotated[Int64, Versions(3)] = -1
    producer_epoch: Annotated[Int16, Versions(3)] = -1
    enable2_pc: Annotated[bool, Versions(6)] = False
    keep_prepared_txn: Annotated[bool, Versions(6)] = False


@message
class InitProducerIdResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, Versions(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, Versions(6)] = -1
