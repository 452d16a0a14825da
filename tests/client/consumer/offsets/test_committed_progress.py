"""What is committed never goes back by itself, whoever has committed it."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from client.consumer.test_consumer_reading import WAIT_MS, append, committed_offset, values
from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.client.consumer.consumer import Consumer
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.offsets.commits import Committer
from drumlin.client.consumer.offsets.offset_storage import Offsets, OffsetStorage
from drumlin.client.consumer.positions import NO_OFFSET, Positions
from drumlin.client.consumer.tasks import Tasks
from drumlin.client.errors import CommitFailed
from drumlin.peer.options import PeerOptions
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import so_many
from rig.waiting import wait_until

PROTOCOLS = ["classic", "consumer"]


class Rounds:
    """How often consumers have looked for what they commit by themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = 0
        commit = Committer.commit_progress

        async def counted(committer: Committer, *places: Any) -> None:
            await commit(committer, *places)
            self.done += 1

        monkeypatch.setattr(Committer, "commit_progress", counted)

    def wait(self) -> None:
        """Let two rounds begin and end."""
        seen = self.done
        wait_until(lambda: self.done > seen + 2, "periodic commits")


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(monkeypatch)


@pytest.fixture
def topic(group_client: Client) -> str:
    name = f"progress-{uuid.uuid4().hex[:8]}"
    group_client.create_topic(name, 1)
    append(group_client, name, range(100))
    return name


@pytest.fixture
def consume(group_client: Client, topic: str) -> Iterator[Callable[..., Consumer]]:
    opened = []

    def consume(protocol: str = "classic", **options: Any) -> Consumer:
        options = {"max_records": 10, "commit_interval_ms": 10, **options}
        consumer = group_client.consumer(topic, group=topic, protocol=protocol, **options)
        opened.append(consumer)
        return consumer

    yield consume
    for each in opened:
        each.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_at_most_once_holds_while_work_takes_long(
    group_client: Client,
    topic: str,
    consume: Callable[..., Consumer],
    rounds: Rounds,
    protocol: str,
) -> None:
    consumer = consume(protocol, delivery="at_most_once")
    for end in (10, 20, 30):
        assert values(consumer.poll(WAIT_MS))[-1] == end - 1
        rounds.wait()
        assert committed_offset(group_client, topic, (topic, 0)) == end


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
def test_a_commit_is_not_undone_when_an_exception_ends_the_work(
    group_client: Client,
    topic: str,
    consume: Callable[..., Consumer],
    protocol: str,
    delivery: str,
) -> None:
    with pytest.raises(ZeroDivisionError), consume(protocol, delivery=delivery) as consumer:
        values(consumer.poll(WAIT_MS))
        if delivery == "at_least_once":
            consumer.commit()
        1 / 0  # noqa: B018
    assert committed_offset(group_client, topic, (topic, 0)) == 10


def test_a_commit_on_request_is_not_undone_by_a_periodic_one(
    group_client: Client, topic: str, consume: Callable[..., Consumer], rounds: Rounds
) -> None:
    consumer, place = consume(), (topic, 0)
    values(consumer.poll(WAIT_MS))
    consumer.commit()
    rounds.wait()
    assert committed_offset(group_client, topic, place) == 10
    consumer.commit({place: 25})
    values(consumer.poll(WAIT_MS))
    rounds.wait()
    consumer.commit()  # what was returned, which is committed
    assert committed_offset(group_client, topic, place) == 25
    consumer.commit({place: 15})  # as the user says so
    rounds.wait()
    values(consumer.poll(WAIT_MS))
    wait_until(lambda: committed_offset(group_client, topic, place) == 20, "what was processed")


def test_a_seek_takes_progress_back(
    group_client: Client, topic: str, consume: Callable[..., Consumer], rounds: Rounds
) -> None:
    consumer, place = consume(), (topic, 0)
    for _ in range(3):
        values(consumer.poll(WAIT_MS))
    wait_until(lambda: committed_offset(group_client, topic, place) == 20, "what was processed")
    consumer.seek(topic, 0, 5)
    wait_until(lambda: committed_offset(group_client, topic, place) == 5, "where the user went")
    assert values(consumer.poll(WAIT_MS))[0] == 5
    consumer.commit()
    rounds.wait()
    assert committed_offset(group_client, topic, place) == 15


def test_offsets_go_into_transactions_or_are_committed_periodically(
    group_client: Client, topic: str, consume: Callable[..., Consumer], rounds: Rounds
) -> None:
    offsets = {(topic, 0): 10}
    consumer = consume()
    values(consumer.poll(WAIT_MS))
    with pytest.raises(ValueError, match="commit_interval_ms=None"):  # noqa: SIM117
        with group_client.transaction(topic) as transaction:
            transaction.send_offsets(consumer.positions(), consumer.group_metadata())
    consumer.close()
    assert committed_offset(group_client, topic, (topic, 0)) == 10
    with consume(commit_interval_ms=None) as consumer:
        values(consumer.poll(WAIT_MS))
        assert consumer.positions().keys() == offsets.keys()
        with group_client.transaction(topic) as transaction:
            transaction.send_offsets(consumer.positions(), consumer.group_metadata())
        group_client.transaction(topic).abort()  # the end of the one before is complete
        assert committed_offset(group_client, topic, (topic, 0)) == 20


# -- at random -----------------------------------------------------------------------------------

PLACE = ("t", 0)


class Store:
    """Takes commits after a while, or refuses them, and notes whether one went back."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.offset = NO_OFFSET
        self.may_go_to: int | None = None  # where the user went, and had committed
        self.mistakes: list[str] = []

    async def commit(
        self, _who: GroupMetadata, offsets: Offsets, check_owned: Callable[[], None]
    ) -> None:
        (offset,) = (each.offset for each in offsets.values())
        for _ in range(self._rng.randrange(3)):
            await asyncio.sleep(0)
        if self._rng.random() < 0.2:
            raise KafkaError(ErrorCode.coordinator_not_available, "not now")
        if offset < self.offset and (self.may_go_to is None or offset < self.may_go_to):
            self.mistakes.append(f"{self.offset}, then {offset}")
        if offset == self.may_go_to:
            self.may_go_to = None
        self.offset = offset


class Link:
    options = PeerOptions(retry_backoff_ms=0, retry_backoff_max_ms=0)
    group_id = "g"


def committer_of(
    positions: Positions,
    store: Store,
    tasks: Tasks,
    credentials: Callable[[], GroupMetadata] = lambda: GroupMetadata("g"),
    disowned: Callable[[ErrorCode], None] = lambda code: None,
) -> Committer:
    return Committer(
        cast(CoordinatorLink, Link()),
        cast(OffsetStorage, store),
        positions,
        credentials,
        disowned,
        10_000_000,
        10_000_000,
        tasks,
    )


@pytest.mark.parametrize("has_joined_again", [False, True])
@pytest.mark.parametrize(
    "code",
    [ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.fenced_member_epoch],
)
def test_who_may_not_commit_any_more_joins_again(code: ErrorCode, has_joined_again: bool) -> None:
    """At once, and not when a heartbeat comes to it; unless it has joined again meanwhile."""
    members = iter(("before", "after" if has_joined_again else "before"))
    disowned: list[ErrorCode] = []

    class Refusing(Store):
        async def commit(self, *_: Any) -> None:
            raise KafkaError(code, "not you")

    async def run() -> None:
        positions, tasks = Positions(), Tasks(lambda _: None)
        store = Refusing(random.Random(0))
        committer = committer_of(
            positions,
            store,
            tasks,
            lambda: GroupMetadata("g", next(members), 1),
            disowned.append,
        )
        with pytest.raises(CommitFailed):
            await committer.commit({PLACE: OffsetAndMetadata(1)})
        await tasks.stop()

    asyncio.run(run())
    assert disowned == ([] if has_joined_again else [code])


def test_a_commit_that_is_repeated_does_not_undo_what_the_next_owner_has_done() -> None:
    """The partition goes to another member between two attempts."""

    class Losing(Store):
        async def commit(self, _: GroupMetadata, offsets: Offsets, *__: Any) -> None:
            if not lost:
                lost.append(PLACE)
                committer.forget(lost)
                raise KafkaError(ErrorCode.coordinator_not_available, "not now")
            self.offset = offsets[PLACE].offset

    lost: list[tuple[str, int]] = []
    store = Losing(random.Random(0))

    async def run() -> None:
        nonlocal committer
        tasks = Tasks(lambda _: None)
        committer = committer_of(Positions(), store, tasks)
        with pytest.raises(CommitFailed, match="was revoked"):
            await committer.commit({PLACE: OffsetAndMetadata(1)})
        await tasks.stop()

    committer = cast(Committer, None)
    asyncio.run(run())
    assert store.offset == NO_OFFSET


@pytest.mark.parametrize(("member", "is_refused"), [("m", True), ("", False)])
def test_a_store_without_members_takes_no_partition_of_another_one(
    member: str, is_refused: bool
) -> None:
    """It asks the consumer; who has assigned itself partitions may commit any."""

    class Asking(Store):
        async def commit(
            self, _: GroupMetadata, offsets: Offsets, check_owned: Callable[[], None]
        ) -> None:
            check_owned()
            self.offset = offsets[PLACE].offset

    store = Asking(random.Random(0))

    async def run() -> None:
        positions, tasks = Positions(), Tasks(lambda _: None)
        positions.add([("t", 1)])
        who = GroupMetadata("g", 1, member)
        committer = committer_of(positions, store, tasks, lambda: who)
        if is_refused:
            with pytest.raises(CommitFailed, match="partition 0 is not assigned"):
                await committer.commit({PLACE: OffsetAndMetadata(1)})
        else:
            await committer.commit({PLACE: OffsetAndMetadata(1)})
        await tasks.stop()

    asyncio.run(run())
    assert store.offset == (NO_OFFSET if is_refused else 1)


async def live(seed: int) -> list[str]:
    rng = random.Random(seed)
    positions, store = Positions(), Store(rng)
    positions.add([PLACE])
    state = positions.of(PLACE)
    state.go_to(0)
    tasks = Tasks(lambda error: store.mistakes.append(repr(error)))
    committer = committer_of(positions, store, tasks)
    under_way: set[asyncio.Task[None]] = set()

    def begin(work: Any) -> None:
        task = asyncio.ensure_future(work)
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    for _ in range(40):
        match rng.randrange(7):
            case 0:
                state.position += rng.randrange(1, 5)
            case 1:
                positions.mark_processed()
            case 2:
                begin(committer.commit_progress())
            case 3:
                begin(committer.commit_returned())
            case 4:  # at most once: committed before it is given
                end = state.position + rng.randrange(1, 5)
                await committer.commit({PLACE: OffsetAndMetadata(end)})
                begin(committer.commit_returned())
                state.position = end
            case 5 if rng.random() < 0.3:
                await asyncio.gather(*under_way)
                state.go_to(rng.randrange(state.position + 1))
                store.may_go_to = state.position
            case _:
                await asyncio.sleep(0)
    await asyncio.gather(*under_way)
    positions.mark_processed()
    await committer.commit_progress()
    if store.offset < state.position:
        store.mistakes.append(f"at {state.position}, but {store.offset} is committed")
    await tasks.stop()
    return store.mistakes


def test_in_any_order_progress_goes_forward() -> None:
    for seed in range(so_many(200, 20_000)):
        assert asyncio.run(live(seed)) == [], seed
