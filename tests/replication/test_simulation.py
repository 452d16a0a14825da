"""Brokers over the real rules of replication, in a simulated world where everything goes wrong.

They run on a ZooKeeper, and as the brokers of one machine on the store that they share. A run that
fails is repeated with fewer faults, and tells its story. `run(seed)` is the same run each time:
`python -m replication.simulation 7` in `tests` shows it, `... machine 7` that of the other store.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drumlin.metadata.image import NO_LEADER, LastKnown, LogEnd
from replication.simulation.planted.copy_mistakes import COPY_MISTAKES
from replication.simulation.planted.machine_mistakes import MACHINE_MISTAKES
from replication.simulation.planted.mistakes import MISTAKES, mistaken
from replication.simulation.planted.recovery_mistakes import RECOVERY_MISTAKES
from replication.simulation.run.directed import DIRECTED
from replication.simulation.run.on_zookeeper import ZooKeeperCluster
from replication.simulation.run.runs import ON_MACHINE, ON_ZOOKEEPER, run
from replication.simulation.run.story import story
from rig.depth import first, so_many

_BLOCKS, _BLOCKS_ON_MACHINE = 40, 20
#: Within so many seeds each mistake must be found, but for those that take an order.
_SEEDS_TO_FIND = 600
#: What is tried first, of mistakes that few seeds find.
_FOUND_BY = {
    "a clean stop names an epoch that may be over": 30,
    "a follower keeps what its leader has deleted": 11,
    "a log gives way to a part of another": 19,
    "a request is not compared with the state": 10,
    "old news count": 36,
}
_SEEDS_IN_ORDER = so_many(3, 10)


def check(store: str, block: int, size: int) -> None:
    for seed in range(block * size, (block + 1) * size):
        if run(seed, store=store).violation is not None:
            pytest.fail(story(seed, store))


def seeds_for(name: str) -> list[int]:
    return [_FOUND_BY.get(name, 0), *range(_SEEDS_TO_FIND)]


def breaks(seed: int, *faults: Any, **how: Any) -> bool:
    """Whether a mistake breaks a promise. One that only crashes would show nothing."""
    outcome = run(seed, *faults, **how)
    assert not outcome.crashed, outcome.violation
    return outcome.violation is not None


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_promises_are_kept_whatever_goes_wrong(block: int) -> None:
    check(ON_ZOOKEEPER, block, so_many(1, 500))


@pytest.mark.parametrize("block", range(_BLOCKS_ON_MACHINE))
def test_promises_are_kept_by_the_brokers_of_one_machine(block: int) -> None:
    check(ON_MACHINE, block, so_many(1, 500))


@pytest.mark.parametrize("seed", [66, 6209, 6554])
def test_runs_that_were_wrong_once(seed: int) -> None:
    """A leader is chosen after two power cuts, and dies; or it stands still, and hears late."""
    assert run(seed, store=ON_MACHINE).violation is None


@pytest.mark.parametrize("store", [ON_ZOOKEEPER, ON_MACHINE])
def test_a_seed_is_a_run(store: str) -> None:
    first, second = (run(7, store=store, is_traced=True) for _ in range(2))
    assert first.trace == second.trace
    assert len(first.trace) > 100


def test_no_damage_leaves_nobody_who_counts() -> None:
    """An operator would have to decide then: no promise says how that ends."""
    cluster = ZooKeeperCluster(7)
    a, b = cluster.replicas[:2]
    known = (LastKnown(b, LogEnd(0, 0), was_complete=True),)
    led = replace(cluster.state, leader=a, leader_epoch=0, isr=(a,), last_known=known)
    cluster.znodes.state = led
    assert not cluster.may_damage(a)  # it may have said by now that it is to be waited for
    cluster.znodes.state = replace(led, elr=(b,), last_known=())
    assert cluster.may_damage(a)
    cluster.znodes.state = replace(led, leader=NO_LEADER)
    assert cluster.may_damage(a)
    cluster.disks[b].lose_all()
    assert not cluster.may_damage(a)  # the other one has nothing, and nobody knows that yet


@pytest.mark.parametrize("name", first(4, (each for each in MISTAKES if each not in DIRECTED)))
def test_mistakes_are_found(name: str) -> None:
    with mistaken(MISTAKES[name]):
        assert any(map(breaks, seeds_for(name)))


@pytest.mark.parametrize("name", first(1, COPY_MISTAKES))
def test_mistakes_with_logs_that_are_fetched_anew_are_found(name: str) -> None:
    with mistaken(COPY_MISTAKES[name]):
        assert any(map(breaks, seeds_for(name)))


@pytest.mark.parametrize(
    "name", first(2, (each for each in MACHINE_MISTAKES if each not in DIRECTED))
)
def test_mistakes_of_the_store_of_one_machine_are_found(name: str) -> None:
    with mistaken(MACHINE_MISTAKES[name]):
        assert any(breaks(seed, store=ON_MACHINE) for seed in range(_SEEDS_TO_FIND))


@pytest.mark.deep
@pytest.mark.parametrize("name", RECOVERY_MISTAKES)
@pytest.mark.parametrize("store", [pytest.param(ON_ZOOKEEPER, marks=pytest.mark.deep), ON_MACHINE])
def test_mistakes_about_brokers_that_come_back_are_found(name: str, store: str) -> None:
    with mistaken(RECOVERY_MISTAKES[name]):
        assert any(breaks(seed, store=store) for seed in range(_SEEDS_TO_FIND))


@pytest.mark.parametrize("name", first(2, DIRECTED))
def test_mistakes_that_take_an_order_are_found(name: str) -> None:
    direct, mistake, store = DIRECTED[name]

    def breaks_in_order(seed: int) -> bool:
        return breaks(seed, (), store=store, direct=direct)

    assert not any(map(breaks_in_order, range(_SEEDS_IN_ORDER)))
    with mistaken(mistake):
        assert any(map(breaks_in_order, range(_SEEDS_IN_ORDER)))
