"""The changelog of one state: its topic, the wait for former owners, and restoring from it.

Exactly one process may continue from a partition of a changelog: the member to which the group has
assigned the input's partition. No former owner can commit anything that its successor has not
restored, for these reasons:

1. In each transaction an owner writes to the changelog of each partition that it has read from,
   waits for the acknowledgement, and only then sends the input's offsets (TxnOffsetCommit) with
   its member id and generation; then it ends the transaction. It sends nothing for revoked
   partitions: work on them is committed or aborted before it confirms the revocation to the group.
2. A successor is assigned the partition in a generation that began after the former owner had
   given it up or was removed from the group. From that moment on the group's coordinator refuses
   the offsets of a removed member (KIP-447), which therefore does not commit.
3. So every transaction that may still be committed has had its offsets accepted before that moment,
   and its changelog records acknowledged even earlier: they are below the high watermark that the
   successor asks for after its assignment. It waits until the last stable offset has reached that
   (a transaction still open there is ended by its timeout, or at once by fencing its producer).
   Then everything ever committed by former owners is below the last stable offset, up to which the
   successor reads.
4. A former owner that does not know of its removal may still write afterwards, but that is aborted.
   It may make it uncertain whether a restored state is exact; then the state is read again.

State and position of the input are records of one transaction (`changelog_format.py`), so the order
in which markers reach the partitions does not matter.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.client.client import Client
from drumlin.client.errors import ClientError, StateNotExact, UnknownTopic
from drumlin.client.topic_partition import TopicPartition
from drumlin.state.changelog_format import POSITION_KEY, Position, changelog_name, read_position
from drumlin.state.keyed_state import JournaledState
from drumlin.state.refused import StateRefused

_log = logging.getLogger(__name__)

#: The time that a former owner has to end its last transaction before it is fenced.
_GRACE_S: Final = 0.5
_TELL_S: Final = 10.0
_PAUSE_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5
_READS_MAX: Final = 5


class Restored(NamedTuple):
    """The state of a partition, and its position in the input; None: the changelog has none yet."""

    state: JournaledState
    position: Position | None


class Shown(NamedTuple):
    """The state of a partition as columns: `key` and `value`."""

    partition: int
    position: Position | None
    rows: pa.Table


class Changelog:
    """The changelog of the state `state` of group `group`."""

    def __init__(self, client: Client, group: str, state: str) -> None:
        self._client = client
        self.topic = changelog_name(group, state)
        #: The prefix of the transactional ids of this state's owners.
        self.id_prefix = f"{group}-{state}-"

    # -- the topic -----------------------------------------------------------------------

    def make(self, input_topic: str, replication_factor: int) -> None:
        """Create the topic if it does not exist, and check its partitions and cleanup policy.

        Raises:
            StateRefused: its number of partitions differs, or its policy is not `compact` alone.
            UnknownTopic: there is no such input.
        """
        count = len(self._client.partitions(input_topic))
        self._client.create_topic(
            self.topic,
            count,
            replication_factor=replication_factor,
            configs={"cleanup.policy": "compact"},
            if_not_exists=True,
        )
        found = len(self._client.partitions(self.topic))
        if found != count:
            raise StateRefused(
                f"topic {self.topic!r} has {found} partitions, and the input {input_topic!r} has "
                f"{count}: each partition of the input needs the one of its own number"
            )
        policy = self._client.topic_configs(self.topic)["cleanup.policy"].value
        if policy != "compact":
            raise StateRefused(
                f"topic {self.topic!r} has cleanup.policy={policy}: a state would lose keys; set "
                "it to compact"
            )

    # -- former owners -------------------------------------------------------------------

    def await_former_owners(self, partitions: list[int]) -> None:
        """Wait until every transaction now open in these partitions has ended; see above."""
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
                # Without permission to fence it, the transaction's timeout ends it.
                with contextlib.suppress(ClientError):
                    self._fence_owners(list(open_in))
            if time.monotonic() >= tell_at:
                tell_at = time.monotonic() + _TELL_S
                waits_for = ", ".join(str(place.partition) for place in open_in)
                _log.warning("open transactions in %r are waited for: %s", self.topic, waits_for)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _fence_owners(self, places: list[TopicPartition]) -> None:
        """Abort the open transactions of this state's owners in these partitions."""
        found = self._client.open_producers(places)
        producer_ids = {each.producer_id for producers in found.values() for each in producers}
        if not producer_ids:
            return
        for listed in self._client.list_transactions(producer_ids=producer_ids):
            if listed.transactional_id.startswith(self.id_prefix):
                self._client.abort_transaction(listed.transactional_id)

    # -- reading -------------------------------------------------------------------------

    def restore(self, partition: int) -> Restored:
        """The state of a partition. Call `await_former_owners` first.

        Raises:
            StateRefused: it is of a later version, or another program has written to it.
            StateNotExact: another process keeps writing to it.
        """
        for attempt in range(_READS_MAX):
            try:
                return self._restore(partition)
            except StateNotExact:
                if attempt + 1 == _READS_MAX:
                    raise
                time.sleep(_PAUSE_MAX_S)
        raise AssertionError("the last attempt returns, or raises")

    def _restore(self, partition: int) -> Restored:
        values: dict[bytes, bytes] = {}
        try:
            for batch in self._client.snapshot_batches(
                self.topic, partitions=[partition], columns=["key", "value"]
            ):
                keys, contents = (batch.column(each).to_pylist() for each in ("key", "value"))
                values.update(zip(keys, contents, strict=True))
        except UnknownTopic as error:
            raise StateRefused(
                f"{self._where(partition)}: there is no such partition, as the input has more than "
                "it had; a state does not grow with its input yet"
            ) from error
        told = values.pop(POSITION_KEY, None)
        return Restored(JournaledState(values), self._position(told, len(values), partition))

    def read(self, *, allow_inexact: bool = False) -> Iterator[Shown]:
        """The committed state of each partition, whoever owns it now.

        Raises:
            UnknownTopic: there is no such changelog.
            StateNotExact: it changes too often for a broker that does not tell how far it cleans.
            StateRefused: it is of a later version, or another program has written to it.
        """
        for partition in self._client.partitions(self.topic):
            rows = self._client.snapshot(
                self.topic,
                partitions=[partition],
                columns=["key", "value"],
                allow_inexact=allow_inexact,
            )
            is_position = pc.equal(rows.column("key"), pa.scalar(POSITION_KEY, pa.binary()))
            told = rows.filter(is_position).column("value").to_pylist()
            rows = rows.filter(pc.invert(is_position))
            position = self._position(told[0] if told else None, rows.num_rows, partition)
            yield Shown(partition, position, rows)

    def _position(self, told: bytes | None, count: int, partition: int) -> Position | None:
        """The partition's position in the input; `count`: its number of other keys."""
        if told is not None:
            return read_position(told, self._where(partition))
        if count:
            raise StateRefused(
                f"{self._where(partition)}: it has {count} keys and no position, so something else "
                "has written it"
            )
        return None

    def _where(self, partition: int) -> str:
        return f"changelog {self.topic!r} partition {partition}"
