"""Telemetry of clients: answers what a client is to push, and takes what it pushes (KIP-714).

State changes on the event loop. Payloads are decompressed and read in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from drumlin.broker.telemetry.instances import Instance, Instances
from drumlin.broker.telemetry.otlp import Read, read_metrics
from drumlin.broker.telemetry.protobuf import Malformed
from drumlin.broker.telemetry.pushed import PushedMetrics
from drumlin.broker.telemetry.subscriptions import CLIENT_ID, Client, Subscriptions
from drumlin.metadata.image import ClusterImage, Resource, ResourceType
from drumlin.metadata.store.changes import Change, ConfigsChanged
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.arena import DecompressedTooLarge
from drumlin.records.compression.compression import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD
from drumlin.records.compression.stored_bodies import decompress
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.config.broker import BrokerConfig

_log = logging.getLogger(__name__)

#: Codecs that clients may use, the one that is preferred first.
ACCEPTED_CODECS: Final = (ZSTD, LZ4, GZIP, SNAPPY)
#: How many times as large as its limit a payload may be when it is decompressed.
_RATIO_MAX: Final = 4
#: Ids that are no instance's: the absent one, and the one that Kafka reserves.
_RESERVED: Final = (UUID(int=0), UUID(int=1))

InThread = Callable[..., Awaitable[Any]]


class ClientTelemetry:
    """All that a broker knows of its clients' telemetry."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, in_thread: InThread, is_one_of_many: bool
    ) -> None:
        """`is_one_of_many`: another process of the machine serves the metrics."""
        is_shown = is_one_of_many or config.drumlin_metrics_listener is not None
        #: Whether clients are told that they may push.
        self.is_wanted = is_shown and config.drumlin_metrics_clients_max > 0
        self.payload_bytes_max = config.telemetry_max_bytes
        self.pushed = PushedMetrics(
            config.drumlin_metrics_clients, config.drumlin_metrics_clients_max
        )
        self._clock, self._in_thread = clock, in_thread
        self._subscriptions, self.instances = Subscriptions(), Instances()
        self._reading = asyncio.Lock()

    def learn(self, image: ClusterImage) -> None:
        """Take over all subscriptions in the metadata."""
        for name in image.configured(ResourceType.CLIENT_METRICS):
            resource = Resource(ResourceType.CLIENT_METRICS, name)
            self._subscriptions.put(name, image.configs(resource))

    def on_change(self, change: Change) -> None:
        """Follow the metadata."""
        if (
            isinstance(change, ConfigsChanged)
            and change.resource.type is ResourceType.CLIENT_METRICS
        ):
            self._subscriptions.put(change.resource.name, change.configs)

    async def asked(self, instance_id: UUID, client: Client) -> Instance:
        """The instance of a client that asks for its subscription.

        Raises:
            KafkaError: it has to wait.
        """
        instance = await self._instance(instance_id, client)
        instance.ask(self.now_s)
        instance.last_error = ErrorCode.none
        return instance

    async def push(
        self,
        instance_id: UUID | None,
        client: Client,
        subscription_id: int,
        codec: int,
        payload: memoryview,
        *,
        is_last: bool,
    ) -> None:
        """Take what a client pushes.

        Raises:
            KafkaError: it is refused; the code says what the client is to do.
        """
        if instance_id is None or instance_id in _RESERVED:
            raise KafkaError(ErrorCode.invalid_request)
        instance = await self._instance(instance_id, client)
        try:
            instance.push(self.now_s, subscription_id, is_last=is_last)
            if codec not in CODEC_NAMES:
                raise KafkaError(ErrorCode.unsupported_compression_type)
            if len(payload) > self.payload_bytes_max:
                raise KafkaError(ErrorCode.telemetry_too_large)
            if payload:
                read = await self._read(instance.client, codec, payload)
                now_s, client_id = self.now_s, instance.client[CLIENT_ID]
                self.pushed.take(instance_id, client_id, read, now_s, instance.kept_s)
        except KafkaError as error:
            instance.last_error = error.code
            raise
        instance.last_error = ErrorCode.none

    async def _instance(self, instance_id: UUID, client: Client) -> Instance:
        subscriptions, instances = self._subscriptions, self.instances
        version = subscriptions.version
        found = instances.find(instance_id, version, self.now_s)
        if found is not None:
            return found
        known = instances.known_client(instance_id) or client
        wanted = await subscriptions.wanted_of(known)
        # Another request of the same client may have come first meanwhile.
        found = instances.find(instance_id, version, self.now_s)
        return found or instances.put(instance_id, known, wanted, version, self.now_s)

    async def _read(self, client: Client, codec: int, payload: memoryview) -> Read:
        limit_bytes = _RATIO_MAX * self.payload_bytes_max
        async with self._reading:
            try:
                read: Read = await self._in_thread(_decode, codec, payload, limit_bytes)
            except DecompressedTooLarge:
                raise KafkaError(ErrorCode.telemetry_too_large) from None
            except (CorruptRecord, Malformed) as error:
                _log.warning(
                    "metrics pushed by client %.250r (instance %s, %s) cannot be read: %s",
                    client[CLIENT_ID],
                    client["client_instance_id"],
                    client["client_source_address"],
                    error,
                )
                raise KafkaError(ErrorCode.invalid_record) from None
            return read

    @property
    def now_s(self) -> float:
        """The time by which instances are forgotten."""
        return self._clock.monotonic()


def _decode(codec: int, payload: memoryview, limit_bytes: int) -> Read:
    return read_metrics(memoryview(decompress(codec, payload, limit_bytes)))


class Receiving(Protocol):
    """A part of the broker that has telemetry of clients."""

    telemetry: ClientTelemetry
