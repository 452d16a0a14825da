"""Logs that are fetched anew beside the old ones, in memory.

Owns what stands for `storage/replacement/log_copy.py`: the copy has a disk of its own, of which
nothing is left when its process ends, and the change over puts all that is on it onto the other
one.
"""

from __future__ import annotations

from drumlin.storage.directory.log_directory import storage_error
from replication.simulation.run.ledger import Ledger
from replication.simulation.world.disk import Disk
from replication.simulation.world.log import SimulatedLog


class SimulatedCopy:
    """In the steps of `LogCopy`."""

    def __init__(self, log: SimulatedLog, begins_at: int, goal: int) -> None:
        self.is_cut = False
        self.goal = goal
        self._old, self._truncations = log, log.truncations
        self._is_dropped = False
        disk = Disk()
        disk.base_offset = disk.log_start_offset = disk.log_end_offset = begins_at
        disk.log_start_checkpoint = begins_at
        self.log = SimulatedLog(disk, log.config, log.log_directory.clock.monotonic)

    @property
    def is_current(self) -> bool:
        return not self._is_dropped and self._old.truncations == self._truncations

    def has_room_for(self, _: int) -> bool:
        return True

    def drop(self) -> None:
        self._is_dropped = True

    def prepare(self) -> None: ...

    def abandon(self) -> None:
        self.drop()

    def cut(self) -> bool:
        self.is_cut = True
        return True

    def rebuild(self) -> None: ...

    def finish(self) -> None: ...


class SimulatedChangeOver:
    """In the steps of `ChangeOver`."""

    def __init__(self, ledger: Ledger, log: SimulatedLog, copy: SimulatedCopy) -> None:
        self.is_cut = False
        self._ledger, self._log, self._copy = ledger, log, copy

    def prepare(self) -> None:
        if not self._copy.is_current:
            raise storage_error(f"{self._log.name} has changed meanwhile")

    def abandon(self) -> None:
        self._copy.drop()

    def cut(self) -> bool:
        """A crash leaves the old log up to here, and the new one, all of it, from here on."""
        self.prepare()
        log, fresh = self._log, self._copy.log
        self._ledger.gives_way(log.disk, fresh.disk)
        self.is_cut = True
        log.disk.take_over(fresh.disk)
        log.refetch = None
        log.deletions_kept_from = fresh.deletions_kept_from
        log.high_watermark = max(min(log.high_watermark, log.log_end_offset), log.log_start_offset)
        log.truncations += 1
        return True

    def rebuild(self) -> None: ...

    def finish(self) -> None: ...
