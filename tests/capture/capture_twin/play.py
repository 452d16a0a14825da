"""One seed from its beginning to its end, and what must hold then.

PYTHONPATH=src:tests python -m capture.capture_twin.play 0 5000      a long run
PYTHONPATH=src:tests python -m capture.capture_twin.play 1234        what happens in one seed
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from capture.capture_twin.log import Broken
from capture.capture_twin.parts import Parts, put
from capture.capture_twin.world import Process, World
from drumlin.capture.errors import CaptureRefused, CaptureReplaced
from drumlin.capture.log.position import Position
from spark.sink_twin.mutations import Mutation, applied

#: Some 1,500 steps are the most that a seed takes; a capture that does not end takes them all.
_LIMIT = 6_000
_EVENTFUL = 500


class Story:
    """A seed: captures that are killed and started, and a database that does not hold still."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, _LIMIT)
        self.parts = Parts(self.world)
        self.counts: Counter[str] = Counter()
        source = self.world.random
        self._has_failover = source.random() < 0.5
        self._waits = source.random() < 0.5  # the primary, for its standby
        self._may_touch = source.random() < 0.2
        self.parts.ignores_lsn = source.random() < 0.3
        self._busy = source.choice((0.02, 0.1, 0.3))
        self._ended: set[int] = set()
        self._number = self._removed = 0

    def play(self) -> None:
        world, server = self.world, self.parts.server
        for _ in range(world.random.randrange(8)):
            server.transact()
        self._start()
        world.events = self._events
        try:
            self._run(lambda: world.steps >= _EVENTFUL)
            world.events = self._keep_one
            server.transact()
            self._run(self._is_there)
        except TimeoutError as error:
            raise Broken(str(error)) from error
        finally:
            world.events = lambda: None
            world.end()
        self._look_at_ends()

    def _run(self, until: Callable[[], bool]) -> None:
        while not until():
            self.world.run(until)
            self._keep_one()

    # -- what happens ------------------------------------------------------------------------

    def _start(self) -> None:
        self._number += 1
        work = self.parts.capture(self._has_failover and self.world.random.random() < 0.8)
        self.world.start(f"c{self._number}", work)
        self.counts["starts"] += 1

    def _alive(self) -> list[Process]:
        return [each for each in self.world.processes if not each.is_over]

    def _keep_one(self) -> None:
        self._look_at_ends()
        if not [each for each in self._alive() if not each.is_doomed]:
            self._start()

    def _events(self) -> None:
        source, server = self.world.random, self.parts.server
        if source.random() < self._busy:
            server.transact()
        if source.random() < 0.05:
            server.write_other_tables()
        if source.random() < 0.1:
            server.save_slot()
        self._happen(source.random())
        self._keep_one()

    def _happen(self, kind: float) -> None:
        source, server = self.world.random, self.parts.server
        if kind < 0.006 and self._alive():
            source.choice(self._alive()).is_doomed = True
            self.world.note("a capture is killed")
            self.counts["kills"] += 1
        elif kind < 0.009:
            server.crash()
            self.counts["crashes"] += 1
        elif kind < 0.012:
            server.cut()
        elif kind < 0.014:
            self._start()  # beside the one that is there
        elif kind < 0.017:
            self.parts.log.epoch += 1  # the transaction was open for too long
        elif kind < 0.019 and self._alive():
            source.choice(self._alive()).should_stop = True
        elif kind < 0.024 and self._has_failover:
            self.world.note("a standby is promoted")
            server.promote(self._waits)
            self.counts["promotions"] += 1
        elif kind < 0.026 and self._may_touch and server.slot and server.reader is None:
            server.slot.confirmed = server.slot.saved = server.lsn
            self.parts.is_touched = True
            self.counts["touched"] += 1
        elif kind < 0.029:
            self._reread()
        elif kind < 0.031:
            self._delete_a_topic()

    def _reread(self) -> None:
        """What `drumlin capture reread` does: it fences, and commits another definition."""
        log = self.parts.log
        if log.definition is not None and log.position is not None and log.position.lsn is not None:
            table = self.world.random.choice(list(log.definition.tables))
            log.epoch += 1
            if self.world.random.random() < 0.5:  # somebody has written to it
                log.write(table.topic, '{"id":77}', '{"id":77,"v":1,"big":"none"}')
            definition = log.definition.with_tables([table._replace(is_read=False)])
            log.commit([], log.position, definition)
            self.world.note(f"reread {table.topic}")
            self.counts["rereads"] += 1

    def _delete_a_topic(self) -> None:
        log = self.parts.log
        if log.topics:
            topic = self.world.random.choice(list(log.topics))
            del log.topics[topic]
            log.entries.pop(topic, None)
            self.world.note(f"{topic} is deleted")
            self.counts["deletions"] += 1

    # -- what must hold ----------------------------------------------------------------------

    def _is_there(self) -> bool:
        log, server = self.parts.log, self.parts.server
        return (
            log.position is not None
            and log.position.lsn is not None
            and log.position.timeline == server.timeline
            and log.position.lsn >= server.lsn
            and log.definition is not None
            and not log.definition.unread
            and not any(map(log.is_lost, log.definition.topics))
        )

    def _look_at_ends(self) -> None:
        """A capture ends by itself only where that is right."""
        position = self.parts.log.position
        for number, each in enumerate(self.world.processes):
            if not each.is_over or number in self._ended:
                continue
            self._ended.add(number)
            error = each.error
            if isinstance(error, CaptureReplaced):
                self.counts["replaced"] += 1
            elif isinstance(error, CaptureRefused):
                if number >= self._removed:  # what ran before the last removal is gone anyway
                    self._refused(str(error), position)
            elif isinstance(error, AssertionError):
                raise Broken(f"{each.name}: {error}") from error
            elif error is not None:
                self.world.note(f"{each.name} ends: {error}")
                self.counts[f"ended by {type(error).__name__}"] += 1

    def _refused(self, text: str, position: Position | None) -> None:
        self.world.note(f"refused: {text}")
        server = self.parts.server
        if position is None or position.lsn is None or position.timeline is None:
            if server.slot is None:
                raise Broken(f"refused without need: {text}")
        elif (
            server.slot is not None
            and not self.parts.is_touched
            and server.has(position.timeline, position.lsn)
            # A chunk shows no table's transactions alone: its LSN counts as a change.
            and (position.changed_lsn or 0) <= server.ended.get(position.timeline, server.lsn)
        ):
            raise Broken(f"refused without need: {text}")
        self.counts["refused"] += 1
        for each in self._alive():
            each.is_doomed = True
        self.parts.remove()
        self._removed = len(self.world.processes)


def play(seed: int, fault: Mutation | None = None) -> Story:
    """`fault`: one that the capture has in it.

    Raises:
        AssertionError: a promise was broken.
    """
    story = Story(seed)
    with pytest.MonkeyPatch.context() as patch:
        put(story.parts, patch)
        with nullcontext() if fault is None else applied(fault):
            story.play()
    return story


def main(seeds: range) -> None:
    total: Counter[str] = Counter()
    for seed in seeds:
        try:
            story = play(seed)
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            total["FAILED"] += 1
            continue
        total.update(story.counts)
        total["steps"] += story.world.steps
        total["commits"] += story.parts.log.commits
    print(len(seeds), "seeds", dict(total))


def show(seed: int) -> None:
    story = Story(seed)
    try:
        with pytest.MonkeyPatch.context() as patch:
            put(story.parts, patch)
            story.play()
    finally:
        print("\n".join(story.world.trace))


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    if len(numbers) == 1:
        show(numbers[0])
    else:
        main(range(*numbers))
