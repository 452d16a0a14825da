"""The broker: puts its parts together, and starts and stops them in order.

Has no rules of its own. State is only changed on the event loop; blocking work runs in `threads`
and returns a value.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from drumlin.background import Background
from drumlin.broker.fetch_sessions.sessions import FetchSessions
from drumlin.broker.hosting.adoption import adopt_logs
from drumlin.broker.hosting.hosted_partitions import HostedPartitions
from drumlin.broker.hosting.log_cleaner import Cleaning
from drumlin.broker.hosting.log_moves import LogMoves
from drumlin.broker.hosting.replicas import Replicas
from drumlin.broker.http.endpoints import Endpoints
from drumlin.broker.login.between_brokers import security_between_brokers
from drumlin.broker.login.delegation_tokens import tokens_of
from drumlin.broker.login.doors import doors_of
from drumlin.broker.login.machine_secret import MachineSecret
from drumlin.broker.login.mechanisms.scram import Credentials
from drumlin.broker.login.renewal import Renewal
from drumlin.broker.login.users import credential_of
from drumlin.broker.loop.cycles import Cycles
from drumlin.broker.loop.threads import Threads
from drumlin.broker.parts.change_overs import ChangeOvers
from drumlin.broker.parts.failed_verifications import FailedVerifications
from drumlin.broker.parts.flushes import Flushes
from drumlin.broker.parts.group_context import ImageTopics, group_setting, tell_groups
from drumlin.broker.parts.wakeups import Wakeups
from drumlin.broker.peers.peers import Peers
from drumlin.broker.peers.transactions import RemoteTransactions
from drumlin.broker.quotas.client_quotas import ClientQuotas
from drumlin.broker.quotas.connection_rates import BROKER
from drumlin.broker.remote.log_ends import LogEnds
from drumlin.broker.remote.markers import MarkerRoutes
from drumlin.broker.remote.share_states import ShareStateRoutes
from drumlin.broker.rights.granting import authorizer_of, follow, learn
from drumlin.broker.router import Router
from drumlin.broker.share_partitions.delivery import ShareDelivery
from drumlin.broker.start.chores import start_upkeep
from drumlin.broker.start.server import ConnectionLimits, Server
from drumlin.broker.start.shared_machine import SharedMachine
from drumlin.broker.start.startup import (
    BoundSockets,
    StartFailed,
    bind_all,
    bind_metrics,
    cannot_listen,
    close_all,
    open_logs,
    open_metadata,
)
from drumlin.broker.telemetry.client_telemetry import ClientTelemetry
from drumlin.broker.topics.state_topics import StateLogs, state_topic
from drumlin.broker.topics.topic_pieces import TopicPieces
from drumlin.broker.traffic.topic_counts import TrafficByTopic
from drumlin.clock import Clock
from drumlin.config.broker import CONNECTION_RATE, CONNECTIONS, BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.coordinator.share_groups import ShareGroupMembership
from drumlin.coordination.producer_ids import ProducerIds
from drumlin.coordination.shards.state_topic import StateCoordinator
from drumlin.coordination.share.state.coordinator import ShareCoordinator
from drumlin.coordination.share.state.states import ShareStates
from drumlin.coordination.transactions.coordinator import TransactionCoordinator
from drumlin.metadata.image import BrokerState, Endpoint, ResourceType
from drumlin.metadata.names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from drumlin.metadata.store.changes import Change, ConfigsChanged, TopicDeleted
from drumlin.metadata.store.store import MetadataStore, UnusableMetadata
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)
T = TypeVar("T")

_REQUEST_MEMORY_BYTES: Final = 1 << 30
#: The time that a stop waits for clients to receive their last responses.
_STOP_S: Final = 3.0
#: The time that a stop waits for other brokers to take over leadership.
_HAND_OVER_S: Final = 10.0


class Broker:
    """One broker process. Built by `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        metadata: MetadataStore,
        logs: LogDirectories,
        bound: BoundSockets,
        metrics_sockets: BoundSockets,
        secret: MachineSecret | None = None,
    ) -> None:
        self.config, self.clock = config, clock
        self.metadata, self.logs = metadata, logs
        self.partitions = PartitionRegistry(metadata.image.has_partition_of)
        self.wakeups, self.background, self.change_overs = Wakeups(), Background(), ChangeOvers()
        self.threads, self.failed_verifications = Threads(), FailedVerifications()
        self.flushes = Flushes(self.threads.syncing)
        self.fetch_sessions = _fetch_sessions(config, clock, self.background)
        self.authorizer, self.traffic = authorizer_of(config), _traffic(config)
        self.delegation_tokens = tokens_of(config, lambda: self.metadata.image)
        self.client_quotas = ClientQuotas(config, clock)
        self.quotas: ClientQuotas | None = None
        security_at = security_between_brokers(config, secret)
        self.peers = Peers(config, metadata.image, self.threads, security_at)
        self.remote_transactions = RemoteTransactions(self.peers)
        self.log_ends, self._marker_routes = LogEnds(self), MarkerRoutes(self)
        self.producer_ids = ProducerIds(metadata.next_producer_id_block)
        topics, offsets_topic = ImageTopics(self), state_topic(self, GROUP_METADATA)
        setting_of = partial(group_setting, self)
        self.groups = GroupCoordinator(config, clock, offsets_topic, topics, setting_of)
        self._make_share_coordinators(topics)
        self.transactions = TransactionCoordinator(
            config,
            clock,
            state_topic(self, TRANSACTION_STATE),
            self.producer_ids,
            self._marker_routes.write,
            metadata.image.has_partition_of,
            metadata.partition_count,
        )
        self.telemetry = ClientTelemetry(config, clock, self.threads.making, secret is not None)
        self.topic_pieces, self.shares = TopicPieces(self), ShareDelivery(self)
        self.share_state.when_renewed(self.shares.forget)
        self.coordinators: dict[str, StateCoordinator] = {
            GROUP_METADATA: self.groups,
            SHARE_GROUP_STATE: self.share_state,
            TRANSACTION_STATE: self.transactions,
        }
        self.replicas, self.log_moves = Replicas(self, self.peers), LogMoves(self)
        self.hosting = HostedPartitions(
            config,
            metadata,
            logs,
            self.partitions,
            self.coordinators,
            self.replicas.followers,
            self.replicas.leading,
            self.threads.administering,
        )
        self.listeners = list(dict.fromkeys(bound.values()))
        self._router = Router(self)
        doors, rates = (
            doors_of(config, self._credentials(), secret),
            self.client_quotas.connections,
        )
        self.server = Server(self._router, _limits(config), rates, bound, doors)
        self._limit_connections()
        self.renewal = Renewal(config, doors, self.peers, self.threads)
        self.cleaning, self.endpoints = Cleaning(config, logs, clock), Endpoints(self)
        self._metrics_sockets = metrics_sockets
        self._cycles = Cycles()

    def _make_share_coordinators(self, topics: ImageTopics) -> None:
        metadata, topic = self.metadata, state_topic(self, SHARE_GROUP_STATE)
        self.share_state: ShareCoordinator = ShareCoordinator(
            self.config,
            self.clock,
            topic,
            StateLogs(self, SHARE_GROUP_STATE),
            metadata.image.has_partition,
            metadata.was_deleted,
        )
        self._share_routes = ShareStateRoutes(self, self.share_state)
        self.share_states: ShareStates = self._share_routes
        self.share_groups = ShareGroupMembership(
            self.config, self.groups, self.share_states, topics
        )

    @property
    def node_id(self) -> int:
        return self.config.node_id

    def _credentials(self) -> Credentials:
        return Credentials(
            lambda *asked: credential_of(self.metadata.image, *asked),
            lambda mechanism, token_id: self.delegation_tokens.login_of(
                mechanism, token_id, self.clock.wall_ms()
            ),
        )

    def name_of_topic(self, topic_id: UUID | None) -> str:
        """The current name of the topic with this id.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID.
        """
        topic = None if topic_id is None else self.metadata.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_id)
        return topic.name

    # -- starting ----------------------------------------------------------------------

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        clock: Clock,
        before_serving: Callable[[], None] | None = None,
        machine: SharedMachine | None = None,
    ) -> Broker:
        """Start a broker; returns it when it is serving.

        `before_serving` is called when everything is ready but no client is accepted yet, for work
        that would make clients wait. Without `machine` the broker is the only one, and serves its
        operator.

        Raises:
            StartFailed: the message is one line with the reason.
        """
        bound = bind_all(config)
        metrics_sockets: BoundSockets = {}
        try:
            metrics_sockets = bind_metrics(config)
            open_store = None if machine is None else machine.open_metadata
            metadata = await open_metadata(config, clock, open_store)
            locks = {} if machine is None else machine.locks
            try:
                logs = await asyncio.to_thread(open_logs, config, clock, metadata, locks)
                try:
                    try:
                        secret = None if machine is None else machine.secret
                        sockets = bound, metrics_sockets
                        broker = cls(config, clock, metadata, logs, *sockets, secret)
                    except ConfigError as error:  # a file that the configuration names
                        raise StartFailed(str(error)) from None
                    try:
                        await broker._begin(before_serving, is_alone=machine is None)
                    except BaseException:
                        await broker.endpoints.stop()
                        raise
                except BaseException:
                    logs.abandon()
                    raise
            except BaseException:
                await metadata.close()
                raise
        except BaseException:
            close_all(bound | metrics_sockets)
            raise
        return broker

    async def _begin(self, before_serving: Callable[[], None] | None, *, is_alone: bool) -> None:
        metadata = self.metadata
        try:
            lacking = await self.hosting.lacking()
            await metadata.register_broker(self._state(), lacking=lacking)
            if not all(each.is_current for each in self.logs.directories):
                await metadata.advance_leader_epochs()
            if metadata.adoption is not None:
                await adopt_logs(self, metadata.adoption)
            if self.authorizer is not None:
                metadata.on_change(partial(follow, self.authorizer))
                learn(self.authorizer, metadata.image)
            metadata.on_change(self._follow_quotas)
            self.client_quotas.learn(metadata.image)
            self.quotas = self.client_quotas.active
            metadata.on_change(self.telemetry.on_change)
            self.telemetry.learn(metadata.image)
            metadata.on_change(self.peers.on_change)
            metadata.on_change(self.hosting.on_change)
            await self.hosting.host_all()
        except (KafkaError, UnusableMetadata) as error:
            raise StartFailed(str(error)) from error
        metadata.on_change(self.replicas.on_change)
        metadata.on_change(partial(tell_groups, self.groups))
        metadata.on_change(self._follow_limits)
        metadata.on_change(self.shares.on_change)
        metadata.on_change(self.cleaning.on_change)
        metadata.on_change(self.topic_pieces.on_change)
        metadata.on_change(self._follow_topics)
        for coordinator in self.coordinators.values():
            coordinator.start()
        await self._start_endpoints(is_alone=is_alone)
        if before_serving is not None:
            before_serving()
        self.server.start_accepting()
        start_upkeep(self, self._cycles)
        self.cleaning.start()

    async def _start_endpoints(self, *, is_alone: bool) -> None:
        for sock, listener in self._metrics_sockets.items():
            try:
                await self.endpoints.serve_metrics(sock)
            except OSError as error:
                raise cannot_listen(listener, error) from error
            address = f"{listener.host or '*'}:{listener.port}"
            _log.info("metrics are on http://%s/metrics", address)
        if is_alone:
            await self.endpoints.serve_operator()

    def _state(self) -> BrokerState:
        ports = {each.name: each.port for each in self.listeners}
        endpoints = tuple(
            Endpoint(
                each.name,
                each.host or socket.getfqdn(),
                each.port or ports[each.name],
                self.config.listener_security_protocol_map[each.name],
            )
            for each in self.config.advertised_listeners
        )
        return BrokerState(self.node_id, self.config.broker_rack, endpoints)

    def _follow_limits(self, change: Change) -> None:
        if isinstance(change, ConfigsChanged) and change.resource.type is ResourceType.BROKER:
            self.server.limits = _limits(self.config)
            self._limit_connections()
            self.begin_to_renew()

    def begin_to_renew(self) -> None:
        """Read certificates again."""
        self.background.spawn(self.renewal.renew())

    def _limit_connections(self) -> None:
        config = self.config
        of_listeners = config.limits_of_listeners(CONNECTION_RATE)
        rates = {BROKER: config.max_connection_creation_rate, **of_listeners}
        self.client_quotas.connections.limit(rates, config.listener_of_brokers)

    def _follow_topics(self, change: Change) -> None:
        if isinstance(change, TopicDeleted):
            self.traffic.forget(change.topic.name)

    def _follow_quotas(self, change: Change) -> None:
        self.client_quotas.follow(change)
        self.quotas = self.client_quotas.active

    # -- stopping ----------------------------------------------------------------------

    async def stop(self) -> None:
        """Shut down cleanly: all acknowledged records are on disk, and the next start knows that.

        Requests in progress are answered; waiting requests are answered at once.
        """
        await self._hand_over()
        self.server.stop_accepting()
        self.cleaning.begin_to_stop()
        self.server.finish()
        self.shares.finish()
        self._share_routes.finish()
        # Do not wait any longer for other brokers' answers.
        asyncio.get_running_loop().call_later(_STOP_S, self.peers.close)
        for partition in self.partitions:
            partition.waiting.disturb()
        await self._cycles.stop()
        await self.replicas.close()
        await self.log_moves.close()
        await self.shares.close()
        await self.share_groups.close()
        for coordinator in self.coordinators.values():
            await coordinator.close()
        for routes in (
            self._marker_routes,
            self._share_routes,
            self.remote_transactions,
            self.log_ends,
        ):
            await routes.close()
        await self.server.closed(_STOP_S)
        self.server.close()
        await self._router.close()
        self.peers.close()
        await self.endpoints.stop()
        await self.cleaning.stop()
        # From now on, background work finds no partition to write to.
        await self.partitions.clear()
        await self.background.end()
        self.metadata.register_no_more()
        await self.threads.administering(self.logs.close, self.metadata.broker_epoch)
        await self.metadata.close()
        self.threads.close()

    async def _hand_over(self) -> None:
        """Hand leadership over to other brokers where possible, while this broker still answers."""
        if not self.config.controlled_shutdown_enable:
            return
        try:
            async with asyncio.timeout(_HAND_OVER_S):
                await self.metadata.hand_over()
        except KafkaError as error:
            _log.warning("the partitions led here could not be handed over: %s", error)
        except TimeoutError:
            _log.warning("not all partitions led here were handed over in %g s", _HAND_OVER_S)


def _fetch_sessions(config: BrokerConfig, clock: Clock, background: Background) -> FetchSessions:
    return FetchSessions(config.max_incremental_fetch_session_cache_slots, clock, background.spawn)


def _traffic(config: BrokerConfig) -> TrafficByTopic:
    return TrafficByTopic(config.drumlin_metrics_topics, config.drumlin_metrics_topics_max)


def _limits(config: BrokerConfig) -> ConnectionLimits:
    memory = config.queued_max_request_bytes
    return ConnectionLimits(
        max_connections=config.max_connections,
        max_connections_of_listeners=config.limits_of_listeners(CONNECTIONS),
        listener_of_brokers=config.listener_of_brokers,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
        connections_max_idle_ms=config.connections_max_idle_ms,
        socket_request_max_bytes=config.socket_request_max_bytes,
        socket_send_buffer_bytes=config.socket_send_buffer_bytes,
        socket_receive_buffer_bytes=config.socket_receive_buffer_bytes,
        socket_listen_backlog_size=config.socket_listen_backlog_size,
        request_memory_bytes=memory if memory > 0 else _REQUEST_MEMORY_BYTES // config.brokers,
    )
