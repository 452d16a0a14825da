"""Batches without records: time passes for a partition though nothing comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.consumer.consumer import topic_of
from drumlin.state import Processor, Timers
from drumlin.state.changelog_format import changelog_name
from drumlin.state.timing.ticks import Ticks
from rig.waiting import wait_until
from state.counting import committed
from state.test_former_owners import throw_out

Made = Callable[..., Processor]


def test_all_partitions_have_their_turn() -> None:
    ticks = Ticks(1_000)
    assert ticks.at(10) == 11
    assert ticks.next([0, 1, 2], 10.9) is None
    assert ticks.next([0, 1, 2], 11) == 0
    assert ticks.at(11) == 11
    assert ticks.next([0, 2], 15) == 2  # 1 was lost meanwhile
    assert ticks.next([0, 2], 15.5) is None
    assert ticks.at(15.5) == 16.5


def test_no_ticks_without_an_interval_or_partitions() -> None:
    assert Ticks(None).at(5) == float("inf")
    assert Ticks(None).next([0], 5) is None
    ticks = Ticks(1_000)
    assert ticks.at(10) == 11
    assert ticks.next([], 11) is None
    assert ticks.at(11) == 12


class Alarms:
    """Writes each key once, some time after its record, by a clock that the test moves."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.now_ms = 1_000_000
        self.timers = Timers(resolution_ms=1, clock=lambda: self.now_ms)
        self.ticks: Counter[int] = Counter()

    def handle(self, processor: Processor, batch: object) -> None:
        rows = getattr(batch, "to_pylist")()  # noqa: B009
        if not rows:
            self.ticks[processor.partition] += 1
        for row in rows:
            self.timers.set(processor.state, row["key"], self.now_ms + 100)
        for key, at_ms in self.timers.due(processor.state, batch):
            processor.send(self.output, str(at_ms), key)

    def process(self, processor: Processor, until: Callable[[], bool]) -> None:
        for batch in processor:
            self.handle(processor, batch)
            if until():
                break

    def ticked(self, processor: Processor) -> None:
        """Until each partition had a turn, and all that was done before is committed."""
        self.ticks.clear()
        self.process(processor, lambda: len(self.ticks) == 2)
        processor._commit_or_rewind()


@pytest.fixture
def alarms(client: Client, topic: str) -> Alarms:
    client.create_topic(f"{topic}-output", 1)
    return Alarms(f"{topic}-output")


def test_timers_fire_without_a_record(
    client: Client, topic: str, group: str, made: Made, alarms: Alarms
) -> None:
    """Once, after a restart too; the offset does not move, and the state does."""
    client.append({"key": ["a", "b", "c"], "value": ["x"] * 3}, topic)
    with made(tick_interval_ms=20, idle_timeout_ms=None) as processor:
        alarms.ticked(processor)
        offsets = {place: each.offset for place, each in client.committed_offsets(group).items()}
    assert committed(client, alarms.output) == []
    alarms.now_ms += 101
    for _ in range(2):
        with made(tick_interval_ms=20, idle_timeout_ms=None) as processor:
            alarms.ticked(processor)
            assert processor.state is not None
        found = sorted(committed(client, alarms.output))
        assert found == [(key, b"1000100") for key in (b"a", b"b", b"c")]
        left = client.snapshot(changelog_name(group, "counts"))["key"].to_pylist()
        assert not any(b"key" in key for key in left)
    found_at = client.committed_offsets(group)
    assert {place: each.offset for place, each in found_at.items()} == offsets


@pytest.mark.parametrize("harm", ["aborted", "thrown out"])
def test_a_timer_whose_commit_fails_fires_again(
    client: Client, topic: str, made: Made, alarms: Alarms, harm: str
) -> None:
    client.append({"key": ["a", "b", "c"], "value": ["x"] * 3}, topic)
    with made(tick_interval_ms=20, idle_timeout_ms=None, commit_interval_ms=100) as processor:
        alarms.ticked(processor)
        alarms.now_ms += 101
        work = processor._work

        def has_fired() -> bool:
            return bool(work.has_written)

        alarms.process(processor, has_fired)
        if harm == "aborted":
            work.output.flush()
            client.abort_transaction(work._transactional_id)
        else:
            throw_out(processor)

        def is_done() -> bool:
            return len(committed(client, alarms.output)) == 3

        alarms.process(processor, is_done)
    assert sorted(key for key, _ in committed(client, alarms.output)) == [b"a", b"b", b"c"]


def test_ticks_are_no_records(client: Client, topic: str, made: Made) -> None:
    """The iteration ends though there are ticks; an error names the partition."""
    with made(tick_interval_ms=5, idle_timeout_ms=200, headers=True) as processor:
        batches = list(processor)
    assert len(batches) > 2
    assert {each.num_rows for each in batches} == {0}
    assert {topic_of(each) for each in batches} == {topic}
    assert batches[0].schema.names == client.read(topic, headers=True).schema.names

    def fail(_: object) -> None:
        raise ZeroDivisionError

    with (
        pytest.raises(ZeroDivisionError) as raised,
        made(tick_interval_ms=5, dead_letters=f"{topic}-dead") as processor,
    ):
        processor.run(fail)
    assert f"topic {topic!r} partition 0, without a record" in raised.value.__notes__[0]


def test_output_of_a_tick_alone_is_committed(client: Client, topic: str, made: Made) -> None:
    client.create_topic(f"{topic}-output", 1)
    with made(tick_interval_ms=20, idle_timeout_ms=None) as processor:
        for _ in processor:
            processor.append({"value": ["tick"]}, f"{topic}-output")
            break
    wait_until(lambda: len(committed(client, f"{topic}-output")) == 1, "the tick")


def test_an_interval_that_cannot_be_is_named() -> None:
    with pytest.raises(ValueError, match="tick_interval_ms"):
        drumlin.state.processor(
            "t", group="g", state="s", bootstrap="127.0.0.1:1", tick_interval_ms=0
        )
