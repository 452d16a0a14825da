"""The changelog of one state: creates the topic, waits for former owners, and restores stores.

Exactly one process may continue a partition of a changelog: the member to which the group has
assigned the input partition. No former owner can commit anything that its successor has not
restored, for these reasons:

1. In each transaction an owner first writes to the changelog partitions of all input partitions
   that it has read, and waits for the acknowledgements. Only then does it send the input offsets
   (TxnOffsetCommit) with its member id and generation, and end the transaction. It sends nothing
   for revoked partitions: it commits or aborts work on them before acknowledging the revocation.
2. The successor is assigned the partition in a generation that began after the former owner gave
   the partition up or was removed from the group, or as the process that has replaced it (static
   membership). From then on the group coordinator rejects a removed or replaced member's offsets
   (KIP-447, KIP-345), so it does not commit.
3. So the offsets of every transaction that may still commit were accepted before that moment,
   and its changelog records were acknowledged even earlier: they are below the high watermark that
   the successor fetches after its assignment. The successor waits until the last stable offset
   reaches this high watermark. (A transaction that is still open there ends by its timeout, or at
   once if its producer is fenced.) Then everything that former owners ever commit is below the
   last stable offset, up to which the successor reads.
4. A former owner that has not noticed its removal may still write afterwards, but its transaction
   will be aborted. Until then a restored state may not be provably exact; it is then read again.

State changes and input position are written to the changelog in one transaction
(`changelog_format.py`), so the order in which markers reach the partitions does not matter.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drumlin import lowlevel
from drumlin.client.errors import (
    ClientError,
    OffsetOutOfRange,
    RequestRefused,
    StateNotExact,
    UnknownTopic,
)
from drumlin.client.topic_partition import TopicPartition
from drumlin.state.changelog_format import (
    POSITION_KEY,
    Position,
    changelog_name,
    is_owner_id,
    read_positions,
)
from drumlin.state.refused import StateRefused
from drumlin.state.stores import Checkpoint, Store, digest, now_ms

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.client.places import Time

_log = logging.getLogger(__name__)

#: The time that a former owner has to end its last transaction before it is fenced.
_GRACE_S: Final = 0.5
#: The time between two warnings during the wait.
_TELL_S: Final = 10.0
#: The first pause between two checks, and the longest one.
_PAUSE_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5
#: The most attempts to read an exact state.
_READS_MAX: Final = 5
#: The memory for rows on their way into a store.
_LOAD_BYTES: Final = 32 << 20
#: How far a machine's clock may be set back while a store is not in use.
_CLOCK_CHANGES_MS: Final = 60_000
#: How long the value of delete.retention.ms is cached.
_CONFIG_S: Final = 30.0


class End(NamedTuple):
    """The last stable offset of a partition, the time of the request, and its leader's epoch."""

    offset: int
    at_ms: int
    leader_epoch: int


class Shown(NamedTuple):
    """The state of a partition, with the columns `key` and `value`."""

    partition: int
    #: In each input; empty: the changelog was empty.
    positions: tuple[Position, ...]
    rows: pa.Table


class Changelog:
    """The changelog of the state `state` of group `group`."""

    def __init__(self, client: Client, group: str, state: str) -> None:
        self._client = client
        self._group = group
        self.topic = changelog_name(group, state)
        self.topic_id = ""
        #: The time (monotonic seconds) of the last fetch of delete.retention.ms, and its value.
        self._tombstones_kept: tuple[float | None, int] = None, 0
        self._state = state

    # -- the topic -----------------------------------------------------------------------

    def make(self, inputs: Sequence[str], replication_factor: int, *, grows: bool) -> None:
        """Create the topic if it does not exist, and check its partitions and cleanup policy.

        Args:
            inputs: the inputs, which need the same number of partitions.
            replication_factor: of the changelog, if it is created.
            grows: whether to add the partitions that have been added to the input.

        Raises:
            StateRefused: the topic's number of partitions differs from an input's, or its
                cleanup.policy is not just `compact`.
            UnknownTopic: the input topic does not exist.
        """
        counts = {each: len(self._client.partitions(each)) for each in inputs}
        count = counts[inputs[0]]
        if set(counts.values()) != {count}:
            told = ", ".join(f"{topic!r} has {each}" for topic, each in counts.items())
            raise StateRefused(
                f"the inputs need the same number of partitions, as partition N of each shares one "
                f"state: {told}"
            )
        self._client.create_topic(
            self.topic,
            count,
            replication_factor=replication_factor,
            configs={"cleanup.policy": "compact"},
            if_not_exists=True,
        )
        found = len(self._client.partitions(self.topic))
        if found < count and grows:
            self.grow(count)
        elif found != count:
            raise StateRefused(
                f"changelog {self.topic!r} has {found} partitions, but input {inputs[0]!r} has "
                f"{count}: both need the same number. If partitions were added to the input, keys "
                "may be in others than their state; see new_partitions"
            )
        self.check_policy()
        self.identify()

    def grow(self, count: int) -> None:
        """Add partitions up to `count`, as in the input. Another process may do the same."""
        try:
            self._client.add_partitions(self.topic, count)
        except RequestRefused:
            if len(self._client.describe_topics([self.topic])[self.topic].partitions) < count:
                raise

    def check_policy(self) -> None:
        """Check that the topic is compacted, and nothing else.

        Raises:
            StateRefused: it is not.
        """
        policy = self._client.topic_configs(self.topic)["cleanup.policy"].value
        if policy != "compact":
            raise StateRefused(
                f"changelog {self.topic!r} has cleanup.policy={policy}: the state would lose keys; "
                "set it to compact"
            )

    def identify(self) -> None:
        """Fetch the topic id, by which a store is matched with its changelog."""
        self.topic_id = self._client.describe_topics([self.topic])[self.topic].topic_id or ""

    # -- former owners -------------------------------------------------------------------

    def await_former_owners(self, partitions: list[int]) -> None:
        """Wait until all transactions now open in these partitions have ended (step 3 above)."""
        client = self._client
        places = [TopicPartition(self.topic, each) for each in partitions]
        found = client.list_offsets(dict.fromkeys(places, "latest"))
        open_in = {place: each.offset for place, each in found.items()}
        fence_at = time.monotonic() + _GRACE_S
        tell_at = time.monotonic() + _TELL_S
        pause_s = _PAUSE_S
        while True:
            stable = client.list_offsets(
                dict.fromkeys(open_in, "latest"), isolation="read_committed"
            )
            open_in = {
                place: end_offset
                for place, end_offset in open_in.items()
                if stable[place].offset < end_offset
            }
            if not open_in:
                return
            if time.monotonic() >= fence_at:
                fence_at = time.monotonic() + _GRACE_S
                # Without permission to fence, the transaction's timeout ends the wait.
                with contextlib.suppress(ClientError):
                    self._fence_owners(list(open_in))
            if time.monotonic() >= tell_at:
                tell_at = time.monotonic() + _TELL_S
                waits_for = ", ".join(str(place.partition) for place in open_in)
                _log.warning(
                    "waiting for open transactions in %r, partitions %s", self.topic, waits_for
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _fence_owners(self, places: list[TopicPartition]) -> None:
        """Abort the open transactions of this state's owners in these partitions."""
        found = self._client.open_producers(places)
        producer_ids = {each.producer_id for producers in found.values() for each in producers}
        if not producer_ids:
            return
        for listed in self._client.list_transactions(producer_ids=producer_ids):
            if is_owner_id(listed.transactional_id, self._group, self._state):
                self._client.abort_transaction(listed.transactional_id)

    def fence_gone_owners(self) -> None:
        """Abort the open transactions of owners that are no longer members of the group.

        They may have written output, but nothing to a changelog. They cannot commit; but until they
        are aborted, readers of the output get nothing after them. Without permission to abort
        them, their timeout ends them.
        """
        with contextlib.suppress(ClientError):
            found = self._client.list_transactions(states=["Ongoing"])
            open_ones = {each.transactional_id for each in found}
            own = {each for each in open_ones if is_owner_id(each, self._group, self._state)}
            if own:
                # Fetched after the transactions: a producer that is not a member now is gone.
                members = self._client.describe_group(self._group).members
                for each in own - {member.client_id for member in members}:
                    self._client.abort_transaction(each)

    # -- reading -------------------------------------------------------------------------

    def restore(self, partition: int, store: Store) -> tuple[Position, ...]:
        """Update a store to the end of the changelog. Call `await_former_owners` first.

        A store that is behind gets only the missing records. A store is reloaded if the log no
        longer has these records, or if the store does not match the log, for example because a
        failure has truncated the log.

        Returns:
            The state's position in each input; empty: the changelog is still empty.

        Raises:
            StateRefused: the changelog has a later format version, or another program has written
                to it, or records were deleted from it.
            StateNotExact: another process keeps writing to the changelog.
        """
        self._check_start(partition)
        for attempt in range(_READS_MAX):
            try:
                if not self._catch_up(partition, store, self.ends([partition])[partition]):
                    self._load(partition, store, allow_inexact=False)
                break
            except StateNotExact:
                if attempt + 1 == _READS_MAX:
                    raise
                time.sleep(_PAUSE_MAX_S)
        assert store.checkpoint is not None
        told = store.checkpoint.position
        is_empty = told is None and len(store) == 0  # needed only without a position
        return self._positions(told, partition, is_empty=is_empty)

    def _check_start(self, partition: int) -> None:
        """Check that nothing was removed except by compaction, which leaves the log's start."""
        place = TopicPartition(self.topic, partition)
        start_offset = self._client.list_offsets({place: "earliest"})[place].offset
        if start_offset > 0:
            raise StateRefused(
                f"{self._where(partition)}: it begins at offset {start_offset}, as records were "
                "deleted, by retention or by a command: the state lacks keys. To start over, "
                "delete the group's offsets and the changelog"
            )

    def follow(self, partition: int, store: Store, end: End, is_over: Callable[[], bool]) -> None:
        """Update the store of a standby to `end`, the current end of the log.

        Whether the store is exact is known only when the next owner restores it. Loading stops
        early, with an incomplete store, when `is_over` returns True.
        """
        at = store.checkpoint
        if at is not None:
            # A store ahead of `end` has a commit whose marker is not written yet, or the log was
            # truncated, which the next owner will detect.
            is_recent = end.at_ms - at.since_ms < _CLOCK_CHANGES_MS
            if end.offset < at.offset or (end.offset == at.offset and is_recent):
                return
        if not self._catch_up(partition, store, end):
            self._load(partition, store, allow_inexact=True, is_over=is_over)

    def ends(self, partitions: Iterable[int]) -> dict[int, End]:
        """The last stable offset of each of these partitions.

        Raises:
            StateRefused: a partition does not exist.
        """
        at_ms = now_ms()
        places = [TopicPartition(self.topic, each) for each in partitions]
        try:
            found = self._client.list_offsets(
                dict.fromkeys(places, "latest"), isolation="read_committed"
            )
        except UnknownTopic as error:
            raise StateRefused(
                f"changelog {self.topic!r}: {error}. If partitions were added to the input, see "
                "new_partitions"
            ) from error
        return {
            place.partition: End(each.offset, at_ms, each.leader_epoch)
            for place, each in found.items()
        }

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def _load(
        self,
        partition: int,
        store: Store,
        *,
        allow_inexact: bool,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Reload the whole state, up to the current end of the log or beyond."""
        store.clear()
        end = self.ends([partition])[partition]
        position: bytes | None = None
        last = -1, b""
        for batch in lowlevel.replay_state(
            self._client,
            self.topic,
            partition,
            ["key", "value", "offset"],
            memory_bytes=_LOAD_BYTES,
            allow_inexact=allow_inexact,
        ):
            if is_over():
                return
            rows = _rows_of(batch)
            if POSITION_KEY in rows:
                position = rows.pop(POSITION_KEY)
                last = _offset_of(POSITION_KEY, batch), digest(POSITION_KEY, position)
            store.apply(rows, None)
        if last[0] >= end.offset:  # the log has grown: the record before `end` is unknown
            last = -1, b""
        made = Checkpoint(self.topic_id, end.offset, end.at_ms, position, *last, end.leader_epoch)
        store.apply({}, made)

    def _catch_up(self, partition: int, store: Store, end: End) -> bool:
        """Apply the records that the store lacks before `end`, the current end of the log.

        Returns:
            Whether the store is now up to date. If not, it must be reloaded.
        """
        at = store.checkpoint
        if at is None or at.topic_id != self.topic_id or end.offset < at.offset:
            return False
        if end.offset > at.offset and not self._has_tombstones_since(at.since_ms, end.at_ms):
            return False
        start_offset = at.offset if at.last_offset < 0 else at.last_offset
        wanted = lowlevel.OffsetRange(self.topic, partition, start_offset, end.offset)
        options = lowlevel.ReadOptions(
            columns=["key", "value", "offset"], isolation="read_committed"
        )
        try:
            batches = lowlevel.read_range(self._client, wanted, options)
            first = next((each for each in batches if each.num_rows), None)
            if not self._is_of_same_log(partition, at, first):
                return False
            for batch in [] if first is None else itertools.chain([first], batches):
                at = _apply(store, at, batch)
        except OffsetOutOfRange:
            return False
        epoch = end.leader_epoch
        store.apply({}, at._replace(offset=end.offset, since_ms=end.at_ms, leader_epoch=epoch))
        return True

    def _is_of_same_log(self, partition: int, at: Checkpoint, first: pa.RecordBatch | None) -> bool:
        """Whether the log still has everything that the store has.

        That is so if it has the store's last record. If the cleaner has removed that record, the
        log must have the whole leader epoch in which the store was written: an unclean election
        truncates a log at the end of an earlier epoch, or within this one.

        Args:
            partition: the partition of the changelog.
            at: the store's checkpoint.
            first: the first records at or after the store's last one; None: there are none.
        """
        if first is not None and first.column("offset")[0].as_py() == at.last_offset:
            key, value = (first.column(each)[0].as_py() for each in ("key", "value"))
            return digest(key, value) == at.last_digest
        needed = at.offset if at.last_offset < 0 else at.last_offset + 1
        if needed == 0:
            return True
        if at.leader_epoch < 0:
            return False
        found = lowlevel.end_of_epoch(self._client, (self.topic, partition), at.leader_epoch)
        return found.leader_epoch == at.leader_epoch and found.end_offset >= needed

    def _has_tombstones_since(self, since_ms: int, until_ms: int) -> bool:
        """Whether all tombstones written since `since_ms` are still in the log."""
        looked_s, kept_ms = self._tombstones_kept
        if looked_s is None or time.monotonic() > looked_s + _CONFIG_S:
            kept_ms = int(self._client.topic_configs(self.topic)["delete.retention.ms"].value or 0)
            self._tombstones_kept = time.monotonic(), kept_ms
        return 0 <= until_ms - since_ms <= kept_ms - _CLOCK_CHANGES_MS

    def read(self, *, at: Time | None = None, allow_inexact: bool = False) -> Iterator[Shown]:
        """The committed state of each partition of any owner, now or at the time `at`.

        Raises:
            UnknownTopic: the changelog does not exist.
            StateNotExact: the log cleaner has removed records of that state; or the state changes
                too often for a broker that does not report how far it has cleaned.
            StateRefused: the changelog has a later format version, or another program has written
                to it; or its timestamps are LogAppendTime, which may differ within a commit.
        """
        if at is not None:
            kind = self._client.topic_configs(self.topic)["message.timestamp.type"].value
            if kind == "LogAppendTime":
                raise StateRefused(
                    f"changelog {self.topic!r} has message.timestamp.type={kind}: its records' "
                    "timestamps are not their commit times"
                )
        for partition in self._client.partitions(self.topic):
            rows = self._client.snapshot(
                self.topic,
                at=at,
                partitions=[partition],
                columns=["key", "value"],
                allow_inexact=allow_inexact,
            )
            is_position = pc.equal(rows.column("key"), pa.scalar(POSITION_KEY, pa.binary()))
            told = rows.filter(is_position).column("value").to_pylist()
            rows = rows.filter(pc.invert(is_position))
            positions = self._positions(
                told[0] if told else None, partition, is_empty=rows.num_rows == 0
            )
            yield Shown(partition, positions, rows)

    def _positions(
        self, told: bytes | None, partition: int, *, is_empty: bool
    ) -> tuple[Position, ...]:
        """Decode the position in each input; `is_empty`: whether the state has no keys."""
        if told is not None:
            return read_positions(told, self._where(partition))
        if not is_empty:
            raise StateRefused(
                f"{self._where(partition)}: it has keys but no position, so another program has "
                "written to it"
            )
        return ()

    def _where(self, partition: int) -> str:
        return f"changelog {self.topic!r} partition {partition}"


def _rows_of(batch: pa.RecordBatch) -> dict[bytes, Any]:
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    return dict(zip(keys, values, strict=True))


def _offset_of(key: bytes, batch: pa.RecordBatch) -> int:
    row = pc.index(batch.column("key"), pa.scalar(key, batch.column("key").type)).as_py()
    offset: int = batch.column("offset")[row].as_py()
    return offset


def _apply(store: Store, at: Checkpoint, batch: pa.RecordBatch) -> Checkpoint:
    """Apply records to a store, and return its checkpoint. Repeats do no harm."""
    if batch.num_rows == 0:
        return at
    changes = _rows_of(batch)
    position = changes.pop(POSITION_KEY, at.position)
    last = {name: batch.column(name)[-1].as_py() for name in ("key", "value", "offset")}
    at = at._replace(
        offset=max(at.offset, last["offset"] + 1),
        position=position,
        last_offset=last["offset"],
        last_digest=digest(last["key"], last["value"]),
    )
    stored = store.get_many([key for key, value in changes.items() if value is None])
    kept = {key: value for key, value in changes.items() if value is not None or key in stored}
    store.apply(kept, at)
    return at
