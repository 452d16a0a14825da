"""The interface of a metadata store. `opening.py` says which there are, and opens one.

Reading goes to `image`, at once. A mutation is checked against what is stored, made durable,
shown in the image, reported to the listeners, and only then its coroutine returns. Mutations
of the same topic or the same configuration happen one after the other.
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
#: Current configuration -> what to change: a value sets a key, None removes it.
Alteration = Callable[[Mapping[str, str]], Mapping[str, str | None]]
#: Follows changes; it may take its time.
Listener = Callable[[Change], Awaitable[None] | None]


#: As many as Apache Kafka's controller hands out at a time.
PRODUCER_ID_BLOCK_SIZE: Final = 1000


#: Of a broker that has stopped cleanly.
NOTHING_LACKING: Final[Mapping[PartitionId, Returned]] = MappingProxyType({})


class UnusableMetadata(Exception):
    """A broker cannot start with this store; the message is one line for the operator."""


class ProducerIdBlock(NamedTuple):
    """Producer ids that are given out only once."""

    first: int
    size: int


class Adoption(Protocol):
    """What is to be known of logs that lay in the log dirs before their store was made."""

    def note_adopted(self, first_producer_id: int = 0) -> Awaitable[None]:
        """Their topics are in the store now.

        Producer ids below `first_producer_id` may be in them.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """


class MetadataStore(Protocol):
    """Where topics, configurations and producer ids are kept."""

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is known now."""

    @property
    def adoption(self) -> Adoption | None:
        """To be made, where the store is new and logs that it does not know may be there."""

    def register_broker(
        self, broker: BrokerState, *, lacking: Mapping[PartitionId, Returned] = NOTHING_LACKING
    ) -> Awaitable[None]:
        """Make this process a broker of the cluster, in a new broker epoch.

        lacking: partitions with replicas elsewhere of which it may lack records that it had, and
            what it has. That is known before it is registered: see `leadership.returned`.

        Nothing is changed before that.

        Raises:
            UnusableMetadata: it must not be.
            KafkaError: KAFKA_STORAGE_ERROR.
        """

    def advance_leader_epochs(self) -> Awaitable[None]:
        """Begin a new leader epoch in every partition led by this broker. That is not reported.

        After an unclean stop records may be missing that consumers have seen; the new epoch
        is how they find out.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """

    @property
    def elections(self) -> ElectionCounts | None:
        """Leaders that this process has given to partitions; None if another one does that."""

    @property
    def controller_queue(self) -> int:
        """What this process still has to decide, if it is the controller."""

    def on_change(self, listener: Listener) -> None:
        """Call `listener` on the event loop after each change from now on, in their order.

        What it returns is awaited before the next listener is called, and before the next change is
        reported: it must not wait for a mutation of which the change is reported.
        """

    def create_topic(
        self,
        name: str,
        assignment: Assignment,
        configs: Mapping[str, str],
        topic_id: UUID | None = None,
        first_leader_epoch: int = 0,
    ) -> Awaitable[TopicState]:
        """Create a topic, each partition led by its first replica.

        An id and an epoch are given for logs that exist already and come from elsewhere.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS, or KAFKA_STORAGE_ERROR.
        """

    def partition_count(self, name: str) -> Awaitable[int]:
        """How many partitions a topic has that is stored, of which the image may lack news.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """

    def delete_topic(self, topic_id: UUID) -> Awaitable[None]:
        """Delete a topic and its configuration.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID, or KAFKA_STORAGE_ERROR.
        """

    @property
    def deleted_topics(self) -> Mapping[UUID, tuple[str, ...] | None]:
        """Deleted topics of which folders may be left, and in which log dirs; None: in any.

        A folder elsewhere has come since, from a backup maybe.
        """

    def was_deleted(self, topic_id: UUID) -> bool:
        """Whether the topic is known to have been deleted: since this process began, or before.

        An id that no topic has may be that of a topic which is only missing here: the metadata
        was lost while a log dir was offline, or is an older copy. So nothing else is a reason to
        remove what is known of it. Deletions are forgotten with the end of a process that found
        no folder left of the topic when it began; in ZooKeeper, of a process that began some time
        after every broker had said so.
        """

    def was_any_deleted(self) -> bool:
        """Whether there is an id for which `was_deleted` is true."""

    def note_folders_left(self, left: Mapping[UUID, Sequence[str]]) -> Awaitable[None]:
        """Folders of deleted topics are left in these log dirs only, or in none.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """

    def add_partitions(
        self, name: str, first_index: int, assignment: Assignment
    ) -> Awaitable[TopicState]:
        """Add partitions to a topic that has `first_index` of them.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS when it has another
                number meanwhile, or KAFKA_STORAGE_ERROR.
        """

    def alter_configs(self, resource: Resource, alteration: Alteration) -> Awaitable[None]:
        """Change a configuration; `alteration` decides, knowing the one that is stored.

        Raises:
            KafkaError: what `alteration` raises, or KAFKA_STORAGE_ERROR.
        """

    def advance_leader_epochs_of(self, partitions: Collection[PartitionId]) -> Awaitable[None]:
        """Begin a new leader epoch in some partitions, where this broker leads them.

        That is not reported.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """

    def alter_isrs(
        self, requests: Mapping[PartitionId, IsrRequest]
    ) -> Awaitable[Mapping[PartitionId, PartitionState | KafkaError]]:
        """Change in-sync replicas, as their leader.

        A change is reported as `PartitionsChanged` before this returns. Of one that is refused
        the stored state is reported, should it be newer than the image's.

        Returns:
            The new state of each partition, or why there is none: UNKNOWN_TOPIC_ID,
            FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA; NOT_CONTROLLER while
            this broker is not registered; KAFKA_STORAGE_ERROR where it is not known whether it was
            made. One that was made is granted again.
        """

    def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool = True
    ) -> Awaitable[Mapping[PartitionId, PartitionState | KafkaError]]:
        """Begin to move partitions to other brokers, or take it back where the target is None.

        A change is reported as `PartitionsChanged` before this returns; the reassignment completes
        later, when all replicas of the target are in sync (`reassignment.py`).

        Returns:
            The new state of each partition, or why there is none: UNKNOWN_TOPIC_ID,
            INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS;
            KAFKA_STORAGE_ERROR where it is not known whether it was made.
        """

    def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Awaitable[Mapping[PartitionId, PartitionState | KafkaError]]:
        """Have partitions be led by their preferred leaders; or by anybody, where nobody leads.

        Returns:
            As `reassign`: UNKNOWN_TOPIC_ID, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
            ELIGIBLE_LEADERS_NOT_AVAILABLE, KAFKA_STORAGE_ERROR.
        """

    def unregister_broker(self, node_id: int) -> Awaitable[None]:
        """Forget a broker that is gone for good.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST: it is alive;
                KAFKA_STORAGE_ERROR.
        """

    def leave_isrs(self, partitions: Collection[PartitionId]) -> Awaitable[None]:
        """Leave the ISRs of partitions whose logs have failed, and let others lead them.

        Where nobody else has all that is committed it stays. Changes are reported.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """

    def hand_over(self) -> Awaitable[None]:
        """Leave all ISRs and give the leaderships away, where another broker can take over.

        This broker stops next: no leader takes it into an ISR again in this broker epoch, though it
        may go on to fetch. What it does not lead any more it does not count for (KIP-966).

        Raises:
            KafkaError: NOT_CONTROLLER: it is not registered; KAFKA_STORAGE_ERROR.
        """

    @property
    def broker_epoch(self) -> int:
        """In which this process is registered, or was last; -1: it is not known.

        To be told to `last_broker_epoch` of the next process, if this one stops cleanly.
        """

    def register_no_more(self) -> None:
        """This process stops: no epoch begins that its logs would not be told of."""

    @property
    def last_broker_epoch(self) -> int | None:
        """Of the last process of this broker before this one; None: there was none, or is no
        knowing. Before this process registers."""

    def next_producer_id_block(self) -> Awaitable[ProducerIdBlock]:
        """Take a block of producer ids.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """

    def close(self) -> Awaitable[None]:
        """Wait for mutations under way, then let go of whatever is open."""
