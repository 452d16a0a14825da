"""The mirror's rule: a table that a reviewer can read, and histories in which nothing is lost."""

from __future__ import annotations

import random

import pytest

from drumlin.migration.reconcile import Agreement, Decision, Node, decide, later

NOTHING = Decision.NOTHING
TO_BROKER = Decision.TO_BROKER
TO_ZOOKEEPER = Decision.TO_ZOOKEEPER
CONFLICT = Decision.CONFLICT


@pytest.mark.parametrize(
    ("agreed", "zookeeper", "broker", "decision"),
    [
        # Nothing is known yet.
        (None, None, None, NOTHING),
        (None, 5, 5, NOTHING),
        (None, 5, None, TO_BROKER),
        (None, None, 5, TO_ZOOKEEPER),
        (None, 5, 7, CONFLICT),
        # One has changed, forward or back.
        (5, 5, 5, NOTHING),
        (5, 6, 5, TO_BROKER),
        (5, 4, 5, TO_BROKER),
        (5, 5, 6, TO_ZOOKEEPER),
        (5, 5, 4, TO_ZOOKEEPER),
        # Both have.
        (5, 6, 6, NOTHING),
        (5, 6, 7, CONFLICT),
        (5, 6, 4, CONFLICT),
        # An offset is gone.
        (5, None, 5, TO_ZOOKEEPER),
        (5, 6, None, TO_BROKER),
    ],
)
def test_what_counts(
    agreed: int | None, zookeeper: int | None, broker: int | None, decision: Decision
) -> None:
    node = None if zookeeper is None else Node(zookeeper, 3)
    assert decide(Agreement(agreed, 3), node, broker) is decision


def test_a_node_that_is_written_again_has_changed() -> None:
    agreement = Agreement(5, version=3)
    assert decide(agreement, Node(5, 3), 9) is TO_ZOOKEEPER
    assert decide(agreement, Node(5, 4), 9) is CONFLICT
    agreement.sent_to_zookeeper.add(Node(9, 5))
    assert decide(agreement, Node(9, 5), 12) is TO_ZOOKEEPER
    assert decide(agreement, Node(9, 6), 12) is CONFLICT


@pytest.mark.parametrize(
    ("zookeeper", "broker", "decision"),
    [
        (9, 5, TO_BROKER),  # what we sent has not arrived
        (9, 9, NOTHING),
        (12, 9, TO_BROKER),  # it has, and ZooKeeper has gone on
        (5, 9, TO_BROKER),  # ... or back to where both were
        (9, 12, CONFLICT),  # the broker has changed too, before it or after
        (9, 4, CONFLICT),
        (12, 14, CONFLICT),
    ],
)
def test_what_was_sent_is_no_change(zookeeper: int, broker: int, decision: Decision) -> None:
    """9 was ZooKeeper's when we were interrupted while writing it to the broker; 5 was agreed."""
    assert (
        decide(
            Agreement(5, 1, sent_to_broker={9}), Node(zookeeper, 1 if zookeeper == 5 else 2), broker
        )
        is decision
    )


def test_the_later_change_counts_and_the_smaller_where_time_does_not_tell() -> None:
    assert later(5, 1000, 9, 1001) is TO_ZOOKEEPER
    assert later(5, 1001, 9, 1000) is TO_BROKER
    assert later(9, 1000, 5, 1001) is TO_ZOOKEEPER
    for unknown in (None, 1000):
        assert later(5, 1000, 9, unknown) is TO_BROKER
        assert later(9, 1000, 5, unknown) is TO_ZOOKEEPER


class Stores:
    """Two offsets with the times of their last changes, and a mirror that may be interrupted."""

    def __init__(self) -> None:
        self.now = 0
        self.node = Node(0, 0)
        self.broker = 0
        self.changed = {"zookeeper": 0, "broker": 0}
        self.agreement = Agreement()
        self.last_change = 0

    def change(self, chance: random.Random) -> None:
        """A consumer commits, or an operator rewinds."""
        self.now += 1
        if chance.random() < 0.5:
            self.last_change = chance.randrange(10)
            self.node = Node(self.last_change, self.node.version + 1)
            self.changed["zookeeper"] = self.now
        else:
            # A broker does not show that the same offset was committed again.
            self.last_change = chance.randrange(1_000_000)
            self.broker = self.last_change
            self.changed["broker"] = self.now

    def mirror(self, chance: random.Random, *, is_killed: bool) -> None:
        self.now += 1
        arrives = not is_killed or chance.random() < 0.5
        decision = decide(self.agreement, self.node, self.broker)
        if decision is CONFLICT:
            times = self.changed["zookeeper"], self.changed["broker"]
            decision = later(self.node.offset, times[0], self.broker, times[1])
        if decision is TO_BROKER:
            self.agreement.sent_to_broker.add(self.node.offset)
            if arrives:
                self.broker, self.changed["broker"] = self.node.offset, self.now
        elif decision is TO_ZOOKEEPER:
            written = Node(self.broker, self.node.version + 1)
            self.agreement.sent_to_zookeeper.add(written)
            if arrives:
                self.node, self.changed["zookeeper"] = written, self.now
        if not is_killed:
            self.agreement.agree(*self.node)


def test_both_end_with_the_last_change() -> None:
    """Whatever changes where, and however often the mirror is killed in the midst of a write."""
    for seed in range(300):
        chance = random.Random(seed)
        stores = Stores()
        stores.mirror(chance, is_killed=False)
        for _ in range(30):
            for _ in range(chance.randrange(3)):
                stores.change(chance)
            stores.mirror(chance, is_killed=chance.random() < 0.3)
        stores.mirror(chance, is_killed=False)
        assert stores.node.offset == stores.broker == stores.last_change, seed
