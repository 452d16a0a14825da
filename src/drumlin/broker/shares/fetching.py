"""One ShareFetch on its way: what its member gets of which partition, and how long it waits.

Nothing is acquired before enough can be read, and nothing awaits between the reading and the
acquiring. So no two members get the same record, and none is locked for a request that ends
empty-handed, nor for one whose member has left meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.broker.shares.live_partition import LivePartition
from drumlin.broker.shares.reading import READ_COMMITTED, ReadBatches, read_batches
from drumlin.broker.shares.sessions import Member, SharedPartition
from drumlin.coordination.share_partitions.fetched import Acquired, Limits
from drumlin.replication.waiting import wait_in
from drumlin.storage.file_slice import FileSlice
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker

#: After so many attempts to have what is read in memory, the loop waits for the device itself.
_PREFETCHES_MAX: Final = 3
#: Rounds in which all that was acquired turned out to be aborted, before others get their turn.
_ROUNDS_PER_TURN: Final = 16


class Given(NamedTuple):
    """What a member gets of one partition."""

    records: FileSlice
    acquired: Sequence[Acquired]


class _Cold(Exception):
    """What is wanted is not in memory; `live` from `offset` on."""

    def __init__(self, live: LivePartition, offset: int, max_bytes: int) -> None:
        super().__init__()
        self.live, self.offset, self.max_bytes = live, offset, max_bytes


class ShareFetch:
    """Fetches for one request. `given` and `errors` are its results, by partition."""

    def __init__(
        self,
        broker: Broker,
        member: Member,
        partitions: Sequence[SharedPartition],
        limits: Limits,
        *,
        min_bytes: int,
        max_bytes: int,
        max_wait_s: float,
    ) -> None:
        self.given: dict[SharedPartition, Given] = {}
        self.errors: dict[SharedPartition, ErrorCode] = {}
        self._broker = broker
        self._member = member
        self.session = broker.shares.sessions.get(member)
        self.partitions = partitions
        self._limits = limits
        self._max_bytes = min(max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(min_bytes, self._max_bytes)
        self._ends_at = asyncio.get_running_loop().time() + max_wait_s
        self._live: dict[SharedPartition, LivePartition] = {}
        self._read: dict[SharedPartition, ReadBatches] = {}
        self._isolation_level = broker.shares.settings(member.group_id).isolation_level
        # At once, as the session that it is for may end before anything is awaited.
        self._open_all()

    async def run(self) -> None:
        """Until there is something to give, or the time is over."""
        await self._load_all()
        rounds = 0
        while not await self._attempt() and not self._is_over:
            if self._has_more_to_try():
                rounds += 1
                if rounds % _ROUNDS_PER_TURN == 0:
                    await asyncio.sleep(0)
                continue
            await self._wait()
        await self._have_in_memory()

    # -- share partitions --------------------------------------------------------------

    def _open_all(self) -> None:
        for shared in self.partitions:
            try:
                self._live[shared] = self._broker.shares.open(self._member.group_id, shared)
            except KafkaError as error:
                self.errors[shared] = error.code

    async def _load_all(self) -> None:
        loading = [live.loaded for live in self._live.values() if not live.loaded.done()]
        if loading:
            await asyncio.wait(loading, timeout=self._time_left)
        self._forget_failed()

    def _forget_failed(self) -> None:
        """Note what cannot be read, or not any more."""
        for shared, live in list(self._live.items()):
            error = live.error
            if error is None:
                if live.is_current:
                    continue
                try:
                    self._broker.shares.partition_of(shared)
                except KafkaError as gone:
                    error = gone.code
            if error is not None:
                self.errors[shared] = error
            del self._live[shared]

    @property
    def _time_left(self) -> float:
        return max(0.0, self._ends_at - asyncio.get_running_loop().time())

    @property
    def _is_over(self) -> bool:
        return (
            self._time_left <= 0
            or not self._live
            or self._broker.shares.is_stopping
            or not self._has_session
        )

    @property
    def _has_session(self) -> bool:
        """Without one nobody would give back what it acquires, until the locks time out."""
        return self._broker.shares.sessions.is_open(self.session)

    # -- reading and acquiring ---------------------------------------------------------

    async def _attempt(self) -> bool:
        """Read, and acquire if there is enough; whether anything was acquired."""
        for _ in range(_PREFETCHES_MAX):
            try:
                return self._read_and_acquire(may_block=False)
            except _Cold as cold:
                self._release()
                await self._broker.threads.reading(self._warm, cold)
        return self._read_and_acquire(may_block=True)

    def _read_and_acquire(self, *, may_block: bool) -> bool:
        self._forget_failed()
        self._release()
        if not self._has_session:
            return False
        self._offsets = {
            shared: offset
            for shared, live in self._live.items()
            if live.is_ready and (offset := live.next_fetch_offset()) is not None
        }
        each = self._max_bytes // max(1, len(self._offsets))
        is_enough = self._is_over
        for shared, offset in self._offsets.items():
            read = self._read_one(shared, offset, each, may_block)
            if read is not None:
                self._read[shared] = read
                is_enough = is_enough or read.is_cut
        if not is_enough and self._read_bytes < self._min_bytes:
            return False
        self._acquire()
        self._release()
        return bool(self.given)

    @property
    def _read_bytes(self) -> int:
        return sum(read.slice.size for read in self._read.values())

    def _read_one(
        self, shared: SharedPartition, offset: int, max_bytes: int, may_block: bool
    ) -> ReadBatches | None:
        live = self._live[shared]
        until = max(live.records.end_offset, offset) + max(1, self._limits.max_records)
        try:
            return read_batches(
                live.partition,
                offset,
                max_bytes,
                self._isolation_level,
                until,
                minimum_one_batch=not self._read,
                may_block=may_block,
            )
        except BlockingIOError:
            raise _Cold(live, offset, max_bytes) from None
        except KafkaError as error:
            # Out of range: the log ends earlier than it did. It will come to this offset again.
            if error.code is not ErrorCode.offset_out_of_range:
                self.errors[shared] = error.code
                del self._live[shared]
            return None

    def _acquire(self) -> None:
        left = self._limits.max_records
        for shared, read in list(self._read.items()):
            if left <= 0:
                return
            acquired = self._live[shared].acquire(
                self._member.member_id, read.fetched, self._limits._replace(max_records=left)
            )
            if acquired:
                del self._read[shared]
                self.given[shared] = Given(read.trimmed(acquired), acquired)
                left -= sum(each.last_offset - each.first_offset + 1 for each in acquired)

    def _has_more_to_try(self) -> bool:
        """Whether some offset has moved although nothing was acquired: aborted, or cleaned away."""
        return any(
            live.next_fetch_offset() not in (None, self._offsets[shared])
            for shared, live in self._live.items()
            if shared in self._offsets
        )

    def _release(self) -> None:
        """Let go of what was read and is not given."""
        for read in self._read.values():
            read.slice.release()
        self._read.clear()

    # -- waiting -----------------------------------------------------------------------

    async def _wait(self) -> None:
        await wait_in(
            [live.room for live in self._live.values()],
            1,
            self._time_left,
            for_stable=self._isolation_level == READ_COMMITTED,
        )

    def _warm(self, cold: _Cold) -> None:
        """Bring what is wanted into memory. Blocks."""
        live = cold.live
        try:
            read = read_batches(
                live.partition,
                cold.offset,
                cold.max_bytes,
                self._isolation_level,
                live.records.end_offset + max(1, self._limits.max_records),
                minimum_one_batch=True,
                may_block=True,
            )
            if read is not None:
                try:
                    read.slice.prefetch()
                finally:
                    read.slice.release()
        except (KafkaError, OSError):
            return  # the next attempt meets it too, and tells whom it may concern

    async def _have_in_memory(self) -> None:
        """What is given is sent from memory: pages that are not there are read in a thread."""
        for shared, given in list(self.given.items()):
            if given.records.is_resident():
                continue
            try:
                await self._broker.threads.reading(given.records.prefetch)
            except OSError as error:
                given.records.release()
                del self.given[shared]
                log = self._live[shared].partition.log
                failure = log.log_directory.fail_log(error, f"read {log.name}")
                self.errors[shared] = failure.code
