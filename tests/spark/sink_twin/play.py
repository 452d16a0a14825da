"""One seed from its beginning to its end, and what must hold then.

PYTHONPATH=src:tests python -m spark.sink_twin.play 0 5000      a long run
PYTHONPATH=src:tests python -m spark.sink_twin.play 1234        what happens in one seed
"""

from __future__ import annotations

import sys
from collections import Counter

from drumlin.spark.writing.protocol.sink_errors import BatchDiffers, NotRepairable, Superseded
from spark.sink_twin.cluster import ProtocolBroken
from spark.sink_twin.queries import Query
from spark.sink_twin.world import World


def play(seed: int) -> Query:
    """
    Raises:
        AssertionError: the protocol has failed, or does not come to an end.
    """
    world = World(seed)
    query = Query(world, batches=world.random.randint(2, 5))
    keeper = world.start("keeper", query.keep_running())
    keeper.is_safe = True
    world.start("operator", query.operate()).is_safe = True
    try:
        world.run(lambda: keeper.is_over)
        if keeper.error is not None:
            raise keeper.error
        # Zombies wake and have their say; what is open then times out.
        world.is_calm = True
        world.run(lambda: not [each for each in world.processes if not each.is_over])
    except TimeoutError as error:
        raise ProtocolBroken(str(error)) from error
    world.cluster.settle()
    _check(query)
    return query


def _check(query: Query) -> None:
    cluster = query.world.cluster
    left = [name for name, each in cluster.ids.items() if each.state == "Ongoing"]
    query.outcomes["left to its time-out"] += len(left)
    cluster.pass_time(10_000)
    cluster.settle()
    assert not [name for name, each in cluster.ids.items() if each.state == "Ongoing"]
    doubled = {row: n for row, n in cluster.visible.items() if n > 1}
    missing = {row for row in query.all_rows if not cluster.visible[row]}
    if doubled:
        raise ProtocolBroken(f"rows more than once: {sorted(doubled)}")
    if query.stopped is None:
        if missing:
            raise ProtocolBroken(f"rows lost: {sorted(missing)}")
        committed = cluster.groups.get(("readers", "in"))
        if committed is not None and committed[1][0] != query.batches - 1:
            raise ProtocolBroken(f"the group stands at {committed[1]}")
    else:
        _check_stop(query, missing)


def _check_stop(query: Query, missing: set[int]) -> None:
    """A query may stop only where its input or its rows are others now, or ids have expired."""
    error = query.stopped
    if query.was_restored and isinstance(error, BatchDiffers | Superseded):
        return
    if not isinstance(error, NotRepairable):
        raise ProtocolBroken(f"stopped by {error!r}")
    is_repeatable = not (query.moves_rows or query.is_unsteady or query.was_restored)
    if is_repeatable and not query.world.cluster.counts["expired"]:
        raise ProtocolBroken(f"stopped without need: {error}")
    lost_before = {row for row in missing if row // 100 < error.batch}
    if lost_before:
        raise ProtocolBroken(f"rows lost before the batch that is named: {sorted(lost_before)}")


def main(seeds: range) -> None:
    total: Counter[str] = Counter()
    for seed in seeds:
        try:
            query = play(seed)
        except AssertionError as error:
            print(f"seed {seed}: {error}")
            total["FAILED"] += 1
            continue
        total.update(query.outcomes)
        total.update(query.world.cluster.counts)
        total["steps"] += query.world.steps
        total["runs"] += len(query.runs)
        total["stopped"] += query.stopped is not None
    print(len(seeds), "seeds", dict(total))


def show(seed: int) -> None:
    world: list[World] = []
    original = World.__init__

    def keep(self: World, seed: int) -> None:
        original(self, seed)
        world.append(self)

    World.__init__ = keep  # type: ignore[method-assign]
    try:
        query = play(seed)
        print("\n".join(world[0].trace))
        print(query.outcomes, query.stopped)
    except AssertionError as error:
        print("\n".join(world[0].trace))
        print(error)


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    if len(numbers) == 1:
        show(numbers[0])
    else:
        main(range(*numbers))
