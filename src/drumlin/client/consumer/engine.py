"""The part of a consumer in the event loop: membership, fetching, commits, and their shared state.

The user's thread calls `next` and gets one thing to do: a duty, a piece to read, or a reset to
report. All mutable state lives here, in one thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.client.admin.committed_offsets import NO_EPOCH, GroupMetadata, OffsetAndMetadata
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.fetching.fetch_buffer import FetchBuffer, Piece
from drumlin.client.consumer.fetching.fetcher import Fetcher
from drumlin.client.consumer.membership.driver import NO_MEMBER, Driver, GroupProtocolDriver
from drumlin.client.consumer.membership.membership import Duty, DutyKind
from drumlin.client.consumer.membership.protocol_choice import make_protocol
from drumlin.client.consumer.offsets.commits import Committer
from drumlin.client.consumer.offsets.offset_storage import Offsets, OffsetStorage
from drumlin.client.consumer.offsets.start_offsets import Reset, Starter, passes
from drumlin.client.consumer.old_offsets.storage_choice import make_storage
from drumlin.client.consumer.options import ConsumerOptions, Subscription
from drumlin.client.consumer.positions import NO_OFFSET, Positions, Stage
from drumlin.client.consumer.tasks import Tasks
from drumlin.client.consumer.topics import partition_counts, wanted_topics
from drumlin.client.errors import ClientError, MembershipEnded, OffsetStoreFailed, RequestTimedOut
from drumlin.client.places import Place
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.peer.retry import Deadline, backoff_s, is_retriable
from drumlin.peer.rights import lacking
from drumlin.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MISSING_TOPIC_S: Final = 1.0  # how soon to look again for a missing topic


class Readable(NamedTuple):
    """A piece of fetched records, to be read from `position`."""

    piece: Piece
    position: int


class ConsumerEngine:
    """The engine of one consumer, made and used in the loop. With `assigned` it joins no group."""

    def __init__(
        self,
        connections: BrokerConnections,
        group_id: str | None,
        subscription: Subscription | None,
        assigned: Collection[TopicPartition],
        options: ConsumerOptions,
    ) -> None:
        self._options = options
        self._group_id = group_id
        self._subscription = subscription
        self._waiters: set[asyncio.Event] = set()
        self._prompt = connections.sibling()
        self._siblings = [self._prompt, connections.sibling(), connections.sibling()]
        _, waiting, membership = self._siblings
        self.positions = Positions()
        self.is_closed = False
        self._is_shut = False
        self._error: BaseException | None = None
        self._tasks = Tasks(self._crashed)
        self._protocol: GroupProtocolDriver | None = None
        self._driver: Driver | None = None
        self._link: CoordinatorLink | None = None
        self._storage: OffsetStorage | None = None
        self._committer: Committer | None = None
        self._buffer = FetchBuffer(options.buffer_bytes, connections.memory)
        if group_id is not None:
            self._link = CoordinatorLink(group_id, self._prompt, membership)
            self._storage = make_storage(options, self._link, is_member=subscription is not None)
            self._committer = self._make_committer(self._link, self._storage)
        committed = None if group_id is None else self._committed_at_start
        self._starter = Starter(
            self.positions,
            options,
            self._prompt,
            committed,
            self._tasks,
            self._something_changed,
        )
        self._fetcher = Fetcher(
            self.positions,
            self._buffer,
            self._starter,
            options,
            self._prompt,
            waiting,
            self._tasks,
            self._notify,
        )
        if subscription is not None and self._link is not None:
            self._protocol = make_protocol(options, subscription, self._link, self._prompt)
            self._driver = Driver(self._protocol, self._notify)
            self._tasks.spawn(self._watch_topics())
        elif subscription is not None:
            self._tasks.spawn(self._take_all())
        else:
            self._begin(frozenset(assigned))

    def _make_committer(self, link: CoordinatorLink, storage: OffsetStorage) -> Committer:
        return Committer(
            link,
            storage,
            self.positions,
            self._credentials,
            self._disowned,
            self._options.commit_interval_ms,
            self._prompt.options.request_timeout_ms,
            self._tasks,
        )

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic in the latest metadata; may be called from any thread."""
        known = self._prompt.view.topics.get(topic)
        return None if known is None or known.topic_id is None else str(known.topic_id)

    # -- calls of the user's thread ------------------------------------------------------

    async def next(
        self, deadline: Deadline | None, *, comes_back: bool
    ) -> Duty | Readable | Reset | None:
        """The next thing to do for the polling thread; None if there is none before the deadline.

        `comes_back` means that a new poll begins, so the records returned before are processed.

        Raises:
            ClientError: this consumer, or one of its partitions, has failed for good.
        """
        if comes_back:
            self.positions.mark_processed()
            if self._protocol is not None:
                self._protocol.membership.polled(_now())
            self._wake()
        while True:
            found = self._look()
            if found is not None:
                return found
            if deadline is not None and deadline.is_over:
                return None
            await self._wait_for_change(deadline)

    def _look(self) -> Duty | Readable | Reset | None:
        if self.is_closed:
            raise ClientError("this consumer is closed")
        if self._protocol is not None:
            duty: Duty | None = self._protocol.membership.begin_duty()
            if duty is not None:
                return duty
        self._raise_failure()
        if self._starter.resets:
            return self._starter.resets.popleft()
        piece = self._buffer.first(self.positions)
        if piece is None:
            return None
        return Readable(piece, self.positions.of(piece.place).position)

    def _raise_end(self) -> None:
        """Raise the error that stops all partitions, if there is one."""
        if self.is_closed:
            raise ClientError("this consumer is closed")
        for error in (self._error, None if self._driver is None else self._driver.error):
            if error is not None:
                raise error

    def _raise_failure(self) -> None:
        self._raise_end()
        if self._protocol is not None and self._protocol.membership.failure is not None:
            code: ErrorCode = self._protocol.membership.failure
            why = code.name
            if code is ErrorCode.fenced_instance_id:
                why += ", as another one has joined with its instance id"
            elif right := lacking("consumer_group_heartbeat", code):
                why += f", as it takes {right}"
            raise MembershipEnded(f"group {self._group_id!r} refuses this member: {why}", code)
        for state in self.positions:
            if state.failure is not None and not state.is_paused:
                raise state.failure

    @property
    def has_assignment(self) -> bool:
        """Whether this consumer has ever had an assignment, even an empty one."""
        if self._protocol is not None:
            has: bool = self._protocol.membership.has_assignment
            return has
        return self._subscription is None or bool(self.positions.places)

    def poll_ended(self) -> None:
        """Note that the user's thread has left `poll`."""
        if self._protocol is not None:
            self._protocol.membership.poll_ended(_now())
        self._wake()

    def given(self, piece: Piece, end_offset: int, *, is_last: bool) -> None:
        """Note that `poll` returns the records of `piece` up to `end_offset` (exclusive)."""
        state = self.positions.get(piece.place, piece.version)
        if state is None:
            return
        state.position = end_offset
        state.position_epoch = piece.leader_epoch
        if is_last:
            state.buffered -= 1
            self._buffer.done(piece)
            self._fetcher.pump()

    # -- duties --------------------------------------------------------------------------

    def begin(self, duty: Duty) -> None:
        """Start a duty, before the user's callback is called."""
        if duty.kind is DutyKind.ASSIGN:
            self._begin(duty.partitions)

    async def commit_before_revoke(self, places: Collection[TopicPartition]) -> None:
        """Commit the progress in these partitions if auto-commit is on; a failure is logged."""
        if self._committer is None or not self._committer.is_automatic:
            return
        try:
            await self._committer.commit_progress(places)
        except (KafkaError, PeerError, ClientError) as error:
            _log.warning("commit of group %r before revocation: %s", self._group_id, error)

    def finish(self, duty: Duty) -> None:
        """Finish a duty, after the user's callback."""
        if duty.kind is not DutyKind.ASSIGN:
            self._end(duty.partitions)
        assert self._protocol is not None
        self._protocol.membership.duty_done(duty)
        self._wake()

    def _begin(self, places: Collection[TopicPartition]) -> None:
        self.positions.add(places)
        self._starter.start(places)

    def _end(self, places: Iterable[TopicPartition]) -> None:
        places = list(places)
        self.positions.remove(places)
        if self._committer is not None:
            self._committer.forget(places)
        self._buffer.drop_unwanted(self.positions)
        self._fetcher.pump()

    # -- offsets -------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit offsets. Raises as `Committer.commit` does; ClientError without a group."""
        self._check_not_shut()
        committer = self._group_committer()
        await (committer.commit_returned() if offsets is None else committer.commit(offsets))

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets; partitions without one are left out."""
        storage = self._group_storage()
        return dict(await self._insist(lambda: storage.fetch(self._reader(), places)))

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call `ask` until it succeeds or the request times out."""
        self._check_not_shut()
        deadline = Deadline(self._prompt.options.request_timeout_ms)
        for pause_s in backoff_s(self._prompt.options):
            try:
                return await ask()
            except (KafkaError, PeerError, OffsetStoreFailed) as error:
                if deadline.is_over or not (_is_stale(error) or passes(error)):
                    raise
                self._wake()
            await asyncio.sleep(min(pause_s, deadline.remaining_s))
        raise AssertionError("back-off never ends")

    def _check_not_shut(self) -> None:
        if self._is_shut:
            raise ClientError("this consumer is closed")

    async def _committed_at_start(self, places: Collection[TopicPartition]) -> Offsets:
        storage = self._group_storage()
        found = await self._insist(lambda: storage.take_over(self._reader(), places))
        self._group_committer().start_known(found.settled)
        return found.offsets

    def _reader(self) -> GroupMetadata:
        # Members of classic groups fetch offsets without naming their member id.
        credentials = self._credentials()
        if credentials is None or self._options.protocol == "classic":
            return GroupMetadata(self._group_id or "")
        return credentials

    async def position(self, place: TopicPartition, deadline: Deadline) -> int:
        """The offset of the next record of a partition that poll returns.

        Raises:
            ClientError: the partition is not assigned, or it or the consumer has failed.
            RequestTimedOut: the offset is not known in time.
        """
        while True:
            self._raise_end()
            state = self.positions.of(place)
            if state.failure is not None:
                raise state.failure
            if state.position != NO_OFFSET and state.stage is not Stage.STARTING:
                return state.position
            if deadline.is_over:
                raise RequestTimedOut(f"where {place} begins is not known yet")
            await self._wait_for_change(deadline)

    def seek(self, place: TopicPartition, to: Place | OffsetAndMetadata) -> None:
        """Continue reading at `to`; a plain number is an offset."""
        state = self.positions.of(place)
        if isinstance(to, OffsetAndMetadata):
            state.go_to(to.offset, to.leader_epoch)
        elif isinstance(to, int):
            state.go_to(to, NO_EPOCH)
        else:
            self._starter.seek(state, to)
        self._buffer.drop_unwanted(self.positions)
        self._fetcher.pump()

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Pause these partitions until `resume`; drop their records that were fetched ahead."""
        for state in [self.positions.of(each) for each in places]:
            state.pause()
        self._buffer.drop_unwanted(self.positions)
        self._fetcher.pump()

    def resume(self, places: Iterable[TopicPartition]) -> None:
        """The opposite of `pause`."""
        for state in [self.positions.of(each) for each in places]:
            state.is_paused = False
        self._something_changed()

    def group_metadata(self) -> GroupMetadata:
        """This member's ids and generation; the generation is -1 while it is not a member."""
        if self._group_id is None:
            raise ClientError("this consumer has no group")
        if self._options.offsets_storage == "zookeeper" and not self._options.dual_commit:
            raise ClientError("a transaction cannot commit offsets that are only in ZooKeeper")
        member = self._credentials() or GroupMetadata(self._group_id)
        return member._replace(commits_periodically=self._group_committer().is_automatic)

    def _group_committer(self) -> Committer:
        if self._committer is None:
            raise ClientError("this consumer has no group to commit for")
        return self._committer

    def _group_storage(self) -> OffsetStorage:
        if self._storage is None:
            raise ClientError("this consumer has no group")
        return self._storage

    def _credentials(self) -> GroupMetadata | None:
        if self._protocol is None:
            return GroupMetadata(self._group_id or "")
        credentials: GroupMetadata | None = self._protocol.membership.credentials
        return credentials

    def _disowned(self, code: ErrorCode) -> None:
        if self._protocol is not None:
            self._protocol.membership.disowned(code)
            self._notify()
            self._wake()

    # -- the end -------------------------------------------------------------------------

    async def stop_polling(self) -> frozenset[TopicPartition]:
        """End all polling; returns the partitions that must be given up."""
        self.is_closed = True
        self._notify()
        self._fetcher.stop()
        if self._driver is not None:
            await self._driver.stop()
        await self._tasks.stop()
        return self.positions.places if self._protocol is not None else frozenset()

    async def shut_down(self, *, leaves: bool | None, timeout_ms: float) -> None:
        """Leave the group, and close the connections.

        By default (`leaves` is None) a dynamic member leaves, and a static one may come back.
        """
        self._is_shut = True
        try:
            await self._leave(leaves, timeout_ms)
        finally:
            if self._storage is not None:
                await self._storage.close()
            for each in self._siblings:
                await each.close()

    async def _leave(self, leaves: bool | None, timeout_ms: float) -> None:
        step = None if self._protocol is None else self._protocol.membership.close()
        if self._protocol is None or step is None or leaves is False:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._protocol.leave(step._replace(is_final=leaves is True))
        except (KafkaError, PeerError, TimeoutError) as error:
            if getattr(error, "code", None) not in NO_MEMBER:
                _log.warning("leaving group %r: %s", self._group_id, error)

    # -- topics --------------------------------------------------------------------------

    async def _watch_topics(self) -> None:
        assert self._subscription is not None
        assert self._protocol is not None
        membership: Any = self._protocol.membership
        missing: frozenset[str] = frozenset()
        while True:
            pause_s = self._options.metadata_refresh_ms / 1000
            try:
                wanted = await wanted_topics(self._prompt, self._subscription)
                topics = wanted | membership.group_topics
                counts = await partition_counts(self._prompt, topics)
                if self._subscription.pattern is None:
                    self._warn_of(wanted - counts.keys() - missing)
                    missing = wanted - counts.keys()
                if missing:
                    pause_s = min(pause_s, _MISSING_TOPIC_S)
                membership.topics_changed(wanted, counts)
            except (KafkaError, PeerError) as error:
                if not is_retriable(error):
                    raise
                pause_s = self._prompt.options.retry_backoff_max_ms / 1000
            self._wake()
            self._something_changed()
            await asyncio.sleep(pause_s)

    def _warn_of(self, missing: frozenset[str]) -> None:
        for topic in sorted(missing):
            _log.warning("topic %r does not exist; group %r waits for it", topic, self._group_id)

    async def _take_all(self) -> None:
        """Assign all current partitions of the topics to a consumer without a group."""
        assert self._subscription is not None
        wanted = await wanted_topics(self._prompt, self._subscription)
        await self._prompt.retrying(lambda: self._prompt.refresh(wanted))
        topics = self._prompt.view.topics
        self._begin(
            {TopicPartition(topic, each) for topic in wanted for each in topics[topic].partitions}
        )
        self._something_changed()

    # -- waking --------------------------------------------------------------------------

    def _crashed(self, error: BaseException) -> None:
        self._error = error
        self._notify()

    def _notify(self) -> None:
        """Wake the user's thread: there may be something for it to do."""
        for each in self._waiters:
            each.set()

    async def _wait_for_change(self, deadline: Deadline | None) -> None:
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with asyncio.timeout(None if deadline is None else deadline.remaining_s):
                await changed.wait()
        except TimeoutError:
            pass
        finally:
            self._waiters.discard(changed)

    def _wake(self) -> None:
        """Wake the driver: the membership may have a request to send."""
        if self._driver is not None:
            self._driver.wake()

    def _something_changed(self) -> None:
        self._fetcher.pump()
        self._notify()


_STALE: Final = frozenset({ErrorCode.stale_member_epoch, ErrorCode.unknown_member_id})


def _is_stale(error: BaseException) -> bool:
    """Whether this member's generation or epoch is out of date."""
    return isinstance(error, KafkaError) and error.code in _STALE


def _now() -> float:
    return asyncio.get_running_loop().time()
