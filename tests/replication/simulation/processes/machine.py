"""A machine with several brokers: the process that starts them, and owns the store that they share.

What decides is the real `Authority`, over the real store; who dies is started again by the real
`Worker`. Processes, sockets, time and the file of the store are simulated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumlin.broker.machine.workers import Worker
from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import Database
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.metadata.shared.authority import Authority
from drumlin.metadata.shared.channel import Channel
from drumlin.metadata.store.changes import BrokersChanged, Change, PartitionsChanged
from drumlin.metadata.store.mutations import ImmediateListeners
from replication.simulation.processes.machine_process import SESSION_S
from replication.simulation.processes.process import CONFIG
from replication.simulation.world.log import TOPIC, TOPIC_ID
from replication.simulation.world.loops import Loop
from replication.simulation.world.pipes import End, connect
from replication.simulation.world.schedule import Schedule

if TYPE_CHECKING:
    from replication.simulation.processes.machine_process import MachineProcess
    from replication.simulation.world.schedule import Action

_ANY_PATH: Any = ":memory:"


class StoredFile(Database):
    """The file of the store: what was committed outlives whoever has opened it."""

    def __init__(self, replicas: tuple[int, ...]) -> None:
        super().__init__(_ANY_PATH)
        state = PartitionState(0, replicas[0], 0, replicas, replicas)
        topic = TopicState(TOPIC, TOPIC_ID, (state,))
        known = [
            database.put_value(database.CLUSTER_ID, "simulated"),
            database.put_value(database.LOGS_ADOPTED, 1),
        ]
        self.execute_durably([*known, *database.put_topic(topic)])

    def close(self) -> None:
        """It is opened again."""


class _Seen(Authority):
    """Shows what it tells the brokers."""

    on_state: Callable[[PartitionState], None]
    on_brokers: Callable[[], None]

    def _publish(self, change: Change, quiet_for: int | None = None) -> None:
        super()._publish(change, quiet_for)
        if isinstance(change, PartitionsChanged):
            self.on_state(change.partitions[0])
        elif isinstance(change, BrokersChanged):
            self.on_brokers()


def _relay_nothing(node_id: int, sums: Any) -> None:
    """Nobody in a run has a quota."""


class _Started(Worker):
    """Starts processes that are simulated."""

    def __init__(self, machine: Machine, node_id: int, count: int, authority: Authority) -> None:
        super().__init__(node_id, {}, count, "INFO", {}, "", authority, SESSION_S, _relay_nothing)
        self._machine = machine

    async def _run_once(self) -> int:
        machine, process = self._machine, self._machine.start_process(self.node_id)
        ours, theirs = connect(machine.schedule, machine.loop, process.loop)
        machine.pipes[self.node_id] = ours, theirs
        self._process = process  # type: ignore[assignment]
        process.start(theirs)
        channel = Channel(*ours.channel_streams())
        return await self._attend(process, channel)  # type: ignore[arg-type]


class Machine:
    """One life of the process that has started all others."""

    def __init__(
        self,
        schedule: Schedule,
        node_ids: list[int],
        start_process: Callable[[int], MachineProcess],
        on_state: Callable[[PartitionState], None],
        on_brokers: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self.schedule = schedule
        self.start_process = start_process
        self.loop = Loop(schedule, self.happens)
        self.is_running = True
        self.paused_until_ms = 0
        self.pipes: dict[int, tuple[End, End]] = {}
        self.authority: Authority
        self._node_ids = node_ids
        self._on_state, self._on_brokers = on_state, on_brokers
        self._ended = ended
        self._workers: list[_Started] = []
        self._stop: asyncio.Event
        self.happens(self._begin)

    def happens(self, action: Action) -> None:
        """Something happens in this process: not if it is dead, later if it stands still."""
        if not self.is_running:
            return
        if self.paused_until_ms > self.schedule.now_ms:
            self.schedule.at(self.paused_until_ms, lambda: self.happens(action))
        else:
            self.loop.do(action)

    @property
    def is_ready(self) -> bool:
        return bool(self._workers) and all(each.channel is not None for each in self._workers)

    @property
    def has_begun(self) -> bool:
        """Whether all were ready once: until then all end if one does."""
        return bool(self._workers) and all(each.addresses.done() for each in self._workers)

    def _begin(self) -> None:
        store = SqliteMetadata.open(Path("store"), None, ImmediateListeners())
        paths = {each: [f"/{each}"] for each in self._node_ids}
        self.authority = authority = _Seen(store, paths, lambda _: CONFIG, self._drop)
        authority.on_state, authority.on_brokers = self._on_state, self._on_brokers
        self._on_state(store.image.topics[TOPIC].partitions[0])
        self._stop = asyncio.Event()
        count = len(self._node_ids)
        self._workers = [_Started(self, each, count, authority) for each in self._node_ids]
        self.loop.create_task(self._run())

    async def _run(self) -> None:
        """As the server does: until it is to stop, or one could not be started at all."""
        runs = [asyncio.create_task(each.run()) for each in self._workers]
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({stopping, *runs}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        self.authority.stop()
        for each in self._workers:
            each.stop()
        await asyncio.gather(*runs, return_exceptions=True)
        await self.authority.store.close()
        self.end("has stopped")

    def _drop(self, node_id: int) -> None:
        self._workers[self._node_ids.index(node_id)].kill()

    def stop(self) -> None:
        self.happens(self._stop.set)

    def end(self, how: str) -> None:
        self.schedule.note("the machine's first process {}", how)
        self.is_running = False
        self._ended()
