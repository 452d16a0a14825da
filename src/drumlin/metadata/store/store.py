"""The interface of a metadata store. `opening.py` knows the stores, and opens one.

Reads use `image`, and never wait. A mutation is checked against the stored state, made durable,
shown in the image and reported to the listeners; then its coroutine returns. Mutations of the same
topic or configuration happen one after the other.

Any mutation raises a `KafkaError`, KAFKA_STORAGE_ERROR, if it cannot be stored or the outcome is
unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from drumlin.metadata.image import (
    BrokerState,
    ClusterImage,
    PartitionId,
    PartitionState,
    Resource,
    TopicState,
)
from drumlin.metadata.rules.decisions import Target
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.store.changes import Change
from drumlin.wire.error_codes import KafkaError

#: Replicas of each partition, the preferred leader first.
Assignment = Sequence[Sequence[int]]
#: Returns the changes to make in the stored configuration: a value sets a key, None removes it.
Alteration = Callable[[Mapping[str, str]], Mapping[str, str | None]]
#: Handles a change; it may return an awaitable.
Listener = Callable[[Change], Awaitable[None] | None]


#: The size of a block of producer ids, as in Apache Kafka's controller.
PRODUCER_ID_BLOCK_SIZE: Final = 1000


#: The argument `lacking` of a broker that stopped cleanly.
NOTHING_LACKING: Final[Mapping[PartitionId, Returned]] = MappingProxyType({})


class UnusableMetadata(Exception):
    """A broker cannot start with this store; the message is one line for the operator."""


class ProducerIdBlock(NamedTuple):
    """A range of producer ids that is allocated only once."""

    first: int
    size: int


class Adoption(Protocol):
    """The adoption of logs that are older than the store."""

    def note_adopted(self, first_producer_id: int = 0) -> Awaitable[None]:
        """Note that the topics of these logs are in the store now, and that producer ids below
        `first_producer_id` may occur in the logs.
        """


class MetadataStore(Protocol):
    """A store of topics, configurations, brokers and producer ids."""

    @property
    def image(self) -> ClusterImage:
        """The current image of the cluster."""

    @property
    def adoption(self) -> Adoption | None:
        """The adoption to carry out if the store is new, as there may be logs already; else
        None.
        """

    def register_broker(
        self, broker: BrokerState, *, lacking: Mapping[PartitionId, Returned] = NOTHING_LACKING
    ) -> Awaitable[None]:
        """Register this process as a broker of the cluster, in a new broker epoch.

        Must precede any mutation.

        lacking: partitions with other replicas in which this broker may have lost records, each
            with what is left of its log. This is stored before the broker counts as alive: see
            `leadership.returned`.

        Raises:
            UnusableMetadata: the broker must not register.
        """

    def advance_leader_epochs(
        self, partitions: Collection[PartitionId] | None = None
    ) -> Awaitable[None]:
        """Begin a new leader epoch in all partitions, or in these, that this broker leads.

        After an unclean stop, records that consumers have read may be missing; by the new epoch
        consumers notice this (KIP-320). The change is not reported, and this waits for no listener,
        so a listener may call it.
        """

    @property
    def elections(self) -> ElectionCounts | None:
        """Counts of the elections made by this process; None if another process makes them."""

    @property
    def controller_queue(self) -> int:
        """The number of decisions waiting for this process, if it is the controller."""

    def on_change(self, listener: Listener) -> None:
        """From now on, call `listener` on the event loop for each change, in order.

        If it returns an awaitable, that is awaited before the next listener is called and the next
        change is reported. So a listener must not wait for a mutation that reports a change.
        """

    def create_topic(
        self,
        name: str,
        assignment: Assignment,
        configs: Mapping[str, str],
        topic_id: UUID | None = None,
        first_leader_epoch: int = 0,
    ) -> Awaitable[TopicState]:
        """Create a topic; each partition is led by its first replica.

        An id and a leader epoch are given for adopted logs.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS.
        """

    def partition_count(self, name: str) -> Awaitable[int]:
        """The stored number of a topic's partitions, which may be ahead of the image."""

    def delete_topic(self, topic_id: UUID) -> Awaitable[None]:
        """Delete a topic and its configuration.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID.
        """

    @property
    def deleted_topics(self) -> Mapping[UUID, tuple[str, ...] | None]:
        """Deleted topics, each with the log dirs that may still have its folders; None means any
        log dir.

        A folder in another log dir has appeared later, perhaps from a backup.
        """

    def was_deleted(self, topic_id: UUID) -> bool:
        """Whether the topic is known to have been deleted, by this process or before.

        An unknown topic id is not enough to delete the data of a topic: if the metadata was lost or
        restored from an older copy, only the metadata may lack the topic. Only a known deletion is
        a reason to delete data. A deletion is forgotten at the end of a process that found no
        folders of the topic
        at its start; in ZooKeeper, if that process started some time after every broker had found
        none.
        """

    def was_any_deleted(self) -> bool:
        """Whether `was_deleted` is true for any id."""

    def note_folders_left(self, left: Mapping[UUID, Sequence[str]]) -> Awaitable[None]:
        """Note which log dirs still have folders of deleted topics; an empty list if none has."""

    def add_partitions(
        self, name: str, first_index: int, assignment: Assignment
    ) -> Awaitable[TopicState]:
        """Add partitions to a topic that has `first_index` partitions.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS if its number of partitions
                has changed.
        """

    def alter_configs(self, resource: Resource, alteration: Alteration) -> Awaitable[None]:
        """Change a configuration; `alteration` gets the stored one, and decides.

        Raises:
            KafkaError: an error raised by `alteration`.
        """

    def alter_isrs(
        self, requests: Mapping[PartitionId, IsrRequest]
    ) -> Awaitable[Mapping[PartitionId, PartitionState | KafkaError]]:
        """Change ISRs, as the leader (AlterPartition).

        A change is reported as `PartitionsChanged` before this returns. If a request is refused and
        the stored state is newer than the image's, the stored one is reported.

        Returns:
            The new state of each partition, or the error: UNKNOWN_TOPIC_ID, FENCED_LEADER_EPOCH,
            INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA; NOT_CONTROLLER while this broker is not
            registered; KAFKA_STORAGE_ERROR if the outcome is unknown. A repeated request whose
            change was already made succeeds.
        """

    def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool = True
    ) -> Awaitable[Mapping[PartitionId, PartitionState | KafkaError]]:
        """Begin reassignments of partitions to other brokers, or cancel those whose target is None.

        A change is reported as `PartitionsChanged` before this returns; the reassignment completes
        later, when all replicas of the target are in sync (`reassignment.py`).

        Returns:
            The new state of each partition, or the error: UNKNOWN_TOPIC_ID,
            INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS;
            KAFKA_STORAGE_ERROR if the outcome is unknown.
        """

    def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Awaitable[Mapping[PartitionId, PartitionState | KafkaError]]:
        """Elect the preferred leaders of partitions or, in an unclean election, any leader where
        there is none.

        Returns:
            As `reassign`: UNKNOWN_TOPIC_ID, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
            ELIGIBLE_LEADERS_NOT_AVAILABLE, KAFKA_STORAGE_ERROR.
        """

    def unregister_broker(self, node_id: int) -> Awaitable[None]:
        """Remove a broker that will not come back.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST: the broker is alive.
        """

    def leave_isrs(self, partitions: Collection[PartitionId]) -> Awaitable[None]:
        """Leave the ISRs of partitions whose logs have failed, so that other brokers lead them.

        This broker stays in an ISR if no other broker has all committed records. Changes are
        reported.
        """

    def hand_over(self) -> Awaitable[None]:
        """Controlled shutdown: leave all ISRs and leaderships that another broker can take over.

        A new broker epoch begins that no leader knows. So no leader adds this broker to an ISR
        again, although it may continue to fetch until it stops (KIP-903, KIP-966).

        Raises:
            KafkaError: NOT_CONTROLLER: the broker is not registered.
        """

    @property
    def broker_epoch(self) -> int:
        """The broker epoch in which this process is or was registered; -1 if unknown.

        A clean stop notes it in the log dirs, for comparison with `last_broker_epoch` of the next
        process.
        """

    def register_no_more(self) -> None:
        """Never register again, as this process is stopping, and could no longer note a later
        epoch.
        """

    @property
    def last_broker_epoch(self) -> int | None:
        """The broker epoch of this broker's previous process, until this one registers.

        None if there was no such process, or its epoch is unknown.
        """

    def next_producer_id_block(self) -> Awaitable[ProducerIdBlock]:
        """Take a block of producer ids."""

    def close(self) -> Awaitable[None]:
        """Wait for mutations in progress, then close the store."""
