"""DescribeCluster (key 60), versions 0 to 2."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int8, Int32, Milliseconds32


@message
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool
    endpoint_type: Annotated[Int8, Versions(1)] = 1
    include_fenced_brokers: Annotated[bool, Versions(2)] = False


@message
class DescribeClusterBroker:
    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: Annotated[bool, Versions(2)] = False


@message
class DescribeClusterResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None = None
    endpoint_type: Annotated[Int8, Versions(1)] = 1
    cluster_id: str
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: Int32 = -2147483648
