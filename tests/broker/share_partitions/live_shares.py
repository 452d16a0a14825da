"""A broker in the test's own process with a topic, and a share group at work in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from broker.in_process import running
from broker.sessions import SESSION
from drumlin.broker.share_fetch.acknowledgements import begin_to_acknowledge
from drumlin.broker.share_fetch.fetch import ShareFetch
from drumlin.broker.share_fetch.readable import denies_nothing
from drumlin.broker.share_partitions.partition_leader import SharePartitionLeader
from drumlin.broker.share_partitions.sessions import Member, SessionPartition
from drumlin.broker.start.broker import Broker
from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement
from drumlin.coordination.share.delivery.fetched_batches import Fetched, InclusiveRange, Limits
from drumlin.coordination.share.state.coordinator import ShareCoordinator
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode
from storage.samples import prepared

TOPIC_ID = UUID(int=5)
SHARED = SessionPartition(TOPIC_ID, 0)
LIMITS = Limits(max_records=100, batch_size=100)
_ACCEPT = [1]


def written_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written at once."""
    monkeypatch.setattr(ShareCoordinator, "write_at_once", lambda *_: None)


async def until(condition: Callable[[], object], what: str) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110  nothing reports what it waits for
            await asyncio.sleep(0.002)

    try:
        await asyncio.wait_for(wait(), 20)
    except TimeoutError:
        raise AssertionError(f"in vain waited for {what}") from None


class World:
    """A broker with a topic of one partition, and a group with state in it."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.shares = broker, broker.shares

    async def initialize(self, start_offset: int = 0) -> None:
        await self.broker.share_state.initialize("g", TOPIC_ID, 0, 1, start_offset)

    def produce(self, count: int, index: int = 0) -> None:
        partition = self.broker.partitions.get("t", index)
        partition.append_as_leader(prepared(count), 1, self.broker.clock.wall_ms())

    async def add_partitions(self, count: int) -> None:
        """Have a number of share partitions, all of them with state."""
        await self.broker.metadata.add_partitions("t", 1, [[1]] * (count - 1))
        await until(lambda: self.broker.partitions.find("t", count - 1), "the partitions")
        for index in range(count):
            await self.broker.share_state.initialize("g", TOPIC_ID, index, 1, 0)

    def join(self, name: str, *partitions: SessionPartition) -> Member:
        member = Member("g", name)
        self.shares.sessions.open(
            member, SESSION.owner, partitions or [SHARED], 1, 10, acknowledges=False
        )
        return member

    async def live(self) -> SharePartitionLeader:
        live = self.shares.open("g", SHARED)
        await live.loaded
        return live

    async def given(self, member: Member, last_offset: int) -> SharePartitionLeader:
        """A member has acquired the records up to there, none of which was acquired before."""
        live = await self.live()
        first_offset = live.records.end_offset
        fetched = Fetched(first_offset, [InclusiveRange(first_offset, last_offset)])
        assert live.acquire(member.member_id, fetched, LIMITS)
        return live

    def accept(self, member: Member, first_offset: int, last_offset: int) -> Awaitable[ErrorCode]:
        said = {SHARED: [Acknowledgement(first_offset, last_offset, _ACCEPT)]}
        begun = to_end(
            begin_to_acknowledge(
                self.shares, member, said, denies_nothing, knows_renew=True, says_renew=False
            )
        )

        async def answer() -> ErrorCode:
            return (await begun.answers())[SHARED].code

        return answer()

    async def start_offset(self) -> int:
        """The state as it is kept."""
        state = await self.broker.share_state.read("g", TOPIC_ID, 0)
        return max([state.start_offset, *(each.last_offset + 1 for each in state.batches)])

    def fetch(
        self, member: Member, max_wait_s: float, count: int = 1, min_bytes: int = 1
    ) -> ShareFetch:
        return ShareFetch(
            self.broker,
            self.shares.sessions.get(member, SESSION.owner),
            denies_nothing,
            [SessionPartition(TOPIC_ID, each) for each in range(count)],
            LIMITS,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            max_wait_s=max_wait_s,
        )


@asynccontextmanager
async def _running_world(path: Path) -> AsyncIterator[World]:
    async with running(path, share_coordinator_state_topic_num_partitions="1") as broker:
        await broker.metadata.create_topic("t", [[1]], {}, TOPIC_ID)
        await until(lambda: broker.partitions.find("t", 0), "the partition")
        yield World(broker)


def play(path: Path, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with _running_world(path) as world:
            await scenario(world)

    asyncio.run(main())
