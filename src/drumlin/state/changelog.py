"""The changelog of one state: its topic, whose turn it is to write to it, and what it tells.

Exactly one process may go on from what a partition of a changelog tells: the one that its group has
given the input's partition. Why no former owner can commit anything that its successor has not
restored:

1. In each transaction an owner writes to the changelog of each partition that it has read from,
   waits until that is acknowledged, and only then sends the input's offsets (TxnOffsetCommit) with
   its member id and generation; then it ends the transaction. It sends nothing for partitions that
   it has given up: what concerns them is committed or aborted before the group hears that it has.
2. A successor is told of its partition by a generation that began after the former owner had given
   it up or was thrown out. From that moment on the group's coordinator refuses the offsets of a
   member that was thrown out (KIP-447), and without them it does not commit.
3. So every transaction that may still be committed has had its offsets accepted before that moment,
   and its records of the changelog acknowledged before that: they are below the high watermark
   which the successor asks for after it was told. It waits until the last stable offset has
   reached that (a transaction that is still open there is ended by its time-out, or at once by
   fencing its producer). From then on all that was committed is in what it reads up to the last
   stable offset, and nothing else ever will be.
4. What a former owner that believes to be one still writes afterwards is aborted. It may make a
   state that was read not exact for certain; then it is read again.

State and position of the input are records of one transaction (`changelog_format.py`), so the order
in which markers reach the partitions does not matter.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.client.errors import ClientError, StateNotExact, UnknownTopic
from drumlin.client.topic_partition import TopicPartition
from drumlin.state.changelog_format import POSITION_KEY, Position, changelog_name, read_position
from drumlin.state.keyed_state import JournaledState
from drumlin.state.refused import StateRefused

if TYPE_CHECKING:
    from drumlin.client.client import Client

_log = logging.getLogger(__name__)

#: So long a former owner has for the end of its last transaction before it is fenced.
_GRACE_S: Final = 0.5
_TELL_S: Final = 10.0
_PAUSE_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5
_READS_MAX: Final = 5


class Restored(NamedTuple):
    """The state of a partition, and the position that it is of; None: there was none yet."""

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
        #: Transactional ids of this state's owners begin with this.
        self.id_prefix = f"{group}-{state}-"

    # -- the topic -----------------------------------------------------------------------

    def make(self, input_topic: str, replication_factor: int) -> None:
        """Make the topic if it is not there, and check that it is what it must be.

        Raises:
            StateRefused: it has another number of partitions, or is not compacted only.
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

    # -- its turn ------------------------------------------------------------------------

    def await_former_owners(self, partitions: list[int]) -> None:
        """Wait until nothing that is in these partitions now is undecided; see above."""
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
                # Without the rights to do so, the transaction's time-out will end it.
                with contextlib.suppress(ClientError):
                    self._fence_owners(list(open_in))
            if time.monotonic() >= tell_at:
                tell_at = time.monotonic() + _TELL_S
                waits_for = ", ".join(str(place.partition) for place in open_in)
                _log.warning("open transactions in %r are waited for: %s", self.topic, waits_for)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _fence_owners(self, places: list[TopicPartition]) -> None:
        """Abort what owners of this state have open in these partitions."""
        found = self._client.open_producers(places)
        producer_ids = {each.producer_id for producers in found.values() for each in producers}
        if not producer_ids:
            return
        for listed in self._client.list_transactions(producer_ids=producer_ids):
            if listed.transactional_id.startswith(self.id_prefix):
                self._client.abort_transaction(listed.transactional_id)

    # -- what it tells -------------------------------------------------------------------

    def restore(self, partition: int) -> Restored:
        """The state of a partition. Its former owners must have been waited for.

        Raises:
            StateRefused: it is of a later version, or something else has written to it.
            StateNotExact: somebody writes to it all the time.
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
            StateRefused: it is of a later version, or something else has written to it.
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
        """What the partition says of the input; `count`: the keys that it has beside that."""
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
