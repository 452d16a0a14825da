"""Members of a share group at random, and `kill -9` between: nothing accepted comes again, nothing
is lost, and no record is with two members at a time.

One thread plays all members, each with at most one request on its way. Locks outlast the test, so
a record comes back only when its member releases it or goes, or the broker dies.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple
from uuid import UUID

import pytest

from crash.conftest import MakeServer
from crash.requests import create_topic, produce
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.depth import seeds
from rig.waiting import wait_until

_ACCEPT, _RELEASE, _REJECT = 1, 2, 3
_TYPES: Final = [_ACCEPT] * 14 + [_RELEASE] * 5 + [_REJECT]
_PARTITIONS = 2
_MEMBERS = 4
_STEPS_BEFORE_KILL = 120
_KILLS = 2
_SETTINGS = {
    "log.retention.ms": "-1",  # the batches are old
    "group.share.max.delivery.count.limit": "25",
    "group.share.record.lock.duration.ms": "60000",
    "group.share.max.record.lock.duration.ms": "60000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}


class Record(NamedTuple):
    partition: int
    offset: int


class History:
    """What the group was given and was told, over all members and kills."""

    def __init__(self) -> None:
        self.done: set[Record] = set()
        """Accepted or rejected, and that was answered."""
        self.unanswered: set[Record] = set()
        """Accepted or rejected: the outcome is unknown."""
        self.held: dict[Record, str] = {}

    def given(self, record: Record, member: str) -> None:
        assert record not in self.done, f"{record} comes again"
        assert record not in self.held, f"{record} is with {self.held.get(record)} and {member}"
        self.unanswered.discard(record)
        self.held[record] = member

    def said(self, answered: dict[Record, int]) -> None:
        """What was said is in the broker's log."""
        done = {record for record, kind in answered.items() if kind != _RELEASE}
        assert not done & self.done
        self.done |= done

    def lost(self, unanswered: dict[Record, int]) -> None:
        self.unanswered |= {each for each, kind in unanswered.items() if kind != _RELEASE}

    def gone(self, member: str) -> None:
        self.held = {each: holder for each, holder in self.held.items() if holder != member}


class Member:
    """A member with a connection and a session of its own."""

    def __init__(self, name: str, server: DrumlinServer, topic_id: UUID, history: History) -> None:
        self.name = name
        self._history = history
        self._topic_id = topic_id
        self._client: RawClient = server.connect()
        self._epoch = 0
        self._asked: tuple[str, dict[Record, int]] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._asked is not None

    @property
    def held(self) -> list[Record]:
        return sorted(each for each, name in self._history.held.items() if name == self.name)

    def fetch(self, max_records: int, max_wait_ms: int, said: dict[Record, int]) -> None:
        """Send only, as all of these; `said` goes with it."""
        self._send(
            "share_fetch",
            said,
            max_wait=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=max_records,
            batch_size=100,
            share_acquire_mode=max_records % 2,
            forgotten_topics_data=[],
        )

    def say(self, said: dict[Record, int], *, leave: bool = False) -> None:
        if leave:
            self._epoch = -1
        self._send("share_acknowledge", said)
        if leave:
            self._history.gone(self.name)

    def _send(self, api: str, said: dict[Record, int], **fields: Any) -> None:
        for each in said:
            del self._history.held[each]
        self._asked = api, said
        named = range(_PARTITIONS) if api == "share_fetch" else {each.partition for each in said}
        partitions = [
            {"partition_index": index, "acknowledgement_batches": _batches(index, said)}
            for index in named
        ]
        self._client.send(
            api,
            2,
            group_id="g",
            member_id=self.name,
            share_session_epoch=self._epoch,
            is_renew_ack=False,
            topics=[{"topic_id": self._topic_id, "partitions": partitions}],
            **fields,
        )

    def receive(self) -> None:
        assert self._asked is not None
        api, said = self._asked
        answer = self._client.receive(api, 2)
        self._asked = None
        assert answer.error_code == ErrorCode.none, answer
        self._epoch += 1
        for topic in answer.responses:
            for each in topic.partitions:
                code = each.acknowledge_error_code if api == "share_fetch" else each.error_code
                assert code == ErrorCode.none, answer
                for acquired in getattr(each, "acquired_records", ()):
                    for offset in range(acquired.first_offset, acquired.last_offset + 1):
                        self._history.given(Record(each.partition_index, offset), self.name)
        self._history.said(said)

    def vanish(self) -> None:
        """The connection is cut, whatever is on its way."""
        self._client.close()
        if self._asked is not None:
            self._history.lost(self._asked[1])
        self._history.gone(self.name)


def _batches(partition: int, said: dict[Record, int]) -> list[dict[str, Any]]:
    """Neighbouring records together, with a type for each."""
    mine = sorted(each.offset for each in said if each.partition == partition)
    runs = groupby(enumerate(mine), key=lambda each: each[1] - each[0])
    batches = []
    for _, run in runs:
        offsets = [offset for _, offset in run]
        types = [said[Record(partition, offset)] for offset in offsets]
        batches.append(
            {
                "first_offset": offsets[0],
                "last_offset": offsets[-1],
                "acknowledge_types": types,
            }
        )
    return batches


class Play:
    """The group, and chance."""

    def __init__(self, server: DrumlinServer, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._count = 0
        self._produced = [0] * _PARTITIONS
        self.history = History()
        with server.connect() as client:
            create_topic(client, "t", _PARTITIONS)
            topics = [{"topic_id": None, "name": "t"}]
            self._topic_id: UUID = client.ask("metadata", 12, topics=topics).topics[0].topic_id
            partitions = [
                {"partition": index, "state_epoch": 1, "start_offset": 0}
                for index in range(_PARTITIONS)
            ]
            topics = [{"topic_id": self._topic_id, "partitions": partitions}]
            client.ask("initialize_share_group_state", 0, group_id="g", topics=topics)
            # So high that no record is given up.
            limit = {"name": "share.delivery.count.limit", "config_operation": 0, "value": "25"}
            group = {"resource_type": 32, "resource_name": "g", "configs": [limit]}
            answer = client.ask(
                "incremental_alter_configs", 1, resources=[group], validate_only=False
            )
            assert answer.responses[0].error_code == ErrorCode.none, answer
        self._members: list[Member] = []

    @property
    def records(self) -> set[Record]:
        return {
            Record(partition, offset)
            for partition, count in enumerate(self._produced)
            for offset in range(count)
        }

    def run(self, steps: int) -> None:
        self._members = [self._new() for _ in range(_MEMBERS)]
        with self._server.connect() as producer:
            for _ in range(steps):
                if self._chance.random() < 0.2:
                    self._produce(producer)
                self._step(self._chance.randrange(_MEMBERS))

    def _new(self) -> Member:
        self._count += 1
        return Member(f"m{self._count}", self._server, self._topic_id, self.history)

    def _produce(self, client: RawClient) -> None:
        partition, count = self._chance.randrange(_PARTITIONS), self._chance.randint(1, 12)
        answer = produce(client, "t", batch(*[b"v"] * count), partition)
        assert answer.error_code == ErrorCode.none
        self._produced[partition] += count

    def _step(self, index: int) -> None:
        member, chance = self._members[index], self._chance
        if member.is_waiting and chance.random() < 0.95:
            member.receive()
            return
        dice = chance.random()
        if dice < 0.04 or member.is_waiting:
            member.vanish()
            self._members[index] = self._new()
        elif dice < 0.08 and member.held:
            member.say(self._some(member.held), leave=True)
            member.receive()
            member.vanish()
            self._members[index] = self._new()
        elif dice < 0.4 and member.held:
            member.say(self._some(member.held))
        else:
            said = self._some(member.held) if chance.random() < 0.5 else {}
            member.fetch(chance.randint(1, 20), chance.choice([0, 5, 20]), said)

    def _some(self, held: Iterable[Record]) -> dict[Record, int]:
        chance = self._chance
        return {each: chance.choice(_TYPES) for each in held if chance.random() < 0.8}

    def kill(self) -> None:
        """Whatever is on its way gets no answer; all start again."""
        self._server.kill()
        self.leave()
        self._server.start()

    def leave(self) -> None:
        """All connections are cut."""
        for member in self._members:
            member.vanish()

    def accept_all(self) -> None:
        """One member more, which has a good word for every record that is left."""
        member = self._new()

        def is_done() -> bool:
            member.fetch(500, 200, {})
            member.receive()
            held = dict.fromkeys(member.held, _ACCEPT)
            if held:
                member.say(held)
                member.receive()
            return self.records == self.history.done | self.history.unanswered and self._lag() == 0

        try:
            wait_until(is_done, "all records to be done with", 30)
        except AssertionError as error:
            left = sorted(self.records - self.history.done - self.history.unanswered)
            error.add_note(f"left: {left[:9]}, held: {member.held[:9]}, lag: {self._lag()}")
            raise
        member.vanish()

    def _lag(self) -> int:
        """How many records the broker takes for not done with."""
        wanted = {"topic_name": "t", "partitions": list(range(_PARTITIONS))}
        with self._server.connect() as client:
            groups = [{"group_id": "g", "topics": [wanted]}]
            answer = client.ask("describe_share_group_offsets", 1, groups=groups)
        (topic,) = answer.groups[0].topics
        return sum(each.lag for each in topic.partitions)


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_share_members_through_kills(make_server: MakeServer, seed: int) -> None:
    play = Play(make_server(_SETTINGS), seed=20132 + seed)
    for _ in range(_KILLS):
        play.run(_STEPS_BEFORE_KILL)
        play.kill()
    play.run(_STEPS_BEFORE_KILL)
    play.leave()
    play.accept_all()
    assert len(play.history.done) > 100
