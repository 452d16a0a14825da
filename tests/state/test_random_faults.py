"""Two processors count under random faults, step by step in one thread: each record counts once.

The steps are those of a scheduler that is drawn by a seed: records and poisonous ones are written,
a process works for a moment, is thrown out of the group, has its transaction aborted by others,
closes, or dies at one of the moments of a commit, and begins anew. At the end output, changelog,
dead letters and offsets are those of a model that has only counted what was written.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.errors import ClientError, MembershipEnded
from drumlin.client.transactions.transaction import Transaction
from drumlin.state import Processor
from drumlin.state.changelog_format import POSITION_KEY, changelog_name
from drumlin.state.keyed_state import JournaledState
from rig.depth import seeds, so_many
from rig.waiting import wait_until
from state.counting import committed
from state.test_former_owners import throw_out
from state.test_static_members import killed

Made = Callable[..., Processor]
KEYS = [b"key-%d" % number for number in range(12)]
STEPS = so_many(30, 120)
#: The moments at which a process may die: before or after these calls of a commit.
MOMENTS: list[tuple[type, str]] = [
    (Transaction, "append"),
    (Transaction, "send_offsets"),
    (Transaction, "commit"),
    (JournaledState, "commit"),
]


class Died(BaseException):
    """A process has died."""


class World:
    """What runs, and what should be counted."""

    def __init__(
        self, client: Client, inputs: list[str], group: str, made: Made, folder: Path
    ) -> None:
        self.client, self.inputs, self.group = client, inputs, group
        (topic, *_) = inputs
        self.output, self.dead = f"{topic}-output", f"{topic}-dead"
        for each in (self.output, self.dead):
            client.create_topic(each, 1)
        self._made = made
        self._folder = folder
        self.running: dict[int, Processor] = {}
        self.wanted: Counter[bytes] = Counter()
        self.poison: list[bytes] = []

    def write(self, rng: random.Random) -> None:
        rows = []
        for _ in range(rng.randint(1, 30)):
            is_poison = rng.random() < 0.03
            key = rng.choice(KEYS)
            value = b"poison %d" % len(self.poison) if is_poison else b"1"
            if is_poison:
                self.poison.append(value)
            else:
                self.wanted[key] += 1
            rows.append({"key": key, "value": value})
        self.client.append(rows, rng.choice(self.inputs))

    def begin(self, number: int) -> None:
        if number not in self.running:
            folder = self._folder / str(number) if number else None
            self.running[number] = self._made(
                folder=folder,
                standbys=1,
                dead_letters=self.dead,
                idle_timeout_ms=30,
                commit_interval_ms=10,
                session_timeout_ms=1_000,
                heartbeat_interval_ms=100,
            )

    def work(self, number: int) -> None:
        """Until it has nothing to do for a moment."""
        processor = self.running.get(number)
        if processor is None:
            return

        def count(batch: Any) -> None:
            rows = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
            for key, value in rows:
                total = int(processor.state.get(key, b"0")) + 1
                processor.state[key] = b"%d" % total
                processor.send(self.output, b"%d" % total, key)
                if value != b"1":
                    raise ArithmeticError(value)

        try:
            processor.run(count)
        except (ClientError, Died) as error:
            # If it has died, its client is closed, and so may be told to whoever comes by.
            if not isinstance(error, Died | MembershipEnded) and not processor._is_closed:
                raise
            self.die(number)

    def die(self, number: int) -> None:
        processor = self.running.pop(number, None)
        if processor is not None and not processor._is_closed:
            killed(processor)

    def die_at(self, number: int, moment: tuple[type, str], *, is_after: bool) -> None:
        """While it works, at this moment of its next commit, if it has anything to commit."""
        kind, name = moment
        call = getattr(kind, name)

        def dying(*args: Any, **options: Any) -> Any:
            setattr(kind, name, call)
            found = call(*args, **options) if is_after else None
            processor = self.running.get(number)
            if processor is not None:
                killed(processor)
            raise Died
            return found

        setattr(kind, name, dying)
        try:
            self.work(number)
        finally:
            setattr(kind, name, call)

    def close(self, number: int) -> None:
        processor = self.running.pop(number, None)
        if processor is not None:
            processor.close()

    def abort(self, number: int) -> None:
        processor = self.running.get(number)
        if processor is not None and processor._work._transaction is not None:
            self.client.abort_transaction(processor._work._transactional_id)

    def throw_out(self, number: int) -> None:
        processor = self.running.get(number)
        if processor is not None and processor._consumer.group_metadata().generation_id >= 0:
            throw_out(processor)

    def step(self, rng: random.Random) -> None:
        number = rng.randrange(2)
        die = rng.choice(MOMENTS), rng.random() < 0.5
        steps: list[tuple[float, Callable[[], None]]] = [
            (4, lambda: self.write(rng)),
            (6, lambda: self.work(number)),
            (2, lambda: self.begin(number)),
            (0.5, lambda: self.close(number)),
            (1, lambda: self.abort(number)),
            (1, lambda: self.throw_out(number)),
            (1.5, lambda: self.die_at(number, die[0], is_after=die[1])),
        ]
        (chosen,) = rng.choices([each for _, each in steps], [weight for weight, _ in steps])
        chosen()

    def finish(self) -> None:
        ends = {
            (topic, partition): end
            for topic in self.inputs
            for partition, end in self.client.offsets(topic).items()
            if end
        }

        def is_done() -> bool:
            for number in range(2):
                self.begin(number)
                self.work(number)
            found = self.client.committed_offsets(self.group).items()
            return {place: each.offset for place, each in found if each.offset} == ends

        wait_until(is_done, "all to be counted", 60)
        for number in range(2):
            self.close(number)

    def check(self) -> None:
        numbers: dict[bytes, list[int]] = defaultdict(list)
        for key, value in committed(self.client, self.output):
            numbers[key].append(int(value))
        assert numbers == {key: [*range(1, times + 1)] for key, times in self.wanted.items()}
        assert sorted(value for _, value in committed(self.client, self.dead)) == sorted(
            self.poison
        )
        latest = dict(committed(self.client, changelog_name(self.group, "counts")))
        latest.pop(POSITION_KEY)
        assert latest == {key: b"%d" % times for key, times in self.wanted.items()}


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.timeout(300)
def test_counted_once(
    client: Client, topic: str, group: str, address: str, tmp_path: Path, seed: int
) -> None:
    """With one input, or with two whose records count together."""
    rng = random.Random(seed)
    inputs = [topic, f"{topic}-2"][: 1 + seed % 2]
    for each in inputs[1:]:
        client.create_topic(each, 2)
    made = partial(drumlin.state.processor, inputs, group=group, state="counts", bootstrap=address)
    world = World(client, inputs, group, made, tmp_path)
    try:
        world.begin(0)
        for _ in range(STEPS):
            world.step(rng)
        world.finish()
        world.check()
    finally:
        for number in list(world.running):
            with contextlib.suppress(ClientError):
                world.close(number)
