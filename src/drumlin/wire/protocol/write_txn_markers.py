"""WriteTxnMarkers (key 27), versions 1 to 2."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64


@message
class WritableTxnMarkerTopic:
    name: str
    partition_indexes: tuple[Int32, ...] = ()


@message
class WritableTxnMarker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, Versions(2)] = 0


@message
class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...]


@message
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: ErrorCode


@message
class WritableTxnMarkerTopicResult:
    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@message
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message
class WriteTxnMarkersResponse:
    markers: tuple[WritableTxnMarkerResult, ...]
