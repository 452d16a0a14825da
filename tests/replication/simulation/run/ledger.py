"""What was promised, and by whom: it sees everything at once, and says so when one is broken.

No process asks it anything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.eligible import complete
from replication.simulation.processes.leading import Appended
from replication.simulation.world.batches import Batch
from replication.simulation.world.disk import Disk
from replication.simulation.world.schedule import Schedule, Violation

if TYPE_CHECKING:
    from replication.simulation.processes.process import BrokerProcess

_OFFSET, _LAST_OFFSET = attrgetter("offset"), attrgetter("last_offset")


class Ledger:
    def __init__(self, schedule: Schedule, disks: dict[int, Disk], min_isr: int) -> None:
        self._schedule = schedule
        self._disks = disks
        self._min_isr = min_isr
        self.state: Callable[[], PartitionState]
        #: Whether no process has begun a new broker epoch since the last one had its end.
        self.is_dead: Callable[[int], bool]
        #: All that a leader's consumers could read, ever.
        self.committed: list[Batch] = []
        self.acknowledged = 0
        #: DeleteRecords was asked for up to here.
        self.deleted_to = 0
        #: The power failed under them and took records along, and they may be in the ISR still, or
        #: be eligible, or get there for what they had before.
        self.tainted: list[int] = []
        #: Of these, those of which the metadata knows that they are back.
        self._back: set[int] = set()
        self._told: set[int] = set()
        self._values = 0
        #: The last batch of each key that was committed, by its offset.
        self._latest: dict[int, int] = {}
        self._leaders: dict[int, BrokerProcess] = {}
        self._written: dict[tuple[int, int], Batch] = {}

    def next_value(self) -> int:
        self._values += 1
        return self._values

    @property
    def committed_end(self) -> int:
        return self.committed[-1].last_offset + 1 if self.committed else 0

    def _broken(self, text: str, *values: object) -> None:
        self._schedule.note("BROKEN: " + text, *values)
        violation = Violation(text.format(*values))
        self._schedule.break_off(violation)  # whoever is told of it may keep it to itself
        raise violation

    # -- what is reported ------------------------------------------------------------------

    def leads(self, process: BrokerProcess, epoch: int) -> None:
        before = self._leaders.setdefault(epoch, process)
        if before.node_id != process.node_id:
            self._broken("{} and {} both lead in epoch {}", before, process, epoch)
        if epoch == self.state().leader_epoch:  # else its epoch is over, and it does not know yet
            self._check_has(process.node_id, self.committed, f"the leader of epoch {epoch}")
            self._check_only_has(process.node_id, f"the leader of epoch {epoch}")

    def appended(self, batch: Batch) -> None:
        """By a leader. What has the same epoch and offset is the same batch everywhere."""
        before = self._written.setdefault((batch.epoch, batch.offset), batch)
        if before != batch:
            self._broken("two at one offset in one epoch: {} and {}", before, batch)

    def exposed(self, process: BrokerProcess, before: int, now: int) -> None:
        """A leader's high watermark has advanced: consumers may read what is below."""
        log = process.log
        if before > self.committed_end:
            self._broken("{} commits from {} on, after {}", process, before, self.committed_end)
        if now > log.log_end_offset:
            self._broken("{} commits more than it has: {}", process, now)
        self._check_has(process.node_id, self._between(before, now), "a leader")
        if now > self.committed_end:
            fresh = log.batches_between(self.committed_end, now)
            for batch in fresh:
                if batch.offset != self.committed_end:
                    break
                self.committed.append(batch)
                self._latest[batch.key] = batch.offset
            if self.committed_end != now:
                self._broken("{} commits {} to {} with a gap", process, before, now)
        batches = self._between(before, now)
        for member in self.state().isr:
            if member not in self.tainted:
                self._check_has(member, batches, f"in sync as {process} commits")

    def follows(self, process: BrokerProcess, before: int, now: int) -> None:
        """A follower's high watermark has advanced."""
        if now > self.committed_end:
            self._broken("{} follows to {}, not committed yet", process, now)
        # What was deleted in the leader's log is about to go here.
        batches = self._between(max(before, self.deleted_to), now)
        batches = [each for each in batches if each.last_offset < now]
        # What has superseded others in the leader's log may be still to come.
        missing = self.first_missing(process.disk, batches, self._latest)
        if missing is not None:
            self._broken("{}, a follower, has not {}", process, missing)

    def acked(self, done: Appended) -> None:
        """A producer was told that all in-sync replicas have the batch."""
        self.acknowledged += 1
        batches = self._between(done.offset, done.last_offset + 1)
        if [each.value for each in batches] != [done.value]:
            self._broken("{} is acknowledged and not committed", done)
        # A leader that stood still hears of a damage after what the replica had told before.
        having = [
            each
            for each, disk in self._disks.items()
            if each in self.tainted
            or self.first_missing(disk, batches) is None
            or disk.had.issuperset(batches)
        ]
        if len(having) < self._min_isr:
            self._broken("{} is acknowledged, and only {} have it", batches[0], having)

    def consumed(self, process: BrokerProcess, batches: Sequence[Batch]) -> None:
        if batches:
            known = self._between(batches[0].offset, batches[-1].last_offset + 1)
            strange = [each for each in batches if each not in known]
            if strange:
                self._broken("a consumer reads {} from {}: not committed", strange[0], process)

    def state_changed(self, state: PartitionState, who: str) -> None:
        self._schedule.note("state {} by {}: leader B{}, epoch {}, ISR {}", state.partition_epoch,
                            who, state.leader, state.leader_epoch, state.isr)  # fmt: skip
        self.look_for_taint()
        for member in (*state.isr, *state.elr):
            if member not in self.tainted:
                self._check_has(member, self.committed, "in sync, or eligible")

    def gives_way(self, old: Disk, new: Disk) -> None:
        """A log is put in the place of another one: all of that is there that was promised."""
        known = set(self.committed)
        had = [each for each in old.batches if each in known and each.offset >= self.deleted_to]
        missing = self.first_missing(new, had, self._latest)
        if missing is not None:
            self._broken("a log with {} gives way to one without it", missing)

    def look_for_taint(self) -> None:
        """Who is another process by now, and in no list or as complete as it says, is no worse
        than any other replica."""
        self.tainted = [each for each in self.tainted if self._is_tainted(each)]
        self._back.intersection_update(self.tainted)

    def _is_tainted(self, node_id: int) -> bool:
        """While it is taken for what it was; then until it is in sync as it is."""
        state = self.state()
        is_member = node_id in {*state.isr, *state.elr}
        if not is_member and not self.is_dead(node_id):
            self._back.add(node_id)
        if node_id not in self._back:
            return True
        return (
            node_id not in self._told
            and node_id in complete(state)
            and not (is_member and self.has_all(node_id))
        )

    def is_damaged(self, node_id: int, *, is_told: bool) -> None:
        """`is_told`: it will say so itself, and counts for nothing from then on."""
        self._back.discard(node_id)
        self._told.discard(node_id)
        if is_told:
            self._told.add(node_id)
        if node_id not in self.tainted:
            self.tainted.append(node_id)

    def has_all(self, node_id: int) -> bool:
        """Whether a disk has all that was committed."""
        return self.first_missing(self._disks[node_id], self.committed) is None

    # -- comparing -------------------------------------------------------------------------

    def _between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """What was committed there."""
        first = bisect_left(self.committed, start_offset, key=_LAST_OFFSET)
        return self.committed[first : bisect_left(self.committed, end_offset, key=_OFFSET)]

    def _check_has(self, node_id: int, batches: Sequence[Batch], role: str) -> None:
        disk = self._disks[node_id]
        missing = self.first_missing(disk, batches)
        if missing is not None:
            there = [
                str(each)
                for each in disk.batches
                if each.offset <= missing.last_offset and missing.offset <= each.last_offset
            ]
            self._broken("B{}, {}, has not {} but {}", node_id, role, missing, there)

    def _check_only_has(self, node_id: int, role: str) -> None:
        """Nothing else is where something was committed, be it deleted by now or not."""
        known, end = {each.offset: each for each in self.committed}, self.committed_end
        for batch in self._disks[node_id].batches:
            if batch.offset < end and known.get(batch.offset) != batch:
                self._broken("B{}, {}, has {}, which was never committed", node_id, role, batch)

    def first_missing(
        self, disk: Disk, batches: Sequence[Batch], latest: dict[int, int] | None = None
    ) -> Batch | None:
        """The first that the log should have, and has not.

        latest: by which a cleaning may have superseded it; by default what is in the log itself.
        """
        start = min(disk.log_start_offset, self.deleted_to)
        if batches and batches[0].last_offset < start:
            batches = batches[bisect_left(batches, start, key=_LAST_OFFSET) :]
        if not batches:
            return None
        if disk.log_end_offset <= batches[-1].last_offset:
            return next(each for each in batches if each.last_offset >= disk.log_end_offset)
        own = disk.batches
        first = bisect_left(own, batches[0].offset, key=_OFFSET)
        if own[first : first + len(batches)] == list(batches):
            return None
        by_offset = {each.offset: each for each in own}
        if latest is None:
            latest = {each.key: each.offset for each in own}
        for batch in batches:
            found = by_offset.get(batch.offset)
            if found is None and latest.get(batch.key, -1) > batch.offset:
                continue
            if found != batch:
                return batch
        return None

    # -- in the end ------------------------------------------------------------------------

    def unsettled(self, high_watermarks: Callable[[int], int | None]) -> str | None:
        """What is still to be done until all replicas are the same and in sync."""
        state = self.state()
        if sorted(state.isr) != sorted(state.replicas):
            return f"the ISR is {state.isr}"
        ends = [self._disks[each].log_end_offset for each in state.replicas]
        if min(ends) != max(ends):
            return f"the logs end at {ends}"
        marks = [high_watermarks(each) for each in state.replicas]
        if any(mark != ends[0] for mark in marks):
            return f"the high watermarks are {marks}"
        return None

    def check_equal(self) -> None:
        """All replicas have all that was committed, and nothing else."""
        for each in self.state().replicas:
            self._check_has(each, self.committed, "in the end")
            self._check_only_has(each, "in the end")
