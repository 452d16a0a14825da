"""One ShareFetch on its way: what its member gets of which partition, and how long it waits.

Nothing is acquired before enough can be read, and then only what still begins where it was read
from, in partition after partition, each without awaiting. So no two members get the same record,
and none is locked for a request that ends empty-handed, nor for one whose member has left
meanwhile. The loop never waits for a disk: what is not in memory is read in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.broker.share_partitions.partition_leader import SharePartitionLeader
from drumlin.broker.share_partitions.reads import READ_COMMITTED, ReadBatches, read_batches
from drumlin.broker.share_partitions.sessions import Member, SessionPartition
from drumlin.coordination.share.delivery.fetched_batches import Acquired, Limits
from drumlin.replication.partition import Partition
from drumlin.replication.waiting_room import Stay
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.broker.context import Services

#: Threads that read at the same time for one request.
_READERS: Final = 4
#: To begin with a share partition costs little, and its first steps then ten times as much.
_LOADED_AT_ONCE: Final = 8


class Given(NamedTuple):
    """What a member gets of one partition."""

    records: FileSlice
    acquired: Sequence[Acquired]


class _Cold(NamedTuple):
    """What is wanted of a partition, and is not in memory."""

    shared: SessionPartition
    partition: Partition
    offset: int
    max_bytes: int
    until_offset: int
    minimum_one_batch: bool


class ShareFetch:
    """Fetches for one request. `given` and `errors` are its results, by partition."""

    def __init__(
        self,
        broker: Services,
        member: Member,
        partitions: list[SessionPartition],
        limits: Limits,
        *,
        min_bytes: int,
        max_bytes: int,
        max_wait_s: float,
    ) -> None:
        self.given: dict[SessionPartition, Given] = {}
        self.errors: dict[SessionPartition, ErrorCode] = {}
        self._broker = broker
        self._member = member
        self.session = broker.shares.sessions.get(member)
        self.partitions = partitions
        self._limits = limits
        self._max_bytes = min(max_bytes, broker.config.fetch_max_bytes)
        self._min_bytes = min(min_bytes, self._max_bytes)
        self._ends_at = asyncio.get_running_loop().time() + max_wait_s
        self._live: dict[SessionPartition, SharePartitionLeader] = {}
        self._read: dict[SessionPartition, ReadBatches] = {}
        #: From where, and up to where, partitions could be read when they were looked at.
        self._offsets: dict[SessionPartition, int] = {}
        self._ends: dict[SessionPartition, int] = {}
        self._isolation_level = broker.shares.settings(member.group_id).isolation_level

    async def run(self) -> None:
        """Until there is something to give, or the time is over."""
        await self._open_all()
        await self._load_all()
        while not await self._attempt() and not self._is_over:
            await self._wait()
        await self._have_in_memory()

    # -- share partitions --------------------------------------------------------------

    async def _open_all(self) -> None:
        """In turns, as there may be thousands, each of which begins to load."""
        begun = 0
        for shared in self.partitions:
            if not self._has_session:
                return  # what is opened now would never be closed
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
        while loading:  # one by one: to wait for thousands together takes a turn
            one = loading.pop()
            if not one.done():
                await asyncio.wait([one], timeout=self._time_left)
                if self._time_left <= 0:
                    break
            await give_way()
        await self._forget_failed()

    async def _forget_failed(self) -> None:
        """Note what cannot be read, or not any more."""
        for shared, live in list(self._live.items()):
            await give_way()
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
        """Whether there is one; without it, acquired records come back only when locks time out."""
        return self._broker.shares.sessions.is_open(self.session)

    # -- reading and acquiring ---------------------------------------------------------

    async def _attempt(self) -> bool:
        """Read, and acquire if there is enough; whether anything was acquired."""
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
        """Read what is in memory; what is not. Others have their turn meanwhile."""
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
        """Read the rest, in threads. What others have got meanwhile is not read any more."""
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
            BlockingIOError: unless it may block, and the disk is needed.
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
        # Out of range: the log ends earlier than it did. It will come to this offset again.
        elif result is not None and result.code is not ErrorCode.offset_out_of_range:
            self.errors[shared] = result.code
            self._live.pop(shared, None)

    @property
    def _read_bytes(self) -> int:
        return sum(read.slice.size for read in self._read.values())

    async def _acquire(self) -> None:
        left = self._limits.max_records
        for shared in list(self._read):  # of what was read nothing is kept until the end
            if left <= 0 or not self._has_session:
                return
            live, read = self._live.get(shared), self._read[shared]
            if (
                live is None
                or live.error is not None
                or not live.is_current
                or live.next_fetch_offset() != read.fetched.fetch_offset
            ):
                continue  # others had their turn since it was read
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
        """Whether there is something new since it was looked for, or to be passed over.

        Others had their turn meanwhile: they appended, or gave records back. And an offset moves
        although nothing was acquired where records are aborted, or cleaned away.
        """
        for shared, live in self._live.items():
            if not live.is_current:
                return True  # no member gets anything from it any more
            offset = live.next_fetch_offset() if live.is_ready else None
            if offset is not None and (
                offset != self._offsets.get(shared) or self._end_of(live) != self._ends.get(shared)
            ):
                return True
            await give_way()
        return False

    async def _release(self) -> None:
        """Let go of what was read and is not given."""
        while self._read:
            _, read = self._read.popitem()
            read.slice.release()
            await give_way()

    # -- waiting -----------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait for records, unless some have arrived meanwhile.

        While this yields, an arrival either wakes it, as it is in the room already, or is seen by
        the check afterwards.
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
        """Read, and bring into memory what was read. Blocks."""
        results = []
        for place in places:
            result = self._read_one(place, may_block=True)
            if isinstance(result, ReadBatches):
                with contextlib.suppress(KafkaError):  # found again when it is to be given
                    result.slice.prefetch()
            results.append(result)
        return results

    async def _have_in_memory(self) -> None:
        """What is given is sent from memory: pages that are not there are read in a thread."""
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
