"""The read of one partition by a fetch: slices of its log, or an error.

- `max_bytes` limits the response, and each partition has its own limit; but the first partition
  with records returns at least one whole batch (KIP-74).
- A replica or consumer whose log diverges from ours gets the diverging epoch (KIP-595); one with
  another leader epoch gets an error (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from drumlin.broker.rights.acls import Kind
from drumlin.broker.rights.denials import denied
from drumlin.wire.by_hand.fetch_answer import NOTHING, Answer, PreferredReplica, failed
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections import Counter

    from drumlin.broker.parts.parts import BrokerData
    from drumlin.broker.traffic.topic_counts import TrafficByTopic
    from drumlin.replication.replica import Replica
    from drumlin.wire.by_hand.fetch_request import Wanted


class Asking(Protocol):
    """The part of a request's context that counts its errors."""

    @property
    def broker(self) -> BrokerData: ...
    @property
    def errors(self) -> Counter[int]: ...


_READ_COMMITTED: Final = 1
#: A placeholder for records that exist but do not fit into the response.
NO_ROOM: Final = None
_NO_ABORTED: Final[tuple[tuple[int, int], ...]] = ()
_NO_EPOCH: Final = -1
_NULL_ID: Final = bytes(16)
#: Aborted transactions listed for one partition: encoding them takes a millisecond. If there are
#: more, fewer records are sent.
_ABORTED_MAX: Final = 1000


def missing_partition(
    broker: BrokerData,
    topic: bytes,
    index: int,
    leader_epoch: int,
    *,
    by_id: bool,
    may_follow: bool,
    may_read: Callable[[str], bool] | None,
) -> Replica:
    """Find a partition that this broker might not lead, by its topic's name or id as bytes.

    `may_follow`: a partition that this broker follows is accepted, too (KIP-392). `may_read`:
    whether the topic with a given name may be read; None: every topic may.

    Raises:
        KafkaError: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, or as `PartitionRegistry.get`
            does.
    """
    if by_id:
        name = broker.name_of_topic(None if topic == _NULL_ID else UUID(bytes=topic))
    else:
        try:
            name = topic.decode()
        except UnicodeDecodeError:
            raise KafkaError(ErrorCode.unknown_topic_or_partition) from None
    if may_read is not None and not may_read(name):
        raise denied(Kind.TOPIC)
    followed = broker.partitions.find_followed(name, index) if may_follow else None
    return broker.partitions.get(name, index, leader_epoch) if followed is None else followed


def has_records(answer: Answer) -> bool:
    """Whether the answer has a slice of a log."""
    records = answer[5]
    return records is not NOTHING and records is not NO_ROOM


def note_sent(
    traffic: TrafficByTopic, partition: Replica | None, answer: Answer, *, to_follower: bool
) -> None:
    """Count records that are sent; the replication throttle needs this, too."""
    if partition is None or not has_records(answer):
        return
    size = answer[5].size
    if to_follower:
        partition.sent_to_follower(size)
        traffic.replicated_bytes += size
    else:
        traffic[partition.topic].out_bytes += size


def note_failed(context: Asking, code: int, topic: bytes, *, by_id: bool) -> None:
    """Count a partition that is answered with an error."""
    context.errors[code] += 1
    broker = context.broker
    broker.traffic.known(broker.metadata.image, topic, by_id=by_id).failed_fetches += 1


class PartitionRead:
    """One pass of a fetch over its partitions: its reads so far, and the bytes that are left."""

    __slots__ = (
        "_isolation_level",
        "_rack",
        "_replica_epoch",
        "_replica_id",
        "bytes_left",
        "is_follower",
        "must_answer",
        "read_bytes",
    )

    def __init__(
        self,
        max_bytes: int,
        isolation_level: int,
        replica_id: int,
        replica_epoch: int,
        rack: str | None,
    ) -> None:
        """`replica_id` is negative for a consumer; a consumer with a `rack` may be sent to
        another replica."""
        self.bytes_left = max_bytes
        self.read_bytes = 0
        self.must_answer = False  # an error or news that the reader must get without waiting
        self._isolation_level = isolation_level
        self.is_follower = replica_id >= 0
        self._replica_id, self._replica_epoch = replica_id, replica_epoch
        self._rack = rack

    def take(self, answer: Answer) -> None:
        """Count the bytes of an answer, and note whether it must be sent at once."""
        if has_records(answer):
            size = answer[5].size
            self.read_bytes += size
            self.bytes_left = max(0, self.bytes_left - size)
        elif answer[0] or answer[6] is not None:
            self.must_answer = True

    def follow(self, partition: Replica, wanted: Wanted) -> Answer | None:
        """Note a follower's fetch offset, before it is answered.

        Returns an answer if the follower is refused or throttled, or if its log diverges. If None
        is returned, `look` must be called in the same turn.
        """
        _, leader_epoch, fetch_offset, _, log_start_offset, _ = wanted
        try:
            partition.check_follower(self._replica_id)
            partition.check_leader_epoch(leader_epoch)
            parting = self._parting(partition, wanted)
            if parting is not None:
                if parting[0] == _NO_EPOCH:
                    partition.follower_refetches(self._replica_id)
                return _told(partition, parting)
            partition.follower_fetched(
                self._replica_id, self._replica_epoch, fetch_offset, log_start_offset
            )
            if partition.is_throttled(self._replica_id):
                partition.check_offset(fetch_offset)
                if fetch_offset < partition.log_end_offset:
                    return (0, *partition.offsets(), None, NO_ROOM, None)
        except KafkaError as error:
            return failed(error.code)
        return None

    def look(self, partition: Replica, wanted: Wanted, *, may_block: bool) -> Answer:
        """The answer for a partition. Changes nothing, so a thread may call it.

        For a follower it is called right after `follow`; if `may_block`, it repeats the checks of
        `follow`.

        Raises:
            BlockingIOError: finding a batch needs the disk, and `may_block` is false.
        """
        _, _, fetch_offset, _, _, max_bytes = wanted
        records: Any = NOTHING
        try:
            if may_block or not self.is_follower:  # else `follow` has just checked it
                aside = self._told_instead(partition, wanted)
                if aside is not None:
                    return _told(partition, aside)
            is_committed = self._isolation_level == _READ_COMMITTED and not self.is_follower
            aborted: Sequence[tuple[int, int]] | None = _NO_ABORTED if is_committed else None
            bytes_left = self.bytes_left
            offsets = partition.offsets()
            end_offset = partition.log_end_offset if self.is_follower else offsets[is_committed]
            if fetch_offset == end_offset:
                self._check_end(partition)
            elif bytes_left <= 0 and self.read_bytes:
                partition.check_offset(fetch_offset)
                records = NO_ROOM
            else:
                most, needs_one = min(bytes_left, max_bytes), self.read_bytes == 0
                if is_committed:
                    read, found = partition.read_committed(
                        fetch_offset,
                        most,
                        _ABORTED_MAX,
                        minimum_one_batch=needs_one,
                        may_block=may_block,
                    )
                    if found:  # if there are very many, only the first are listed
                        aborted = [(each.producer_id, each.first_offset) for each in found]
                elif self.is_follower:
                    read = partition.read_as_replica(
                        fetch_offset, most, minimum_one_batch=needs_one, may_block=may_block
                    )
                else:
                    read = partition.read(
                        fetch_offset,
                        most,
                        self._isolation_level,
                        minimum_one_batch=needs_one,
                        may_block=may_block,
                    )
                if read.slices:
                    records = read.slices[0] if read.slices[0].size else NO_ROOM
                if may_block:
                    offsets = partition.offsets()  # they may have moved while a thread read
        except KafkaError as error:
            return self._refusal(error.code, partition, fetch_offset)
        answer = (0, *offsets, aborted, records, None)
        return self._looked_again(partition, wanted, answer) if may_block else answer

    def _check_end(self, partition: Replica) -> None:
        """Refuse a reader at the end of the log if waiting for new records would be in vain."""
        partition.check_readable()
        if not self.is_follower:
            partition.check_grows()

    def _looked_again(self, partition: Replica, wanted: Wanted, answer: Answer) -> Answer:
        """The answer, unless a check of `follow` fails now, as segments were cleaned since."""
        if not self.is_follower:
            return answer
        try:
            parting = self._parting(partition, wanted)
        except KafkaError as error:
            instead = failed(error.code)
        else:
            if parting is None:
                return answer
            instead = _told(partition, parting)
        if has_records(answer):
            answer[5].release()
        return instead

    def _refusal(self, code: ErrorCode, partition: Replica, fetch_offset: int) -> Answer:
        """The answer with an error. OFFSET_OUT_OF_RANGE makes a consumer reset its position and
        perhaps skip records. So a consumer whose offset may come from a later leader gets an error
        that it retries. A follower also gets our offsets, to know from where to fetch.
        """
        if code is not ErrorCode.offset_out_of_range:
            return failed(code)
        if self.is_follower:
            return (code.value, *partition.offsets(), None, NOTHING, None)
        if fetch_offset < partition.log_end_offset or partition.knows_its_end:
            return failed(code)
        return failed(ErrorCode.offset_not_available)

    def _told_instead(
        self, partition: Replica, wanted: Wanted
    ) -> tuple[int, int] | PreferredReplica | None:
        """The divergence or closer replica that a reader gets instead of records; None if neither.

        Raises:
            KafkaError: the reader has another leader epoch.
        """
        _, leader_epoch, _, last_fetched_epoch, _, _ = wanted
        if leader_epoch >= 0:
            partition.check_leader_epoch(leader_epoch)
        if last_fetched_epoch >= 0:
            parting = self._parting(partition, wanted)
            if parting is not None:
                return parting
        if self._rack is None:
            return None
        nearest = partition.nearest_to(self._rack, wanted[2])
        return None if nearest is None else PreferredReplica(nearest)

    def _parting(self, partition: Replica, wanted: Wanted) -> tuple[int, int] | None:
        """The epoch and offset at which the reader's log diverges from ours; None if unknown.

        A follower's log may have nothing in common with ours: all its records may have epochs older
        than those that we know, and we may have deleted the records that ended some of them. Then
        the answer has no epoch, and the offset at which our log begins: the follower fetches
        everything again into a second log. A member of the ISR must keep its log, so it gets the
        offset to which to truncate.
        """
        _, _, fetch_offset, last_fetched_epoch, its_start, _ = wanted
        if last_fetched_epoch < 0:
            return None
        parting = _diverging(partition, last_fetched_epoch, fetch_offset)
        if not self.is_follower:
            return parting
        start = partition.log_start_offset
        if parting is None:
            if partition.knows_epochs_from(last_fetched_epoch) and not partition.may_miss_deletions(
                self._replica_id, self._replica_epoch, fetch_offset
            ):
                return None
            parting = last_fetched_epoch, start
        elif parting[1] > start and parting[1] >= its_start:
            return parting
        if partition.has_in_sync(self._replica_id):
            return parting
        return _NO_EPOCH, partition.settled_before


def _told(partition: Replica, aside: tuple[int, int] | PreferredReplica) -> Answer:
    """The answer with a divergence or closer replica instead of records."""
    return (0, *partition.offsets(), None, NOTHING, aside)


def _diverging(
    partition: Replica, last_fetched_epoch: int, fetch_offset: int
) -> tuple[int, int] | None:
    """The epoch and offset at which the log of a client at `last_fetched_epoch` diverges."""
    epoch, end_offset = partition.end_offset_for_epoch(last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.offset_out_of_range)
    if epoch == last_fetched_epoch and end_offset >= fetch_offset:
        return None
    return epoch, end_offset
