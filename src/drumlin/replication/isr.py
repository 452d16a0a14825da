"""Which replicas of a partition are in sync, as its leader sees it, and what they all have. Pure.

Owns what the leader knows of its followers from their fetches. Asks for changes of the ISR and
never makes one: a change counts when the metadata says so. Until that is known, the old and the new
ISR both count: the high watermark waits for every member of either (KIP-497).

    a follower falls behind      -> `shrinkage`, once it has not had all for `lag_max_ms`
    a follower has caught up     -> `growth`: it has all below the high watermark, and all from
                                    before this leader epoch
    a follower is another process -> what its predecessor had counts no more (KIP-903)
    a follower has left the ISR by itself, as its log dir has failed -> nor does what it had
    others have come back from an unclean stop -> `renewal`: they wait for this leader from now on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest

UNKNOWN: Final = -1
_LONG_AGO_MS: Final = float("-inf")

#: Whether the broker of that id is alive, in that broker epoch.
IsAlive = Callable[[int, int], bool]


class FollowerProgress:
    """How far one follower has come, by its own fetches."""

    __slots__ = (
        "_end_offset_then",
        "_fetched_at_ms",
        "broker_epoch",
        "caught_up_at_ms",
        "deletions_kept_from",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_at_ms: float) -> None:
        self.broker_epoch = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        #: What it was in the leader's log when this follower last fetched.
        self.deletions_kept_from = UNKNOWN
        #: When it last had everything that the leader had.
        self.caught_up_at_ms = caught_up_at_ms
        self._fetched_at_ms = caught_up_at_ms
        self._end_offset_then = 0

    def fetched(
        self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: float
    ) -> None:
        if offset >= leader_end_offset:
            self.caught_up_at_ms = now_ms
        elif offset >= self._end_offset_then:  # it has all that there was when it last asked
            self.caught_up_at_ms = max(self.caught_up_at_ms, self._fetched_at_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self._fetched_at_ms = now_ms
        self._end_offset_then = leader_end_offset

    def left(self) -> None:
        """It has lost what it had, maybe: it has left the ISR by itself, or begins anew."""
        self.log_end_offset = self.deletions_kept_from = UNKNOWN
        self.caught_up_at_ms = _LONG_AGO_MS

    def lacked_nothing(self, leader_end_offset: int, at_ms: float) -> None:
        """Count as caught up at that time, if it had all that the leader had then.

        It need not have fetched since: where nothing is new, its session says nothing.
        """
        if self.log_end_offset >= leader_end_offset:
            self.caught_up_at_ms = max(self.caught_up_at_ms, at_ms)


class InSyncReplicas:
    """Of one partition, in one leader epoch of this broker.

    Handed in:
        node_id: of this broker, the leader.
        state: the partition as it became ours.
        end_offset: the log end offset at that moment.
        is_alive: see above.
    """

    def __init__(
        self,
        node_id: int,
        state: PartitionState,
        end_offset: int,
        now_ms: float,
        lag_max_ms: Callable[[], float],
        is_alive: IsAlive,
    ) -> None:
        self._node_id = node_id
        #: Where the records of this leader epoch begin.
        self.first_offset = end_offset
        self._lag_max_ms = lag_max_ms
        self._is_alive = is_alive
        self.state = state
        self._looked_at_ms, self._end_offset_then = now_ms, end_offset
        self.pending: IsrRequest | None = None
        self._pending_ids: frozenset[int] = frozenset()
        self.followers = {
            each: FollowerProgress(now_ms if each in state.isr else _LONG_AGO_MS)
            for each in state.replicas
            if each != node_id
        }

    @property
    def size(self) -> int:
        """How many there are, as far as the metadata has agreed."""
        return len(self.state.isr)

    # -- fetches -------------------------------------------------------------------------

    def fetched(
        self,
        replica_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: float,
    ) -> bool:
        """A follower asks for what begins at `offset`: it has everything before.

        Returns:
            False: it is no follower of this partition, or not the process that is registered by
                that id: one that has been replaced, or one that is not known, or not yet.
        """
        follower = self.followers.get(replica_id)
        if follower is None or broker_epoch == UNKNOWN:
            return False
        if not self._is_alive(replica_id, broker_epoch):
            return False  # whatever it claims to have, nobody may have it
        if broker_epoch != follower.broker_epoch:
            # A lower one is as new: ZooKeeper may have been put back from a backup.
            if follower.broker_epoch != UNKNOWN:
                follower.caught_up_at_ms = _LONG_AGO_MS
            follower.broker_epoch = broker_epoch
        follower.fetched(offset, log_start_offset, leader_end_offset, now_ms)
        return True

    def begins_anew(self, replica_id: int) -> None:
        """A follower that is no member fetches all again."""
        follower = self.followers.get(replica_id)
        if follower is not None and not self.counts(replica_id):
            follower.left()

    def note_followed(self, replica_id: int, deletions_kept_from: int) -> None:
        """A follower has got all deletions that are dropped by now, or began after that."""
        self.followers[replica_id].deletions_kept_from = deletions_kept_from

    def counts(self, replica_id: int) -> bool:
        """Whether it is a member, or a change is pending that makes it one."""
        return replica_id in self.state.isr or replica_id in self._pending_ids

    def has_followed(
        self, replica_id: int, broker_epoch: int, offset: int, deletions_kept_from: int
    ) -> bool:
        """Whether a follower at `offset` has fetched since deletions were dropped last.

        One that has gone back since has lost records: maybe deletions that are not here any more.
        Another process may have gone back to a log beside which it was fetching this one; the same
        process does not (`LogState.anew`).
        """
        follower = self.followers.get(replica_id)
        return (
            follower is not None
            and broker_epoch == follower.broker_epoch
            and follower.deletions_kept_from == deletions_kept_from
            and follower.log_end_offset <= offset
        )

    def has_follower_below(self, offset: int) -> bool:
        """Whether a replica that catches up has not got to an offset yet.

        Should it miss deletions on its way, it would have to begin anew, again and again.
        """
        return any(
            UNKNOWN < follower.log_end_offset < offset
            and replica_id not in self.state.isr
            and self._is_alive(replica_id, UNKNOWN)
            for replica_id, follower in self.followers.items()
        )

    def high_watermark(self, current: int, leader_end_offset: int, now_ms: float) -> int:
        """The first offset that not all of them have; never below `current`.

        It waits for a follower, too, that is about to join: else that would never have all that is
        below the high watermark, as long as records keep coming.
        """
        lowest = leader_end_offset
        for replica_id, follower in self.followers.items():
            if follower.log_end_offset < lowest and (
                self.counts(replica_id) or self._is_joining(replica_id, follower, now_ms)
            ):
                lowest = follower.log_end_offset
                if lowest <= current:
                    return current
        return max(current, lowest)

    def _is_joining(self, replica_id: int, follower: FollowerProgress, now_ms: float) -> bool:
        return now_ms - follower.caught_up_at_ms <= self._lag_max_ms() and self._is_alive(
            replica_id, follower.broker_epoch
        )

    def low_watermark(self, log_start_offset: int) -> int:
        """The first offset that some live replica still keeps."""
        starts = [
            follower.log_start_offset
            for replica_id, follower in self.followers.items()
            if self._is_alive(replica_id, UNKNOWN)
        ]
        return min([log_start_offset, *starts])

    # -- changes of the ISR ----------------------------------------------------------------

    def growth(self, high_watermark: int) -> IsrRequest | None:
        """The ISR with those that have caught up, unless a change is pending."""
        if self.pending is not None or len(self.state.isr) == len(self.state.replicas):
            return None
        needed = max(high_watermark, self.first_offset)
        joining = [
            replica_id
            for replica_id, follower in self.followers.items()
            if replica_id not in self.state.isr
            and follower.log_end_offset >= needed
            and self._is_alive(replica_id, follower.broker_epoch)
        ]
        return self._wish((*self.state.isr, *joining)) if joining else None

    def shrinkage(self, leader_end_offset: int, now_ms: float) -> IsrRequest | None:
        """The ISR without those that lag, unless a change is pending. The leader stays.

        To be called now and then: who had all the last time lags from then on, at most.
        """
        for follower in self.followers.values():
            follower.lacked_nothing(self._end_offset_then, self._looked_at_ms)
            follower.lacked_nothing(leader_end_offset, now_ms)
        self._looked_at_ms, self._end_offset_then = now_ms, leader_end_offset
        if self.pending is not None:
            return None
        kept = [
            each
            for each in self.state.isr
            if each == self._node_id or not self._lags(each, leader_end_offset, now_ms)
        ]
        return self._wish(kept) if len(kept) < len(self.state.isr) else None

    def renewal(self) -> IsrRequest | None:
        """The ISR as it is, where others might lead in our stead though they lack what we have.

        They came back from an unclean stop (`metadata/rules/eligible.py`); any wish says that we
        live.
        """
        if self.pending is not None or not any(each.was_complete for each in self.state.last_known):
            return None
        return self._wish(self.state.isr)

    def _lags(self, replica_id: int, leader_end_offset: int, now_ms: float) -> bool:
        follower = self.followers.get(replica_id)
        return follower is None or (
            follower.log_end_offset < leader_end_offset
            and now_ms - follower.caught_up_at_ms > self._lag_max_ms()
        )

    def _wish(self, members: Iterable[int]) -> IsrRequest:
        isr = tuple(
            (each, self.followers[each].broker_epoch if each in self.followers else UNKNOWN)
            for each in members
        )
        return IsrRequest(self.state.leader_epoch, self.state.partition_epoch, isr)

    def asked(self, wish: IsrRequest) -> None:
        """A change was asked for: its members count as well until the answer is known."""
        self.pending = wish
        self._pending_ids = frozenset(each for each, _ in wish.isr)

    def refused(self) -> None:
        """The change that is pending was not made, and will not be."""
        self.pending = None
        self._pending_ids = frozenset()

    def agreed(self, state: PartitionState, now_ms: float) -> None:
        """The metadata has another state of the partition, in the same leader epoch."""
        if state.partition_epoch < self.state.partition_epoch:
            return
        if self.pending is None or self._pending_ids != set(state.isr):
            for replica_id in self.followers.keys() & set(self.state.isr) - set(state.isr):
                self.followers[replica_id].left()
        if self.pending is not None and state.partition_epoch > self.pending.partition_epoch:
            self.refused()  # made or not, it is not going to be made any more
        gone = set(self.followers) - set(state.replicas)
        for replica_id in gone:
            del self.followers[replica_id]
        for replica_id in state.replicas:
            if replica_id != self._node_id and replica_id not in self.followers:
                joined_at_ms = now_ms if replica_id in state.isr else _LONG_AGO_MS
                self.followers[replica_id] = FollowerProgress(joined_at_ms)
        self.state = state
