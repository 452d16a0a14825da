"""ListTransactions (key 66), versions 0 to 2."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int64, Milliseconds32


@message
class ListTransactionsRequest:
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, Versions(1)] = -1
    transactional_id_pattern: Annotated[str | None, Versions(2)] = None


@message
class TransactionState:
    transactional_id: str
    producer_id: Int64
    transaction_state: str


@message
class ListTransactionsResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...]
