"""Changing the state of the partition as `metadata/zookeeper/states/states.py` does: read, decide,
write.

What was decided on may have changed by then: it is tried again some times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from drumlin.metadata.image import PartitionState
from drumlin.metadata.zookeeper.states.states import relies_on
from drumlin.wire.error_codes import KafkaError
from replication.simulation.world.znodes import Conflict, Fenced, Lost

if TYPE_CHECKING:
    from replication.simulation.processes.zookeeper_process import ZooKeeperProcess

Decision = Callable[[PartitionState, Mapping[int, int]], PartitionState]
_ATTEMPTS = 7


def rewrite(
    process: ZooKeeperProcess,
    decide: Decision,
    fence: Callable[[], None],
    who: str,
    done: Callable[[PartitionState | KafkaError | Fenced | Lost], None],
    attempts: int = _ATTEMPTS,
) -> None:
    """Have the state be what is decided.

    `done` gets the state that is stored then, why it is not that, or `Lost` if there is no knowing.
    """
    znodes = process.zookeeper.znodes

    def decided(answer: Any) -> None:
        if not isinstance(answer, tuple):
            done(Lost())
            return
        before, alive = answer
        try:
            after = decide(before, alive)
        except KafkaError as error:
            process.take_state(before)
            done(error)
            return
        if after == before:
            process.take_state(before)
            done(before)
            return
        relied_on = {each: alive.get(each, -1) for each in relies_on(before, after)}

        def write() -> PartitionState:
            fence()
            return znodes.write_state(after, before.partition_epoch, relied_on, who)

        process.submit(write, written, is_write=True)

    def written(answer: Any) -> None:
        if isinstance(answer, PartitionState):
            process.take_state(answer)
            done(answer)
        elif isinstance(answer, Fenced):
            done(answer)
        elif isinstance(answer, Conflict) and attempts > 1:
            rewrite(process, decide, fence, who, done, attempts - 1)
        else:
            done(Lost())

    process.submit(lambda: (znodes.state, znodes.live().epochs), decided)
