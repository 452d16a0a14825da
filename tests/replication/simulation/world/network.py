"""Messages between processes: late, lost, doubled; in order within a connection only.

A request that its sender has given up may still arrive, long after. A link is one way: it may be
cut while the other direction works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from replication.simulation.world.schedule import Schedule

if TYPE_CHECKING:
    from replication.simulation.processes.process import BrokerProcess

#: Whoever is no broker.
CLIENT = 0
REQUEST_TIMEOUT_MS = 400

Reply = Callable[[Any], None]
Request = Callable[["BrokerProcess", Reply], None]


class Sender(Protocol):
    """Who sends requests: a process, that may stop or end, or a client."""

    node_id: int

    def happens(self, action: Callable[[], None]) -> None: ...


class Connection:
    """From one sender to one broker, until a request on it fails."""

    def __init__(self) -> None:
        self.last_request_ms = 0
        self.last_answer_ms = 0


class Network:
    def __init__(
        self, schedule: Schedule, process_of: Callable[[int], BrokerProcess | None]
    ) -> None:
        self._schedule = schedule
        self._process_of = process_of
        self._cuts: dict[tuple[int, int], int] = {}
        self.loss = 0.0
        self.doubling = 0.0

    # -- links ---------------------------------------------------------------------------

    def cut(self, source: int, target: int, until_ms: int) -> None:
        self._cuts[source, target] = max(until_ms, self._cuts.get((source, target), 0))

    def heal(self) -> None:
        self._cuts.clear()
        self.loss = self.doubling = 0.0

    def cut_until(self, source: int, target: int) -> int:
        """When messages pass again; a time that is over if they do."""
        return self._cuts.get((source, target), 0)

    # -- messages ------------------------------------------------------------------------

    def send(
        self,
        sender: Sender,
        connection: Connection,
        target: int,
        request: Request,
        answered: Callable[[Any], None],
    ) -> None:
        """Send a request; `answered` gets None where there is no answer in time."""
        schedule = self._schedule
        deadline_ms = schedule.now_ms + REQUEST_TIMEOUT_MS
        is_open, answers_ms = True, deadline_ms + 1

        def finish(answer: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                answered(answer)

        def reply(answer: Any) -> None:
            nonlocal answers_ms
            arrives_ms = self._arrival(target, sender.node_id, connection.last_answer_ms)
            if arrives_ms is not None:
                connection.last_answer_ms = answers_ms = arrives_ms
                schedule.at(arrives_ms, lambda: sender.happens(lambda: finish(answer)))

        def arrive() -> None:
            self._deliver(target, request, reply)
            if answers_ms > deadline_ms:
                give_up_later()

        def give_up_later() -> None:
            schedule.at(deadline_ms, lambda: sender.happens(lambda: finish(None)))

        arrives_ms = self._arrival(sender.node_id, target, connection.last_request_ms)
        if arrives_ms is None:
            give_up_later()
            return
        connection.last_request_ms = arrives_ms
        schedule.at(arrives_ms, arrive)
        if self.doubling and schedule.chance(self.doubling):
            again_ms = arrives_ms + int(2500 * schedule.random.random() ** 3)
            schedule.at(again_ms, lambda: self._deliver(target, request, lambda _: None))

    def _deliver(self, target: int, request: Request, reply: Reply) -> None:
        process = self._process_of(target)
        if process is not None:
            process.happens(lambda: request(process, reply))

    def _arrival(self, source: int, target: int, not_before_ms: int) -> int | None:
        """When a message arrives; None if it never does."""
        schedule = self._schedule
        cut_until_ms = self._cuts.get((source, target), 0)
        if cut_until_ms > schedule.now_ms:
            if schedule.chance(0.6):
                return None
            return max(not_before_ms, cut_until_ms + schedule.delay_ms(20, 600))
        if self.loss and schedule.chance(self.loss):
            return None
        return max(not_before_ms, schedule.now_ms + schedule.delay_ms(8, 150))
