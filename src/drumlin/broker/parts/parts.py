"""Protocols of the parts of the broker, through which other parts use them without importing
`Broker`.

`Broker` puts the parts together, and implements all these protocols; each part takes the smallest
one that suffices. `context.py` adds what only handlers use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from drumlin.background import Background
    from drumlin.broker.loop.threads import Threads
    from drumlin.broker.parts.change_overs import ChangeOvers
    from drumlin.broker.parts.failed_verifications import FailedVerifications
    from drumlin.broker.parts.flushes import Flushes
    from drumlin.broker.parts.wakeups import Wakeups
    from drumlin.broker.peers.peers import Peers
    from drumlin.broker.peers.transactions import RemoteTransactions
    from drumlin.broker.quotas.client_quotas import ClientQuotas
    from drumlin.broker.rights.authorizer import Authorizer
    from drumlin.broker.traffic.topic_counts import TrafficByTopic
    from drumlin.clock import Clock
    from drumlin.config.broker import BrokerConfig
    from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
    from drumlin.coordination.groups.coordinator.share_groups import ShareGroupMembership
    from drumlin.coordination.producer_ids import ProducerIds
    from drumlin.coordination.shards.state_topic import StateCoordinator
    from drumlin.coordination.share.state.coordinator import ShareCoordinator
    from drumlin.coordination.share.state.states import ShareStates
    from drumlin.coordination.transactions.coordinator import TransactionCoordinator
    from drumlin.metadata.store.store import MetadataStore
    from drumlin.replication.partition_registry import PartitionRegistry
    from drumlin.storage.all_logs.log_directories import LogDirectories


class Certificates(Protocol):
    """The certificates of the broker's listeners, which may be replaced."""

    #: Held from `check` until the configuration is stored.
    changing: asyncio.Lock

    async def check(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str], named: Iterable[str]
    ) -> None:
        """Check that listeners could be changed to a configuration; `named`: the keys that are set.

        Raises:
            ConfigError: they could not.
        """

    async def renew(self) -> None:
        """Use the certificates of the present configuration and files; log refused ones."""


class BrokerData(Protocol):
    """The topics and logs of a broker, and the means to work on them."""

    config: BrokerConfig
    clock: Clock
    #: None: everybody may do everything.
    authorizer: Authorizer | None
    #: None: no client has a quota.
    quotas: ClientQuotas | None
    metadata: MetadataStore
    logs: LogDirectories
    partitions: PartitionRegistry
    threads: Threads
    background: Background
    wakeups: Wakeups
    flushes: Flushes
    change_overs: ChangeOvers
    peers: Peers
    traffic: TrafficByTopic

    @property
    def renewal(self) -> Certificates: ...

    @property
    def node_id(self) -> int: ...

    def name_of_topic(self, topic_id: UUID | None) -> str:
        """
        Raises:
            KafkaError: UNKNOWN_TOPIC_ID.
        """


class Coordinators(BrokerData, Protocol):
    """The coordinators of groups and transactions, and the data under them."""

    groups: GroupCoordinator
    share_groups: ShareGroupMembership
    share_state: ShareCoordinator
    share_states: ShareStates
    transactions: TransactionCoordinator
    remote_transactions: RemoteTransactions
    producer_ids: ProducerIds
    coordinators: dict[str, StateCoordinator]
    failed_verifications: FailedVerifications
