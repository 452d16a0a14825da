"""The in-sync replicas (ISR) of a partition, as its leader sees them, and its high watermark. Pure.

Owns the leader's knowledge of its followers, from their fetches. Proposes changes of the ISR, but
never makes one: a change takes effect when it is in the metadata. Until that is known, both the old
and the new ISR count: the high watermark waits for every member of either (KIP-497).

    a follower falls behind       -> `shrinkage`, once it has not caught up for `lag_max_ms`
    a follower has caught up      -> `growth`: it has all records below the high watermark, and
                                     all from before this leader epoch
    a follower has restarted      -> its progress is reset, by its new broker epoch (KIP-903)
    a follower has left the ISR by itself, as its log dir failed -> its progress is reset
    replicas are back after an unclean shutdown -> `renewal`: they must no longer be elected in
                                     place of this leader
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest

UNKNOWN: Final = -1
_LONG_AGO_MS: Final = float("-inf")

#: Whether the broker with that id is alive with that broker epoch.
IsAlive = Callable[[int, int], bool]


class FollowerProgress:
    """The progress of one follower, known from its fetches."""

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
        #: The leader's `deletions_kept_from` at this follower's last fetch.
        self.deletions_kept_from = UNKNOWN
        #: The last time when the follower had all of the leader's records.
        self.caught_up_at_ms = caught_up_at_ms
        self._fetched_at_ms = caught_up_at_ms
        self._end_offset_then = 0  # the leader's log end offset at that fetch

    def fetched(
        self, offset: int, log_start_offset: int, leader_end_offset: int, now_ms: float
    ) -> None:
        if offset >= leader_end_offset:
            self.caught_up_at_ms = now_ms
        elif offset >= self._end_offset_then:  # it has all records that existed at its last fetch
            self.caught_up_at_ms = max(self.caught_up_at_ms, self._fetched_at_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self._fetched_at_ms = now_ms
        self._end_offset_then = leader_end_offset

    def left(self) -> None:
        """Reset the progress of a follower that has left the ISR or fetches its log anew."""
        self.log_end_offset = self.deletions_kept_from = UNKNOWN
        self.caught_up_at_ms = _LONG_AGO_MS

    def update_caught_up(self, leader_end_offset: int, at_ms: float) -> None:
        """Count the follower as caught up at `at_ms` if it has all records that the leader had
        then.

        It need not have fetched since, as a fetch session is silent while there are no new records.
        """
        if self.log_end_offset >= leader_end_offset:
            self.caught_up_at_ms = max(self.caught_up_at_ms, at_ms)


class InSyncReplicas:
    """The ISR of one partition during one leader epoch of this broker.

    Args:
        node_id: the id of this broker, the leader.
        state: the state of the partition at the beginning of the leader epoch.
        end_offset: the log end offset at that time.
        lag_max_ms: `replica.lag.time.max.ms`.
        is_alive: whether a broker is alive with a given broker epoch.
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
        #: The offset of this leader epoch's first record.
        self.first_offset = end_offset
        self._lag_max_ms = lag_max_ms
        self._is_alive = is_alive
        #: The last state from the metadata; its ISR counts even while a change is pending.
        self.state = state
        #: The time of the last call of `shrinkage`, and the log end offset then.
        self._looked_at_ms, self._end_offset_then = now_ms, end_offset
        #: The requested change that is not answered yet, at most one.
        self.pending: IsrRequest | None = None
        self._pending_ids: frozenset[int] = frozenset()
        self.followers = {
            each: FollowerProgress(now_ms if each in state.isr else _LONG_AGO_MS)
            for each in state.replicas
            if each != node_id
        }

    @property
    def size(self) -> int:
        """The size of the ISR in the metadata, without pending changes."""
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
        """Note a follower's fetch from `offset`, which shows that it has all records before that.

        Returns:
            False if this is not a follower of the partition, or not the process that is registered
            with that id, because it was replaced or is not known yet.
        """
        follower = self.followers.get(replica_id)
        if follower is None or broker_epoch == UNKNOWN:
            return False
        if not self._is_alive(replica_id, broker_epoch):
            return False  # its records may be gone already
        if broker_epoch != follower.broker_epoch:
            # A lower epoch is a new process, too, as ZooKeeper may have been restored from a
            # backup.
            if follower.broker_epoch != UNKNOWN:
                follower.caught_up_at_ms = _LONG_AGO_MS
            follower.broker_epoch = broker_epoch
        follower.fetched(offset, log_start_offset, leader_end_offset, now_ms)
        return True

    def refetches(self, replica_id: int) -> None:
        """Reset a follower outside the ISR that fetches its log anew."""
        follower = self.followers.get(replica_id)
        if follower is not None and not self.counts(replica_id):
            follower.left()

    def note_followed(self, replica_id: int, deletions_kept_from: int) -> None:
        """Note that a follower has fetched all deletions dropped so far, or started after them."""
        self.followers[replica_id].deletions_kept_from = deletions_kept_from

    def counts(self, replica_id: int) -> bool:
        """Whether a replica is in the ISR, or in that of the pending change."""
        return replica_id in self.state.isr or replica_id in self._pending_ids

    def has_followed(
        self, replica_id: int, broker_epoch: int, offset: int, deletions_kept_from: int
    ) -> bool:
        """Whether a follower at `offset` has fetched since tombstones or markers were last dropped.

        A follower whose offset has decreased since has lost records, perhaps including deletions
        that this log no longer has. A new process may have returned to its old log, although the
        previous process was fetching a copy; a process itself never returns (`LogState.refetch`).
        """
        follower = self.followers.get(replica_id)
        return (
            follower is not None
            and broker_epoch == follower.broker_epoch
            and follower.deletions_kept_from == deletions_kept_from
            and follower.log_end_offset <= offset
        )

    def has_follower_below(self, offset: int) -> bool:
        """Whether a replica that is catching up has not reached `offset` yet.

        If it missed deletions meanwhile, it would have to fetch its log anew, again and again.
        """
        return any(
            UNKNOWN < follower.log_end_offset < offset
            and replica_id not in self.state.isr
            and self._is_alive(replica_id, UNKNOWN)
            for replica_id, follower in self.followers.items()
        )

    def high_watermark(self, current: int, leader_end_offset: int, now_ms: float) -> int:
        """The first offset that some in-sync replica lacks; never below `current`.

        Also waits for a follower that is about to join: otherwise, while records keep coming, the
        follower would never have all records below the high watermark.
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
        """The lowest log start offset of the live replicas."""
        starts = [
            follower.log_start_offset
            for replica_id, follower in self.followers.items()
            if self._is_alive(replica_id, UNKNOWN)
        ]
        return min([log_start_offset, *starts])

    # -- changes of the ISR ----------------------------------------------------------------

    def growth(self, high_watermark: int) -> IsrRequest | None:
        """The ISR with replicas that have caught up; None if there are none, or a change is
        pending.
        """
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
        return self._request((*self.state.isr, *joining)) if joining else None

    def shrinkage(self, leader_end_offset: int, now_ms: float) -> IsrRequest | None:
        """The ISR without replicas that lag; None if nothing changes or a change is pending.

        Call this regularly: the lag of a follower that had all records at one call counts from that
        call on.
        """
        for follower in self.followers.values():
            follower.update_caught_up(self._end_offset_then, self._looked_at_ms)
            follower.update_caught_up(leader_end_offset, now_ms)
        self._looked_at_ms, self._end_offset_then = now_ms, leader_end_offset
        if self.pending is not None:
            return None
        kept = [
            each
            for each in self.state.isr
            if each == self._node_id or not self._lags(each, leader_end_offset, now_ms)
        ]
        return self._request(kept) if len(kept) < len(self.state.isr) else None

    def renewal(self) -> IsrRequest | None:
        """The unchanged ISR, if replicas that lack records of this leader might be elected.

        Such replicas are back after an unclean shutdown (`metadata/rules/eligible.py`). Any change
        requested by this leader shows that it is alive, and so prevents their election.
        """
        if self.pending is not None or not any(each.was_complete for each in self.state.last_known):
            return None
        return self._request(self.state.isr)

    def _lags(self, replica_id: int, leader_end_offset: int, now_ms: float) -> bool:
        follower = self.followers.get(replica_id)
        return follower is None or (
            follower.log_end_offset < leader_end_offset
            and now_ms - follower.caught_up_at_ms > self._lag_max_ms()
        )

    def _request(self, members: Iterable[int]) -> IsrRequest:
        isr = tuple(
            (each, self.followers[each].broker_epoch if each in self.followers else UNKNOWN)
            for each in members
        )
        return IsrRequest(self.state.leader_epoch, self.state.partition_epoch, isr)

    def asked(self, request: IsrRequest) -> None:
        """Note a requested change: its members count, too, until it is answered."""
        self.pending = request
        self._pending_ids = frozenset(each for each, _ in request.isr)

    def refused(self) -> None:
        """Drop the pending change, which was not made and will not be."""
        self.pending = None
        self._pending_ids = frozenset()

    def agreed(self, state: PartitionState, now_ms: float) -> None:
        """Adopt a new state from the metadata, in the same leader epoch."""
        if state.partition_epoch < self.state.partition_epoch:
            return
        if self.pending is None or self._pending_ids != set(state.isr):
            for replica_id in self.followers.keys() & set(self.state.isr) - set(state.isr):
                self.followers[replica_id].left()
        if self.pending is not None and state.partition_epoch > self.pending.partition_epoch:
            self.refused()  # whether it was made or not
        gone = set(self.followers) - set(state.replicas)
        for replica_id in gone:
            del self.followers[replica_id]
        for replica_id in state.replicas:
            if replica_id != self._node_id and replica_id not in self.followers:
                joined_at_ms = now_ms if replica_id in state.isr else _LONG_AGO_MS
                self.followers[replica_id] = FollowerProgress(joined_at_ms)
        self.state = state
