"""One ShareFetch: waits for records of its partitions, and lets its member acquire them.

Nothing is acquired before enough bytes are read. Then records are acquired partition by partition.
Each partition takes one step without an await, and is skipped if its next fetch offset is no longer
the offset of the read. So no two members get the same record, and no record is locked for a request
that gets no records, or whose member has left meanwhile. The event loop never waits for a disk:
data that is not in memory is read in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from drumlin.broker.context import Services
from drumlin.broker.rights.acls import Kind
from drumlin.broker.rights.denials import DENIED
from drumlin.broker.share_fetch.readable import Denies
from drumlin.broker.share_partitions.partition_leader import SharePartitionLeader
from drumlin.broker.share_partitions.reads import READ_COMMITTED, ReadBatches, read_batches
from drumlin.broker.share_partitions.sessions import SessionPartition, ShareSession
from drumlin.coordination.share.delivery.fetched_batches import Acquired, Limits
from drumlin.replication.partition import Partition
from drumlin.replication.waiting_room import Stay
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The maximum number of threads that read at the same time for one request.
_READERS: Final = 4
#: The most share partitions that one request loads at the same time. Opening one is cheap; the
#: first steps of loading take ten times as long.
_LOADED_AT_ONCE: Final = 8


class Given(NamedTuple):
    """The records of one partition that the member gets."""

    records: FileSlice
    acquired: Sequence[Acquired]


class _Cold(NamedTuple):
    """A read of a partition that needs the disk."""

    shared: SessionPartition
    partition: Partition
    offset: int
    max_bytes: int
    until_offset: int
    minimum_one_batch: bool


class ShareFetch:
    """The fetch of one request. `given` and `errors` are its results, by partition."""

    def __init__(
        self,
        broker: Services,
        session: ShareSession,
        denies: Denies,
        partitions: list[SessionPartition],
        limits: Limits,
        *,
        min_bytes: int,
        max_bytes: int,
        max_wait_s: float,
    ) -> None:
        """
        Raises:
            KafkaError: SHARE_SESSION_NOT_FOUND, the session has ended meanwhile.
        """
        if not broker.shares.sessions.is_open(session):
            raise KafkaError(ErrorCode.share_session_not_found)
        self.given: dict[SessionPartition, Given] = {}
        self.errors: dict[SessionPartition, ErrorCode] = {}
        self._broker = broker
        self._member = session.member
        self.session = session
        self._denies = denies
        self.partitions = partitions
        self._limits = limits
        self._max_bytes = min(max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(min_bytes, self._max_bytes)
        self._ends_at = asyncio.get_running_loop().time() + max_wait_s
        self._live: dict[SessionPartition, SharePartitionLeader] = {}
        self._read: dict[SessionPartition, ReadBatches] = {}
        #: Each partition's next fetch offset when the partition was last examined.
        self._offsets: dict[SessionPartition, int] = {}
        self._ends: dict[SessionPartition, int] = {}
        self._isolation_level = broker.shares.settings(session.member.group_id).isolation_level

    async def run(self) -> None:
        """Fetch until there are records for the member, or the maximum wait time has passed."""
        await self._open_all()
        await self._load_all()
        while not await self._attempt() and not self._is_over:
            await self._wait()
        await self._have_in_memory()

    # -- share partitions --------------------------------------------------------------

    async def _open_all(self) -> None:
        """Open all share partitions, in turns, as there may be thousands to load."""
        begun = 0
        for shared in self.partitions:
            if not self._has_session:
                return  # the session has ended: a share partition opened now would never be closed
            if self._denies(shared):
                self.errors[shared] = DENIED[Kind.TOPIC]
                await give_way()
                continue
            try:
                live = self._live[shared] = self._broker.shares.open(self._member.group_id, shared)
            except KafkaError as error:
                self.errors[shared] = error.code
            else:
                begun += not live.loaded.done()
            if begun == _LOADED_AT_ONCE:
                begun = 0
                await asyncio.sleep(0)
            await give_way()

    async def _load_all(self) -> None:
        loading = [live.loaded for live in self._live.values() if not live.loaded.done()]
        while loading:  # one by one: waiting for thousands together takes a turn of the loop
            one = loading.pop()
            if not one.done():
                await asyncio.wait([one], timeout=self._time_left)
                if self._time_left <= 0:
                    break
            await give_way()
        await self._forget_failed()

    async def _forget_failed(self) -> None:
        """Drop share partitions that cannot be read, or no longer may be; add their errors."""
        for shared, live in list(self._live.items()):
            await give_way()
            error = DENIED[Kind.TOPIC] if self._denies(shared) else live.error
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
        """Whether the session is still open. Records acquired without a session would stay locked
        until the timeout.
        """
        return self._broker.shares.sessions.is_open(self.session)

    # -- reading and acquiring ---------------------------------------------------------

    async def _attempt(self) -> bool:
        """Read, and acquire if there is enough; returns whether anything was acquired."""
        await self._forget_failed()
        await self._release()
        if not self._has_session:
            return False
        cold = await self._read_all()
        if cold:
            await self._read_cold(cold)
        is_enough = (
            self._is_over
            or self._read_bytes >= self._min_bytes
            or any(read.is_cut for read in self._read.values())
        )
        if is_enough:
            await self._acquire()
        await self._release()
        return bool(self.given)

    async def _read_all(self) -> list[_Cold]:
        """Read data that is in memory; returns the reads that need the disk. Yields in between."""
        self._offsets, self._ends = {}, {}
        for shared, live in list(self._live.items()):
            await give_way()
            if live.is_ready and (offset := live.next_fetch_offset()) is not None:
                self._offsets[shared] = offset
        each = self._max_bytes // max(1, len(self._offsets))
        cold: list[_Cold] = []
        for shared, offset in self._offsets.items():
            await give_way()
            live = self._live[shared]
            self._ends[shared] = self._end_of(live)
            until = max(live.records.end_offset, offset) + max(1, self._limits.max_records)
            is_first = not self._read and not cold
            place = _Cold(shared, live.partition, offset, each, until, is_first)
            try:
                self._note(shared, self._read_one(place, may_block=False))
            except BlockingIOError:
                cold.append(place)
        return cold

    async def _read_cold(self, cold: Sequence[_Cold]) -> None:
        """Do the reads that need the disk, in threads. Skips partitions whose records other members
        have acquired meanwhile.
        """
        together = [cold[first::_READERS] for first in range(min(_READERS, len(cold)))]
        threads = self._broker.threads
        for places, results in zip(
            together,
            await asyncio.gather(*(threads.reading(self._warm, each) for each in together)),
            strict=True,
        ):
            for place, result in zip(places, results, strict=True):
                self._note(place.shared, result)
        await self._forget_failed()
        for shared, read in list(self._read.items()):
            live = self._live.get(shared)
            if live is None or live.next_fetch_offset() != read.fetched.fetch_offset:
                read.slice.release()
                del self._read[shared]

    def _read_one(self, place: _Cold, *, may_block: bool) -> ReadBatches | KafkaError | None:
        """
        Raises:
            BlockingIOError: the disk is needed, and the call may not block.
        """
        try:
            return read_batches(
                place.partition,
                place.offset,
                place.max_bytes,
                self._isolation_level,
                place.until_offset,
                minimum_one_batch=place.minimum_one_batch,
                may_block=may_block,
            )
        except KafkaError as error:
            return error

    def _note(self, shared: SessionPartition, result: ReadBatches | KafkaError | None) -> None:
        if isinstance(result, ReadBatches):
            self._read[shared] = result
        # Out of range: the log has lost its end, but it will reach this offset again.
        elif result is not None and result.code is not ErrorCode.offset_out_of_range:
            self.errors[shared] = result.code
            self._live.pop(shared, None)

    @property
    def _read_bytes(self) -> int:
        return sum(read.slice.size for read in self._read.values())

    async def _acquire(self) -> None:
        left = self._limits.max_records
        for shared in list(self._read):  # a copy, as each slice is released as early as possible
            if left <= 0 or not self._has_session:
                return
            live, read = self._live.get(shared), self._read[shared]
            if (
                live is None
                or live.error is not None
                or not live.is_current
                or live.next_fetch_offset() != read.fetched.fetch_offset
            ):
                continue  # another member has acquired these records since the read
            acquired = live.acquire(
                self._member.member_id, read.fetched, self._limits._replace(max_records=left)
            )
            if acquired:
                del self._read[shared]
                self.given[shared] = Given(read.trimmed(acquired), acquired)
                left -= sum(each.last_offset - each.first_offset + 1 for each in acquired)
            await give_way()

    def _end_of(self, live: SharePartitionLeader) -> int:
        return live.partition.readable_end_offset(self._isolation_level)

    async def _has_more_to_try(self) -> bool:
        """Whether another attempt is worthwhile, as other work has run meanwhile: records may have
        been appended or released.

        The next fetch offset also moves without an acquisition, if records were aborted or were
        removed by the log cleaner.
        """
        for shared, live in self._live.items():
            if not live.is_current:
                return True  # leadership is lost, which the next attempt handles
            offset = live.next_fetch_offset() if live.is_ready else None
            if offset is not None and (
                offset != self._offsets.get(shared) or self._end_of(live) != self._ends.get(shared)
            ):
                return True
            await give_way()
        return False

    async def _release(self) -> None:
        """Release slices that were read and are not sent."""
        while self._read:
            _, read = self._read.popitem()
            read.slice.release()
            await give_way()

    # -- waiting -----------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait for records, unless some have arrived meanwhile.

        The fetch enters the waiting rooms first, then checks. So records that arrive in between
        either wake the fetch or are found by the check.
        """
        stay = Stay(1, for_stable=self._isolation_level == READ_COMMITTED)
        try:
            for live in self._live.values():
                stay.enter(live.room)
                await give_way()
            if not await self._has_more_to_try() and not self._is_over:
                await stay.until_notified(self._time_left)
        finally:
            await stay.leave_in_turns()

    def _warm(self, places: Sequence[_Cold]) -> list[ReadBatches | KafkaError | None]:
        """Read, and bring the pages into memory. Blocks."""
        results = []
        for place in places:
            result = self._read_one(place, may_block=True)
            if isinstance(result, ReadBatches):
                with contextlib.suppress(KafkaError):  # sending the response meets the error again
                    result.slice.prefetch()
            results.append(result)
        return results

    async def _have_in_memory(self) -> None:
        """Read the pages of the given records that are not in memory, in a thread."""
        for shared, given in list(self.given.items()):
            await give_way()
            if given.records.is_resident():
                continue
            try:
                await self._broker.threads.reading(given.records.prefetch)
            except KafkaError as error:
                given.records.release()
                del self.given[shared]
                self.errors[shared] = error.code
