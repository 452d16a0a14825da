"""How a leader's wishes reach the metadata, as `broker/hosting/isr_changes.py` does, for a
partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from drumlin.broker.hosting import isr_changes
from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest, granted
from drumlin.replication.partition import Partition
from drumlin.wire.error_codes import ErrorCode, KafkaError
from replication.simulation.processes.process import MIN_ISR
from replication.simulation.processes.rewriting import rewrite
from replication.simulation.world.znodes import Fenced, Lost

if TYPE_CHECKING:
    from replication.simulation.processes.zookeeper_process import ZooKeeperProcess

_AGAIN_MS = 100


class IsrRequests:
    def __init__(self, process: ZooKeeperProcess) -> None:
        self._process = process
        self._wishes: dict[Partition, IsrRequest] = {}
        self._is_asking = False

    def ask_for(self, partition: Partition, wish: IsrRequest) -> None:
        self._process.note("wants the ISR {}", wish.isr)
        self._wishes[partition] = wish
        if not self._is_asking:
            self._is_asking = True
            self._process.after(0, self._ask)

    def _ask(self) -> None:
        if not self._wishes:
            self._is_asking = False
            return
        partition, wish = self._wishes.popitem()
        process, node_id = self._process, self._process.node_id
        added = tuple(each for each, epoch in wish.isr if epoch >= 0)
        process.world.at_moment("wish", process, added)
        membership = process.membership

        def decide(state: PartitionState, alive: Mapping[int, int]) -> PartitionState:
            return granted(wish, state, node_id, alive, MIN_ISR)

        def done(outcome: PartitionState | KafkaError | Fenced | Lost) -> None:
            if isinstance(outcome, Fenced):
                outcome = KafkaError(ErrorCode.not_controller)
            elif isinstance(outcome, Lost):
                outcome = KafkaError(ErrorCode.kafka_storage_error)
            process.when_told(lambda: self._take(partition, wish, outcome))

        if membership.is_registered:
            epoch = membership.broker_epoch
            rewrite(
                process,
                decide,
                lambda: process.zookeeper.znodes.check_broker(node_id, epoch),
                f"the leader {process}",
                done,
            )
        else:
            self._take(partition, wish, KafkaError(ErrorCode.not_controller))

    def _take(
        self, partition: Partition, wish: IsrRequest, answer: PartitionState | KafkaError
    ) -> None:
        if isinstance(answer, PartitionState):
            if answer.leader_epoch == partition.leader_epoch:
                partition.agreed(answer)
            self._process.after(0, self._ask)
            return
        self._process.note("does not get it: {}", answer.code)
        if answer.code in isr_changes._OUTDATED:
            pass  # there is news of the partition, which ends what is pending
        elif answer.code in isr_changes._UNKNOWN:
            if partition.is_led and partition not in self._wishes:
                self._wishes[partition] = wish
        else:
            partition.refused(wish)
        self._process.after(_AGAIN_MS, self._ask)
