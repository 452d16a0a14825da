"""What was promised, and by whom: it sees everything at once, and calls out as soon as one is broken.

No process asks it anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from drumlin.metadata.image import PartitionState

from .disk import Record, SimulatedLog
from .schedule import Schedule, Violation

if TYPE_CHECKING:
    from .process import BrokerProcess


class Ledger:
    def __init__(self, schedule: Schedule, logs: dict[int, SimulatedLog]) -> None:
        self._schedule = schedule
        self._logs = logs
        self.state: Callable[[], PartitionState]
        #: Whether no process has begun a new broker epoch since the last one had its end.
        self.is_dead: Callable[[int], bool]
        #: All that a leader's consumers could read, ever. The index is the offset.
        self.committed: list[Record] = []
        self.acknowledged = 0
        #: DeleteRecords was asked for up to here.
        self.deleted_to = 0
        #: The power failed under them and took records with it, and they may be in the ISR still, or
        #: get there for what they had before.
        self.tainted: list[int] = []
        self._leaders: dict[int, BrokerProcess] = {}
        self._written: dict[tuple[int, int], int] = {}

    def _broken(self, text: str, *values: object) -> None:
        self._schedule.note("BROKEN: " + text, *values)
        raise Violation(text.format(*values))

    # -- what is reported ------------------------------------------------------------------

    def leads(self, process: BrokerProcess, epoch: int, log: SimulatedLog) -> None:
        before = self._leaders.setdefault(epoch, process)
        if before.node_id != process.node_id:
            self._broken("{} and {} both lead in epoch {}", before, process, epoch)
        if epoch == self.state().leader_epoch:  # else its epoch is over, and it does not know yet
            self._check_has(process.node_id, log, self.committed, f"the leader of epoch {epoch}")

    def appended(self, record: Record) -> None:
        """By a leader. What has the same epoch and offset is the same record everywhere."""
        value = self._written.setdefault((record.epoch, record.offset), record.value)
        if value != record.value:
            self._broken("two records at one offset in one epoch: {} and v{}", record, value)

    def exposed(self, process: BrokerProcess, before: int, now: int, log: SimulatedLog) -> None:
        """A leader's high watermark has advanced: consumers may read what is below."""
        if before > len(self.committed):
            self._broken("{} commits from {} on, after {}", process, before, len(self.committed))
        if now > log.log_end_offset:
            self._broken("{} commits more than it has: {}", process, now)
        known = self.committed[before:now]
        self._check_has(process.node_id, log, known, "a leader")
        fresh = log.read(before + len(known), now, now)
        if len(known) + len(fresh) != now - before:
            self._broken("{} commits {} to {} with a gap", process, before, now)
        self.committed += fresh
        for member in self.state().isr:
            if member not in self.tainted:
                records = self.committed[before:now]
                self._check_has(
                    member, self._logs[member], records, f"in sync as {process} commits"
                )

    def acked(self, record: Record, min_isr: int) -> None:
        """A producer was told that all in-sync replicas have the record."""
        self.acknowledged += 1
        if record.offset >= len(self.committed) or self.committed[record.offset] != record:
            self._broken("{} is acknowledged and not committed", record)
        having = [
            each
            for each, log in self._logs.items()
            if each in self.tainted or self._has(log, record)
        ]
        if len(having) < min_isr:
            self._broken("{} is acknowledged, and only {} have it", record, having)

    def consumed(self, node_id: int, records: Sequence[Record]) -> None:
        for record in records:
            if record.offset >= len(self.committed) or self.committed[record.offset] != record:
                self._broken("a consumer reads {} from B{}: not committed", record, node_id)

    def state_changed(self, state: PartitionState, why: str) -> None:
        note = self._schedule.note
        note("state {} by {}: leader B{}, epoch {}, ISR {}", state.partition_epoch, why,
             state.leader, state.leader_epoch, state.isr)  # fmt: skip
        self.look_for_taint()
        for member in state.isr:
            if member not in self.tainted:
                self._check_has(member, self._logs[member], self.committed, "in sync")

    def look_for_taint(self) -> None:
        """Who is another process by now, and out of the ISR, is as good as any other replica."""
        self.tainted = [
            each for each in self.tainted if self.is_dead(each) or each in self.state().isr
        ]

    # -- comparing -------------------------------------------------------------------------

    def _check_has(
        self, node_id: int, log: SimulatedLog, records: Sequence[Record], role: str
    ) -> None:
        missing = self.first_missing(log, records)
        if missing is not None:
            self._broken("B{}, {}, has not {} but {}", node_id, role, missing,
                         log.at(missing.offset))  # fmt: skip

    def _has(self, log: SimulatedLog, record: Record) -> bool:
        return self.first_missing(log, (record,)) is None

    def first_missing(self, log: SimulatedLog, records: Sequence[Record]) -> Record | None:
        """The first that the log should have, and has not."""
        if not records:
            return None
        start = min(log.log_start_offset, self.deleted_to)
        if records[0].offset < start:
            records = records[start - records[0].offset :]
            if not records:
                return None
        if log.log_end_offset <= records[-1].offset:
            return next((each for each in records if each.offset >= log.log_end_offset), None)
        own = log.read(records[0].offset, records[-1].offset + 1, len(records))
        if len(own) == len(records) and own == list(records):
            return None
        return self._first_not_superseded(log, records)

    def _first_not_superseded(self, log: SimulatedLog, records: Sequence[Record]) -> Record | None:
        """As above, where a cleaning may have dropped what a later record supersedes."""
        own = {each.offset: each for each in log.records}
        latest = {each.key: each.offset for each in log.records}
        for record in records:
            found = own.get(record.offset)
            if found is None and latest.get(record.key, -1) > record.offset:
                continue
            if found != record:
                return record
        return None

    # -- in the end ------------------------------------------------------------------------

    def unsettled(self) -> str | None:
        """What is still to be done until all replicas are the same and in sync."""
        state = self.state()
        if sorted(state.isr) != sorted(state.replicas):
            return f"the ISR is {state.isr}"
        logs = [self._logs[each] for each in state.replicas]
        leader = self._logs[state.leader]
        if any(log.log_end_offset != leader.log_end_offset for log in logs):
            return f"the logs end at {[log.log_end_offset for log in logs]}"
        if any(log.high_watermark != leader.log_end_offset for log in logs):
            return f"the high watermarks are {[log.high_watermark for log in logs]}"
        return None

    def check_equal(self) -> None:
        """All replicas have all that was committed, and the same of it."""
        state = self.state()
        for each in state.replicas:
            self._check_has(each, self._logs[each], self.committed, "in the end")
            own = self._logs[each].records
            if any(self.committed[record.offset] != record for record in own):
                self._broken("B{} has records that were never committed", each)
