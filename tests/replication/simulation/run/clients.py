"""Producers and consumers: they believe whichever broker they asked last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from drumlin.replication.partition import ACKS_ALL
from drumlin.wire.error_codes import KafkaError
from replication.simulation.processes.leading import NOT_LEADER, Appended, produce
from replication.simulation.world.log import FETCHED_MOST
from replication.simulation.world.network import CLIENT, Connection, Network, Reply
from replication.simulation.world.schedule import Schedule

if TYPE_CHECKING:
    from replication.simulation.processes.process import BrokerProcess, World

KEYS = 12


class Client:
    """What producers and consumers have in common: where they think that the leader is."""

    node_id = CLIENT

    def __init__(self, world: World, processes: Callable[[], list[BrokerProcess]]) -> None:
        self.world, self._processes = world, processes
        self.leader: int | None = None
        self.connection = Connection()

    @property
    def schedule(self) -> Schedule:
        return self.world.schedule

    @property
    def network(self) -> Network:
        return self.world.network

    def happens(self, action: Callable[[], None]) -> None:
        action()

    def find_leader(self) -> None:
        known = [each for each in self._processes() if each.is_running and each.state is not None]
        if known:
            state = self.schedule.random.choice(known).state
            assert state is not None
            self.leader = state.leader if state.leader > 0 else None
        self.connection = Connection()


class Producer(Client):
    def __init__(
        self, world: World, processes: Callable[[], list[BrokerProcess]], interval_ms: int
    ) -> None:
        super().__init__(world, processes)
        self._interval_ms = interval_ms
        self.share_of_all = 0.6
        self.is_producing = True

    def run(self) -> None:
        if self.is_producing:
            self._send()
        self.schedule.after(self.schedule.delay_ms(self._interval_ms, 400), self.run)

    def _send(self) -> None:
        if self.leader is None:
            self.find_leader()
            return
        ledger, random = self.world.ledger, self.schedule.random
        value, key, count = ledger.next_value(), random.randrange(KEYS), random.choice((1, 1, 3))
        acks = ACKS_ALL if self.schedule.chance(self.share_of_all) else 1

        def request(process: BrokerProcess, reply: Reply) -> None:
            def answer(result: Appended | KafkaError) -> None:
                if isinstance(result, Appended) and acks == ACKS_ALL:
                    ledger.acked(result)
                reply(result)

            if process.leader is None:
                reply(NOT_LEADER)
            else:
                produce(process.leader, key, value, count, acks, process.appended, answer)

        def answered(result: object) -> None:
            if not isinstance(result, Appended):
                self.find_leader()

        self.network.send(self, self.connection, self.leader, request, answered)


class Consumer(Client):
    """Reads on and on, from the leader or from any replica."""

    def __init__(
        self, world: World, processes: Callable[[], list[BrokerProcess]], *, from_any: bool
    ) -> None:
        super().__init__(world, processes)
        self._from_any = from_any
        self._position = 0

    def run(self) -> None:
        if self._from_any:
            self.leader = self.schedule.random.choice(self._processes()).node_id
        elif self.leader is None or self.schedule.chance(0.05):
            self.find_leader()
        if self.leader is not None:
            self.network.send(self, self.connection, self.leader, self._read, self._answered)
        self.schedule.after(self.schedule.delay_ms(120, 600), self.run)

    def _read(self, process: BrokerProcess, reply: Reply) -> None:
        log = process.log
        if process.leader is None and not (self._from_any and process.is_following):
            reply(NOT_LEADER)
            return
        start = max(self._position, log.log_start_offset)
        batches = log.batches_between(start, log.high_watermark)[:FETCHED_MOST]
        self.world.ledger.consumed(process, batches)
        reply(batches)

    def _answered(self, batches: object) -> None:
        if isinstance(batches, list):
            if batches:
                self._position = batches[-1].last_offset + 1
        else:
            self.leader = None
