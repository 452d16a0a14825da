"""A broker's process on a machine that has one store for all: over the real `SharedMetadata`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from drumlin.broker.hosting.isr_changes import IsrChanges
from drumlin.broker.machine.greeting import READY
from drumlin.metadata.image import BrokerState, PartitionId, PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.shared.channel import Channel, ChannelEnded
from drumlin.metadata.shared.metadata import SharedMetadata
from drumlin.metadata.store.changes import Change, PartitionsChanged
from drumlin.replication.partition import Partition
from drumlin.wire.error_codes import KafkaError
from replication.simulation.processes.process import TICK_MS, BrokerProcess, World
from replication.simulation.world.disk import Disk
from replication.simulation.world.log import TOPIC, TOPIC_ID
from replication.simulation.world.loops import Loop
from replication.simulation.world.pipes import End

if TYPE_CHECKING:
    from replication.simulation.world.schedule import Action

_NO_EPOCH = -1
_HAND_OVER_S = 2.0
#: Who is not heard for so long hangs.
SESSION_S = 1.0


class MachineProcess(BrokerProcess):
    def __init__(self, world: World, node_id: int, number: int, disk: Disk) -> None:
        super().__init__(world, node_id, number, disk)
        self.loop = Loop(world.schedule, self.happens)
        self.end_of_pipe: End
        self.store: SharedMetadata | None = None
        self.has_joined = False
        self._isr_changes: IsrChanges
        self._exit_code: int | None = None
        self._awaiting_end: list[asyncio.Future[int]] = []

    def happens(self, action: Action) -> None:
        super().happens(lambda: self.loop.do(action))

    # -- the metadata, as this process knows it ------------------------------------------------

    @property
    def state(self) -> PartitionState | None:
        return None if self.store is None else self.store.image.topics[TOPIC].partitions[0]

    @property
    def broker_epoch(self) -> int:
        broker = None if self.store is None else self.store.image.brokers.get(self.node_id)
        return _NO_EPOCH if broker is None else broker.epoch

    @property
    def last_epoch(self) -> int:
        return _NO_EPOCH if self.store is None else self.store.broker_epoch

    def is_alive(self, node_id: int, broker_epoch: int) -> bool:
        broker = None if self.store is None else self.store.image.brokers.get(node_id)
        return broker is not None and broker_epoch in (_NO_EPOCH, broker.epoch)

    def ask_for_isr(self, partition: Partition, wish: IsrRequest) -> None:
        self.note("wants the ISR {}", wish.isr)
        self.world.at_moment("wish", self, tuple(each for each, epoch in wish.isr if epoch >= 0))
        self._isr_changes.ask_for(partition, wish)

    # -- its life ------------------------------------------------------------------------------

    def start(self, pipe: End) -> None:
        self.note("starts")
        self.end_of_pipe, self.disk.was_clean = pipe, False
        boot_ms = self.world.schedule.delay_ms(60, 400)
        self.after(boot_ms, lambda: self._begin(Channel(*pipe.channel_streams())))

    def _begin(self, channel: Channel) -> None:
        self.loop.create_task(self._run(channel))

    async def _run(self, channel: Channel) -> None:
        """As `Broker._begin` does."""
        try:
            store = await SharedMetadata.open(channel, self.node_id, self._owner_is_gone)
            store.watch(SESSION_S)
            self.store, self._isr_changes = store, IsrChanges(store)
            self.world.at_moment("start", self, ())
            broker = BrokerState(self.node_id, None, ())
            self.epoch_before = store.last_broker_epoch
            if not self.is_current:
                self.note("has {}", self.found)
            lacking = {} if self.is_current else {PartitionId(TOPIC_ID, 0): self.found}
            await store.register_broker(broker, lacking=lacking)
            if not self.is_current:
                await store.advance_leader_epochs()
        except (KafkaError, ChannelEnded) as error:
            self.note("cannot start: {}", error)
            self.end("gives up", 1)
            return
        self.note("is registered, broker epoch {}", self.broker_epoch)
        store.on_change(self._on_change)
        assert self.state is not None
        self.host(self.state)
        self.has_joined, self.disk.is_lost, self.disk.is_replaced = True, False, False
        channel.tell(READY, [])
        self.after(TICK_MS, self._tick)

    async def _on_change(self, change: Change) -> None:
        if isinstance(change, PartitionsChanged):
            await asyncio.sleep(self.world.schedule.delay_ms(2, 300) / 1000)
            for each in change.partitions:
                self.host(each)

    def _tick(self) -> None:
        self.tick()
        self.after(TICK_MS, self._tick)

    def _owner_is_gone(self) -> None:
        if self.is_running:
            self.end("ends, as it is alone", 1)

    def stop_cleanly(self, ended: Callable[[], None]) -> None:
        if self.is_stopping:
            return
        self.is_stopping = True
        if self.has_joined:
            self.loop.create_task(self._stop(ended))
        else:
            self.end("is stopped before it has begun", 0)

    async def _stop(self, ended: Callable[[], None]) -> None:
        """Hand over, make the log durable, end."""
        assert self.store is not None
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(_HAND_OVER_S):
                await self.store.hand_over()
        await self._isr_changes.close()
        self.stopped()
        ended()

    # -- as the process that has started it sees it ----------------------------------------------

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        if self._exit_code is not None:
            return self._exit_code
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._awaiting_end.append(waiter)
        return await waiter

    def send_signal(self, number: signal.Signals) -> None:
        if self.is_running and number == signal.SIGKILL:
            self.end("is killed")
        elif self.is_running:
            self.happens(lambda: self.stop_cleanly(lambda: None))

    def end(self, how: str, code: int | None = None) -> None:
        super().end(how)
        self._exit_code = -int(signal.SIGKILL) if code is None else code
        self.end_of_pipe.close()
        for waiter in self._awaiting_end:
            if not waiter.done():
                waiter.set_result(self._exit_code)
